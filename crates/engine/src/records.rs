//! What is remembered: the records that the store keeps, as the engine thinks of them.
//!
//! A record is the engine's own state; nothing is translated on the way to the store, so that memory is
//! a shadow of it. Bounded: a job's record grows with its task groups, never with its age.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use steadfast_ledger::{Evaluation, JobLedger, Loss, Redo, Watermarks, evaluate};
use steadfast_model::{
    AttemptId, Cause, ExecutionId, FencingToken, InvalidReason, JobId, JobStatus, LedgerRevision,
    MemberEventSeq, MemberUuid, PipelineId, PipelineStatus, RequestId, TaskGroupId,
    TaskGroupStatus, Timestamp,
};

pub use crate::submitted::SubmittedSpec;

/// Failures kept per pipeline: the first, and the newest.
pub const MAX_FAILURES: usize = 16;

/// One job that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobRecord {
    /// Which.
    pub id: JobId,
    /// What was submitted.
    pub spec: SubmittedSpec,
    /// Where it stands.
    pub status: JobStatus,
    /// When it was submitted.
    pub created: Timestamp,
    /// When it ended.
    pub finished: Option<Timestamp>,
    /// The durable wish that it ends; wins over restore.
    pub cancel_requested: Option<Timestamp>,
    /// Why it failed.
    pub error: Option<String>,
    /// Restores by kind.
    pub counts: RestoreCounts,
    /// When its ledger first reached the threshold; kept here too, so that a ledger that is lost takes
    /// no `DIRTY` with it.
    pub dirty_since: Option<Timestamp>,
    /// The revision that its ledger must have; `None` where it has no ledger.
    pub ledger_revision: Option<LedgerRevision>,
    /// What its ledger was told since the ledger's own record was written.
    #[serde(default, skip_serializing_if = "Redo::is_empty")]
    pub redo: Redo,
    /// The first member event that its ledger may lack because the store refused it; it is caught up from
    /// the journal, and the evaluation is `UNKNOWN` until then.
    #[serde(default)]
    pub owed_since: Option<MemberEventSeq>,
    /// It comes out of a backup, and no coordinator has taken it over since: what happened after the backup
    /// is missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restored: bool,
    /// Its pipelines, by id from 1.
    pub pipelines: Vec<PipelineRecord>,
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

/// A pipeline, the unit of restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PipelineRecord {
    /// From 1 within the job.
    pub id: PipelineId,
    /// Where it stands.
    pub status: PipelineStatus,
    /// Its deployment, from 1; 0 before the first.
    pub attempt: u32,
    /// How often it was restored.
    pub restores: u32,
    /// Restores that count towards `job.retry.times`; may be given back by time.
    pub budget_used: u32,
    /// The pause before its next deployment.
    pub not_before: Option<Timestamp>,
    /// The ledger's attempt that its next deployment confirms, or that its present one confirmed.
    pub recovery: Option<AttemptId>,
    /// The losses that its next deployment recovers from: what the journal is replayed with.
    #[serde(default)]
    pub losses: Vec<MemberEventSeq>,
    /// The moment from which no old copy stood in the way of its next deployment.
    pub fenced: Option<Timestamp>,
    /// Since when every task group of its present attempt has been started.
    pub running_since: Option<Timestamp>,
    /// The first failure, and the newest.
    pub failures: Vec<Failure>,
    /// Its task groups, by id through the whole job.
    pub task_groups: Vec<TaskGroupRecord>,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The attempt.
    pub attempt: u32,
    /// When.
    pub at: Timestamp,
    /// What kind.
    pub kind: FailureKind,
    /// What was seen; the first cause.
    pub cause: Cause,
    /// The recovery attempt that it was, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<AttemptId>,
    /// The container whose report is to settle a cause that is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<ExecutionId>,
}

/// Failures by who is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureKind {
    /// A member was lost.
    MemberLoss,
    /// The program failed by itself.
    Program,
    /// The ladder ended a container that was still valid.
    Ladder,
    /// A member left as planned: that burns no restore.
    Planned,
}

