//! Ledgers lie in a table of their own, by their job's number.
//!
//! A member's loss writes two records of every job that it affects. Among the other records each ledger
//! would have a page to itself, because the records that it was put with are large and lie between; in
//! its own table six share one, and each is found by a number in one tree instead of by a text in two.
//! Up to format 3 they lay among the other records: such a one counts until its job's next is written.

use rusqlite::{Connection, OptionalExtension, Row};
use steadfast_model::JobId;

use crate::keys::{self, Range};

/// Added to a store that has none.
pub(super) const SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS ledgers (job INTEGER PRIMARY KEY, value BLOB NOT NULL) STRICT";

/// SQLite's integers have a sign; the bits are the same.
fn row_id(job: JobId) -> i64 {
    job.get().cast_signed()
}

pub(super) fn get(connection: &Connection, job: JobId) -> rusqlite::Result<Option<Vec<u8>>> {
    let mut select = connection.prepare_cached("SELECT value FROM ledgers WHERE job = ?1")?;
    select.query_row([row_id(job)], |row| row.get(0)).optional()
}

/// Adds those of the range to `found`, where they win over those of older formats.
pub(super) fn add(
    connection: &Connection,
    range: &Range,
    found: Vec<(String, Vec<u8>)>,
) -> rusqlite::Result<Vec<(String, Vec<u8>)>> {
    let mut found: std::collections::BTreeMap<_, _> = found.into_iter().collect();
    let mut select = connection.prepare_cached("SELECT job, value FROM ledgers")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let key = keys::ledger(job_at(row)?);
        if range.contains(&key) {
            found.insert(key, row.get(1)?);
        }
    }
    Ok(found.into_iter().collect())
}

fn job_at(row: &Row<'_>) -> rusqlite::Result<JobId> {
    Ok(JobId::new(row.get::<_, i64>(0)?.cast_unsigned()))
}

pub(super) fn put(connection: &Connection, job: JobId, value: &[u8]) -> rusqlite::Result<usize> {
    let sql = "INSERT OR REPLACE INTO ledgers (job, value) VALUES (?1, ?2)";
    connection.prepare_cached(sql)?.execute((row_id(job), value))
}

pub(super) fn delete(connection: &Connection, job: JobId) -> rusqlite::Result<usize> {
    connection.prepare_cached("DELETE FROM ledgers WHERE job = ?1")?.execute([row_id(job)])
}

/// Rows lie in the order of the numbers, which is not the order of the keys: each is looked at.
pub(super) fn delete_range(connection: &Connection, range: &Range) -> rusqlite::Result<()> {
    let mut select = connection.prepare_cached("SELECT job FROM ledgers")?;
    let jobs = select.query_map([], job_at)?.collect::<rusqlite::Result<Vec<_>>>()?;
    for job in jobs.into_iter().filter(|job| range.contains(&keys::ledger(*job))) {
        delete(connection, job)?;
    }
    Ok(())
}
