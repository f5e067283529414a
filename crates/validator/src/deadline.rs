//! The rung that nothing above can hold up: a thread that waits for one instant and then acts. It takes
//! no lock, opens no connection, and hears of a new instant through the kernel's timer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::clock::{self, Alarm, BootTime};

/// A deadline that is watched by a thread of its own.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    at_ms: Arc<AtomicU64>,
    alarm: Alarm,
}

impl Deadline {
    /// Starts the thread; it calls `act` once, when a deadline that was set has passed.
    pub(crate) fn watch(act: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let deadline = Self {
            at_ms: Arc::new(AtomicU64::new(BootTime::NEVER.as_millis())),
            alarm: Alarm::new()?,
        };
        let watched = deadline.clone();
        thread::Builder::new().name("deadline".into()).spawn(move || {
            // The timer may have been moved between its ringing and this look: the number decides.
            while watched.alarm.wait().is_ok() {
                if clock::now() >= watched.at() {
                    return act();
                }
            }
        })?;
        Ok(deadline)
    }

    /// Moves the deadline; [`BootTime::NEVER`] takes it away.
    pub(crate) fn set(&self, at: BootTime) {
        // The number first, or the thread could wake by the new timer and judge by the old number.
        self.at_ms.store(at.as_millis(), Ordering::SeqCst);
        self.alarm.set(at);
    }

    fn at(&self) -> BootTime {
        BootTime::from_millis(self.at_ms.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn it_acts_once_and_not_before_its_time() {
        let (sender, acted) = mpsc::channel();
        let deadline = Deadline::watch(move || sender.send(clock::now()).unwrap()).unwrap();
        deadline.set(clock::now().plus(60_000));
        deadline.set(BootTime::NEVER);
        let at = clock::now().plus(30);
        deadline.set(at);
        assert!(acted.recv().unwrap() >= at);
        deadline.set(clock::now());
        assert!(acted.recv().is_err(), "the thread has ended");
    }
}
