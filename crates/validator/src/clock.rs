//! `CLOCK_BOOTTIME`: the one clock of a lease. It goes on while the machine sleeps, so that a lease that
//! ran out in a suspended machine is over when the machine wakes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// An instant in milliseconds of `CLOCK_BOOTTIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BootTime(u64);

impl BootTime {
    /// Later than everything.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// The instant that lies `ms` milliseconds after the machine's start.
    pub(crate) const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the machine's start.
    pub(crate) const fn as_millis(self) -> u64 {
        self.0
    }

    /// The instant `ms` milliseconds later.
    pub(crate) const fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// The instant `ms` milliseconds earlier.
    pub(crate) const fn minus(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// Milliseconds from `earlier` to `self`; 0 if `earlier` is not earlier.
    pub(crate) const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The present instant.
pub(crate) fn now() -> BootTime {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    BootTime(seconds * 1_000 + nanos / 1_000_000)
}

/// A timer of the kernel on the boot clock. Any thread may move it while another one waits for it, and
/// a machine that wakes from a suspend finds it expired at once, which no condition variable does.
#[derive(Clone, Debug)]
pub(crate) struct Alarm(Arc<OwnedFd>);

/// Readable once it has rung.
impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Alarm {
    /// An alarm that is not set.
    pub(crate) fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(timer)))
    }

    /// Sets it to ring at `at`, at once if that has passed; the earlier setting is forgotten.
    pub(crate) fn set(&self, at: BootTime) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // The kernel reads a value of zero as "not set"; the first millisecond after the machine's start
        // has passed in any case.
        let ms = if at == BootTime::NEVER { 0 } else { at.0.max(1) };
        let value = Timespec {
            tv_sec: i64::try_from(ms / 1_000).unwrap_or(i64::MAX),
            // Below 10⁹, so it fits any integer type that the field can have.
            tv_nsec: (ms % 1_000 * 1_000_000) as _,
        };
        let setting = Itimerspec { it_interval: zero, it_value: value };
        // It fails only for a bad descriptor or a malformed time, and both are ours.
        let set = timerfd_settime(&*self.0, TimerfdTimerFlags::ABSTIME, &setting);
        debug_assert!(set.is_ok(), "{set:?}");
    }

    /// Blocks until it rings.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let mut rings = [0; 8];
        loop {
            match rustix::io::read(&*self.0, &mut rings) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_can_be_moved_while_somebody_waits_for_it() {
        let alarm = Alarm::new().unwrap();
        alarm.set(BootTime::NEVER);
        let waiter = std::thread::spawn({
            let alarm = alarm.clone();
            move || alarm.wait().map(|()| now())
        });
        let at = now().plus(20);
        alarm.set(at);
        assert!(waiter.join().unwrap().unwrap() >= at, "it never rings early");
        alarm.set(BootTime::from_millis(0));
        alarm.wait().unwrap();
    }
}
