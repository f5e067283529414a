//! Commits: they take time, are refused as a whole or in their ledger part, and end with nobody knowing.

use std::sync::Arc;

use steadfast_engine::records::JobRecord;
use steadfast_engine::{Effect, Input, JobStep, JobWrites, Step};
use steadfast_ledger::JobLedger;
use steadfast_model::{Cause, JobId};

use crate::mutation::Mutation;
use crate::rng::Rng;
use crate::world::{Event, World};

/// Steps that are committed together.
#[derive(Default)]
pub(crate) struct Batch {
    pub steps: Vec<(Input, Step)>,
    pub refused: Vec<JobId>,
}

impl Batch {
    /// A takeover is committed in any case: what it writes may be a ledger's part alone, and the label
    /// must not change when the next step comes.
    pub fn writes_nothing(&self) -> bool {
        self.steps
            .iter()
            .all(|(input, step)| step.writes_nothing() && !matches!(input, Input::TookOver))
    }

    pub fn has_ledger_of(&self, job: JobId) -> bool {
        let mut jobs = self.steps.iter().flat_map(|(_, step)| &step.jobs);
        jobs.any(|step| step.job == job && step.writes.ledger.is_some())
    }
}

impl World {
    pub fn begin_commit(&mut self, mut batch: Batch) {
        let rng = &mut self.chance_now(2);
        let stalled = self.faulty && rng.chance(self.plan.odds.stalled);
        let most_ms = if stalled { 3_000 } else { 4 };
        let takes_ms = rng.between(0, most_ms);
        batch.refused = self.refusals(&batch);
        let ledgers = batch.refused.iter().any(|job| batch.has_ledger_of(*job));
        let waits_ms =
            if self.mutated(Mutation::LabelStandsInTheWay) && ledgers { 1_000 } else { 0 };
        if self.mutated(Mutation::AcknowledgedTooSoon) {
            let jobs = batch.steps.iter().flat_map(|(_, step)| &step.jobs);
            let effects: Vec<Effect> = jobs.flat_map(|job| &job.effects).cloned().collect();
            for effect in effects {
                self.take_effect(effect);
            }
        }
        self.coordinator.in_flight = Some(batch);
        let term = self.coordinator.term;
        self.at(self.now + takes_ms + waits_ms, Event::CommitEnds(term));
    }

    /// Whether all that a batch writes is there for the label's sake: a ledger that catches up, or an
    /// episode that is parked.
    pub fn is_of_the_label(&self, batch: &Batch) -> bool {
        batch.steps.iter().all(|(input, step)| {
            let takeover = matches!(input, Input::TookOver);
            let jobs_only = step.member_event.is_none()
                && step.members.is_empty()
                && step.requests.is_empty()
                && step.processed.is_none()
                && step.forgotten.is_empty();
            !takeover && jobs_only && step.jobs.iter().all(|job| self.is_label_of(job))
        })
    }

    fn is_label_of(&self, job: &JobStep) -> bool {
        let JobWrites { record: Some(record), ledger: _, episodes: _, tokens, ended: None } =
            &job.writes
        else {
            return false;
        };
        let bare = |record: &JobRecord| {
            let mut record = record.clone();
            record.ledger_revision = None;
            record.owed_since = None;
            record.dirty_since = None;
            record.pipelines.iter_mut().for_each(|pipeline| pipeline.recovery = None);
            record
        };
        let before = self.durable.jobs.get(&job.job);
        tokens.is_empty() && before.is_some_and(|before| bare(before) == bare(record))
    }

    /// Chance for one concern at this very moment, drawn from no stream: one more step of the engine, for
    /// the label's sake, changes no later chance.
    pub fn chance_now(&self, concern: u64) -> Rng {
        Rng::new(self.seed.wrapping_add(self.now << 32), concern)
    }

    /// Jobs whose ledger part the store refuses, drawn for every job, whether it has a ledger or not.
    fn refusals(&self, batch: &Batch) -> Vec<JobId> {
        let mut refused = Vec::new();
        for job in batch.steps.iter().flat_map(|(_, step)| &step.jobs) {
            let mut rng = Rng::new(job.job.get(), self.now);
            let refuses = self.faulty && rng.chance(self.plan.odds.ledger_refused);
            if refuses && !refused.contains(&job.job) {
                refused.push(job.job);
            }
        }
        refused
    }

