//! The two traits, and every outcome that they can have.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_engine::records::{HistoryRecord, Snapshot};
use steadfast_model::{Epoch, FencingToken, JobId, TaskGroupId, Timestamp};
use tokio::sync::watch;

use crate::history::{HistoryCursor, HistoryEntry, HistoryPage};
use crate::ops::Op;
use crate::standby::Standby;
use crate::tenure::Tenure;

/// The largest value of one checkpoint.
pub const MAX_CHECKPOINT_BYTES: usize = 64 * 1024;

/// A durable place for the records of one cluster. Reads need no leadership; writes go through a
/// [`Term`], except for checkpoints, which are guarded on their own.
#[async_trait]
pub trait Store: Send + Sync {
    /// What fits into one transaction. A batch beyond it is refused as [`Refusal::TooLarge`]; the caller
    /// splits it between jobs, never inside one.
    fn limits(&self) -> Limits;

    /// Everything that the engine starts from, at one revision. A leader calls it after
    /// [`Store::lead`], so that nothing which was sent before can land unseen.
    ///
    /// # Errors
    /// A record of a newer format, or one that cannot be read, fails the load and is named; a ledger that
    /// cannot be read becomes an error text in the snapshot and fails nothing else.
    async fn load(&self) -> Result<Loaded, StoreError>;

    /// Begins a term: its epoch is durably greater than all before, and whoever led until now is
    /// [`CommitError::Fenced`] from here on. A term of the same handle ends with the call. Where others can
    /// lead, it waits until none does; a candidate that no longer wants to drops the future.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] and [`StoreError::Full`]: waiting may mend it, so call it again. Everything
    /// else does not mend itself.
    async fn lead(&self, me: LeaderInfo) -> Result<Box<dyn Term>, StoreError>;

    /// A copy of what [`Store::load`] finds that goes on with every commit, for whoever may lead next;
    /// `None` where nobody can stand by, since one process holds the store.
    ///
    /// # Errors
    /// As [`Store::load`], as far as it can be said without reading every record.
    async fn follow(&self) -> Result<Option<Standby>, StoreError> {
        Ok(None)
    }

    /// Lets other coordinators know, while the answer is kept, of one that serves at `url`, and says who is
    /// known so: at first nobody, then everybody, this one among them. `None` where there are no others.
    fn announce(&self, url: &str) -> Option<watch::Receiver<Vec<String>>> {
        let _ = url;
        None
    }

    /// One ended job in full; `None` if the history does not hold it.
    ///
    /// # Errors
    /// When the store or this record cannot be read.
    async fn history(&self, job: JobId) -> Result<Option<HistoryRecord>, StoreError>;

    /// At most `limit` ended jobs, the newest first, from `after` on. A record that cannot be read is an
    /// error text in its entry and fails nothing else.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn history_page(
        &self,
        after: Option<HistoryCursor>,
        limit: usize,
    ) -> Result<HistoryPage, StoreError>;

    /// The newest checkpoint of a task group, provided that `epoch` still leads: nobody may start from
    /// an old position.
    ///
    /// # Errors
    /// [`CheckpointError::Fenced`] or [`CheckpointError::Unavailable`].
    async fn read_checkpoint(
        &self,
        epoch: Epoch,
        job: JobId,
        task_group: TaskGroupId,
    ) -> Result<Option<Bytes>, CheckpointError>;

    /// Puts a checkpoint, durably before the answer, provided that the guard holds in the same
    /// transaction. The one write outside a term's commits; it does not move the revision.
    ///
    /// # Errors
    /// See [`CheckpointError`].
    async fn write_checkpoint(
        &self,
        guard: CheckpointGuard,
        value: Bytes,
    ) -> Result<(), CheckpointError>;
}

/// A leader's hold on the store. Dropping it gives up nothing durable: the next leader fences it.
#[async_trait]
pub trait Term: Send {
    /// Greater than that of every term before; agents and containers refuse lower ones.
    fn epoch(&self) -> Epoch;

    /// The revision of its last commit, at first that of its beginning. What is loaded at it, or at a
    /// later one, holds everything that was committed before this term.
    fn rev(&self) -> Rev;

    /// Until when this term may act without asking the store; see [`Tenure`]. Without an end where nobody
    /// else can lead while this process lives.
    fn tenure(&self) -> Tenure {
        Tenure::without_end()
    }

    /// Commits all of `ops` or none, durably before the answer, provided that this term still leads.
    /// `&mut`: one commit is in flight at a time. Of several ops on one record the last one counts. A
    /// commit whose future is dropped has an unknown outcome; drop the term then.
    ///
    /// # Errors
    /// See [`CommitError`]. After [`CommitError::Unknown`] the term is over: everything later is
    /// [`CommitError::Fenced`].
    async fn commit(&mut self, ops: Vec<Op>) -> Result<Rev, CommitError>;

    /// Becomes true before anybody else can lead, or as soon as it is known that somebody does.
    fn lost(&self) -> watch::Receiver<bool>;

    /// Gives the lead up, so that nobody has to wait for it. Call it after the last answer was given.
    async fn resign(self: Box<Self>);
}

/// Counts commits over all terms; a greater one is later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rev(pub u64);

/// What fits into one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Single puts and deletes; compare with the sum of [`Op::writes`].
    pub max_ops: usize,
    /// Bytes of all keys and values together.
    pub max_bytes: usize,
}

/// What [`Store::load`] found.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What the engine starts from.
    pub snapshot: Snapshot,
    /// Every ended job, the newest first. It is read with the rest, so that a takeover does not go through
    /// the history a second time; a record that cannot be read is an error text in its entry.
    pub history: Vec<HistoryEntry>,
    /// The revision at which all of this was true.
    pub rev: Rev,
    /// Container secrets are derived from it, so that an adopted container keeps working with the next
    /// coordinator. Made once, with the store.
    pub secret_key: SecretKey,
    /// Who leads, or led last without resigning.
    pub leader: Option<LeaderInfo>,
}

