//! What a wrapper has locked its program into, seen from outside: what to kill in one stroke, and what
//! to find empty when the wrapper was killed and can prove nothing any more (03).

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use steadfast_model::{ExecutionId, Proof};

use crate::process;

/// The walls around one container. Nothing is said about a wall that is not there.
#[derive(Debug, Default)]
pub(crate) struct Enclosure {
    cgroup: Option<PathBuf>,
    /// The pid namespace's first process.
    init: Option<OwnedFd>,
}

impl Enclosure {
    /// What the wrapper of `id` has told, as far as it is true of that container.
    pub fn told(id: ExecutionId, cgroup: Option<String>, init_pid: Option<u32>) -> Self {
        let name = format!("steadfast-{id}");
        let cgroup = cgroup.map(PathBuf::from).filter(|folder| {
            folder.file_name() == Some(name.as_ref()) && folder.join("cgroup.events").exists()
        });
        let init = init_pid.and_then(|pid| {
            let raw = Pid::from_raw(i32::try_from(pid).ok()?)?;
            let init = pidfd_open(raw, PidfdFlags::empty()).ok()?;
            // Pinned before the look, so that it is nobody else's by now.
            process::carries(pid, id).then_some(init)
        });
        Self { cgroup, init }
    }

    /// The folder of the cgroup.
    pub fn cgroup(&self) -> Option<&Path> {
        self.cgroup.as_deref()
    }

    /// Whether there is anything that could prove an end.
    pub fn is_there(&self) -> bool {
        self.cgroup.is_some() || self.init.is_some()
    }

    /// SIGKILL to everything inside.
    pub fn kill(&self) {
        if let Some(folder) = &self.cgroup {
            // One that is gone was empty.
            let _ = fs::write(folder.join("cgroup.kill"), "1");
        }
        if let Some(init) = &self.init {
            let _ = pidfd_send_signal(init, Signal::KILL);
        }
    }

    /// The proof that nothing is left inside, when that is so. It counts only once the wrapper has
    /// ended: a living one could still start something.
    pub fn proof(&self) -> Option<Proof> {
        if self.cgroup.as_deref().is_some_and(is_empty) {
            return Some(Proof::CgroupEmpty);
        }
        // The kernel reports the end of a namespace's first process after that of all others.
        self.init.as_ref().filter(|init| has_ended(init)).map(|_| Proof::NamespaceEnded)
    }

    /// Removes an empty cgroup, which is its wrapper's business unless that was killed.
    pub fn remove(&self) {
        if let Some(folder) = &self.cgroup {
            let _ = fs::remove_dir(folder);
        }
    }
}

fn is_empty(folder: &Path) -> bool {
    match fs::read_to_string(folder.join("cgroup.events")) {
        Ok(events) => events.lines().any(|line| line == "populated 0"),
        // Only an empty one can be removed.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut ended = [PollFd::new(process, PollFlags::IN)];
    poll(&mut ended, Some(&now)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use steadfast_model::TermNonce;

    use super::*;

    fn id() -> ExecutionId {
        ExecutionId::of_term(TermNonce::new(5), 1)
    }

    #[test]
    fn the_proof_is_an_empty_cgroup_and_nothing_less() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(format!("steadfast-{}", id()));
        fs::create_dir(&folder).unwrap();
        let events = |text: &str| fs::write(folder.join("cgroup.events"), text).unwrap();
        events("populated 1\nfrozen 0\n");
        let enclosure = Enclosure::told(id(), folder.to_str().map(str::to_owned), None);
        assert_eq!((enclosure.is_there(), enclosure.proof()), (true, None));
        events("populated 0\nfrozen 0\n");
        assert_eq!(enclosure.proof(), Some(Proof::CgroupEmpty));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(enclosure.proof(), Some(Proof::CgroupEmpty), "only an empty one can go");
    }

    #[test]
    fn a_wall_that_is_not_the_containers_is_not_believed() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.events"), "populated 0\n").unwrap();
        let elsewhere = root.path().to_str().map(str::to_owned);
        let enclosure = Enclosure::told(id(), elsewhere, Some(std::process::id()));
        assert_eq!((enclosure.is_there(), enclosure.proof()), (false, None));
    }
}
