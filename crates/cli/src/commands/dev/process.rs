//! A process that is known for sure, though pids are used again.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process, held by a pidfd: signals reach it or nobody.
#[derive(Debug)]
pub struct Process {
    pub pid: u32,
    handle: OwnedFd,
}

impl Process {
    /// The process that has this pid now; `None` where there is none.
    ///
    /// # Errors
    /// The system refuses.
    pub fn with_pid(pid: u32) -> io::Result<Option<Self>> {
        let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(handle) => Ok(Some(Self { pid, handle })),
            Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// When it began, in clock ticks since boot; `None` once nothing is left of it. Together with the
    /// boot's id no other process ever has both this and the pid.
    pub fn start_time(&self) -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        start_time(&stat)
    }

    /// Asks it to end, and lets it go on if it was stopped, so that it can.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // It fails only where the process has ended, which is what was wanted.
        let _ = pidfd_send_signal(&self.handle, signal);
    }

    /// Waits for its end; blocks.
    pub fn ends_within(&self, patience: Duration) -> bool {
        let Ok(timeout) = Timespec::try_from(patience) else { return false };
        let mut handles = [PollFd::new(&self.handle, PollFlags::IN)];
        matches!(poll(&mut handles, Some(&timeout)), Ok(ready) if ready > 0)
    }
}

/// Field 22 of `/proc/PID/stat`. The second, the program's name, may hold anything, blanks and brackets
/// included, so counting begins behind its closing bracket.
fn start_time(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

/// What tells one boot of the machine from another.
///
/// # Errors
/// The system does not say.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_behind_any_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        for name in ["sleep", "a b", "x) S 9 (y", ")"] {
            assert_eq!(start_time(&format!("12 ({name}) {rest}")), Some(4711), "{name}");
        }
        assert_eq!(start_time("nonsense"), None);
        let own = Process::with_pid(std::process::id()).unwrap().unwrap();
        assert!(own.start_time().is_some());
    }
}
