//! What a standby holds: the rows that a leader starts from, kept up with every commit.
//!
//! It keeps rows, not records: taking over then runs the one loading that there is, over memory instead of
//! the store, and a standby cannot come to hold anything else than what loading would have found.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::keys::{self, Range};
use crate::records;
use crate::store::{LeaderInfo, Loaded, Rev, StoreError};
use crate::table::{Table, Write};
use crate::transaction;

/// The writes of one commit.
pub(crate) type Change = Arc<[Write]>;

/// Changes that a standby may be behind before it has missed one.
pub(crate) const MAX_BEHIND: usize = 1_024;

/// A copy of everything that the engine starts from, and the changes that are still to be taken in.
#[derive(Debug)]
pub struct Standby {
    rows: Table,
    changes: mpsc::Receiver<Change>,
    /// Whether whoever tells of changes hears of them itself.
    heard: watch::Receiver<bool>,
    rev: Rev,
}

/// Something was committed that this copy has not seen (it was too far behind, or the store has already
/// forgotten it): follow anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a change was missed")]
pub struct Missed;

impl Standby {
    /// `rows` at one revision, and the changes from there on. While `heard` is not, nobody knows of any.
    pub(crate) fn new(
        rows: impl IntoIterator<Item = (String, Vec<u8>)>,
        changes: mpsc::Receiver<Change>,
        heard: watch::Receiver<bool>,
    ) -> Result<Self, StoreError> {
        let mut table = Table::default();
        let loaded = rows.into_iter().filter(|(key, _)| Range::is_loaded(key));
        loaded.for_each(|(key, value)| table.insert(key, value));
        let rev = Rev(transaction::head(&table)?.n);
        Ok(Self { rows: table, changes, heard, rev })
    }

    /// The last commit that it holds.
    pub fn rev(&self) -> Rev {
        self.rev
    }

    /// Whether the store is heard. While it is not, whoever led may have been followed by another.
    pub fn is_heard(&self) -> bool {
        *self.heard.borrow()
    }

    /// Who leads, as far as this copy knows; `None` when nobody does, or the store is not heard.
    ///
    /// # Errors
    /// A record that cannot be read.
    pub fn leader(&self) -> Result<Option<LeaderInfo>, StoreError> {
        let bytes = self.rows.as_map().get(keys::LEADER).filter(|_| self.is_heard());
        bytes.map(|bytes| records::decode(keys::LEADER, bytes)).transpose()
    }

    /// What [`crate::Store::load`] would have found at [`Standby::rev`].
    ///
    /// # Errors
    /// As that.
    pub fn loaded(&self) -> Result<Loaded, StoreError> {
        transaction::load(&self.rows)
    }

    /// Waits for the next change and takes it in. A commit moves the revision; that a leader's lease ran
    /// out, that it resigned, or that the store is heard again or no longer, does not. Nothing is lost when
    /// the future is dropped.
    ///
    /// # Errors
    /// [`Missed`], and from then on for ever.
    pub async fn changed(&mut self) -> Result<Rev, Missed> {
        let change = tokio::select! {
            biased;
            change = self.changes.recv() => change.ok_or(Missed)?,
            Ok(()) = self.heard.changed() => return Ok(self.rev),
        };
        let writes = change.iter().filter(|write| match write {
            Write::Put(key, _) | Write::Delete(key) => Range::is_loaded(key),
            Write::DeleteRange(_) => true,
        });
        self.rows.apply(writes.cloned());
        self.rev = transaction::head(&self.rows).map(|head| Rev(head.n)).map_err(|_| Missed)?;
        Ok(self.rev)
    }

    /// Takes changes in until it holds `rev`; at once when it does.
    ///
    /// # Errors
    /// [`Missed`].
    pub async fn reach(&mut self, rev: Rev) -> Result<(), Missed> {
        while self.rev < rev {
            self.changed().await?;
        }
        Ok(())
    }
}
