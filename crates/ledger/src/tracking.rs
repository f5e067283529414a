//! Whether a ledger knows that it has seen everything.

use std::fmt;

use serde::{Deserialize, Serialize};
use steadfast_model::Timestamp;

/// Whether the counts are known to be exact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Tracking {
    /// Nothing was missed.
    #[default]
    Complete,
    /// Something was missed for good: the counts are lower bounds from now on.
    Lost {
        /// Since when.
        since: Timestamp,
        /// Why.
        cause: TrackingLostCause,
    },
}

/// Why tracking was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TrackingLostCause {
    /// The store refused the ledger's part of a commit.
    WriteRefused,
    /// The job lagged for so long that the journal no longer holds what it missed.
    JournalGone,
    /// The stored ledger was missing though the job wants one, could not be read, or was not the
    /// revision that the job expects.
    Unreadable,
    /// A pipeline and its episode contradict each other.
    Unexplained,
    /// The store was restored from a backup: what happened after it is missing.
    Restored,
}

impl fmt::Display for TrackingLostCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WriteRefused => "the store refused to write the recovery ledger",
            Self::JournalGone => "the journal no longer holds a loss that was missed",
            Self::Unreadable => {
                "the stored recovery ledger is missing, cannot be read, or is another one"
            }
            Self::Unexplained => "a pipeline and its episode contradict each other",
            Self::Restored => "a backup was restored, and what happened after it is missing",
        })
    }
}
