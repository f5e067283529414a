//! Containers: what is reported about them, and when an old copy no longer stands in the way.

use std::collections::BTreeMap;

use steadfast_model::{
    ContainerEvent, ExecutionId, InvalidReason, JobId, MemberUuid, Outcome, PipelineId,
    PipelineStatus, Proof, StopCause, TaskGroupId, TaskGroupStatus, Timestamp, bounded,
};

use crate::causes::{FirstCause, NOBODY_SAW};
use crate::draft::Draft;
use crate::engine::{Engine, Job};
use crate::input::Reporter;
use crate::membership::Member;
use crate::records::{ContainerRecord, FailureKind, Pids, PipelineRecord, TaskGroupRecord};
use crate::step::{AgentMessage, Effect, IndexChange, IndexEntry, Reply};

/// The longest cause that a job's record keeps, in bytes.
const MAX_CAUSE_BYTES: usize = 500;

/// What is known of the last "yes" that a container was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is valid; the index answers it.
    Live,
    /// It was revoked; the index has yet to tell.
    Awaited,
    /// The index told: its last answer, or that it never had one and so can never have started.
    Told(Option<Timestamp>),
}

/// Where a container belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container {
    pub job: JobId,
    pub pipeline: PipelineId,
    pub group: TaskGroupId,
    pub member: MemberUuid,
    pub answer: Answer,
}

/// Every container that is not proven gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Containers {
    made: u64,
    by_id: BTreeMap<ExecutionId, Container>,
}

impl Containers {
    pub fn next_number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    pub fn get(&self, execution: ExecutionId) -> Option<Container> {
        self.by_id.get(&execution).copied()
    }

    pub fn insert(&mut self, execution: ExecutionId, container: Container) {
        self.by_id.insert(execution, container);
    }

    pub fn set_answer(&mut self, execution: ExecutionId, answer: Answer) {
        if let Some(container) = self.by_id.get_mut(&execution) {
            container.answer = answer;
        }
    }

    pub fn remove(&mut self, execution: ExecutionId) -> Option<Container> {
        self.by_id.remove(&execution)
    }
}

/// Why an old copy still stands in the way of its replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The index has yet to tell its last answer.
    LastAnswer,
    /// Nobody knows yet whether its member is lost, and so what the next deployment recovers from.
    Doubt,
    /// Its member is present and has yet to prove its end. Asked again at this moment.
    Proof { again: Timestamp },
    /// Nobody can prove its end; its lease is over at this moment.
    Lease { until: Timestamp },
}

impl Job {
    pub(crate) fn pipeline(&mut self, id: PipelineId) -> Option<&mut PipelineRecord> {
        self.record.pipelines.get_mut((id.get() as usize).checked_sub(1)?)
    }
}

impl PipelineRecord {
    pub(crate) fn group(&mut self, id: TaskGroupId) -> Option<&mut TaskGroupRecord> {
        let place = self.place(id)?;
        self.task_groups.get_mut(place)
    }
}

impl ContainerRecord {
    pub(crate) fn entry(&self, job: &crate::records::JobRecord, group: TaskGroupId) -> IndexEntry {
        IndexEntry {
            job: job.id,
            task_group: group,
            token: self.token,
            lease: job.spec.container.lease,
            assumed_answer: None,
            started: self.started.is_some(),
            samza: job.spec.container.samza,
        }
    }
}

impl Engine {
    pub(crate) fn container_event(
        &mut self,
        execution: ExecutionId,
        event: ContainerEvent,
        reporter: Reporter,
        d: &mut Draft,
    ) {
        if let Reporter::Wrapper(Some(ticket)) = reporter
            && self.is_for_the_member_to_tell(execution, &event)
        {
            d.reply(ticket, Reply::AskAgain);
            return;
        }
        let job = self.containers.get(execution).map(|container| container.job);
        let ended = matches!(event, ContainerEvent::Ended { .. });
        self.note_event(execution, event, d);
        if !ended {
            return;
        }
        let effect = match reporter {
            Reporter::Agent(_, connection) => {
                Effect::Send(connection, AgentMessage::Acknowledge(execution))
            }
            Reporter::Wrapper(Some(ticket)) => Effect::Reply(ticket, Reply::EndNoted),
            Reporter::Wrapper(None) => return,
        };
        // The acknowledgement says "durable", so it belongs to the commit of what it acknowledges.
        match job.filter(|job| d.jobs.contains_key(job)) {
            Some(job) => d.job(job).effects.push(effect),
            None => d.step.effects.push(effect),
        }
    }

