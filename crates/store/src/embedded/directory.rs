//! The directory of an embedded store: made if it is missing, and held by one process for life.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::store::{StoreError, host_name};

const LOCK: &str = "LOCK";
pub(super) const DATABASE: &str = "steadfast.db";

/// A directory that no other process holds, until it is dropped.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    lock: File,
}

impl Directory {
    /// Makes the directory and takes its lock.
    ///
    /// # Errors
    /// [`StoreError::Held`] with what the holder wrote about itself, or [`StoreError::Directory`].
    pub(super) fn hold(path: &Path) -> Result<Self, StoreError> {
        make(path).map_err(|error| unusable(path, &error))?;
        let lock_path = path.join(LOCK);
        let lock = file(&lock_path).map_err(|error| unusable(&lock_path, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = fs::read_to_string(&lock_path).unwrap_or_default();
                let holder = match holder.trim() {
                    "" => "one that is just starting".to_owned(),
                    holder => holder.to_owned(),
                };
                return Err(StoreError::Held { directory: path.display().to_string(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(unusable(&lock_path, &error)),
        }
        let directory = Self { path: path.to_owned(), lock };
        directory.sign(&format!("pid {} on {}", std::process::id(), host_name()))?;
        Ok(directory)
    }

    /// Writes into the lock file who holds it, for those who are refused.
    pub(super) fn sign(&self, holder: &str) -> Result<(), StoreError> {
        let write = || {
            self.lock.set_len(0)?;
            self.lock.write_all_at(format!("{holder}\n").as_bytes(), 0)
        };
        write().map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => StoreError::Full,
            _ => unusable(&self.path.join(LOCK), &error),
        })
    }

    /// The database file. It exists and only its owner can read it: it contains the secret key. SQLite
    /// gives the files beside it the same mode.
    pub(super) fn database(&self) -> Result<PathBuf, StoreError> {
        let path = self.path.join(DATABASE);
        file(&path).map_err(|error| unusable(&path, &error))?;
        Ok(path)
    }

    /// Makes the names of new files durable.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        sync(&self.path).map_err(|error| unusable(&self.path, &error))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Closing is not enough: a process that is just being started, and does not yet run its own program,
        // has a copy of every open file, and a lock is held until the last copy is closed.
        let _ = self.lock.unlock();
    }
}

fn file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Makes a directory and its parents, durably.
fn make(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    missing.iter().filter_map(|path| path.parent()).try_for_each(sync)
}

fn sync(directory: &Path) -> io::Result<()> {
    let here = Path::new(".");
    let directory = if directory.as_os_str().is_empty() { here } else { directory };
    File::open(directory)?.sync_all()
}

fn unusable(path: &Path, error: &io::Error) -> StoreError {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => "; give the coordinator's user access to it",
        io::ErrorKind::ReadOnlyFilesystem => "; the store needs a place that can be written",
        io::ErrorKind::StorageFull => "; free some space",
        _ => "",
    };
    StoreError::Directory { path: path.display().to_string(), reason: format!("{error}{advice}") }
}
