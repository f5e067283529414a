//! Rows in SQLite, and what its errors mean.
//!
//! `synchronous=FULL` is not a matter of taste: with `NORMAL` acknowledged commits were lost in most
//! simulated power cuts.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};

use super::ledgers;
use crate::keys::{self, Range};
use crate::mark::Top;
use crate::store::{CommitError, Refusal, StoreError};
use crate::transaction::{self, Rows, RowsMut};

/// Marks the file as ours: "STFD".
const APPLICATION_ID: i32 = 0x5354_4644;
/// How long a writer waits for another process, such as somebody's database shell.
const BUSY_TIMEOUT_MS: u32 = 1_000;
const SCHEMA: &str = "CREATE TABLE records (key TEXT NOT NULL UNIQUE, value BLOB NOT NULL) STRICT";

/// Opens the writer's connection to a file that exists, and fills it if it is empty.
pub(super) fn open(path: &Path, secret: [u8; 32]) -> Result<Connection, StoreError> {
    let check = |rows: &SqlRows<'_>| transaction::head(rows).map(drop);
    open_with(path, |rows| transaction::create(rows, secret), check)
}

/// Opens it whatever mark it has; a new one stays empty.
pub(super) fn open_marked(path: &Path) -> Result<Connection, StoreError> {
    let check = |rows: &SqlRows<'_>| {
        rows.get(keys::HEAD)?.map(|bytes| Top::decode(&bytes)).transpose().map(drop)
    };
    open_with(path, |_| Ok(()), check)
}

/// `fill` is what a new store begins with; `check` decides whether this is one to open.
fn open_with(
    path: &Path,
    fill: impl FnOnce(&mut SqlRows<'_>) -> Result<(), StoreError>,
    check: impl FnOnce(&SqlRows<'_>) -> Result<(), StoreError>,
) -> Result<Connection, StoreError> {
    let mut connection = Connection::open(path).map_err(|error| opening(path, &error))?;
    match identity(&connection).map_err(|error| opening(path, &error))? {
        (APPLICATION_ID, _) => {}
        (0, 0) => return create(connection, path, fill),
        _ => {
            let path = path.display().to_string();
            return Err(StoreError::Corrupt { path, reason: "another program's database".into() });
        }
    }
    prepare(&connection).map_err(|error| opening(path, &error))?;
    // A store of a newer format must be refused before anything is written into it.
    read(&mut connection, check)?;
    connection.execute_batch(ledgers::SCHEMA).map_err(|error| opening(path, &error))?;
    Ok(connection)
}

/// Opens another connection, for reading only.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let open = || {
        let connection = Connection::open(path)?;
        prepare(&connection)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    };
    open().map_err(|error| opening(path, &error))
}

/// The mark, and how many tables and indexes there are.
fn identity(connection: &Connection) -> rusqlite::Result<(i32, i64)> {
    let mark = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables = "SELECT count(*) FROM sqlite_schema";
    Ok((mark, connection.query_row(tables, [], |row| row.get(0))?))
}

fn create(
    mut connection: Connection,
    path: &Path,
    fill: impl FnOnce(&mut SqlRows<'_>) -> Result<(), StoreError>,
) -> Result<Connection, StoreError> {
    prepare(&connection).map_err(|error| opening(path, &error))?;
    // The mark is part of the transaction: a file is either empty or a whole store.
    let make = |rows: &mut SqlRows<'_>| {
        for schema in [SCHEMA, ledgers::SCHEMA] {
            rows.0.execute_batch(schema).map_err(|error| opening(path, &error))?;
        }
        let marked = rows.0.pragma_update(None, "application_id", APPLICATION_ID);
        marked.map_err(|error| opening(path, &error))?;
        fill(rows)
    };
    write(&mut connection, make, StoreError::from)?;
    Ok(connection)
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(std::time::Duration::from_millis(BUSY_TIMEOUT_MS.into()))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.set_prepared_statement_cache_capacity(16);
    Ok(())
}

/// Runs `body` over one revision.
pub(super) fn read<T>(
    connection: &mut Connection,
    body: impl FnOnce(&SqlRows<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let transaction = connection.transaction().map_err(|error| reading(&error))?;
    body(&SqlRows(&transaction))
}

/// Runs `body` in one durable transaction. `outcome` turns what happens at its two ends into the error
/// of the body: before COMMIT nothing can have been applied, whatever the error; at COMMIT it may have.
pub(super) fn write<T, E>(
    connection: &mut Connection,
    body: impl FnOnce(&mut SqlRows<'_>) -> Result<T, E>,
    outcome: impl Fn(CommitError) -> E,
) -> Result<T, E> {
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|error| outcome(CommitError::NotApplied(refusal(&error))))?;
    let done = body(&mut SqlRows(&transaction))?;
    transaction.commit().map_err(|error| outcome(commit_outcome(&error)))?;
    Ok(done)
}

/// The rows of a transaction.
pub(super) struct SqlRows<'a>(&'a Connection);

