//! Lists of ended jobs: a stored summary for each, so that a list reads little however large the jobs
//! were.

use serde::{Deserialize, Serialize};
use steadfast_engine::records::HistoryRecord;
use steadfast_ledger::Evaluation;
use steadfast_model::{JobId, JobStatus, Timestamp};

/// What lists show of an ended job. Stored with its history record, in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistorySummary {
    /// Which.
    pub job: JobId,
    /// `job.name`.
    pub name: String,
    /// How it ended.
    pub status: JobStatus,
    /// When it was submitted.
    pub created: Timestamp,
    /// When it ended.
    pub finished: Timestamp,
    /// What it amounted to; absent in records from before the feature.
    #[serde(default)]
    pub evaluation: Option<Evaluation>,
}

impl HistorySummary {
    /// The summary of a record.
    pub fn of(history: &HistoryRecord) -> Self {
        let HistoryRecord { job, ledger: _, evaluation } = history;
        Self {
            job: job.id,
            name: job.spec.name.clone(),
            status: job.status,
            created: job.created,
            finished: finish_time(history),
            evaluation: evaluation.clone(),
        }
    }
}

/// When a job of the history ended. A record without that time is a defect of its writer, and takes the
/// oldest time that is possible rather than fail the commit that ends a job.
pub(crate) fn finish_time(history: &HistoryRecord) -> Timestamp {
    history.job.finished.unwrap_or(history.job.created)
}

/// The last entry of a page; the next page begins behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryCursor {
    /// When it ended.
    pub finished: Timestamp,
    /// Which.
    pub job: JobId,
}

/// One ended job of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Which.
    pub job: JobId,
    /// When it ended.
    pub finished: Timestamp,
    /// Its summary; an error text where it cannot be read.
    pub summary: Result<HistorySummary, String>,
}

/// A part of the list of ended jobs, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPage {
    /// The entries.
    pub entries: Vec<HistoryEntry>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<HistoryCursor>,
}
