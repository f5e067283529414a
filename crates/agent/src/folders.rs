//! The agent's folder on disk.
//!
//! ```text
//! DATA/agent.lock              held with flock while the agent lives; holds its pid
//! DATA/containers/ID/          the wrapper's logs
//! DATA/containers/ID/container.json   which job, task group and attempt it runs
//! DATA/containers/ID/cgroup    a link to the container's cgroup, where it has one
//! DATA/containers/ID/work/     the program's current directory; goes when the end is acknowledged
//! ```
//! A container's folder is also the durable memory that its id has been started here: one that exists
//! is never used again. Containers outlive their agent, so a folder that this agent did not make is only
//! removed when no process of its container is left.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use steadfast_api::TaskGroupAttempt;
use steadfast_model::ExecutionId;

use crate::process::Belonging;

/// Folders of ended containers that are kept for their logs, the newest.
const KEPT: usize = 50;

/// The folder, locked.
#[derive(Debug)]
pub(crate) struct DataDir {
    containers: PathBuf,
    /// Unlocked by the kernel when the process ends, however it ends.
    _lock: File,
}

impl DataDir {
    /// Makes the folder where it is missing, and takes the lock.
    pub fn open(root: &Path) -> anyhow::Result<Self> {
        let root = std::path::absolute(root)?;
        let containers = root.join("containers");
        fs::create_dir_all(&containers)
            .with_context(|| format!("cannot make the data folder {}", root.display()))?;
        let lock = lock(&root)?;
        Ok(Self { containers, _lock: lock })
    }

    /// Where a container's logs are.
    pub fn logs(&self, id: ExecutionId) -> PathBuf {
        self.containers.join(id.to_string())
    }

    /// Where a container's program runs.
    pub fn work(&self, id: ExecutionId) -> PathBuf {
        self.logs(id).join("work")
    }

    /// Makes the folders of a container that was never started here.
    ///
    /// # Errors
    /// `AlreadyExists` where it was.
    pub fn create(&self, id: ExecutionId) -> io::Result<()> {
        fs::create_dir(self.logs(id))?;
        fs::create_dir(self.work(id))
    }

    /// Notes what a container runs, so that its output can be found by that for as long as it is kept.
    pub fn label(&self, id: ExecutionId, runs: &TaskGroupAttempt) -> io::Result<()> {
        fs::write(self.label_file(id), serde_json::to_vec(runs)?)
    }

    /// What each container here runs, or ran. A label that cannot be read is none.
    pub fn labels(&self) -> impl Iterator<Item = (ExecutionId, TaskGroupAttempt)> {
        let entries = fs::read_dir(&self.containers).into_iter().flatten().flatten();
        entries.filter_map(|entry| {
            let id: ExecutionId = entry.file_name().to_str()?.parse().ok()?;
            let label = fs::read(self.label_file(id)).ok()?;
            Some((id, serde_json::from_slice(&label).ok()?))
        })
    }

    fn label_file(&self, id: ExecutionId) -> PathBuf {
        self.logs(id).join("container.json")
    }

    /// Leaves a link to a container's cgroup: for people, and for whoever comes after a wrapper and an
    /// agent that were killed together and could not remove it.
    pub fn remember_cgroup(&self, id: ExecutionId, cgroup: &Path) {
        if let Err(error) = std::os::unix::fs::symlink(cgroup, self.cgroup_link(id)) {
            tracing::debug!(%id, %error, "no link to the cgroup");
        }
    }

    fn cgroup_link(&self, id: ExecutionId) -> PathBuf {
        self.logs(id).join("cgroup")
    }

    /// Removes the working directory of a container that ended.
    pub fn clear(&self, id: ExecutionId) -> io::Result<()> {
        match fs::remove_dir_all(self.work(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the oldest folders of ended containers beyond those that are kept for their logs.
    pub fn prune(&self, held: &BTreeSet<ExecutionId>) -> io::Result<()> {
        let mut ended: Vec<(SystemTime, ExecutionId)> = Vec::new();
        for entry in fs::read_dir(&self.containers)? {
            let entry = entry?;
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(id) = id.filter(|id| !held.contains(id)) else { continue };
            ended.push((entry.metadata()?.modified()?, id));
        }
        ended.sort_unstable();
        let surplus = ended.len().saturating_sub(KEPT);
        for (_, id) in &ended[..surplus] {
            if !(Belonging { id: *id, program: None, spare: None }).lives() {
                if let Ok(cgroup) = fs::read_link(self.cgroup_link(*id)) {
                    // As a rule its wrapper has. One that is not empty stays.
                    let _ = fs::remove_dir(cgroup);
                }
                fs::remove_dir_all(self.logs(*id))?;
            }
        }
        Ok(())
    }
}

fn lock(root: &Path) -> anyhow::Result<File> {
    let path = root.join("agent.lock");
    let open = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = open.with_context(|| format!("cannot open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The pid is a courtesy; without it the message is still right.
            let _ = file.read_to_string(&mut holder);
            let holder = match holder.trim() {
                "" => "another process".to_owned(),
                pid => format!("the agent with pid {pid}"),
            };
            bail!(
                "the data folder {} is in use by {holder}; expected a folder of this agent's own: \
                 stop the other one, or name another folder with --data",
                root.display()
            );
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
    }
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use steadfast_model::TermNonce;

    use super::*;

    fn id(seq: u64) -> ExecutionId {
        ExecutionId::of_term(TermNonce::new(9), seq)
    }

    #[test]
    fn two_agents_cannot_share_a_folder_and_the_second_names_the_first() {
        let root = tempfile::tempdir().unwrap();
        let first = DataDir::open(root.path()).unwrap();
        let error = DataDir::open(root.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("pid {};", std::process::id())), "{error}");
        drop(first);
        DataDir::open(root.path()).unwrap();
    }

    #[test]
    fn a_folder_is_made_once() {
        let root = tempfile::tempdir().unwrap();
        let data = DataDir::open(root.path()).unwrap();
        data.create(id(1)).unwrap();
        data.clear(id(1)).unwrap();
        data.clear(id(1)).unwrap();
        assert!(data.logs(id(1)).exists() && !data.work(id(1)).exists());
        let again = data.create(id(1)).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_cgroup_that_nobody_removed_goes_with_its_folder() {
        let root = tempfile::tempdir().unwrap();
        let data = DataDir::open(root.path()).unwrap();
        let cgroup = root.path().join("cgroup");
        fs::create_dir(&cgroup).unwrap();
        for seq in 0..=KEPT as u64 {
            data.create(id(seq)).unwrap();
        }
        data.remember_cgroup(id(0), &cgroup);
        File::open(data.logs(id(0))).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        data.prune(&BTreeSet::new()).unwrap();
        assert!(!data.logs(id(0)).exists() && !cgroup.exists());
    }

    #[test]
    fn the_newest_folders_stay_and_so_does_what_is_held() {
        let root = tempfile::tempdir().unwrap();
        let data = DataDir::open(root.path()).unwrap();
        let epoch = SystemTime::UNIX_EPOCH;
        for seq in 0..KEPT as u64 + 3 {
            data.create(id(seq)).unwrap();
            let made = epoch + std::time::Duration::from_secs(seq);
            File::open(data.logs(id(seq))).unwrap().set_modified(made).unwrap();
        }
        data.prune(&BTreeSet::from([id(0)])).unwrap();
        let left: Vec<u64> =
            (0..KEPT as u64 + 3).filter(|seq| data.logs(id(*seq)).exists()).collect();
        let expected: Vec<u64> = [0].into_iter().chain(3..KEPT as u64 + 3).collect();
        assert_eq!(left, expected);
    }
}