    /// A container ended whose member is in doubt: a symptom of the member's loss, or an end of its own?
    /// Nobody can tell until the member's fate is decided. Taken in at once, a loss that is declared a moment
    /// later would find nothing there and go uncounted. A present container's success is nobody's symptom.
    fn is_for_the_member_to_tell(&self, execution: ExecutionId, event: &ContainerEvent) -> bool {
        let succeeded = matches!(
            event,
            ContainerEvent::Ended { outcome: Some(Outcome::Exited { code: 0 }), proof: Some(_) }
        );
        let Some(at) = self.containers.get(execution) else { return false };
        let member = self.members.get(at.member);
        let is_news = !(succeeded && at.answer == Answer::Live);
        is_news && member.is_some_and(Member::is_in_doubt)
    }

    /// Takes in what is said about a container. An id that is not a present one, or news that is not
    /// new, changes nothing but a counter: a report of an earlier attempt can neither fail, finish nor
    /// free what a later one holds.
    pub(crate) fn note_event(
        &mut self,
        execution: ExecutionId,
        event: ContainerEvent,
        d: &mut Draft,
    ) {
        let Some(container) = self.containers.get(execution) else {
            self.counters.redundant_notifications += 1;
            return;
        };
        match event {
            ContainerEvent::Started { pid, wrapper_pid } => {
                self.note_started(
                    execution,
                    container,
                    Pids { program: pid, wrapper: wrapper_pid },
                    d,
                );
            }
            ContainerEvent::Ended { outcome, proof } => {
                let proof = proof.filter(|proof| self.is_believable(execution, container, *proof));
                if container.answer == Answer::Live {
                    self.note_end_of_live(execution, container, outcome, proof, d);
                } else {
                    self.note_end_of_revoked(execution, container, outcome, proof, d);
                }
            }
        }
    }

    /// An agent that has forgotten a container, since the unproven end of it was acknowledged, takes it
    /// for one that was never started. What was reported before outranks that.
    fn is_believable(&mut self, execution: ExecutionId, at: Container, proof: Proof) -> bool {
        let job = self.jobs.get_mut(&at.job);
        let Some(group) = job.and_then(|job| job.pipeline(at.pipeline)?.group(at.group)) else {
            return false;
        };
        let mut known = group.container.iter().chain(&group.leftovers);
        let container = known.find(|container| container.id == execution);
        proof != Proof::NeverStarted
            || container.is_none_or(|known| known.started.is_none() && !known.ended_unproven)
    }

    fn note_started(&mut self, execution: ExecutionId, at: Container, pids: Pids, d: &mut Draft) {
        let Some(job) = self.jobs.get_mut(&at.job) else { return };
        let Some(group) = job.pipeline(at.pipeline).and_then(|p| p.group(at.group)) else { return };
        let present = group.container.as_mut().filter(|container| container.id == execution);
        let Some(container) = present.filter(|container| container.started.is_none()) else {
            self.counters.redundant_notifications += 1;
            return;
        };
        container.started = Some(pids);
        group.enter(TaskGroupStatus::Running);
        d.job(at.job);
        self.advance(at.job, at.pipeline, d);
    }

