//! The first process of a container's pid namespace. When it ends, the kernel kills whatever else is in
//! the namespace and lets nobody outlive it; so it is one more rung of the ladder (05), and the one that
//! needs neither wrapper nor agent:
//!
//! - it dies with the wrapper's main thread, by the kernel's hand, and by the end of their pipe;
//! - it ends when a deadline that it was given passes, also when the wrapper is stopped;
//! - it reaps whoever loses its parent in the namespace, and ends by itself, once it is told that the
//!   program has ended, when no child is left.
//!
//! It is the wrapper's own binary, started with the wrapper's own command line, and knows by a variable
//! and by its pid that it is not the wrapper. Being the first process it hears no signal for which it has
//! no handler, from inside or outside, besides SIGKILL and SIGSTOP from outside.

use std::env;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::exit;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{WaitOptions, getpid, wait};
use signal_hook::consts::SIGCHLD;
use signal_hook::low_level::pipe;

use crate::clock::{self, Alarm, BootTime};

/// Set for this process alone; the program does not get it.
pub(super) const ROLE: &str = "STEADFAST_WRAPPER_ROLE";
/// Its value.
pub(super) const INIT: &str = "init";
/// Its exit code when it did not wait for the others to end: then they were killed.
const KILLED: i32 = 72;
/// What it says on its standard output when it is ready.
pub(super) const READY: u8 = b'r';

/// What the wrapper tells its init: eight bytes each, so that a pipe never splits one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// End at this instant, whatever runs; it replaces the one before.
    EndAt(BootTime),
    /// End when no child is left.
    EndWhenEmpty,
}

impl Order {
    /// No deadline is the machine's start.
    const EMPTY: u64 = 0;

    pub(super) const fn to_bytes(self) -> [u8; 8] {
        match self {
            Self::EndAt(at) => at.as_millis(),
            Self::EndWhenEmpty => Self::EMPTY,
        }
        .to_le_bytes()
    }

    const fn from_bytes(bytes: [u8; 8]) -> Self {
        match u64::from_le_bytes(bytes) {
            Self::EMPTY => Self::EndWhenEmpty,
            ms => Self::EndAt(BootTime::from_millis(ms)),
        }
    }
}

/// Whether this process is to be the init of a namespace.
pub(super) fn is_wanted() -> bool {
    env::var_os(ROLE).as_deref() == Some(OsStr::new(INIT)) && getpid().is_init()
}

/// Is the init until there is no need for one.
pub(super) fn be() -> ! {
    // The name is for people who look at a list of processes.
    let _ = rustix::thread::set_name(c"steadfast-init");
    match go() {
        Ok(End::Empty) => exit(0),
        Ok(End::Deadline) => exit(KILLED),
        Err(error) => {
            tracing::error!(%error, "the init of a namespace cannot go on");
            exit(KILLED)
        }
    }
}

/// Why it ended by itself.
enum End {
    /// Nobody was left.
    Empty,
    /// Somebody may have been, and was killed by its going.
    Deadline,
}

fn go() -> io::Result<End> {
    let orders = io::stdin();
    fcntl_setfl(&orders, OFlags::NONBLOCK)?;
    let (child_ended, notice) = UnixStream::pair()?;
    child_ended.set_nonblocking(true)?;
    pipe::register(SIGCHLD, notice)?;
    let alarm = Alarm::new()?;
    io::stdout().write_all(&[READY])?;
    io::stdout().flush()?;

    let (mut end_at, mut end_when_empty) = (BootTime::NEVER, false);
    loop {
        let wait_for = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut sources =
            [wait_for(orders.as_fd()), wait_for(child_ended.as_fd()), wait_for(alarm.as_fd())];
        match poll(&mut sources, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // All that was said counts before the clock does: who was stopped finds it waiting.
        loop {
            let mut bytes = [0; 8];
            match rustix::io::read(&orders, &mut bytes) {
                // The wrapper is gone.
                Ok(0) => return Ok(End::Deadline),
                Ok(_) => match Order::from_bytes(bytes) {
                    Order::EndAt(at) => end_at = at,
                    Order::EndWhenEmpty => end_when_empty = true,
                },
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if clock::now() >= end_at {
            return Ok(End::Deadline);
        }
        alarm.set(end_at);
        while rustix::io::read(&child_ended, &mut [0; 64]).is_ok_and(|read| read > 0) {}
        if no_child_left() && end_when_empty {
            return Ok(End::Empty);
        }
    }
}

/// Reaps who has ended; whether nobody is left.
fn no_child_left() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(error) => return error == Errno::CHILD,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_pipe() {
        for order in [
            Order::EndAt(BootTime::from_millis(1_234_567)),
            Order::EndAt(BootTime::NEVER),
            Order::EndWhenEmpty,
        ] {
            assert_eq!(Order::from_bytes(order.to_bytes()), order);
        }
    }
}