/// A task group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskGroupRecord {
    /// From 1 within the job.
    pub id: TaskGroupId,
    /// Index into the pipeline's tasks.
    pub task: u32,
    /// From 0 within the task.
    pub index: u32,
    /// Where it stands.
    pub status: TaskGroupStatus,
    /// The highest token that was minted.
    pub token: FencingToken,
    /// The container of the present attempt.
    pub container: Option<ContainerRecord>,
    /// Containers of earlier attempts that are not proven gone.
    pub leftovers: Vec<ContainerRecord>,
    /// Why its last container ended, where that was not success.
    pub last_error: Option<String>,
}

/// One container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecord {
    /// Its execution resource id.
    pub id: ExecutionId,
    /// Where it runs.
    pub member: MemberUuid,
    /// The attempt that it belongs to.
    pub attempt: u32,
    /// Its token.
    pub token: FencingToken,
    /// The program's and the wrapper's pid, once reported started.
    pub started: Option<Pids>,
    /// Why it is no longer valid.
    pub revoked: Option<InvalidReason>,
    /// Its end was reported without proof: only the end of its lease proves it.
    pub ended_unproven: bool,
    /// Proven gone. Only a present container of a finished task group stays in the record so.
    pub gone: bool,
}

/// The processes of a started container, in the host's numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pids {
    /// The program.
    pub program: u32,
    /// Its wrapper.
    pub wrapper: u32,
}

/// A job that has ended: its last state, with its evaluation frozen. Later member events do not age it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryRecord {
    /// The job's last state.
    pub job: JobRecord,
    /// Its last ledger, if it had one that could be read.
    pub ledger: Option<JobLedger>,
    /// What it amounted to; absent in records from before the feature.
    #[serde(default)]
    pub evaluation: Option<Evaluation>,
}

impl HistoryRecord {
    /// The record to commit when the store refused this one for its ledger: the label is kept, and says
    /// that nobody knows more.
    #[must_use]
    pub fn without_ledger(&self) -> Self {
        let evaluation = self.evaluation.as_ref().map(Evaluation::without_ledger);
        Self { ledger: None, evaluation, ..self.clone() }
    }
}

/// A member in the durable table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberRecord {
    /// Its identity.
    pub uuid: MemberUuid,
    /// Its host's name.
    pub host: String,
    /// Where its connection came from; diagnostic only.
    pub address: String,
    /// The agent's pid.
    pub pid: u32,
    /// Containers that it can hold at once.
    pub slots: u32,
    /// What placement can ask for.
    pub tags: BTreeMap<String, String>,
    /// The agent's version.
    pub version: String,
    /// The agent's feature level.
    pub feature_level: u32,
    /// When it registered.
    pub registered: Timestamp,
    /// When it was declared lost; it stays in the table for a while after that, to be shown.
    pub lost: Option<Timestamp>,
    /// An operator drained it: it takes no containers any more, and its loss is in the journal already.
    #[serde(default)]
    pub draining: bool,
}

/// An operator's request for a planned leave, as it was registered. Kept for a while after it has expired,
/// so that its id cannot be used for anything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorRequest {
    /// Its name.
    pub id: RequestId,
    /// The member that is to leave.
    pub member: MemberUuid,
    /// Who asked.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// When it was registered.
    pub registered: Timestamp,
    /// A member that is lost from then on was not lost as planned.
    pub expires: Timestamp,
    /// Whether its containers were to be moved at once.
    pub drain: bool,
}

/// A member's loss in the cluster's journal: one per lost UUID, durable before any job is touched, and told to
/// ledgers as it stands there.
pub type MemberEvent = Loss;

