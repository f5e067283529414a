//! The store as rows, for copying it whole: whatever mark it has, and past the words of the domain.

use std::path::Path;

use super::database::{self, SqlRows};
use super::{Embedded, commit_error};
use crate::keys::{self, Range};
use crate::store::{CommitError, StoreError};
use crate::table::Write;
use crate::transaction::{self, Rows, RowsMut};

impl Embedded {
    /// Whether there is a store in this directory.
    pub(crate) fn is_at(directory: &Path) -> bool {
        directory.join(super::directory::DATABASE).exists()
    }

    /// As [`Embedded::open`], whatever mark the store has; a new one holds nothing, not even a head.
    pub(crate) fn open_marked(directory: &Path) -> Result<Self, StoreError> {
        Self::open_with(directory, database::open_marked)
    }

    pub(crate) async fn rows(
        &self,
        range: Range,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.read(move |rows| rows.scan(&range, limit)).await
    }

    /// Writes, durably, if the head's key holds this. Says whether it did.
    pub(crate) async fn write_if(
        &self,
        head: Option<Vec<u8>>,
        writes: Vec<Write>,
    ) -> Result<bool, CommitError> {
        let write = self.inner.writer.run(move |connection| {
            database::write(connection, |rows| apply(rows, head.as_deref(), writes), |error| error)
        });
        write.await.unwrap_or_else(|gone| Err(commit_error(&gone)))
    }
}

fn apply(
    rows: &mut SqlRows<'_>,
    head: Option<&[u8]>,
    writes: Vec<Write>,
) -> Result<bool, CommitError> {
    if rows.get(keys::HEAD).map_err(transaction::refused)?.as_deref() != head {
        return Ok(false);
    }
    for write in writes {
        let written = match write {
            Write::Put(key, value) => rows.put(&key, &value),
            Write::Delete(key) => rows.delete(&key),
            Write::DeleteRange(range) => rows.delete_range(&range),
        };
        written.map_err(CommitError::NotApplied)?;
    }
    Ok(true)
}
