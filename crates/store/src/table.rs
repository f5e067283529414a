//! Rows in memory, and a transaction over them that collects its writes before any of them is done.
//!
//! The memory store keeps everything in one; a store at a distance fetches the rows that a transaction
//! reads into one, runs the same rules over it, and sends what was collected.

use std::collections::BTreeMap;

use crate::keys::Range;
use crate::store::{Refusal, StoreError};
use crate::transaction::{Rows, RowsMut};

/// Rows in order of their keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(BTreeMap<String, Vec<u8>>);

/// One write of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Put(String, Vec<u8>),
    Delete(String),
    DeleteRange(Range),
}

/// An open transaction: what was written, in order, until it is applied.
#[derive(Debug)]
pub(crate) struct Staged<'a> {
    table: &'a Table,
    writes: Vec<Write>,
}

impl Table {
    pub(crate) fn as_map(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.0
    }

    #[cfg(feature = "etcd")]
    pub(crate) fn into_rows(self) -> Vec<(String, Vec<u8>)> {
        self.0.into_iter().collect()
    }

    pub(crate) fn insert(&mut self, key: String, value: Vec<u8>) {
        self.0.insert(key, value);
    }

    /// What `body` would write.
    ///
    /// # Errors
    /// Those of the body.
    pub(crate) fn stage<T, E>(
        &self,
        body: impl FnOnce(&mut Staged<'_>) -> Result<T, E>,
    ) -> Result<(T, Vec<Write>), E> {
        let mut staged = Staged { table: self, writes: Vec::new() };
        let done = body(&mut staged)?;
        Ok((done, staged.writes))
    }

    /// Runs `body` in one transaction, of which nothing is left after an error.
    ///
    /// # Errors
    /// Those of the body.
    pub(crate) fn transaction<T, E>(
        &mut self,
        body: impl FnOnce(&mut Staged<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let (done, writes) = self.stage(body)?;
        self.apply(writes);
        Ok(done)
    }

    pub(crate) fn apply(&mut self, writes: impl IntoIterator<Item = Write>) {
        let Self(rows) = self;
        for write in writes {
            match write {
                Write::Put(key, value) => drop(rows.insert(key, value)),
                Write::Delete(key) => drop(rows.remove(&key)),
                Write::DeleteRange(Range { from, to }) => {
                    let keys: Vec<_> = rows.range(from..to).map(|(key, _)| key.clone()).collect();
                    keys.iter().for_each(|key| drop(rows.remove(key)));
                }
            }
        }
    }
}

impl Rows for Table {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(&self, range: &Range, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let rows = self.0.range(range.from.clone()..range.to.clone());
        Ok(rows.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

impl Rows for Staged<'_> {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.table.get(key)
    }

    fn scan(&self, range: &Range, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.table.scan(range, limit)
    }
}

impl RowsMut for Staged<'_> {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), Refusal> {
        self.writes.push(Write::Put(key.to_owned(), value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, key: &str) -> Result<(), Refusal> {
        self.writes.push(Write::Delete(key.to_owned()));
        Ok(())
    }

    fn delete_range(&mut self, range: &Range) -> Result<(), Refusal> {
        self.writes.push(Write::DeleteRange(range.clone()));
        Ok(())
    }
}