/// Everything durable, as it was loaded at one revision of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The newest member event that was journalled.
    pub member_event_seq: MemberEventSeq,
    /// The event up to which every job has been processed. Behind `member_event_seq` when a coordinator
    /// died between two transactions of one loss.
    pub processed: MemberEventSeq,
    /// The newest member events, oldest first.
    pub journal: Vec<MemberEvent>,
    /// Jobs that have not ended.
    pub jobs: Vec<JobRecord>,
    /// Their ledgers, with all that they were told; an entry that could not be read is an error text.
    pub ledgers: BTreeMap<JobId, Result<JobLedger, String>>,
    /// The table of members.
    pub members: Vec<MemberRecord>,
    /// Operators' requests, in any order.
    pub requests: Vec<OperatorRequest>,
    /// Ended jobs that the history holds, with the time of their end.
    pub finished: Vec<(JobId, Timestamp)>,
}

/// A job's ledger as the last commit left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableLedger {
    /// With all that it was told.
    pub ledger: Arc<JobLedger>,
    /// What of that stands in the job's record alone.
    pub redo: Redo,
}

impl JobRecord {
    /// Whether this is the ledger that the job's record was written with, or there is none and none was.
    #[must_use]
    pub fn expects(&self, ledger: Option<&JobLedger>) -> bool {
        ledger.map(JobLedger::revision) == self.ledger_revision
    }

    /// What can be said of this job with this ledger, and with how far the journal goes. A ledger that is another
    /// one than the job expects lacks what the store refused.
    #[must_use]
    pub fn evaluation(&self, ledger: Option<&JobLedger>, watermarks: Watermarks) -> Evaluation {
        let owes = watermarks.owes || !self.expects(ledger) || self.owed_since.is_some();
        let (threshold, dirty) = (self.spec.tracking_threshold(), self.dirty_since.is_some());
        evaluate(threshold, dirty, ledger, Watermarks { owes, ..watermarks })
    }

    /// This job's ledger, where both are as the last commit left them.
    #[must_use]
    pub fn durable_ledger(&self, ledger: Arc<JobLedger>) -> DurableLedger {
        DurableLedger { ledger, redo: self.redo.clone() }
    }

    /// The record to commit alone when the store refused `refused`, its ledger: what was refused is owed
    /// where it can be taken in again from the journal. Its expected revision stays ahead of the stored
    /// one, so that a ledger which is behind is never taken for one that is complete.
    #[must_use]
    pub fn without_ledger(&self, refused: &JobLedger, durable: Option<&DurableLedger>) -> Self {
        let replayable = durable.filter(|durable| refused.is_replayable_from(&durable.ledger));
        let owed_since = replayable.map(|durable| durable.ledger.watermark().next());
        let redo = durable.map(|durable| durable.redo.clone()).unwrap_or_default();
        Self { owed_since: owed_since.or(self.owed_since), redo, ..self.clone() }
    }

    /// The pipeline with this id.
    pub fn pipeline(&self, id: PipelineId) -> Option<&PipelineRecord> {
        self.pipelines.get((id.get() as usize).checked_sub(1)?)
    }
}

impl PipelineRecord {
    /// Containers of earlier attempts that are not proven gone.
    pub fn leftovers(&self) -> impl Iterator<Item = &ContainerRecord> {
        self.task_groups.iter().flat_map(|group| &group.leftovers)
    }

    /// The task group with this id.
    pub(crate) fn task_group(&self, id: TaskGroupId) -> Option<&TaskGroupRecord> {
        self.task_groups.get(self.place(id)?)
    }

    /// Where it stands in the list: ids go on through the whole job.
    pub(crate) fn place(&self, id: TaskGroupId) -> Option<usize> {
        id.get().checked_sub(self.task_groups.first()?.id.get()).map(|place| place as usize)
    }

    /// Whether its next deployment is being prepared.
    pub(crate) fn waits(&self) -> bool {
        use PipelineStatus::{Created, Failing, Scheduled};
        matches!(self.status, Failing | Created | Scheduled)
    }

    /// Keeps a failure within the bound.
    pub(crate) fn note_failure(&mut self, failure: Failure) {
        if self.failures.len() == MAX_FAILURES {
            self.failures.remove(1);
        }
        self.failures.push(failure);
    }
}
