//! The cluster at a glance.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steadfast_model::{Epoch, JobStatus};

use crate::WireTime;

/// `GET /overview`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// The coordinator's version.
    pub version: String,
    /// Who leads.
    pub coordinator: CoordinatorInfo,
    /// Members by liveness.
    pub members: MemberCounts,
    /// Slots of living members.
    pub slots: SlotCounts,
    /// Jobs by status, finished ones as far as history keeps them.
    pub jobs: BTreeMap<JobStatus, u64>,
    /// Jobs by evaluation.
    pub evaluations: EvaluationCounts,
    /// Present while the coordinator suspects itself rather than its members.
    pub self_suspicion: Option<SelfSuspicion>,
}

/// The active coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorInfo {
    /// Where it answers.
    pub url: String,
    /// Its pid.
    pub pid: u32,
    /// What it knows of, as members announce theirs; 1 is the recovery ledger.
    pub feature_level: u32,
    /// Its term.
    pub epoch: Epoch,
    /// When the term began.
    pub since: WireTime,
}

/// Members by liveness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberCounts {
    /// Heard in time.
    pub alive: u64,
    /// Silent or disconnected, not lost.
    pub suspected: u64,
    /// Declared lost within the last ten minutes.
    pub lost: u64,
}

/// Slots of living members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotCounts {
    /// All.
    pub total: u64,
    /// Taken.
    pub used: u64,
}

/// Jobs by evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub struct EvaluationCounts {
    /// Tracking complete, threshold not reached.
    pub clean: u64,
    /// Threshold reached.
    pub dirty: u64,
    /// Not known.
    pub unknown: u64,
    /// Tracking off.
    pub disabled: u64,
}

/// Why declarations of loss are held back (03).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SelfSuspicion {
    /// When it began.
    pub since: WireTime,
    /// How many members fell silent together.
    pub members: u64,
}
