//! Processes as the kernel shows them: who belongs to a container, and how to end exactly those.
//!
//! A container's processes are found by the execution id that every one of them inherits in its
//! environment, and by the process group of its program. This needs no help from the wrapper and follows
//! `setsid` and double forks. A pid alone names nobody, since it is reused: each process is first pinned
//! by a pidfd, then looked at, then signalled through the pidfd.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use steadfast_model::ExecutionId;

/// Rounds of looking and killing: a process can fork between the two.
const ROUNDS: usize = 10;

/// One process for its whole life: a pid together with the time at which it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pid: u32,
    /// In clock ticks since boot (`proc_pid_stat(5)`, field 22).
    start_time: u64,
}

impl Process {
    /// The process that has this pid now, if it belongs to the container: the news of its start may be
    /// old, and the pid somebody else's by now.
    pub fn of_container(pid: u32, id: ExecutionId, wrapper: Option<u32>) -> Option<Self> {
        let (this, stat) = (Self::of(pid)?, Stat::of(pid)?);
        let is_ours = wrapper == Some(stat.parent) || carries(pid, id);
        // Pinned before it was looked at: had it changed hands in between, the start would differ.
        (is_ours && this.start_time == stat.start_time).then_some(this)
    }

    fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, start_time: Stat::of(pid)?.start_time })
    }

    fn is_still_there(self) -> bool {
        Self::of(self.pid) == Some(self)
    }
}

/// Whose processes are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Belonging {
    pub id: ExecutionId,
    /// The leader of the program's process group, once it is known.
    pub program: Option<Process>,
    /// A process that is left alone: the wrapper, while it may still prove the end.
    pub spare: Option<u32>,
}

impl Belonging {
    /// Sends SIGKILL to every process of the container until a look finds none; returns how many were
    /// hit. One that is stuck in the kernel stays and keeps its signal.
    pub fn kill(self) -> usize {
        let mut hit = 0;
        for _ in 0..ROUNDS {
            let mut found = false;
            for pid in pids() {
                let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { continue };
                let Ok(pidfd) = pidfd_open(raw, PidfdFlags::empty()) else { continue };
                if self.includes(pid) && pidfd_send_signal(&pidfd, Signal::KILL).is_ok() {
                    found = true;
                    hit += 1;
                }
            }
            if !found {
                break;
            }
        }
        hit
    }

    /// Whether any process of the container is alive.
    pub fn lives(self) -> bool {
        pids().any(|pid| self.includes(pid))
    }

    fn includes(self, pid: u32) -> bool {
        if self.spare == Some(pid) || pid == std::process::id() {
            return false;
        }
        // A zombie has no environment any more, and nothing that could be ended.
        let Some(stat) = Stat::of(pid).filter(|stat| !stat.is_dead()) else { return false };
        let in_group = |leader: Process| leader.pid == stat.group && leader.is_still_there();
        self.program.is_some_and(in_group) || carries(pid, self.id)
    }
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether the process was started with this execution id in its environment.
pub(crate) fn carries(pid: u32, id: ExecutionId) -> bool {
    let wanted = format!("EXECUTION_RESOURCE_ID={id}");
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.split(|b| *b == 0).any(|it| it == wanted.as_bytes()))
}

struct Stat {
    state: u8,
    parent: u32,
    group: u32,
    start_time: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(line: &str) -> Option<Self> {
        // The second field is the command's name in parentheses and may hold anything, `)` and spaces too.
        let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace();
        Some(Self {
            state: *fields.next()?.as_bytes().first()?,
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
            start_time: fields.nth(16)?.parse().ok()?,
        })
    }

    fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_cannot_pretend_to_be_a_field() {
        let line = "7 (a) Z 1 99 ) S 5 42 6 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 678 9";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.state, stat.parent, stat.group), (b'S', 5, 42));
        assert_eq!(stat.start_time, 12_345);
    }

    #[test]
    fn a_stranger_with_the_programs_pid_is_not_taken_for_it() {
        let id = ExecutionId::of_term(steadfast_model::TermNonce::new(1), 1);
        let (me, parent) = (std::process::id(), std::os::unix::process::parent_id());
        assert_eq!(Process::of_container(me, id, Some(me)), None);
        assert_eq!(Process::of_container(me, id, Some(parent)), Process::of(me));
    }

    #[test]
    fn a_pid_with_another_start_is_another_process() {
        let me = Process::of(std::process::id()).unwrap();
        assert!(me.is_still_there());
        assert!(!Process { start_time: me.start_time + 1, ..me }.is_still_there());
    }
}
