//! What happened to the jobs, as somebody outside could tell it: from what was reported and what was
//! committed, not from the engine's own view of itself.
//!
//! A step is told in the order in which its parts happened: what the input reported, the member's loss
//! that was journalled, the jobs that can no longer restore, the pipelines that were deployed.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_engine::records::{JobRecord, PipelineRecord};
use steadfast_engine::{Effect, Input, JobStep, Reply, Step};
use steadfast_model::{
    ContainerEvent, ExecutionId, JobId, JobSpec, JobStatus, MemberUuid, Outcome, PipelineId,
    Timestamp,
};

use crate::leaves::Leaves;

/// One thing that happened to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// It was taken in.
    Submitted(Box<JobSpec>),
    /// A container of a pipeline's present attempt ended, and not with success.
    Failed(PipelineId),
    /// Every container of a pipeline's present attempt has been started, or has finished.
    Ran(PipelineId),
    /// A member was lost on which these pipelines had containers of their last attempt that had not ended.
    Lost { member: MemberUuid, pipelines: Vec<PipelineId>, planned: bool },
    /// It can no longer restore: it fails, is cancelled, or has ended.
    Over,
    /// A pipeline reached `DEPLOYING`.
    Deployed(PipelineId),
}

#[derive(Clone, Debug)]
struct Seat {
    member: MemberUuid,
    started: bool,
    /// Its end was reported, or it never began and is known to be gone.
    ended: bool,
}

/// A pipeline's last attempt. Once it has failed it has yet to end on every seat.
#[derive(Clone, Debug, Default)]
struct Attempt {
    number: u32,
    seats: BTreeMap<ExecutionId, Seat>,
    ran: bool,
    failed: bool,
}

#[derive(Clone, Debug, Default)]
struct Job {
    attempts: BTreeMap<PipelineId, Attempt>,
    /// Whether an old copy is waited for.
    waits: bool,
    over: bool,
}

/// What is known so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    jobs: BTreeMap<JobId, Job>,
    places: BTreeMap<ExecutionId, (JobId, PipelineId)>,
    leaves: Leaves,
}

impl Story {
    /// Another coordinator begins.
    pub fn term_begins(&mut self, began: Timestamp) {
        self.leaves.term_begins(began);
    }

    /// What a committed step, with its input, adds to the story.
    pub fn go_on(&mut self, input: &Input, step: &Step) -> Vec<(JobId, Fact)> {
        let mut facts = Vec::new();
        let asked_again = |effect: &Effect| matches!(effect, Effect::Reply(_, Reply::AskAgain));
        match input {
            // Nobody took it: whoever said it says it again.
            Input::Container { .. } if step.effects.iter().any(asked_again) => {}
            Input::Container { execution, event, .. } => {
                self.reported(*execution, event, &mut facts)
            }
            Input::Hello { containers, .. } => {
                for (execution, event) in containers {
                    if let Some(event) = event {
                        self.reported(*execution, event, &mut facts);
                    }
                }
            }
            Input::Stop { job, .. } => self.is_over(*job, &mut facts),
            _ => {}
        }
        self.leaves.go_on(input, step);
        if let Some(event) = &step.member_event {
            let planned = self.leaves.planned(input, step, event);
            self.lost(event.member, planned, &mut facts);
        }
        for job in &step.jobs {
            self.committed(job, &mut facts);
        }
        facts
    }

    fn reported(
        &mut self,
        execution: ExecutionId,
        event: &ContainerEvent,
        facts: &mut Vec<(JobId, Fact)>,
    ) {
        let Some((id, pipeline)) = self.places.get(&execution).copied() else { return };
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.over) else { return };
        let Some(attempt) = job.attempts.get_mut(&pipeline) else { return };
        let Some(seat) = attempt.seats.get_mut(&execution).filter(|seat| !seat.ended) else {
            return;
        };
        match event {
            ContainerEvent::Started { .. } => seat.started = true,
            ContainerEvent::Ended { outcome, proof } => {
                seat.ended = true;
                let succeeded = *outcome == Some(Outcome::Exited { code: 0 }) && proof.is_some();
                if !succeeded && !std::mem::replace(&mut attempt.failed, true) {
                    facts.push((id, Fact::Failed(pipeline)));
                }
            }
        }
        let all = attempt.seats.values().all(|seat| seat.started || seat.ended);
        if all && !attempt.failed && !std::mem::replace(&mut attempt.ran, true) {
            facts.push((id, Fact::Ran(pipeline)));
        }
    }

    fn lost(&mut self, member: MemberUuid, planned: bool, facts: &mut Vec<(JobId, Fact)>) {
        for (id, job) in self.jobs.iter_mut().filter(|(_, job)| !job.over) {
            let mut affected = Vec::new();
            for (pipeline, attempt) in &mut job.attempts {
                if attempt.seats.values().any(|seat| seat.member == member && !seat.ended) {
                    attempt.failed = true;
                    affected.push(*pipeline);
                }
            }
            if !affected.is_empty() {
                facts.push((*id, Fact::Lost { member, pipelines: affected, planned }));
            }
        }
    }

    fn is_over(&mut self, id: JobId, facts: &mut Vec<(JobId, Fact)>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if !std::mem::replace(&mut job.over, true) {
            facts.push((id, Fact::Over));
        }
    }

    fn committed(&mut self, step: &JobStep, facts: &mut Vec<(JobId, Fact)>) {
        let ended = step.writes.ended.as_ref().map(|history| &history.job);
        let Some(record) = step.writes.record.as_deref().or(ended) else { return };
        self.jobs.entry(step.job).or_insert_with(|| {
            facts.push((step.job, Fact::Submitted(Box::new(JobSpec::clone(&record.spec)))));
            Job { waits: record.spec.container.validator_enabled, ..Job::default() }
        });
        let over = matches!(record.status, JobStatus::Failing | JobStatus::Canceling);
        if over || record.status.is_terminal() {
            self.is_over(step.job, facts);
        }
        self.deployed(step.job, record, facts);
    }

    fn deployed(&mut self, id: JobId, record: &JobRecord, facts: &mut Vec<(JobId, Fact)>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        for pipeline in &record.pipelines {
            let attempt = job.attempts.entry(pipeline.id).or_default();
            if pipeline.attempt > attempt.number {
                let (number, seats) = (pipeline.attempt, seats(pipeline));
                *attempt = Attempt { number, seats, ran: false, failed: false };
                for execution in attempt.seats.keys() {
                    self.places.insert(*execution, (id, pipeline.id));
                }
                facts.push((id, Fact::Deployed(pipeline.id)));
            }
            // What never began is known to be gone as soon as it is taken back.
            let groups = pipeline.task_groups.iter();
            let kept = groups.flat_map(|group| group.container.iter().chain(&group.leftovers));
            let kept: BTreeSet<ExecutionId> = kept.map(|container| container.id).collect();
            for (execution, seat) in &mut attempt.seats {
                let may_be_gone = !seat.started || !job.waits;
                seat.ended |= attempt.failed && may_be_gone && !kept.contains(execution);
            }
        }
    }
}

fn seats(pipeline: &PipelineRecord) -> BTreeMap<ExecutionId, Seat> {
    let containers = pipeline.task_groups.iter().filter_map(|group| group.container.as_ref());
    containers
        .map(|container| {
            (container.id, Seat { member: container.member, started: false, ended: false })
        })
        .collect()
}
