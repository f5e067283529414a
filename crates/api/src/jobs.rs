//! Jobs as users see them. `jobId` is a string in every answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steadfast_model::{
    EvaluationStatus, ExecutionId, FencingToken, JobId, JobStatus, LeaveClassification, MemberUuid,
    PipelineId, PipelineStatus, TaskGroupId, TaskGroupStatus,
};

use crate::WireTime;

/// The answer to a submission that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubmitAnswer {
    /// The job's id; `None` for a dry run, which stores nothing.
    pub job_id: Option<JobId>,
    /// `job.name`.
    pub job_name: String,
}

/// The wish that a job ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StopJobRequest {
    /// Which.
    pub job_id: JobId,
}

/// What became of that wish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StopJobAnswer {
    /// Which.
    pub job_id: JobId,
    /// The status after the wish was made durable.
    pub job_status: JobStatus,
    /// Says so where the job had ended already.
    pub message: String,
}

/// A line of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSummary {
    /// Which.
    pub job_id: JobId,
    /// `job.name`.
    pub job_name: String,
    /// Its status.
    pub job_status: JobStatus,
    /// When it was submitted.
    pub create_time: WireTime,
    /// When it ended.
    pub finish_time: Option<WireTime>,
    /// The nested subset that lists carry; absent in records from before the feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_task: Option<DirtyTaskSummary>,
}

/// What lists show of the recovery tracking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirtyTaskSummary {
    /// Whether the threshold was reached.
    pub dirty: bool,
    /// `DISABLED`, `CLEAN`, `DIRTY` or `UNKNOWN`.
    pub evaluation_status: EvaluationStatus,
    /// Job-level deployment attempts that member loss caused.
    pub recovery_attempt_count: u64,
}

/// The seed's twelve fields (first seed, "REST and history contract").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirtyTask {
    /// Whether the threshold was reached. Irreversible.
    pub dirty: bool,
    /// `DISABLED`, `CLEAN`, `DIRTY` or `UNKNOWN`.
    pub evaluation_status: EvaluationStatus,
    /// Whether the counts are known to be exact.
    pub tracking_complete: bool,
    /// The configured threshold; −1 when off.
    pub threshold: i64,
    /// Job-level deployment attempts that member loss caused.
    pub recovery_attempt_count: u64,
    /// Recovery episodes so far.
    pub recovery_episode_count: u64,
    /// Member-loss incidents so far.
    pub member_loss_incident_count: u64,
    /// The episode that is open, as `"<jobId>-<n>"`.
    pub active_episode_id: Option<String>,
    /// Classification of the newest incident.
    pub last_leave_classification: Option<LeaveClassification>,
    /// The member of the newest incident.
    pub last_lost_member_uuid: Option<MemberUuid>,
    /// Its address; diagnostic only.
    pub last_lost_address: Option<String>,
    /// When the count last grew, in milliseconds since the Unix epoch.
    pub last_counted_time: Option<u64>,
}

/// One job in full, running or finished alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobInfo {
    /// Which.
    pub job_id: JobId,
    /// `job.name`.
    pub job_name: String,
    /// Its status.
    pub job_status: JobStatus,
    /// When it was submitted.
    pub create_time: WireTime,
    /// When it ended.
    pub finish_time: Option<WireTime>,
    /// The `env` options in force, defaults included.
    pub env_options: BTreeMap<String, serde_json::Value>,
    /// Why the job failed.
    pub error_msg: Option<String>,
    /// Restores by kind.
    pub counts: RestoreCounts,
    /// Its pipelines.
    pub pipelines: Vec<PipelineInfo>,
    /// The recovery label; absent in records from before the feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_task: Option<DirtyTask>,
}

/// Restores of a job by what caused them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreCounts {
    /// A member was lost.
    pub member_loss: u64,
    /// The program failed by itself.
    pub program: u64,
    /// The ladder ended a container that was still valid.
    pub ladder: u64,
    /// A member left as planned.
    pub planned: u64,
}

/// A pipeline of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PipelineInfo {
    /// From 1 within the job.
    pub pipeline_id: PipelineId,
    /// Its name.
    pub name: String,
    /// Its status.
    pub pipeline_status: PipelineStatus,
    /// How often it was restored.
    pub restores: u32,
    /// Its deployment, from 1; 0 before the first.
    pub attempt: u32,
    /// What it waits for, where it waits.
    pub waits_for: Option<String>,
    /// Its task groups.
    pub task_groups: Vec<TaskGroupInfo>,
}

/// A task group and the container that runs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskGroupInfo {
    /// From 1 within the job.
    pub task_group_id: TaskGroupId,
    /// The task's name.
    pub task: String,
    /// From 0 within the task.
    pub index: u32,
    /// Its status.
    pub status: TaskGroupStatus,
    /// The attempt that `execution_resource_id` belongs to.
    pub attempt: u32,
    /// The container of this attempt.
    pub execution_resource_id: Option<ExecutionId>,
    /// Where it runs.
    pub member_uuid: Option<MemberUuid>,
    /// The program's pid in the host's numbering; `None` once it ended.
    pub pid: Option<u32>,
    /// The wrapper's pid; `None` once it ended.
    pub wrapper_pid: Option<u32>,
    /// The container's token.
    pub fencing_token: Option<FencingToken>,
    /// When its lease ends if nothing extends it.
    pub lease_ends: Option<WireTime>,
    /// `STALLED`: it is heard, and its program has reported no step for `task.progress.timeout.ms`. A mark,
    /// which ends nobody, and goes with the next step.
    #[serde(default)]
    pub stalled: bool,
    /// Why its last container ended, where that was not success.
    pub last_error: Option<String>,
}
