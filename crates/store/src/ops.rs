//! What a term commits, in the words of the domain.

use std::sync::Arc;

use steadfast_engine::records::{
    HistoryRecord, JobRecord, MemberEvent, MemberRecord, OperatorRequest,
};
use steadfast_engine::{JobStep, JobWrites, MemberWrite, RequestWrite, Step};
use steadfast_ledger::{EpisodeHistory, JobLedger};
use steadfast_model::{FencingToken, JobId, MemberEventSeq, MemberUuid, RequestId, TaskGroupId};

/// One change of what is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A job that has not ended.
    PutJob(Arc<JobRecord>),
    /// Its ledger.
    PutLedger {
        /// Whose.
        job: JobId,
        /// The ledger.
        ledger: Arc<JobLedger>,
    },
    /// Its ledger's closed episodes, which are stored apart, since they are most of a ledger and seldom
    /// change. Always beside the ledger that they belong to.
    PutEpisodes {
        /// Whose.
        job: JobId,
        /// The closed episodes.
        episodes: EpisodeHistory,
    },
    /// The newest token of a task group: what its checkpoints are compared with.
    PutToken {
        /// The job.
        job: JobId,
        /// The task group.
        task_group: TaskGroupId,
        /// The token.
        token: FencingToken,
    },
    /// A job ended: it moves into the history, and its record, ledger, tokens and checkpoints go.
    EndJob(Arc<HistoryRecord>),
    /// The history no longer holds this job.
    ForgetHistory(JobId),
    /// A member of the table.
    PutMember(MemberRecord),
    /// It is no longer in the table.
    RemoveMember(MemberUuid),
    /// What an operator asked for.
    PutRequest(OperatorRequest),
    /// It expired long ago.
    ForgetRequest(RequestId),
    /// A member's loss enters the journal; the cluster's sequence moves to it, and the oldest entry
    /// beyond the journal's bound goes.
    PutMemberEvent(MemberEvent),
    /// Every job has been processed up to this event. With the jobs of it, or after them.
    PutProcessed(MemberEventSeq),
}

impl Op {
    /// The job that it belongs to: a batch is split between jobs, never inside one.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Self::PutJob(record) => Some(record.id),
            Self::PutLedger { job, .. } | Self::PutEpisodes { job, .. } => Some(*job),
            Self::PutToken { job, .. } => Some(*job),
            Self::EndJob(history) => Some(history.job.id),
            Self::ForgetHistory(job) => Some(*job),
            Self::PutMember(_)
            | Self::RemoveMember(_)
            | Self::PutRequest(_)
            | Self::ForgetRequest(_)
            | Self::PutMemberEvent(_)
            | Self::PutProcessed(_) => None,
        }
    }

    /// Whether this is the ledger's part of its job's writes, which can be stripped so that tracking
    /// never stands in the way of recovery.
    pub fn is_ledger_part(&self) -> bool {
        matches!(self, Self::PutLedger { .. } | Self::PutEpisodes { .. })
    }

    /// How many single puts and deletes it becomes at most; see [`crate::Limits::max_ops`].
    pub fn writes(&self) -> usize {
        match self {
            Self::PutJob(_) | Self::PutLedger { .. } | Self::PutEpisodes { .. } => 1,
            Self::PutToken { .. } => 1,
            Self::PutMember(_) | Self::RemoveMember(_) | Self::PutProcessed(_) => 1,
            Self::PutRequest(_) | Self::ForgetRequest(_) => 1,
            // History, summary and finish time come; record, ledger, episodes, tokens and checkpoints go.
            Self::EndJob(_) => 8,
            Self::ForgetHistory(_) | Self::PutMemberEvent(_) => 3,
        }
    }
}

/// What a step wants remembered, in the order of the order law: the member event, the table of members,
/// what operators asked for, each job. Steps that wait together are committed together: concatenate their ops.
pub fn ops_of(step: &Step) -> Vec<Op> {
    let members = step.members.iter().map(|write| match write {
        MemberWrite::Put(record) => Op::PutMember(record.clone()),
        MemberWrite::Remove(uuid) => Op::RemoveMember(*uuid),
    });
    let requests = step.requests.iter().map(|write| match write {
        RequestWrite::Put(request) => Op::PutRequest(request.clone()),
        RequestWrite::Forget(id) => Op::ForgetRequest(id.clone()),
    });
    let event = step.member_event.iter().cloned().map(Op::PutMemberEvent);
    let forgotten = step.forgotten.iter().copied().map(Op::ForgetHistory);
    let processed = step.processed.map(Op::PutProcessed);
    let jobs = step.jobs.iter().flat_map(ops_of_job);
    event.chain(members).chain(requests).chain(jobs).chain(forgotten).chain(processed).collect()
}

fn ops_of_job(step: &JobStep) -> impl Iterator<Item = Op> {
    let job = step.job;
    let JobWrites { record, ledger: _, episodes, tokens, ended } = &step.writes;
    let record = record.iter().cloned().map(Op::PutJob);
    let ledger = step.writes.ledger_to_put().into_iter().cloned();
    let ledger = ledger.map(move |ledger| Op::PutLedger { job, ledger });
    let episodes = episodes.iter().cloned();
    let episodes = episodes.map(move |episodes| Op::PutEpisodes { job, episodes });
    let tokens =
        tokens.iter().map(move |&(task_group, token)| Op::PutToken { job, task_group, token });
    let ended = ended.iter().cloned().map(Op::EndJob);
    record.chain(ledger).chain(episodes).chain(tokens).chain(ended)
}
