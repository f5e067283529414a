//! What a ledger amounts to: `DISABLED`, `CLEAN`, `DIRTY` or `UNKNOWN`.

use serde::{Deserialize, Serialize};
use steadfast_model::{
    EpisodeNumber, EvaluationStatus, LeaveClassification, MemberEventSeq, MemberUuid, Timestamp,
};

use crate::{JobLedger, Tracking};

/// How far the cluster's journal of member events goes, and how far jobs that do not lag have been
/// brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// The newest member event.
    pub cluster: MemberEventSeq,
    /// The event up to which every job has been processed: an unaffected job does not write its own
    /// watermark, it takes part in this one.
    pub processed: MemberEventSeq,
    /// Whether the job still owes its ledger something that was refused and will be caught up.
    pub owes: bool,
}

/// The seed's summary of one job. Times and ids are in the core's types; the edge prints them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluation {
    /// The answer.
    pub status: EvaluationStatus,
    /// Whether the threshold was reached.
    pub dirty: bool,
    /// Whether the counts are exact.
    pub tracking_complete: bool,
    /// The threshold; `None` when tracking is off.
    pub threshold: Option<u64>,
    /// See [`JobLedger::recovery_attempt_count`].
    pub recovery_attempt_count: u64,
    /// See [`JobLedger::episode_count`].
    pub episode_count: u64,
    /// See [`JobLedger::incident_count`].
    pub incident_count: u64,
    /// The open episode.
    pub active_episode: Option<EpisodeNumber>,
    /// The newest incident's classification.
    pub last_classification: Option<LeaveClassification>,
    /// The newest incident's member.
    pub last_member: Option<MemberUuid>,
    /// The newest incident's address.
    pub last_address: Option<String>,
    /// When the count last grew.
    pub last_counted: Option<Timestamp>,
}

impl Evaluation {
    /// What can still be said when the ledger that this was read from could not be kept.
    #[must_use]
    pub fn without_ledger(&self) -> Self {
        match self.threshold {
            None => self.clone(),
            threshold => {
                let status =
                    if self.dirty { EvaluationStatus::Dirty } else { EvaluationStatus::Unknown };
                Self::bare(status, self.dirty, threshold)
            }
        }
    }

    fn bare(status: EvaluationStatus, dirty: bool, threshold: Option<u64>) -> Self {
        Self {
            status,
            dirty,
            tracking_complete: false,
            threshold,
            recovery_attempt_count: 0,
            episode_count: 0,
            incident_count: 0,
            active_episode: None,
            last_classification: None,
            last_member: None,
            last_address: None,
            last_counted: None,
        }
    }
}

/// Evaluates a job. `threshold` is what the job asked for (`None`: off), `dirty` what its own record
/// remembers, `ledger` its ledger if it could be read.
///
/// The order is the promise: off → `DISABLED`; the threshold was reached → `DIRTY`, whatever else is
/// unknown; something was missed or is not processed yet → `UNKNOWN`; only then `CLEAN`.
pub fn evaluate(
    threshold: Option<u64>,
    dirty: bool,
    ledger: Option<&JobLedger>,
    watermarks: Watermarks,
) -> Evaluation {
    let Some(wanted) = threshold else {
        return Evaluation::bare(EvaluationStatus::Disabled, false, None);
    };
    let unknown_or_dirty =
        |dirty| if dirty { EvaluationStatus::Dirty } else { EvaluationStatus::Unknown };
    let Some(ledger) = ledger else {
        // The seed's row for a ledger that cannot be read: counts 0, dirty from the job's record.
        return Evaluation::bare(unknown_or_dirty(dirty), dirty, Some(wanted));
    };
    let last_loss = ledger.last_loss();
    let dirty = dirty || ledger.is_dirty();
    let reached = ledger.watermark().max(watermarks.processed);
    let tracking_complete = *ledger.tracking() == Tracking::Complete
        && reached >= watermarks.cluster
        && !watermarks.owes;
    let status =
        if tracking_complete && !dirty { EvaluationStatus::Clean } else { unknown_or_dirty(dirty) };
    Evaluation {
        status,
        dirty,
        tracking_complete,
        threshold: Some(wanted),
        recovery_attempt_count: ledger.recovery_attempt_count(),
        episode_count: ledger.episode_count(),
        incident_count: ledger.incident_count(),
        active_episode: ledger.active().map(|episode| episode.number),
        last_classification: last_loss.as_ref().map(|loss| loss.classification),
        last_member: last_loss.as_ref().map(|loss| loss.member),
        last_address: last_loss.map(|loss| loss.address),
        last_counted: ledger.last_counted(),
    }
}