    fn note_end_of_live(
        &mut self,
        execution: ExecutionId,
        at: Container,
        outcome: Option<Outcome>,
        proof: Option<Proof>,
        d: &mut Draft,
    ) {
        let Some(job) = self.jobs.get_mut(&at.job) else { return };
        let Some(group) = job.pipeline(at.pipeline).and_then(|p| p.group(at.group)) else { return };
        let Some(container) = group.container.as_mut() else { return };
        // Where the end is not proven, the lease is waited for here too, and counted then.
        let expired = matches!(outcome, Some(Outcome::Ended { why: StopCause::LeaseExpired, .. }));
        self.counters.leases_expired += u64::from(expired && proof.is_some());
        let succeeded = proof.is_some() && outcome == Some(Outcome::Exited { code: 0 });
        if proof.is_some() {
            container.gone = true;
        } else {
            container.ended_unproven = true;
        }
        if succeeded {
            if group.status == TaskGroupStatus::Deploying {
                group.enter(TaskGroupStatus::Running);
            }
            group.enter(TaskGroupStatus::Finished);
            group.last_error = None;
        } else {
            group.enter(TaskGroupStatus::Failing);
            group.last_error = Some(describe(outcome.as_ref()));
        }
        d.job(at.job);
        if proof.is_some() {
            self.forget_container(execution, d);
        }
        if succeeded {
            self.advance(at.job, at.pipeline, d);
        } else {
            let kind = match outcome {
                Some(Outcome::Ended { .. }) => FailureKind::Ladder,
                _ => FailureKind::Program,
            };
            let first = match (&outcome, proof) {
                (None, None) => FirstCause::pending(kind, execution),
                _ => {
                    let seen = describe(outcome.as_ref());
                    FirstCause::seen(kind, format!("task group {}: {seen}", at.group))
                }
            };
            self.fail_pipeline(at.job, at.pipeline, &first, d);
        }
    }

    /// A report for a container that is no longer valid proves its end, and may settle a cause; it does
    /// nothing else.
    fn note_end_of_revoked(
        &mut self,
        execution: ExecutionId,
        at: Container,
        outcome: Option<Outcome>,
        proof: Option<Proof>,
        d: &mut Draft,
    ) {
        if outcome.is_some() {
            self.settle_cause(execution, at, &describe(outcome.as_ref()), d);
        }
        if proof.is_some() {
            self.remove_leftover(execution, at, d);
            d.job(at.job);
        } else if let Some(leftover) = self.leftover(execution, at)
            && !leftover.ended_unproven
        {
            leftover.ended_unproven = true;
            d.job(at.job);
        } else {
            self.counters.redundant_notifications += 1;
        }
        self.advance(at.job, at.pipeline, d);
    }

    fn leftover(&mut self, execution: ExecutionId, at: Container) -> Option<&mut ContainerRecord> {
        let group = self.jobs.get_mut(&at.job)?.pipeline(at.pipeline)?.group(at.group)?;
        group.leftovers.iter_mut().find(|container| container.id == execution)
    }

    pub(crate) fn remove_leftover(&mut self, execution: ExecutionId, at: Container, d: &mut Draft) {
        // Nothing more will be told of it.
        self.settle_cause(execution, at, NOBODY_SAW, d);
        if let Some(job) = self.jobs.get_mut(&at.job)
            && let Some(group) = job.pipeline(at.pipeline).and_then(|p| p.group(at.group))
        {
            group.leftovers.retain(|container| container.id != execution);
        }
        self.forget_container(execution, d);
    }

    /// Gives back what a container held: accepting its end and freeing its slot are one decision.
    pub(crate) fn forget_container(&mut self, execution: ExecutionId, d: &mut Draft) {
        let Some(container) = self.containers.remove(execution) else { return };
        if let Some(member) = self.members.get_mut(container.member) {
            member.containers.remove(&execution);
        }
        d.job(container.job).index.push(IndexChange::Remove(execution));
        self.place_again = true;
    }

