//! What the engine decided: data for the shell to commit and carry out, in this order:
//!
//! 1. `freeze`: the validity index answers "unknown" for these from now on;
//! 2. commit `member_event`, `members` and each job's `writes`;
//! 3. `index` changes of the step, then those of each job; what the index was last asked comes back as
//!    [`crate::Input::LastAnswers`];
//! 4. `effects` of each job and of the step;
//! 5. publish the snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use steadfast_ledger::{EpisodeHistory, JobLedger};
use steadfast_model::{
    ExecutionId, FencingToken, InvalidReason, JobId, JobStatus, LeaseTerms, MemberEventSeq,
    MemberUuid, PipelineId, RequestId, TaskGroupId, Timestamp, ValidatorKind,
};

use crate::input::{Connection, Ticket};
use crate::records::{HistoryRecord, JobRecord, MemberEvent, MemberRecord, OperatorRequest};

/// The outcome of one [`crate::Engine::step`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Step {
    /// Entries of the validity index to freeze before the commit.
    pub freeze: Vec<ExecutionId>,
    /// A member's loss for the journal.
    pub member_event: Option<MemberEvent>,
    /// The event up to which every job has been processed, if it moved: written last, with or after the
    /// jobs.
    pub processed: Option<MemberEventSeq>,
    /// Changes of the table of members.
    pub members: Vec<MemberWrite>,
    /// Changes of what operators asked for.
    pub requests: Vec<RequestWrite>,
    /// Each touched job, in order of id.
    pub jobs: Vec<JobStep>,
    /// Ended jobs that the history no longer holds.
    pub forgotten: Vec<JobId>,
    /// Changes of the validity index that belong to no job's commit.
    pub index: Vec<IndexChange>,
    /// Effects that belong to no job's commit.
    pub effects: Vec<Effect>,
}

impl Step {
    /// Whether there is nothing to commit.
    pub fn writes_nothing(&self) -> bool {
        self.member_event.is_none()
            && self.processed.is_none()
            && self.members.is_empty()
            && self.requests.is_empty()
            && self.forgotten.is_empty()
            && self.jobs.iter().all(|job| job.writes.is_empty())
    }
}

/// One job's part of a step: its writes are one transaction, and nothing of it happens without them.
#[derive(Clone, Debug)]
pub struct JobStep {
    /// Which.
    pub job: JobId,
    /// What to remember.
    pub writes: JobWrites,
    /// What changes in the validity index after the commit.
    pub index: Vec<IndexChange>,
    /// What to do after that.
    pub effects: Vec<Effect>,
}

/// What to remember of one job.
#[derive(Clone, Debug, Default)]
pub struct JobWrites {
    /// Its record, if it changed. Not set when it ended.
    pub record: Option<Arc<JobRecord>>,
    /// Its ledger, if it changed. Not set when it ended. Whether its record is to be put is told by
    /// [`JobWrites::ledger_to_put`].
    pub ledger: Option<Arc<JobLedger>>,
    /// Its ledger's closed episodes, if they changed: only together with the ledger.
    pub episodes: Option<EpisodeHistory>,
    /// Tokens that were minted: what checkpoints are compared with.
    pub tokens: Vec<(TaskGroupId, FencingToken)>,
    /// It ended: put this into the history and remove record, ledger, tokens and checkpoints, at once.
    pub ended: Option<Arc<HistoryRecord>>,
}

impl JobWrites {
    /// The ledger, where its own record is to be put: what it was told by a loss stands in the job's record.
    pub fn ledger_to_put(&self) -> Option<&Arc<JobLedger>> {
        let waits = self.record.as_ref().is_some_and(|record| !record.redo.is_empty());
        self.ledger.as_ref().filter(|_| !waits)
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        let Self { record, ledger, episodes, tokens, ended } = self;
        let no_ledger = ledger.is_none() && episodes.is_none();
        record.is_none() && no_ledger && tokens.is_empty() && ended.is_none()
    }
}

