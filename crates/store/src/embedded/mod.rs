//! The store of one machine: SQLite in a directory that one process holds.
//!
//! Two guards stand against a second coordinator: the directory's lock, held for life, and the head,
//! compared inside every transaction, in case the first one fails (a network file system, a copied
//! directory). One connection writes, another reads, so that a long list does not hold up a commit.

mod connection;
mod database;
mod directory;
mod ledgers;
mod whole;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::Connection;
use steadfast_engine::records::HistoryRecord;
use steadfast_model::{Epoch, JobId, TaskGroupId};
use tokio::sync::watch;

use self::connection::{Gone, SharedConnection};
use self::database::SqlRows;
use self::directory::Directory;
use crate::batch;
use crate::history::{HistoryCursor, HistoryPage};
use crate::ops::Op;
use crate::records::Head;
use crate::store::{
    CheckpointError, CheckpointGuard, CommitError, LeaderInfo, Limits, Loaded, Refusal, Rev, Store,
    StoreError, Term,
};
use crate::{random, transaction};

/// SQLite sets no limit that a batch reaches; this one keeps a defect from filling the memory.
const LIMITS: Limits = Limits { max_ops: 1_000_000, max_bytes: 512 * 1024 * 1024 };

/// A store in a directory. Clones share it; when the last one and the last term are gone, the directory
/// is free again.
#[derive(Clone, Debug)]
pub struct Embedded {
    inner: Arc<Inner>,
}

/// In the order in which it is given up: the writer closes last, and only then the directory is free.
#[derive(Debug)]
struct Inner {
    reader: SharedConnection,
    writer: SharedConnection,
    /// Tells the present term of this process that the next one has begun.
    lost: Arc<Mutex<watch::Sender<bool>>>,
    directory: Arc<Directory>,
}

impl Embedded {
    /// Opens the store in `directory`, which is made, with a new secret key, where there is none.
    /// Blocks for a few writes to the disk.
    ///
    /// # Errors
    /// [`StoreError::Held`] when another process (or another handle of this one) has it open;
    /// [`StoreError::Directory`], [`StoreError::Corrupt`] or [`StoreError::NewerFormat`] when it cannot
    /// be used.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, StoreError> {
        let secret = random::bytes()?;
        Self::open_with(directory.as_ref(), |path| database::open(path, secret))
    }

    fn open_with(
        directory: &Path,
        open: impl FnOnce(&Path) -> Result<Connection, StoreError>,
    ) -> Result<Self, StoreError> {
        let directory = Arc::new(Directory::hold(directory)?);
        let path = directory.database()?;
        let shared = |connection| SharedConnection::new(connection, Arc::clone(&directory));
        let writer = shared(open(&path)?);
        directory.sync()?;
        let reader = shared(database::open_reader(&path)?);
        let lost = Arc::new(Mutex::new(watch::Sender::new(false)));
        Ok(Self { inner: Arc::new(Inner { reader, writer, lost, directory }) })
    }

    async fn read<T: Send + 'static>(
        &self,
        body: impl FnOnce(&SqlRows<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let read = move |connection: &mut _| database::read(connection, body);
        let done = self.inner.reader.run(read).await;
        done.unwrap_or_else(|_| Err(StoreError::Unavailable("its reader is gone".to_owned())))
    }
}

#[async_trait]
impl Store for Embedded {
    fn limits(&self) -> Limits {
        LIMITS
    }

    async fn load(&self) -> Result<Loaded, StoreError> {
        self.read(|rows| transaction::load(rows)).await
    }

