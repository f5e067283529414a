//! The walk over the jobs that a member's loss affects.
//!
//! It reads like the first seed's "Current recovery path", with the ledger's verbs in their places: for
//! each job that has containers there, the incident is registered before a task group is failed; then
//! the task groups fail and the pipeline restores within its limit with its attempt prepared, or the
//! episode is aborted and the job fails. The cost follows the affected jobs, not all of them.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_ledger::{Expired, SharedLoss};
use steadfast_model::{
    ExecutionId, JobId, JobStatus, LeaveClassification, LossCause, MemberEventSeq, MemberUuid,
    PipelineId, PipelineStatus, TaskGroupId, TaskGroupStatus, Timestamp,
};

use crate::causes::FirstCause;
use crate::containers::{Answer, Container};
use crate::draft::Draft;
use crate::engine::{Engine, Job};
use crate::records::{FailureKind, MemberEvent, OperatorRequest};
use crate::step::MemberWrite;

/// What one job has on the lost member: task groups by pipeline.
#[derive(Default)]
pub(crate) struct Stake {
    /// Those whose present container is there.
    pub present: BTreeMap<PipelineId, Vec<TaskGroupId>>,
    /// Those that are being cancelled there, for the next deployment of a pipeline that failed before.
    pub canceling: BTreeMap<PipelineId, Vec<TaskGroupId>>,
    /// Pipelines that wait for the end of an old copy there, whatever for.
    pub waiting: BTreeSet<PipelineId>,
}

impl Engine {
    /// Declares a member lost. It counts unless somebody planned it.
    pub(crate) fn declare_lost(
        &mut self,
        uuid: MemberUuid,
        cause: LossCause,
        seen: String,
        d: &mut Draft,
    ) {
        let (classification, evidence) = match self.plan_of(uuid, cause, d.now) {
            None => (LeaveClassification::Unclassified, seen),
            Some(OperatorRequest { id, actor, reason, .. }) => (
                LeaveClassification::PlannedVerified,
                format!("{seen}; planned in request {id} by {actor}: {reason}"),
            ),
        };
        let Some(member) = self.members.get_mut(uuid) else { return };
        member.record.lost = Some(d.now);
        d.step.members.push(MemberWrite::Put(member.record.clone()));
        if member.record.draining {
            self.lose_drained(uuid, d);
        } else {
            self.journal_loss(uuid, classification, cause, evidence, d);
        }
    }

    /// One event in the journal, then each job that has something there.
    pub(crate) fn journal_loss(
        &mut self,
        uuid: MemberUuid,
        classification: LeaveClassification,
        cause: LossCause,
        evidence: String,
        d: &mut Draft,
    ) {
        let Some(member) = self.members.get(uuid) else { return };
        self.seq = self.seq.next();
        let event = MemberEvent {
            seq: self.seq,
            member: uuid,
            address: member.record.address.clone(),
            classification,
            cause,
            evidence,
            last_seen: member.last_seen,
            declared: d.now,
        };
        d.step.member_event = Some(event.clone());
        self.walk(&event, d);
        // Only now: what a lagging job catches up on here lies before this event.
        self.journal_event(event);
        self.write_before_forgotten(d);
    }

    /// Takes the loss to every job that has something there.
    fn walk(&mut self, event: &MemberEvent, d: &mut Draft) {
        let loss = SharedLoss::from(event);
        for (job, stake) in self.stakes_on(event.member) {
            self.lose_for_job(job, &stake, event, &loss, d);
        }
        d.step.processed = Some(event.seq);
    }

    /// A coordinator died between the transactions of these losses: some jobs know of them and some do
    /// not. Whoever does has no present container there any more, its ledger is past the event, and its
    /// pipelines name the loss.
    pub(crate) fn finish_walks(&mut self, processed: MemberEventSeq, d: &mut Draft) {
        for event in self.unprocessed(processed) {
            self.walk(&event, d);
        }
    }

    pub(crate) fn stakes_on(&self, uuid: MemberUuid) -> BTreeMap<JobId, Stake> {
        let mut stakes: BTreeMap<JobId, Stake> = BTreeMap::new();
        let Some(member) = self.members.get(uuid) else { return stakes };
        for execution in &member.containers {
            let Some(at) = self.containers.get(*execution) else { continue };
            let stake = stakes.entry(at.job).or_default();
            if at.answer == Answer::Live {
                stake.present.entry(at.pipeline).or_default().push(at.group);
                continue;
            }
            stake.waiting.insert(at.pipeline);
            if self.is_canceling(*execution, at) {
                stake.canceling.entry(at.pipeline).or_default().push(at.group);
            }
        }
        stakes
    }

    /// Whether a container is being cancelled so that its pipeline can be deployed again: it was revoked, and
    /// nobody has said that it ended.
    fn is_canceling(&self, execution: ExecutionId, at: Container) -> bool {
        let Some(job) = self.jobs.get(&at.job) else { return false };
        let Some(pipeline) = job.record.pipeline(at.pipeline) else { return false };
        let Some(group) = pipeline.task_group(at.group) else { return false };
        let restores = !matches!(job.record.status, JobStatus::Failing | JobStatus::Canceling);
        let mut old = group.leftovers.iter().filter(|old| !old.ended_unproven);
        restores && pipeline.waits() && old.any(|old| old.id == execution)
    }

