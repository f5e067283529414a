//! Recovery episodes in detail, and the same story as sentences.

use serde::{Deserialize, Serialize};
use steadfast_model::{LeaveClassification, LossCause, MemberEventSeq, MemberUuid, PipelineId};

use crate::WireTime;

/// `GET /job-info/:jobId/recovery-episodes`: oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryEpisodes {
    /// The kept ones: the first, and the newest.
    pub episodes: Vec<EpisodeInfo>,
    /// How many are no longer kept.
    pub dropped_episodes: u64,
}

/// One episode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EpisodeInfo {
    /// `"<jobId>-<n>"`.
    pub episode_id: String,
    /// Where it stands.
    pub status: EpisodeStatus,
    /// Job-level attempts within it.
    pub generation: u64,
    /// When its first incident was registered.
    pub start_time: WireTime,
    /// When it closed.
    pub end_time: Option<WireTime>,
    /// A bounded sample.
    pub incidents: Vec<IncidentInfo>,
    /// Exact.
    pub incident_count: u64,
    /// A bounded sample.
    pub attempts: Vec<AttemptInfo>,
    /// How long its parts took.
    pub latency_ms: Latencies,
}

/// Where an episode stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EpisodeStatus {
    /// Pipelines are being recovered.
    Active,
    /// All recovered.
    Completed,
    /// The job could not restore, or ended.
    Aborted,
    /// No attempt within the time allowed.
    Expired,
}

/// One member-loss incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IncidentInfo {
    /// The lost member.
    pub member_uuid: MemberUuid,
    /// Its address; diagnostic only.
    pub address: String,
    /// Its number in the cluster's journal.
    pub sequence: MemberEventSeq,
    /// Whether it was proven to be planned.
    pub classification: LeaveClassification,
    /// How it was noticed.
    pub cause: LossCause,
    /// What was seen.
    pub evidence: String,
    /// When it was declared.
    pub time: WireTime,
}

/// One deployment attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptInfo {
    /// `"<episodeId>/<pipeline>/<sequence>"`.
    pub attempt_id: String,
    /// The pipeline.
    pub pipeline_id: PipelineId,
    /// When it was deployed; `None` while only prepared.
    pub confirmed_time: Option<WireTime>,
    /// What became of it.
    pub outcome: AttemptOutcome,
    /// Why it failed, where it did.
    pub cause: Option<String>,
}

/// What became of a deployment attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum AttemptOutcome {
    /// Every task group ran.
    Recovered,
    /// It failed before that.
    Failed,
    /// Not known yet.
    Pending,
}

/// Milliseconds from the last sign of life to each step of an episode's recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latencies {
    /// To the declaration of the loss.
    pub detected: Option<u64>,
    /// To the old copies' proven end.
    pub fenced: Option<u64>,
    /// To the first deployment.
    pub deployed: Option<u64>,
    /// To the recovery of all pipelines.
    pub recovered: Option<u64>,
}

/// `GET /job-info/:jobId/explain`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// In order of time.
    pub sentences: Vec<Sentence>,
}

/// One sentence of the story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sentence {
    /// When it happened.
    pub time: WireTime,
    /// What happened.
    pub text: String,
    /// The episode that it belongs to.
    pub episode_id: Option<String>,
}