/// A change of the table of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberWrite {
    /// Put it.
    Put(MemberRecord),
    /// It is no longer shown.
    Remove(MemberUuid),
}

/// A change of what operators asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestWrite {
    /// Put it.
    Put(OperatorRequest),
    /// It expired long ago.
    Forget(RequestId),
}

/// A change of the validity index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexChange {
    /// This container is valid from now on, durably.
    Live(ExecutionId, IndexEntry),
    /// It is not any more: final. Answered with its last answer in [`crate::Input::LastAnswers`]. Puts
    /// the entry where it is not there, with `assumed_answer` as the last answer.
    Invalid(ExecutionId, InvalidReason, IndexEntry),
    /// It is proven gone.
    Remove(ExecutionId),
    /// Its member is disconnected or suspected: from now on it gets what is left of its lease, and is
    /// asked back after this many milliseconds.
    Hold(ExecutionId, u64),
    /// Its member is back.
    Release(ExecutionId),
}

/// What the validity index knows of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Its job.
    pub job: JobId,
    /// Its task group.
    pub task_group: TaskGroupId,
    /// Its token.
    pub token: FencingToken,
    /// What one "yes" is worth.
    pub lease: LeaseTerms,
    /// An answer that an earlier leader may have given, as late as it can have been.
    pub assumed_answer: Option<Timestamp>,
    /// Whether it was reported started.
    pub started: bool,
    /// Whether Samza's client in the program is answered too.
    pub samza: bool,
}

/// Something to do once the writes are durable.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Tell an agent.
    Send(Connection, AgentMessage),
    /// Answer somebody who waits.
    Reply(Ticket, Reply),
}

/// What agents are told.
#[derive(Clone, Debug)]
pub enum AgentMessage {
    /// Registered, or known.
    Welcome,
    /// Not in the table of members any more.
    RegisterAnew,
    /// Run this container.
    Launch(Box<Launch>),
    /// End this container.
    Stop {
        /// Which.
        execution: ExecutionId,
        /// Why.
        reason: InvalidReason,
        /// From SIGTERM to SIGKILL.
        grace_ms: u64,
    },
    /// The report of its end is durable.
    Acknowledge(ExecutionId),
    /// The loss is declared.
    LeaveAcknowledged,
}

/// A container to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Its execution resource id.
    pub execution: ExecutionId,
    /// Its job.
    pub job: JobId,
    /// The job's name.
    pub job_name: String,
    /// The pipeline's id.
    pub pipeline: PipelineId,
    /// The pipeline's name.
    pub pipeline_name: String,
    /// The task's name.
    pub task: String,
    /// The task group's id.
    pub task_group: TaskGroupId,
    /// The task group's index within its task, from 0.
    pub index: u32,
    /// The task's parallelism.
    pub count: u32,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Its token.
    pub token: FencingToken,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The job file's own variables.
    pub environment: BTreeMap<String, String>,
    /// What one "yes" is worth.
    pub lease: LeaseTerms,
    /// Who holds the lease.
    pub validator: ValidatorKind,
    /// Whether there is a lease at all.
    pub validator_enabled: bool,
}

/// An answer for somebody who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The job is durable under this id.
    Submitted(JobId),
    /// The job cannot be taken: the sentence says why and what to do.
    Refused(String),
    /// The wish is durable; the job's status after it.
    Stopping(JobStatus),
    /// The job had ended.
    Ended,
    /// No such job is running; whether it ever was is in the history.
    UnknownJob,
    /// The report of an end is durable, or changes nothing.
    EndNoted,
    /// What it means cannot be told yet: say it again.
    AskAgain,
    /// The planned leave is durable, as it stands here; where it asked for a drain, that has begun.
    LeavePlanned(OperatorRequest),
    /// The leave cannot be planned as things are: the sentence says why and what to do.
    LeaveRefused(String),
    /// The table of members holds no such member.
    UnknownMember,
}
