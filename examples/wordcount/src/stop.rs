//! SIGTERM, as something that a program can wait for.
//!
//! A flag alone would have to be polled, and a sleep would keep the signal waiting. The self-pipe
//! gives both: a byte in it wakes any wait at once, and because nobody ever takes the byte out,
//! every later look finds it too.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::SIGTERM;

/// The program was told to end. Not a failure of the program, so it has a type of its own that
/// `main` can tell from the rest.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("told to stop by SIGTERM")]
pub struct Terminated;

/// Whether, and as soon as, the program was told to end.
#[derive(Debug)]
pub struct Stop {
    told: UnixStream,
    /// Held so that the other end stays open while no signal handler has it.
    #[cfg(test)]
    teller: UnixStream,
}

impl Stop {
    /// Takes SIGTERM over from its default, which is to end the process on the spot.
    ///
    /// # Errors
    /// If the operating system refuses the pipe or the handler.
    pub fn on_sigterm() -> io::Result<Self> {
        let (told, teller) = UnixStream::pair()?;
        #[cfg(test)]
        let kept = teller.try_clone()?;
        signal_hook::low_level::pipe::register(SIGTERM, teller)?;
        Ok(Self {
            told,
            #[cfg(test)]
            teller: kept,
        })
    }

    /// A stop that only [`Stop::tell`] brings about.
    #[cfg(test)]
    pub fn by_hand() -> Self {
        let (told, teller) = UnixStream::pair().unwrap();
        Self { told, teller }
    }

    /// Does what the signal handler does.
    #[cfg(test)]
    pub fn tell(&self) {
        io::Write::write_all(&mut &self.teller, b"x").unwrap();
    }

    /// Returns at once.
    ///
    /// # Errors
    /// [`Terminated`] if the program was told to end.
    pub fn check(&self) -> Result<(), Terminated> {
        self.wait_until(Instant::now())
    }

    /// Waits, but not a moment longer than until SIGTERM.
    ///
    /// # Errors
    /// [`Terminated`] if the program was told to end, before or during the wait.
    pub fn wait(&self, time: Duration) -> Result<(), Terminated> {
        self.wait_until(Instant::now() + time)
    }

    /// Like [`Stop::wait`], up to a point in time.
    ///
    /// # Errors
    /// [`Terminated`] if the program was told to end, before or during the wait.
    pub fn wait_until(&self, end: Instant) -> Result<(), Terminated> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // A wait of more than i64::MAX seconds would be for ever, which `None` says.
            let timeout = Timespec::try_from(left).ok();
            let mut pipe = [PollFd::new(&self.told, PollFlags::IN)];
            match poll(&mut pipe, timeout.as_ref()) {
                Ok(0) => return Ok(()),
                // The signal itself interrupts the wait; the next round finds its byte.
                Err(rustix::io::Errno::INTR) => {}
                // Readable, or a pipe that has become useless: without it a SIGTERM would go
                // unnoticed, so ending is the safe reading of both.
                Ok(_) | Err(_) => return Err(Terminated),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_the_signal_and_every_later_look_sees_it() {
        let stop = Stop::by_hand();
        assert!(stop.check().is_ok());
        assert!(stop.wait(Duration::from_millis(1)).is_ok());
        std::thread::scope(|scope| {
            // Would outlive any test run if the signal did not end it.
            let waiting = scope.spawn(|| stop.wait(Duration::from_secs(86_400)));
            stop.tell();
            assert!(waiting.join().unwrap().is_err());
        });
        assert!(stop.check().is_err());
        assert!(stop.check().is_err());
    }
}
