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
    /// Base URLs of all coordinators that are there, the one that leads first.
    #[serde(default)]
    pub coordinators: Vec<String>,
    /// The others, as each says of itself when it is asked for this.
    #[serde(default)]
    pub standbys: Vec<StandbyInfo>,
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
    /// Present while the store does not take what has to be written.
    #[serde(default)]
    pub store_trouble: Option<StoreTrouble>,
}

/// Why nothing can be recorded at the moment. What runs goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreTrouble {
    /// What is wrong.
    pub status: StoreStatus,
    /// Since when.
    pub since: WireTime,
    /// The same for people, and what to do.
    pub message: String,
}

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StoreStatus {
    /// It has no room, and refuses every write.
    Full,
    /// It cannot be reached, or does not answer.
    Unavailable,
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

/// A coordinator that stands by, as it answered the one that leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StandbyInfo {
    /// Where it answers.
    pub url: String,
    /// Commits that its copy of the state does not hold yet; `None` where it did not say.
    pub commits_behind: Option<u64>,
    /// Why it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `GET /health/ready` with 200: a coordinator that leads and has reconciled, or one that stands by and knows
/// who leads. With 503, status `fail` and a message: the same, but its store does not take what has to be
/// written. Every other one answers 503 with an [`ErrorBody`](crate::ErrorBody).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// `ready`, or `fail`.
    pub status: String,
    /// Why it is not ready, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Which of the two.
    pub role: CoordinatorRole,
    /// Where this coordinator answers.
    pub url: String,
    /// The version of this coordinator.
    pub version: String,
    /// The last commit that it holds; a standby is behind by the difference to the leader's.
    pub revision: u64,
    /// Where the leader answers.
    pub leader: String,
    /// Since when that one leads.
    pub since: WireTime,
    /// The term; only the leader tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// Base URLs of all coordinators that are there, the one that leads first.
    pub coordinators: Vec<String>,
}

/// One coordinator, as somebody finds it who asks all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorStanding {
    /// Where it was asked.
    pub url: String,
    /// What it says of itself, if it says so much.
    pub readiness: Option<Readiness>,
    /// Why that is not known, or why it is not ready.
    pub error: Option<String>,
}

/// What a coordinator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoordinatorRole {
    /// It decides.
    Leader,
    /// It follows what is decided, and leads next.
    Standby,
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
