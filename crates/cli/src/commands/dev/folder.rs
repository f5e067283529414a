//! The folder of a `steadfast dev`, held by one at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The folder, and the lock on it, which the kernel lets go of when this process ends.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder where it is missing.
    ///
    /// # Errors
    /// It cannot be made or written, or another `steadfast dev` has it.
    pub fn hold(path: &Path) -> anyhow::Result<Self> {
        let path = std::path::absolute(path)
            .with_context(|| format!("cannot use the folder {}", path.display()))?;
        let cannot = || format!("cannot use the folder {}", path.display());
        fs::create_dir_all(path.join("log")).with_context(cannot)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut lock = options.open(path.join("dev.lock")).with_context(cannot)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Only for the message; whatever cannot be read is left out of it.
                let _ = lock.read_to_string(&mut pid);
                anyhow::bail!(
                    "another `steadfast dev` (pid {}) runs on {}; stop it, or use another --data",
                    pid.trim(),
                    path.display()
                );
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
        }
        lock.set_len(0).with_context(cannot)?;
        lock.rewind().with_context(cannot)?;
        writeln!(lock, "{}", std::process::id()).with_context(cannot)?;
        Ok(Self { path, _lock: lock })
    }

    /// Notes where the state of the folder's cluster is kept, on which etcd or within the folder. Kept somewhere
    /// else it would be another cluster, and an empty one.
    ///
    /// # Errors
    /// An earlier run kept it somewhere else.
    pub fn keep_state_in(&self, etcd: Option<&str>) -> anyhow::Result<()> {
        let note = self.path.join("etcd-url");
        let cannot = || format!("cannot use the file {}", note.display());
        let earlier = match fs::read_to_string(&note) {
            Ok(url) => Some(url),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(cannot),
        };
        let path = self.path.display();
        match (earlier.as_deref().map(str::trim), etcd) {
            (Some(earlier), now) if now != Some(earlier) => anyhow::bail!(
                "the cluster of the folder {path} keeps its state in etcd: go on from it with `--etcd {earlier}`, or \
                 give another cluster another --data"
            ),
            (None, Some(_)) if self.store().exists() => anyhow::bail!(
                "the cluster of the folder {path} keeps its state there: go on from it without --etcd, or give \
                 another cluster another --data"
            ),
            (None, Some(url)) => fs::write(&note, format!("{url}\n")).with_context(cannot),
            _ => Ok(()),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn record(&self) -> PathBuf {
        self.path.join("dev.json")
    }

    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// The hashes of this program's own tokens.
    pub fn token_file(&self) -> PathBuf {
        self.path.join("auth").join("tokens.conf")
    }

    /// The token that the members show.
    pub fn member_token_file(&self) -> PathBuf {
        self.path.join("auth").join("member.token")
    }

    pub fn member(&self, number: u32) -> PathBuf {
        self.path.join("members").join(number.to_string())
    }

    /// The log of one process, appended to by each run.
    pub fn log(&self, name: &str) -> PathBuf {
        self.path.join("log").join(format!("{name}.log"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_of_one_cluster() {
        let data = tempfile::tempdir().unwrap();
        let folder = Folder::hold(data.path()).unwrap();
        let refused = |etcd| folder.keep_state_in(etcd).unwrap_err().to_string();
        folder.keep_state_in(Some("http://a:1")).unwrap();
        folder.keep_state_in(Some("http://a:1")).unwrap();
        assert!(refused(None).contains("with `--etcd http://a:1`"));
        assert!(refused(Some("http://b:1")).contains("with `--etcd http://a:1`"));

        let data = tempfile::tempdir().unwrap();
        let folder = Folder::hold(data.path()).unwrap();
        folder.keep_state_in(None).unwrap();
        fs::create_dir(folder.store()).unwrap();
        folder.keep_state_in(None).unwrap();
        assert!(
            folder
                .keep_state_in(Some("http://a:1"))
                .unwrap_err()
                .to_string()
                .contains("without --etcd")
        );
    }

    #[test]
    fn a_folder_is_held_by_one() {
        let data = tempfile::tempdir().unwrap();
        let held = Folder::hold(data.path()).unwrap();
        let refused = Folder::hold(data.path()).unwrap_err().to_string();
        assert!(refused.contains(&format!("(pid {})", std::process::id())), "{refused}");
        drop(held);
        Folder::hold(data.path()).unwrap();
    }
}