    pub fn commit_ends(&mut self, term: u64) {
        if self.coordinator.term != term || !self.coordinator.is_up() || self.coordinator.stopped {
            return;
        }
        let odds = self.plan.odds.clone();
        let faulty = self.faulty;
        let rng = &mut self.chance_now(3);
        let not_applied = faulty && rng.chance(odds.not_applied);
        let unknown = faulty && rng.chance(odds.unknown);
        let dies = faulty && rng.chance(odds.dies_after_commit);
        let torn = faulty && rng.chance(odds.torn_loss);
        if not_applied {
            // The same again, and nothing thaws meanwhile.
            let again_ms = rng.between(20, 800);
            self.at(self.now + again_ms, Event::CommitEnds(term));
            return;
        }
        if unknown {
            self.trace.note(self.now, || "the commit's outcome is unknown".to_owned());
            self.coordinator_dies();
            return;
        }
        let Some(batch) = self.coordinator.in_flight.take() else { return };
        if torn && let Some(torn) = torn_loss(&batch, self.now) {
            self.apply(torn);
            self.trace.note(self.now, || "the coordinator dies in the middle of a loss".to_owned());
            self.coordinator_dies();
            return;
        }
        let batch = self.apply(batch);
        let effects: usize = batch.steps.iter().map(|(_, step)| effects_of(step)).sum();
        if dies {
            let carried_out = rng.between(0, effects as u64);
            self.carry_out(batch, usize::try_from(carried_out).unwrap_or(0));
            self.trace.note(self.now, || "the coordinator dies among its effects".to_owned());
            self.coordinator_dies();
            return;
        }
        self.carry_out(batch, usize::MAX);
        self.pump();
    }

    /// Makes a batch durable, all of it but what the store refuses of ledgers.
    pub fn apply(&mut self, mut batch: Batch) -> Batch {
        if self.mutated(Mutation::OldLedgers) || self.mutated(Mutation::HistoryOfOldLedger) {
            self.coordinator.old_ledgers.push_back(self.durable.ledgers.clone());
            if self.coordinator.old_ledgers.len() > 6 {
                self.coordinator.old_ledgers.pop_front();
            }
        }
        let refused = batch.refused.iter().copied().filter(|job| batch.has_ledger_of(*job));
        batch.refused = refused.collect();
        self.refused.extend(&batch.refused);
        self.mutate_writes(&mut batch);
        let apart: Vec<JobId> = match self.mutated(Mutation::LedgerApart) {
            true => self.durable.ledgers.keys().copied().collect(),
            false => Vec::new(),
        };
        let steps = batch.steps.iter().map(|(_, step)| step);
        let committed = self.durable.commit(steps, &batch.refused, &apart);
        self.checks.store(committed);
        self.observe(&batch);
        batch
    }

    fn mutate_writes(&self, batch: &mut Batch) {
        let writes = batch.steps.iter_mut().flat_map(|(_, step)| &mut step.jobs);
        for JobStep { job, writes, .. } in writes {
            if self.mutated(Mutation::HistoryOfOldLedger)
                && let Some(ended) = &mut writes.ended
                && let Some(old) = self.coordinator.old_ledgers.front()
                && let Some(old) = old.get(job)
            {
                Arc::make_mut(ended).ledger = Some(JobLedger::clone(old));
            }
            if self.mutated(Mutation::WordsKept)
                && let Some(record) = &mut writes.record
                && record.pipelines.iter().any(|pipeline| !pipeline.failures.is_empty())
            {
                let pipelines = &mut Arc::make_mut(record).pipelines;
                for failure in pipelines.iter_mut().flat_map(|pipeline| &mut pipeline.failures) {
                    failure.cause = Cause::Seen(
                        failure.cause.to_string().repeat(failure.attempt as usize * 10),
                    );
                }
            }
        }
    }

    pub fn observe(&mut self, batch: &Batch) {
        let history_size = self.plan.settings.event_history_size;
        for (input, step) in &batch.steps {
            self.checks.committed(self.now, input, step, history_size);
        }
    }
}

/// What is durable of a member's loss whose transactions were split between jobs when the coordinator
/// died: the journal's entry, the table of members and some of the jobs.
fn torn_loss(batch: &Batch, now: u64) -> Option<Batch> {
    let [(input @ (Input::Deadline | Input::PlanLeave { .. }), step)] = batch.steps.as_slice()
    else {
        return None;
    };
    step.member_event.as_ref()?;
    let mut step = step.clone();
    // Drawn for each job by itself: the label may bring one more.
    step.jobs.retain(|job| Rng::new(job.job.get(), now).chance(500));
    step.processed = None;
    Some(Batch { steps: vec![(input.clone(), step)], refused: batch.refused.clone() })
}

fn effects_of(step: &Step) -> usize {
    step.effects.len() + step.jobs.iter().map(|job| job.effects.len()).sum::<usize>()
}