    fn lose_for_job(
        &mut self,
        id: JobId,
        stake: &Stake,
        event: &MemberEvent,
        loss: &SharedLoss,
        d: &mut Draft,
    ) {
        self.catch_up(id, d);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if let Some(ledger) = job.ledger.kept_mut() {
            let affected: BTreeMap<_, _> = stake.present.iter().chain(&stake.canceling).collect();
            let groups: Vec<TaskGroupId> = affected.values().copied().flatten().copied().collect();
            let affected: Vec<PipelineId> = affected.into_keys().copied().collect();
            if !affected.is_empty() {
                let (redo, stored) = (&mut job.record.redo, job.stored_ledger);
                let _ = redo.member_lost(ledger, stored, loss, &affected, &groups);
            }
        }
        let (kind, how) = match event.classification {
            LeaveClassification::Unclassified => (FailureKind::MemberLoss, "was lost"),
            LeaveClassification::PlannedVerified => (FailureKind::Planned, "leaves as planned"),
        };
        let cause = format!("member {} {how}: {}", event.member, event.evidence);
        let first = FirstCause::seen(kind, cause.clone());
        for (pipeline_id, groups) in &stake.present {
            let Some(pipeline) = self.jobs.get_mut(&id).and_then(|job| job.pipeline(*pipeline_id))
            else {
                continue;
            };
            // An earlier pipeline may have used up its restores: then the job fails and all of it is
            // being stopped already.
            if !matches!(pipeline.status, PipelineStatus::Deploying | PipelineStatus::Running) {
                continue;
            }
            pipeline.losses.push(event.seq);
            for group in groups {
                if let Some(group) = pipeline.group(*group) {
                    group.enter(TaskGroupStatus::Failing);
                    group.last_error = Some(cause.clone());
                }
            }
            self.fail_pipeline(id, *pipeline_id, &first, d);
        }
        for pipeline in stake.canceling.keys() {
            self.lose_canceling(id, *pipeline, event, d);
        }
        for pipeline in &stake.waiting {
            self.advance(id, *pipeline, d);
        }
        self.watch_expiry(id, d.now);
    }

    /// The pipeline failed before, and the loss may well be why: a peer of the lost container failed first, or
    /// another member's loss was declared first. Its next deployment recovers from this loss as well.
    fn lose_canceling(
        &mut self,
        id: JobId,
        pipeline_id: PipelineId,
        event: &MemberEvent,
        d: &mut Draft,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let burns_a_restore = job.record.spec.retry.count_member_loss
            || event.classification == LeaveClassification::PlannedVerified;
        let Some(pipeline) = job.pipeline(pipeline_id) else { return };
        // This loss may have used up the restores of another pipeline, and so have ended the job; or another
        // coordinator finishes the walk of one that had come here.
        if !pipeline.waits() || pipeline.losses.contains(&event.seq) {
            return;
        }
        if pipeline.losses.is_empty() && !burns_a_restore {
            pipeline.budget_used = pipeline.budget_used.saturating_sub(1);
        }
        pipeline.losses.push(event.seq);
        let (redo, stored) = (&mut job.record.redo, job.stored_ledger);
        let ledger = job.ledger.kept_mut();
        let prepared = ledger.and_then(|ledger| redo.prepare(ledger, stored, pipeline_id));
        if let Some(pipeline) = job.pipeline(pipeline_id) {
            pipeline.recovery = prepared;
        }
        d.job(id);
    }

    /// Sets the alarm for the parking of an episode that may never be deployed.
    pub(crate) fn watch_expiry(&mut self, id: JobId, now: Timestamp) {
        let Some(job) = self.jobs.get(&id) else { return };
        if let Some(at) = self.expires(job, now) {
            self.ledger_alarm(at, id);
        }
    }

    /// When the job's episode is to be parked. Instants of an earlier term say nothing in this one: what
    /// was pending then has its full time from the takeover on.
    fn expires(&self, job: &Job, now: Timestamp) -> Option<Timestamp> {
        let since = job.ledger.kept()?.pending_since()?;
        let of_this_term = (self.began..=now).contains(&since);
        let since = if of_this_term { since } else { self.began };
        Some(since + self.settings.pending_incident_ttl_ms)
    }

    /// Parks the job's episode if its time has come.
    pub(crate) fn park_expired(&mut self, id: JobId, d: &mut Draft) {
        let expires = self.jobs.get(&id).and_then(|job| self.expires(job, d.now));
        if expires.is_none_or(|at| at > d.now) {
            return;
        }
        let ledger = self.jobs.get_mut(&id).and_then(|job| job.ledger.kept_mut());
        if let Some(Expired::Parked(_)) = ledger.map(|ledger| ledger.expire(d.now)) {
            d.job(id);
        }
    }
}