    async fn lead(&self, me: LeaderInfo) -> Result<Box<dyn Term>, StoreError> {
        let LeaderInfo { url, host, pid, .. } = &me;
        self.inner.directory.sign(&format!("pid {pid} on {host}, serving {url}"))?;
        let commit_id = u64::from_ne_bytes(random::bytes()?);
        let present = self.inner.lost.clone();
        let lead = self.inner.writer.run(move |connection| {
            let body = |rows: &mut SqlRows<'_>| transaction::lead(rows, &me, commit_id);
            let head = database::write(connection, body, StoreError::from)?;
            // Here, in the turn that began the term, so that the greatest epoch is the one left.
            let lost = watch::Sender::new(false);
            let mut present = present.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *present, lost.clone()).send_replace(true);
            Ok((head, lost))
        });
        let (head, lost) = lead.await.unwrap_or_else(|_| Err(writer_gone()))?;
        Ok(Box::new(EmbeddedTerm { store: self.clone(), head, lost }))
    }

    async fn history(&self, job: JobId) -> Result<Option<HistoryRecord>, StoreError> {
        self.read(move |rows| transaction::history(rows, job)).await
    }

    async fn history_page(
        &self,
        after: Option<HistoryCursor>,
        limit: usize,
    ) -> Result<HistoryPage, StoreError> {
        self.read(move |rows| transaction::history_page(rows, after, limit)).await
    }

    async fn read_checkpoint(
        &self,
        epoch: Epoch,
        job: JobId,
        task_group: TaskGroupId,
    ) -> Result<Option<Bytes>, CheckpointError> {
        let body = move |rows: &SqlRows<'_>| {
            Ok(transaction::read_checkpoint(rows, epoch, job, task_group))
        };
        let read = self.read(body).await;
        read.unwrap_or_else(|error| Err(CheckpointError::Unavailable(error.to_string())))
    }

    async fn write_checkpoint(
        &self,
        guard: CheckpointGuard,
        value: Bytes,
    ) -> Result<(), CheckpointError> {
        let write = self.inner.writer.run(move |connection| {
            let body = |rows: &mut SqlRows<'_>| transaction::write_checkpoint(rows, guard, &value);
            database::write(connection, body, |error| match error {
                CommitError::NotApplied(refusal) => {
                    CheckpointError::Unavailable(refusal.to_string())
                }
                CommitError::Fenced => CheckpointError::Fenced,
                CommitError::Unknown(reason) => CheckpointError::Unknown(reason),
            })
        });
        write.await.unwrap_or_else(|gone| {
            Err(match gone {
                Gone::Before => CheckpointError::Unavailable(writer_gone().to_string()),
                Gone::During => CheckpointError::Unknown(writer_gone().to_string()),
            })
        })
    }
}

struct EmbeddedTerm {
    store: Embedded,
    /// The head after this term's last commit.
    head: Head,
    /// True when the term is over: resigned, in doubt, or another one has begun.
    lost: watch::Sender<bool>,
}

#[async_trait]
impl Term for EmbeddedTerm {
    fn epoch(&self) -> Epoch {
        self.head.epoch
    }

    fn rev(&self) -> Rev {
        Rev(self.head.n)
    }

    async fn commit(&mut self, ops: Vec<Op>) -> Result<Rev, CommitError> {
        if *self.lost.borrow() {
            return Err(CommitError::Fenced);
        }
        let (last, next) = (self.head.clone(), self.head.next());
        let batch = batch::encode(&ops, &next, LIMITS).map_err(CommitError::NotApplied)?;
        let commit = self.store.inner.writer.run(move |connection| {
            let body = |rows: &mut SqlRows<'_>| transaction::commit(rows, &last, &batch);
            database::write(connection, body, |error| error)
        });
        let outcome = commit.await.unwrap_or_else(|gone| Err(commit_error(&gone)));
        match outcome {
            Ok(()) => {
                self.head = next;
                Ok(Rev(self.head.n))
            }
            Err(error) => {
                if matches!(error, CommitError::Fenced | CommitError::Unknown(_)) {
                    self.lost.send_replace(true);
                }
                Err(error)
            }
        }
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.lost.subscribe()
    }

    async fn resign(self: Box<Self>) {
        let Self { store, head, lost } = *self;
        lost.send_replace(true);
        let resign = store.inner.writer.run(move |connection| {
            database::write(connection, |rows| transaction::resign(rows, &head), StoreError::from)
        });
        if let Err(error) = resign.await.unwrap_or_else(|_| Err(writer_gone())) {
            // The next leader does not need it: it is only told who led last.
            tracing::warn!(%error, "the end of the term was not noted");
        }
    }
}

/// Of a commit whose connection is gone.
fn commit_error(gone: &Gone) -> CommitError {
    let reason = writer_gone().to_string();
    match gone {
        Gone::Before => CommitError::NotApplied(Refusal::Unavailable(reason)),
        Gone::During => CommitError::Unknown(reason),
    }
}

fn writer_gone() -> StoreError {
    StoreError::Unavailable("its writer is gone".to_owned())
}

#[cfg(test)]
mod tests;