/// 32 random bytes. Its `Debug` shows none of them.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(pub(crate) [u8; 32]);

impl SecretKey {
    /// The bytes, for deriving.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(…)")
    }
}

/// Who leads: shown to people, and to the candidates that have to wait.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderInfo {
    /// Where it serves.
    pub url: String,
    /// Its host's name.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// What it knows of; see [`steadfast_model::FEATURE_LEVEL`]. Records of formats before 3 do not say it,
    /// and were all of level 1.
    #[serde(default = "first_feature_level")]
    pub feature_level: u32,
    /// When it began to lead.
    pub since: Timestamp,
}

impl LeaderInfo {
    /// This process, which serves at `url`.
    pub fn of_this_process(url: String, since: Timestamp) -> Self {
        Self {
            url,
            host: host_name(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            feature_level: steadfast_model::FEATURE_LEVEL,
            since,
        }
    }
}

/// This machine's name.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

const fn first_feature_level() -> u32 {
    1
}

/// Under which a checkpoint may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointGuard {
    /// The term that must lead.
    pub epoch: Epoch,
    /// The job that must run.
    pub job: JobId,
    /// Whose checkpoint.
    pub task_group: TaskGroupId,
    /// The token that must be the newest one minted for it.
    pub token: FencingToken,
}

/// Why a store cannot be opened, led or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another process holds the directory.
    #[error(
        "{directory} is held by another coordinator: {holder}; stop it, or use another directory"
    )]
    Held {
        /// The directory.
        directory: String,
        /// What its lock file says: pid, host, URL.
        holder: String,
    },
    /// The directory or a file in it cannot be used.
    #[error("{path}: {reason}")]
    Directory {
        /// Which.
        path: String,
        /// What the system said, and what to do.
        reason: String,
    },
    /// The file is no store, or is damaged.
    #[error("{path} is damaged or is not a steadfast store ({reason}); restore it from a backup")]
    Corrupt {
        /// Which file.
        path: String,
        /// What was found.
        reason: String,
    },
    /// A newer binary wrote this.
    #[error(
        "{key} has format {format}, which steadfast {version} reads and this one ({this}) does not: \
         it reads formats up to {newest}",
        this = env!("CARGO_PKG_VERSION"),
        newest = crate::records::FORMAT
    )]
    NewerFormat {
        /// The record's key.
        key: String,
        /// Its format.
        format: u32,
        /// The version to use.
        version: String,
    },
    /// A record without which nothing can start, or the one that was asked for, cannot be read.
    #[error("the record {key} cannot be read: {reason}")]
    Undecodable {
        /// The record's key.
        key: String,
        /// Why.
        reason: String,
    },
    /// The store does not let this process in: credentials, permissions, certificates.
    #[error("the store refuses this coordinator: {0}; look at its user, password and certificates")]
    Denied(String),
    /// No space is left. Reads go on.
    #[error("the store is full")]
    Full,
    /// Its records are at another place now.
    #[error(
        "the state was moved to {to}: start coordinators there. To go back, copy it from there to an empty \
         place (`steadfast store copy`); to give up whatever has happened there since, copy it from here \
         with --again"
    )]
    Moved {
        /// Where.
        to: String,
    },
    /// A copy to this place has not come to its end.
    #[error(
        "a copy from {from} to this place has not come to its end: run `steadfast store copy` again, which \
         begins it anew"
    )]
    Unfinished {
        /// From where.
        from: String,
    },
    /// The store cannot be reached, or does not take writes, at the moment.
    #[error("the store is not available: {0}")]
    Unavailable(String),
}

impl From<Refusal> for StoreError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => Self::Full,
            Refusal::Unavailable(why) => Self::Unavailable(why),
            Refusal::TooLarge => Self::Unavailable(refusal.to_string()),
        }
    }
}

impl From<CommitError> for StoreError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::NotApplied(refusal) => refusal.into(),
            CommitError::Fenced | CommitError::Unknown(_) => Self::Unavailable(error.to_string()),
        }
    }
}

/// Why a commit is not known to be durable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Nothing of it was applied, nor ever will be: try the same again, or isolate the job at fault.
    #[error("not committed: {0}")]
    NotApplied(Refusal),
    /// Another leader has begun a term, or this one is over: step down. No effect of the step may run.
    #[error("not committed: this coordinator no longer leads")]
    Fenced,
    /// It may or may not have been applied: step down and load again.
    #[error("not known whether it was committed: {0}")]
    Unknown(String),
}

/// Why the store refused a commit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It exceeds [`Limits`], or one record of it does.
    #[error("too large for one transaction")]
    TooLarge,
    /// No space is left. Reads go on.
    #[error("the store is full")]
    Full,
    /// Not at the moment.
    #[error("the store is not available: {0}")]
    Unavailable(String),
}

/// Why a checkpoint was not read, or is not known to be durable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// A newer container has been minted, or (`None`) the job has ended: final for this container.
    #[error("superseded")]
    Superseded {
        /// The newest token of the task group.
        current: Option<FencingToken>,
    },
    /// The guard's epoch no longer leads.
    #[error("this coordinator no longer leads")]
    Fenced,
    /// It exceeds [`MAX_CHECKPOINT_BYTES`].
    #[error("a checkpoint may have {MAX_CHECKPOINT_BYTES} bytes")]
    TooLarge,
    /// Nothing was written: try again.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// It may or may not have been written: read it again.
    #[error("not known whether it was written: {0}")]
    Unknown(String),
}
