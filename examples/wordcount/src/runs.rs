//! Evidence, in the output folder, that no two copies of a task group ran at the same time.
//!
//! steadfast promises that a replacement starts only when the old copy is gone, and the fencing
//! token protects the result if that should ever fail. This program needs neither the log nor the
//! lock for its counts to be right. They are here so that anybody, above all a test, can check the
//! promise from the outside: each run notes its start and end, and holds a lock that the kernel
//! frees at the process's death, whatever it died of.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;

use crate::container::Container;

/// What a line of the log tells.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Event {
    /// The program has the lock and begins.
    Start,
    /// The program is about to end, successful or not. Missing after `kill -9`.
    End,
    /// The program found the lock held by another copy, and ends. Must never be seen.
    Overlap,
}

/// One line of `runs-<index>.jsonl`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    event: Event,
    pid: u32,
    execution_resource_id: &'a str,
    attempt: u64,
    /// RFC 3339, in UTC, to the microsecond.
    time: String,
}

/// One run of this program, from [`Run::begin`] to [`Run::end`]; the lock is held in between.
#[derive(Debug)]
pub struct Run<'a> {
    container: &'a Container,
    log: PathBuf,
    /// Never read: the lock lives as long as the file is open.
    _lock: File,
}

impl<'a> Run<'a> {
    /// Makes the `output` folder if it is missing, takes the lock, and notes the start.
    ///
    /// # Errors
    /// If the folder cannot be written, or another copy of this task group is running. A second copy
    /// must not go on, because it would read a checkpoint that the first still moves. Nor may it wait
    /// for the lock: it would hide from steadfast, as a container that seems to work, the one thing
    /// that must never happen. Ending makes it visible as a failure, and the restore that follows
    /// is the retry.
    pub fn begin(output: &Path, container: &'a Container) -> Result<Self> {
        fs::create_dir_all(output)
            .with_context(|| format!("cannot make the output folder {}", output.display()))?;
        let index = container.task_index;
        let path = output.join(format!(".lock-{index}"));
        let lock = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        let held = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        let log = output.join(format!("runs-{index}.jsonl"));
        let run = Self { container, log, _lock: lock };
        match held {
            Ok(()) => run.note(Event::Start)?,
            Err(Errno::WOULDBLOCK) => {
                run.note(Event::Overlap)?;
                bail!(
                    "another process holds {}: another copy of task group {index} is running, or \
                     another job writes to the same output folder",
                    path.display()
                );
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        Ok(run)
    }

    /// Notes the end, and frees the lock afterwards.
    ///
    /// # Errors
    /// If the log cannot be written.
    pub fn end(self) -> Result<()> {
        self.note(Event::End)
    }

    fn note(&self, event: Event) -> Result<()> {
        let line = Line {
            event,
            pid: process::id(),
            execution_resource_id: &self.container.execution_resource_id,
            attempt: self.container.attempt,
            time: format!("{:.6}", Timestamp::now()),
        };
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        // A single write to a file in append mode: lines of two processes never mix.
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        log.and_then(|mut log| log.write_all(&bytes))
            .with_context(|| format!("cannot write {}", self.log.display()))
    }
}
