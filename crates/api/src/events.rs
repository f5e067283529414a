//! `GET /events`: what changes, as server-sent events.

use serde::{Deserialize, Serialize};
use steadfast_model::{
    Epoch, EvaluationStatus, ExecutionId, JobId, JobStatus, MemberStatus, MemberUuid, PipelineId,
    PipelineStatus, TaskGroupId, TaskGroupStatus,
};

use crate::{AttemptInfo, DirtyTask, IncidentInfo, JobSummary, MemberInfo, WireTime};

/// One event: its `data`. The `event` field of the stream says the same as the key `event` in here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When it became visible to readers.
    pub time: WireTime,
    /// What happened.
    #[serde(flatten)]
    pub change: Change,
}

/// What happened. More may be added: skip what you do not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Change {
    /// Who leads: the first event of every stream. Without a leader it is the last one: the term is over, ask
    /// again.
    Leadership {
        /// The term.
        epoch: Epoch,
        /// Where the leader answers.
        leader: Option<String>,
    },
    /// How everything stands: the second event of every stream, and what follows a `resync`. What is not in it
    /// is not there.
    Snapshot {
        /// Every member.
        members: Vec<MemberInfo>,
        /// Jobs that have not ended.
        jobs: Vec<JobSummary>,
    },
    /// Events were left out, since this reader is too slow or they were too many at once; a snapshot follows.
    Resync,
    /// A job was submitted, or has another status.
    JobStatus {
        /// Its status until now; `None` for a new one.
        before: Option<JobStatus>,
        /// The job now.
        job: JobSummary,
    },
    /// A pipeline has another status, or another attempt.
    PipelineStatus {
        /// Whose.
        job_id: JobId,
        /// Which.
        pipeline_id: PipelineId,
        /// Its status now.
        status: PipelineStatus,
        /// Its deployment.
        attempt: u32,
    },
    /// A task group has another status, or another container.
    TaskGroupStatus {
        /// Whose.
        job_id: JobId,
        /// Of which pipeline.
        pipeline_id: PipelineId,
        /// Which.
        task_group_id: TaskGroupId,
        /// Its status now.
        status: TaskGroupStatus,
        /// Its present container.
        execution_resource_id: Option<ExecutionId>,
        /// Where that is.
        member_uuid: Option<MemberUuid>,
    },
    /// A job met the loss of a member.
    Incident {
        /// The job.
        job_id: JobId,
        /// The episode that it belongs to.
        episode_id: String,
        /// The loss.
        incident: IncidentInfo,
    },
    /// A recovery attempt was prepared, deployed, or has an outcome.
    Attempt {
        /// The job.
        job_id: JobId,
        /// The episode that it belongs to.
        episode_id: String,
        /// The attempt now.
        attempt: AttemptInfo,
    },
    /// A job's label is another one.
    Evaluation {
        /// The job.
        job_id: JobId,
        /// Its label until now; `None` for a new one.
        before: Option<EvaluationStatus>,
        /// Its label now, in full.
        dirty_task: DirtyTask,
    },
    /// A member joined, or has another status.
    MemberStatus {
        /// Its status until now; `None` for a new one.
        before: Option<MemberStatus>,
        /// The member now.
        member: MemberInfo,
    },
}

impl Change {
    /// The name of the event in the stream.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Leadership { .. } => "leadership",
            Self::Snapshot { .. } => "snapshot",
            Self::Resync => "resync",
            Self::JobStatus { .. } => "jobStatus",
            Self::PipelineStatus { .. } => "pipelineStatus",
            Self::TaskGroupStatus { .. } => "taskGroupStatus",
            Self::Incident { .. } => "incident",
            Self::Attempt { .. } => "attempt",
            Self::Evaluation { .. } => "evaluation",
            Self::MemberStatus { .. } => "memberStatus",
        }
    }
}
