//! What an earlier run on the same folder left behind.
//!
//! A `steadfast dev` that was killed could stop nothing, and its processes live on, holding port and
//! folders. The next run ends them. It must not end anybody else: a pid says little, because it is used
//! again, so the record also has each process's start time and the boot that it belongs to.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::process::{Process, boot_id};

/// From SIGTERM to SIGKILL: a member first has its containers end.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// From SIGKILL to giving up.
pub const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// `dev.json`: the processes that were started and have not been seen to end.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The boot in which they were started.
    pub boot_id: String,
    /// Members before their coordinators.
    pub children: Vec<Child>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Child {
    /// As the logs are called: `coordinator`, `member-1`.
    pub name: String,
    /// Its pid.
    pub pid: u32,
    /// When it began, in clock ticks since boot.
    pub start_time: u64,
}

impl Record {
    /// Replaces the file as a whole: a run that is killed on the way leaves the old one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let beside = path.with_extension("json.new");
        let text = serde_json::to_string(self)?;
        fs::write(&beside, text)
            .and_then(|()| fs::rename(&beside, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        serde_json::from_str(&text).with_context(|| {
            format!(
                "{} is not what `steadfast dev` writes; see that no process of an earlier run is \
                 left, and remove it",
                path.display()
            )
        })
    }
}

/// Ends whatever the record names that still lives, members first, and says what it ended.
///
/// # Errors
/// The record cannot be read, or a process does not end.
pub fn end(record: &Path) -> anyhow::Result<Vec<String>> {
    let Record { boot_id: then, children } = Record::read(record)?;
    if children.is_empty() || then != boot_id().context("cannot tell this boot from another")? {
        return Ok(Vec::new());
    }
    let (coordinators, members): (Vec<&Child>, Vec<&Child>) =
        children.iter().partition(|child| child.name.starts_with("coordinator"));
    let mut ended = Vec::new();
    for group in [members, coordinators] {
        let mut living = Vec::new();
        for child in group {
            if let Some(process) = still_lives(child)? {
                living.push((child, process));
            }
        }
        end_together(&living)?;
        ended.extend(living.iter().map(|(Child { name, pid, .. }, _)| {
            format!("ended {name} (pid {pid}), which an earlier run on this folder left")
        }));
    }
    Record::default().write(record)?;
    Ok(ended)
}

/// The process, unless the pid belongs to somebody else by now. It is held before it is looked at, so
/// it cannot change in between.
fn still_lives(child: &Child) -> anyhow::Result<Option<Process>> {
    let process = Process::with_pid(child.pid)
        .with_context(|| format!("cannot look at {} (pid {})", child.name, child.pid))?;
    Ok(process.filter(|process| process.start_time() == Some(child.start_time)))
}

fn end_together(processes: &[(&Child, Process)]) -> anyhow::Result<()> {
    for (_, process) in processes {
        process.terminate();
    }
    let deadline = Instant::now() + PATIENCE;
    for (child, process) in processes {
        if process.ends_within(deadline.saturating_duration_since(Instant::now())) {
            continue;
        }
        process.kill();
        anyhow::ensure!(
            process.ends_within(KILL_PATIENCE),
            "{} (pid {}), which an earlier run left, does not end even by SIGKILL",
            child.name,
            child.pid
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    struct Sleeper(std::process::Child);

    impl Sleeper {
        fn start() -> Self {
            let mut command = Command::new("sleep");
            Self(command.arg("600").stdin(Stdio::null()).spawn().unwrap())
        }

        fn as_child(&self, name: &str) -> Child {
            let process = Process::with_pid(self.0.id()).unwrap().unwrap();
            let start_time = process.start_time().unwrap();
            Child { name: name.into(), pid: self.0.id(), start_time }
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn record(children: Vec<Child>) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dev.json");
        Record { boot_id: boot_id().unwrap(), children }.write(&path).unwrap();
        (folder, path)
    }

    #[test]
    fn what_was_left_is_ended_and_forgotten() {
        let (mut member, mut coordinator) = (Sleeper::start(), Sleeper::start());
        let children = vec![coordinator.as_child("coordinator"), member.as_child("member-1")];
        let (_folder, path) = record(children);
        let said = end(&path).unwrap();
        assert_eq!(said.len(), 2);
        assert!(said[0].starts_with("ended member-1 (pid "), "members come first: {said:?}");
        for sleeper in [&mut member, &mut coordinator] {
            assert_eq!(sleeper.0.wait().unwrap().signal(), Some(15));
        }
        assert_eq!(end(&path).unwrap(), [""; 0]);
    }

    #[test]
    fn a_stopped_process_gets_to_end_itself() {
        // As our processes do, and unlike `sleep`, it has a handler, which a stopped process cannot run.
        let script = r#"trap "exit 7" TERM; echo ready; read never"#;
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut stopped = Sleeper(command.spawn().unwrap());
        let mut ready = [0; 5];
        stopped.0.stdout.take().unwrap().read_exact(&mut ready).unwrap();
        let pid = rustix::process::Pid::from_child(&stopped.0);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        let (_folder, path) = record(vec![stopped.as_child("member-1")]);
        assert_eq!(end(&path).unwrap().len(), 1);
        assert_eq!(stopped.0.wait().unwrap().code(), Some(7));
    }

    #[test]
    fn somebody_else_with_the_same_pid_is_left_alone() {
        let mut innocent = Sleeper::start();
        let mut child = innocent.as_child("member-1");
        child.start_time -= 1;
        let (_folder, path) = record(vec![child]);
        assert_eq!(end(&path).unwrap(), [""; 0]);
        assert!(innocent.0.try_wait().unwrap().is_none());
    }

    #[test]
    fn a_record_of_another_boot_names_nobody() {
        let mut innocent = Sleeper::start();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dev.json");
        let children = vec![innocent.as_child("member-1")];
        Record { boot_id: "another".into(), children }.write(&path).unwrap();
        assert_eq!(end(&path).unwrap(), [""; 0]);
        assert!(innocent.0.try_wait().unwrap().is_none());
    }

    #[test]
    fn no_record_is_fine_and_a_strange_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dev.json");
        assert_eq!(end(&path).unwrap(), [""; 0]);
        fs::write(&path, "{").unwrap();
        assert!(end(&path).unwrap_err().to_string().contains("remove it"));
    }
}
