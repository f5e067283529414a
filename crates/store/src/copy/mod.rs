//! Moving the whole state from one store to another.
//!
//! ```text
//! lead the source ─▶ mark the target ─▶ copy, page by page ─▶ compare, page by page
//!                 ─▶ mark the source as moved ─▶ give the target its head
//! ```
//!
//! Whenever this ends, by an error or by `kill -9`, nobody can start on a target that is not whole, and never
//! on both: the target has a mark in its head's place until the last step, and the step before that puts one
//! in the source's. Epoch and tokens are raised on the way, so that nothing which the source has given out,
//! or would give out if somebody started it again, is newer than what the target gives
//! (`docs/adr/0017-copying-a-store.md`).

pub(crate) mod place;
mod plan;
mod record;
mod walk;

use std::ops::ControlFlow;

use steadfast_model::{Epoch, Timestamp};

pub use self::place::Location;
use crate::keys::Kind;
use crate::store::{CommitError, LeaderInfo, StoreError};
use crate::table::Write;

/// What is to be copied, and by whom.
#[derive(Clone, Debug)]
pub struct Request {
    /// The source.
    pub from: Location,
    /// The target, which is empty, or what an earlier copy has left unfinished.
    pub to: Location,
    /// Whoever asks for it; leads the source meanwhile.
    pub me: LeaderInfo,
    /// The time.
    pub now: Timestamp,
    /// Copy a source that was moved before: whatever has happened at that place since is given up.
    pub again: bool,
    /// The source is a backup: somebody has gone on since, so the counts of its jobs are no longer complete.
    pub backup: bool,
}

impl Request {
    /// Whether something has happened after the state that is copied.
    pub(crate) fn is_behind(&self) -> bool {
        self.again || self.backup
    }
}

/// What is about to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The source is being led, or its lock taken.
    Lead,
    /// The target gets its mark.
    Begin,
    /// What an earlier copy has left at the target is removed.
    Clean,
    /// Records of this kind are written; so many of it have been.
    Copy(Kind, u64),
    /// Both sides are read and compared; so many of this kind have been.
    Verify(Kind, u64),
    /// The source gets its mark.
    Move,
    /// The target gets its head, and is a store.
    Finish,
}

/// A copy that has come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// How many records of each kind were read on both sides and found to be as they should be; kinds that
    /// belong to a place and not to the state are left out.
    pub records: Vec<(Kind, u64)>,
    /// The epoch that the source had last.
    pub epoch_before: Epoch,
    /// Every term of the target has a greater one than this.
    pub epoch: Epoch,
}

/// Why nothing was moved. The source is as it was, and can be led again, except where it says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// There is nothing to copy.
    #[error("there is no store at {0}")]
    NoStore(String),
    /// Both are the same.
    #[error("{0} cannot be copied to itself")]
    Itself(String),
    /// Somebody leads the source.
    #[error(
        "{place} is led by the coordinator at {holder}: stop it, and all that stand by, before the state is copied"
    )]
    Led {
        /// The source.
        place: String,
        /// Who, and where.
        holder: String,
    },
    /// The target holds something else.
    #[error("{place} is not empty; {advice}")]
    NotEmpty {
        /// The target.
        place: String,
        /// What to do.
        advice: String,
    },
    /// One of the two cannot be opened, read or led.
    #[error("{place}: {error}")]
    Store {
        /// Which.
        place: String,
        /// Why.
        error: StoreError,
    },
    /// One of the two does not take a write.
    #[error("{place}, from the record {key} on: {error}; nothing was moved")]
    Write {
        /// Which.
        place: String,
        /// The first record of the batch.
        key: String,
        /// Why.
        error: CommitError,
    },
    /// Somebody else has begun to write there.
    #[error("somebody else has changed {0} meanwhile: another copy, or a coordinator")]
    Overtaken(String),
    /// The two sides differ after all was written.
    #[error("{key} is not at {place} as it should be ({reason}); nothing was moved")]
    Differs {
        /// The target.
        place: String,
        /// The record.
        key: String,
        /// In what.
        reason: String,
    },
    /// It was asked to end.
    #[error("stopped before the end; nothing was moved, and the next `store copy` begins anew")]
    Stopped,
}

/// Moves everything. `progress` hears of each step before it is taken, and may break it off.
///
/// # Errors
/// See [`CopyError`].
pub async fn copy(
    request: &Request,
    progress: &mut (dyn FnMut(Progress) -> ControlFlow<()> + Send),
) -> Result<Copied, CopyError> {
    walk::run(request, progress, None).await
}

/// The same with this write to the target before both sides are compared.
pub(crate) async fn after_damage(request: &Request, damage: Write) -> Result<Copied, CopyError> {
    walk::run(request, &mut |_| ControlFlow::Continue(()), Some(damage)).await
}