    /// The validity index has told the last answers of what was revoked.
    pub(crate) fn last_answers(
        &mut self,
        answers: &[(ExecutionId, Option<Timestamp>)],
        d: &mut Draft,
    ) {
        for (execution, last) in answers {
            let Some(container) = self.containers.get(*execution) else { continue };
            if container.answer == Answer::Awaited {
                self.containers.set_answer(*execution, Answer::Told(*last));
                self.advance(container.job, container.pipeline, d);
            }
        }
    }

    /// Makes a present container invalid: frozen before the commit, refused after it, and told to stop
    /// where its agent can be reached.
    pub(crate) fn revoke(&mut self, execution: ExecutionId, reason: InvalidReason, d: &mut Draft) {
        let Some(at) = self.containers.get(execution) else { return };
        let Some(job) = self.jobs.get_mut(&at.job) else { return };
        let lease = job.record.spec.container.lease;
        let Some(group) = job.pipeline(at.pipeline).and_then(|p| p.group(at.group)) else { return };
        let Some(mut container) = group.container.take_if(|container| container.id == execution)
        else {
            return;
        };
        container.revoked = Some(reason);
        group.leftovers.push(container.clone());
        let entry = container.entry(&job.record, at.group);
        self.containers.set_answer(execution, Answer::Awaited);
        d.freeze(execution);
        let connection = self.members.get(at.member).and_then(|member| member.connection());
        let draft = d.job(at.job);
        draft.index.push(IndexChange::Invalid(execution, reason, entry));
        if let Some(connection) = connection.filter(|_| reason != InvalidReason::MemberLost) {
            let grace_ms = lease.grace_ms;
            let stop = AgentMessage::Stop { execution, reason, grace_ms };
            draft.effects.push(Effect::Send(connection, stop));
        }
    }

    /// Why a revoked container still stands in the way, or `None` when it does not: its lease is over
    /// where nobody can prove its end, or it never had a "yes", or the job gave up the promise.
    pub(crate) fn obstacle(&self, leftover: &ContainerRecord, now: Timestamp) -> Option<Obstacle> {
        let at = self.containers.get(leftover.id)?;
        let spec = &self.jobs.get(&at.job)?.record.spec.container;
        let is_in_doubt = self.members.get(at.member).is_some_and(Member::is_in_doubt);
        if is_in_doubt && !leftover.ended_unproven {
            return Some(Obstacle::Doubt);
        }
        if !spec.validator_enabled {
            return None;
        }
        let last = match at.answer {
            Answer::Live | Answer::Awaited => return Some(Obstacle::LastAnswer),
            Answer::Told(None) => return None,
            Answer::Told(Some(last)) => last,
        };
        let until = last + spec.lease.replace_after_ms();
        if self.members.is_present(at.member) && !leftover.ended_unproven {
            // A healthy agent that has not proved the end outranks a lease that has run out.
            let mut again = until;
            while again <= now {
                again = again + spec.lease.lease_ms;
            }
            return Some(Obstacle::Proof { again });
        }
        (now < until).then_some(Obstacle::Lease { until })
    }

    /// Whether every task group of the pipeline's present attempt has been started, or has finished.
    pub(crate) fn all_started(pipeline: &PipelineRecord) -> bool {
        pipeline.status == PipelineStatus::Deploying
            && pipeline.task_groups.iter().all(|group| {
                matches!(group.status, TaskGroupStatus::Running | TaskGroupStatus::Finished)
            })
    }
}

/// An end in words, of which a job's record keeps many: what a program's start came to is somebody
/// else's text.
fn describe(outcome: Option<&Outcome>) -> String {
    let text = match outcome {
        None => NOBODY_SAW.to_owned(),
        Some(Outcome::Exited { code }) => format!("the program exited with code {code}"),
        Some(Outcome::Signaled { signal }) => format!("signal {signal} ended the program"),
        Some(Outcome::Ended { why, killed }) => {
            let how = if *killed { "killed" } else { "stopped" };
            format!("the container was {how} by its validator: {why:?}")
        }
        Some(Outcome::NotStarted { error }) => format!("the program was not started: {error}"),
    };
    bounded(&text, MAX_CAUSE_BYTES)
}
