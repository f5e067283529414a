//! Processes of one cluster, and signals for exactly those.
//!
//! A pid alone names nobody, since it is reused: a process is known by its pid and its start time, and it
//! is ours only if it carries our cluster's mark in its environment. Signals go through a pidfd that was
//! opened before the look, so that no stranger can be hit.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Inherited by every process of a cluster. Not `STEADFAST_…`: an agent keeps those to itself.
const VARIABLE: &str = "E2E_CLUSTER";

/// The mark of one cluster: a variable that is different for each and inherited by all of its processes.
#[derive(Clone, Debug)]
pub struct Marker(String);

impl Marker {
    /// A mark that no other cluster of this machine has.
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let own = std::process::id();
        let start = Stat::of(own).map_or(0, |stat| stat.start_time);
        Self(format!("{own}-{start}-{}", COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The variable, as it is given to the first process of the cluster.
    pub fn variable(&self) -> (&'static str, &str) {
        (VARIABLE, &self.0)
    }

    /// The process that has this pid now.
    ///
    /// # Panics
    /// When there is none, or it is none of this cluster's.
    #[track_caller]
    pub fn process(&self, pid: u32) -> Process {
        self.find(pid).unwrap_or_else(|| panic!("pid {pid} is no living process of this cluster"))
    }

    /// Every living process of the cluster.
    pub fn processes(&self) -> Vec<Process> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(|pid| self.find(pid)).collect()
    }

    fn find(&self, pid: u32) -> Option<Process> {
        let before = Stat::of(pid)?;
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mark = format!("{VARIABLE}={}", self.0);
        let is_ours = environment.split(|byte| *byte == 0).any(|it| it == mark.as_bytes());
        let process = Process { pid, start_time: before.start_time };
        (is_ours && process.is_alive()).then_some(process)
    }
}

impl Default for Marker {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether these tests may do what takes root: so may the product then.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// One process for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// What the kernel calls it while it lives.
    pub pid: u32,
    /// In clock ticks since boot (`proc_pid_stat(5)`, field 22).
    start_time: u64,
}

impl Process {
    /// Whether it still runs, or is stopped; one that ended and waits to be reaped does not.
    pub fn is_alive(self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.start_time == self.start_time && !stat.is_dead())
    }

    /// Whether a SIGSTOP has had its effect.
    pub fn is_stopped(self) -> bool {
        Stat::of(self.pid)
            .is_some_and(|stat| stat.start_time == self.start_time && stat.state == b'T')
    }

    /// A variable that it was started with.
    ///
    /// # Panics
    /// When it is gone, or was not given this variable.
    #[track_caller]
    pub fn variable(self, name: &str) -> String {
        let value = self.try_variable(name);
        value.unwrap_or_else(|| panic!("pid {} has no variable {name}", self.pid))
    }

    /// The same, if it is there and was given it.
    pub fn try_variable(self, name: &str) -> Option<String> {
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let value = variables.find_map(|one| one.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        Some(String::from_utf8_lossy(value?).into_owned())
    }

    /// Its program's arguments, the program itself first; none once it is gone.
    pub fn arguments(self) -> Vec<String> {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    /// Sends a signal; says whether the process was there to get it.
    pub fn try_signal(self, signal: Signal) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let Some(pidfd) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
            return false;
        };
        self.is_alive() && pidfd_send_signal(&pidfd, signal).is_ok()
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// When the process is gone: the test wanted to hurt somebody who is not there.
    #[track_caller]
    pub fn signal(self, signal: Signal) {
        assert!(self.try_signal(signal), "pid {} is gone, {signal:?} came too late", self.pid);
    }
}

struct Stat {
    state: u8,
    start_time: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The command's name stands in parentheses and may hold anything, `)` and spaces too.
        let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        Some(Self { state, start_time: fields.nth(18)?.parse().ok()? })
    }

    fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}