impl SqlRows<'_> {
    fn execute(&self, sql: &str, parameters: impl rusqlite::Params) -> Result<(), Refusal> {
        let run = || self.0.prepare_cached(sql)?.execute(parameters);
        run().map(|_| ()).map_err(|error| refusal(&error))
    }
}

impl Rows for SqlRows<'_> {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let get = || {
            if let Some(job) = keys::parse_ledger(key)
                && let Some(value) = ledgers::get(self.0, job)?
            {
                return Ok(Some(value));
            }
            let mut select = self.0.prepare_cached("SELECT value FROM records WHERE key = ?1")?;
            select.query_row([key], |row| row.get(0)).optional()
        };
        get().map_err(|error| reading(&error))
    }

    fn scan(&self, range: &Range, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let sql_limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let scan = || {
            let sql =
                "SELECT key, value FROM records WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3";
            let mut select = self.0.prepare_cached(sql)?;
            let rows = select.query_map(params![range.from, range.to, sql_limit], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
            let mut found = rows.collect::<rusqlite::Result<Vec<_>>>()?;
            if range.overlaps(&Range::ledgers()) {
                found = ledgers::add(self.0, range, found)?;
                found.truncate(limit);
            }
            Ok(found)
        };
        scan().map_err(|error| reading(&error))
    }
}

impl RowsMut for SqlRows<'_> {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), Refusal> {
        if let Some(job) = keys::parse_ledger(key) {
            let put = ledgers::put(self.0, job, value);
            return put.map(drop).map_err(|error| refusal(&error));
        }
        let sql = "INSERT INTO records (key, value) VALUES (?1, ?2) \
                   ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        self.execute(sql, params![key, value])
    }

    fn delete(&mut self, key: &str) -> Result<(), Refusal> {
        if let Some(job) = keys::parse_ledger(key) {
            ledgers::delete(self.0, job).map_err(|error| refusal(&error))?;
        }
        self.execute("DELETE FROM records WHERE key = ?1", [key])
    }

    fn delete_range(&mut self, range: &Range) -> Result<(), Refusal> {
        if range.overlaps(&Range::ledgers()) {
            ledgers::delete_range(self.0, range).map_err(|error| refusal(&error))?;
        }
        let sql = "DELETE FROM records WHERE key >= ?1 AND key < ?2";
        self.execute(sql, params![range.from, range.to])
    }
}

/// What an error before COMMIT means. The transaction is rolled back, so it was not applied.
fn refusal(error: &rusqlite::Error) -> Refusal {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Refusal::Full,
        Some(ErrorCode::TooBig) => Refusal::TooLarge,
        _ => Refusal::Unavailable(error.to_string()),
    }
}

/// What an error of COMMIT means. Without space the last frame of the log, which alone makes the
/// transaction valid, was not written; a busy database has not begun. After a failed write or fsync the
/// frames may be on the disk and be found there after a crash.
fn commit_outcome(error: &rusqlite::Error) -> CommitError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => CommitError::NotApplied(Refusal::Full),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            CommitError::NotApplied(Refusal::Unavailable(error.to_string()))
        }
        _ => CommitError::Unknown(error.to_string()),
    }
}

fn reading(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { path: "the database".to_owned(), reason: error.to_string() }
        }
        _ => StoreError::Unavailable(error.to_string()),
    }
}

fn opening(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.display().to_string();
    let reason = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { path, reason }
        }
        _ => StoreError::Directory { path, reason },
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn error(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn only_what_certainly_did_not_happen_is_called_not_applied() {
        let full = error(ffi::SQLITE_FULL);
        assert_eq!(commit_outcome(&full), CommitError::NotApplied(Refusal::Full));
        for code in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_CORRUPT] {
            assert!(matches!(commit_outcome(&error(code)), CommitError::Unknown(_)), "{code}");
        }
        assert!(matches!(refusal(&error(ffi::SQLITE_IOERR_WRITE)), Refusal::Unavailable(_)));
        assert_eq!(refusal(&full), Refusal::Full);
        assert_eq!(refusal(&error(ffi::SQLITE_TOOBIG)), Refusal::TooLarge);
    }
}
