//! Commits: they take time, are refused as a whole or in their ledger part, and end with nobody knowing.

use std::collections::VecDeque;
use std::sync::Arc;

use steadfast_engine::records::JobRecord;
use steadfast_engine::{Effect, Input, JobStep, JobWrites, Step};
use steadfast_ledger::{JobLedger, Redo};
use steadfast_model::{Cause, JobId};

use crate::coordinator::CoordinatorNumber;
use crate::durable::Head;
use crate::mutation::Mutation;
use crate::rng::Rng;
use crate::world::{Event, World};

/// Steps that are committed together.
#[derive(Clone, Default)]
pub(crate) struct Batch {
    pub steps: Vec<(Input, Step)>,
    pub refused: Vec<JobId>,
    /// Another one for each transaction that is sent.
    pub number: u64,
}

/// A commit that is under way, in one transaction or in several.
pub(crate) struct InFlight {
    /// All of it: what is carried out in the end.
    pub batch: Arc<Batch>,
    /// What is not yet known to be durable, the part that is under way first.
    pub parts: VecDeque<Arc<Batch>>,
    /// The head that this part makes.
    pub next: Head,
    /// The request whose answer is waited for.
    pub sending: u64,
    /// Whether this part was ever sent: the coordinator may be stopped right before.
    pub sent: bool,
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
        jobs.any(|step| step.job == job && step.writes.ledger_to_put().is_some())
    }

    pub fn has_loss(&self) -> bool {
        self.steps.iter().any(|(_, step)| step.member_event.is_some())
    }
}

impl World {
    pub fn begin_commit(&mut self, c: CoordinatorNumber, mut batch: Batch) {
        let refused = self.refusals(&batch);
        batch.refused = refused.into_iter().filter(|job| batch.has_ledger_of(*job)).collect();
        if self.mutated(Mutation::AcknowledgedTooSoon) {
            let jobs = batch.steps.iter().flat_map(|(_, step)| &step.jobs);
            let effects: Vec<Effect> = jobs.flat_map(|job| &job.effects).cloned().collect();
            for effect in effects {
                self.take_effect(c, effect);
            }
        }
        self.arm(&batch);
        batch.number = self.number();
        let parts = self.parts_of(c, &batch);
        let next = self.next_head(c);
        let batch = Arc::new(batch);
        let parts = parts.unwrap_or_else(|| [Arc::clone(&batch)].into());
        let Some(term) = self.term_mut(c) else { return };
        term.in_flight = Some(InFlight { batch, parts, next, sending: 0, sent: false });
        if self.passes(c) {
            self.send_commit(c);
        }
    }

    /// The head that the next commit makes.
    pub fn next_head(&self, c: CoordinatorNumber) -> Head {
        self.term(c).map_or_else(Head::default, |term| term.head.next())
    }

    /// Sends the part that is next, for the first time or again.
    pub fn send_commit(&mut self, c: CoordinatorNumber) {
        if self.plan.etcd.is_some() {
            return self.send_to_etcd(c);
        }
        let rng = &mut self.chance_of(c, 2);
        let stalled = self.faulty && rng.chance(self.plan.odds.stalled);
        let takes_ms = rng.between(0, if stalled { 3_000 } else { 4 });
        let waits_ms = self.waits_for_the_label(c);
        let Some(term) = self.term_mut(c) else { return };
        let Some(in_flight) = &mut term.in_flight else { return };
        in_flight.sent = true;
        let number = term.number;
        self.at(self.now + takes_ms + waits_ms, Event::CommitEnds(number));
    }

    /// Where the label stands in the way, by mistake.
    pub fn waits_for_the_label(&self, c: CoordinatorNumber) -> u64 {
        let in_flight = self.term(c).and_then(|term| term.in_flight.as_ref());
        let refused = in_flight.is_some_and(|commit| !commit.batch.refused.is_empty());
        if self.mutated(Mutation::LabelStandsInTheWay) && refused { 1_000 } else { 0 }
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
            record.redo = Redo::default();
            record.owed_since = None;
            record.dirty_since = None;
            record.pipelines.iter_mut().for_each(|pipeline| pipeline.recovery = None);
            record
        };
        let before = self.durable.jobs.get(&job.job);
        tokens.is_empty() && before.is_some_and(|before| bare(before) == bare(record))
    }

    /// Chance for one concern of a coordinator at this very moment, drawn from no stream: one more step of
    /// the engine, for the label's sake, changes no later chance.
    pub fn chance_of(&self, c: CoordinatorNumber, concern: u64) -> Rng {
        Rng::new(self.seed.wrapping_add(self.now << 32), concern + 100 * c as u64)
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

    /// A commit of the embedded store ends: there nobody else can lead, and what is in doubt ends the
    /// process.
    pub fn commit_ends(&mut self, term: u64) {
        let Some(c) = self.awake_leader(term, Event::CommitEnds(term)) else { return };
        let odds = self.plan.odds.clone();
        let faulty = self.faulty;
        let rng = &mut self.chance_of(c, 3);
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
            self.coordinator_dies(c);
            return;
        }
        let Some(in_flight) = self.term_mut(c).and_then(|term| term.in_flight.take()) else {
            return;
        };
        let batch = in_flight.batch;
        if torn && let Some((first, _)) = split_loss(&batch, self.now) {
            self.apply(&first, in_flight.next);
            self.trace.note(self.now, || "the coordinator dies in the middle of a loss".to_owned());
            self.coordinator_dies(c);
            return;
        }
        self.apply(&batch, in_flight.next);
        let effects: usize = batch.steps.iter().map(|(_, step)| effects_of(step)).sum();
        let carried_out = if dies { rng.between(0, effects as u64) } else { u64::MAX };
        let most = usize::try_from(carried_out).unwrap_or(usize::MAX);
        self.carry_out(c, Arc::unwrap_or_clone(batch), most);
        if dies {
            self.trace.note(self.now, || "the coordinator dies among its effects".to_owned());
            self.coordinator_dies(c);
            return;
        }
        self.pump(c);
    }

    /// The process that holds an embedded store dies: whether the commit that is in flight was applied,
    /// nobody knows.
    pub fn lands_or_not(&mut self, c: CoordinatorNumber, lands: bool) {
        if self.plan.etcd.is_some() {
            return;
        }
        let in_flight = self.term_mut(c).and_then(|term| term.in_flight.take());
        if let Some(in_flight) = in_flight.filter(|_| lands) {
            self.apply(&in_flight.batch, in_flight.next);
        }
    }

    /// Makes a batch durable, all of it but what the store refuses of ledgers.
    pub fn apply(&mut self, batch: &Batch, head: Head) {
        self.remember();
        self.refused.extend(&batch.refused);
        let mutated = [Mutation::HistoryOfOldLedger, Mutation::WordsKept];
        let amended = self.mutation.is_some_and(|mutation| mutated.contains(&mutation));
        let amended = amended.then(|| self.mutate_writes(batch.clone()));
        let batch = amended.as_ref().unwrap_or(batch);
        let apart: Vec<JobId> = match self.mutated(Mutation::LedgerApart) {
            true => self.durable.ledgers.keys().copied().collect(),
            false => Vec::new(),
        };
        let steps = batch.steps.iter().map(|(_, step)| step);
        let committed = self.durable.commit(steps, &batch.refused, &apart, head);
        self.checks.store(committed);
        let leads = self.lead_held(head.term);
        self.checks.landed(batch.number, head, leads);
        self.observe(batch);
        if let Some(c) = self.coordinator_of(head.term)
            && let Some(term) = self.term_mut(c)
        {
            // Whoever waits for the answer learns it from that; this is for what takes no time.
            if term.in_flight.is_none() {
                term.head = head;
            }
        }
    }

    /// What some of the mutations need of the past.
    fn remember(&mut self) {
        match self.mutation {
            Some(Mutation::OldLedgers | Mutation::HistoryOfOldLedger) => {
                self.old_ledgers.push_back(self.durable.ledgers.clone());
                if self.old_ledgers.len() > 6 {
                    self.old_ledgers.pop_front();
                }
            }
            Some(Mutation::StartsBehind) => self.last_snapshot = Some(self.durable.snapshot()),
            _ => {}
        }
    }

    fn mutate_writes(&self, mut batch: Batch) -> Batch {
        let writes = batch.steps.iter_mut().flat_map(|(_, step)| &mut step.jobs);
        for JobStep { job, writes, .. } in writes {
            if self.mutated(Mutation::HistoryOfOldLedger)
                && let Some(ended) = &mut writes.ended
                && let Some(old) = self.old_ledgers.front()
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
        batch
    }

    pub fn observe(&mut self, batch: &Batch) {
        let history_size = self.plan.settings.event_history_size;
        for (input, step) in &batch.steps {
            self.checks.committed(self.now, input, step, history_size);
        }
    }
}

/// A member's loss whose transactions are split between jobs: first the journal's entry, the table of
/// members and some of the jobs, then the rest and how far all have been processed.
pub(crate) fn split_loss(batch: &Batch, now: u64) -> Option<(Batch, Batch)> {
    let [(input @ (Input::Deadline | Input::PlanLeave { .. }), step)] = batch.steps.as_slice()
    else {
        return None;
    };
    step.member_event.as_ref()?;
    let part = |step, number| Batch {
        steps: vec![(input.clone(), step)],
        refused: batch.refused.clone(),
        number,
    };
    // Drawn for each job by itself: the label may bring one more.
    let is_first = |job: &JobStep| Rng::new(job.job.get(), now).chance(500);
    let mut first = step.clone();
    first.jobs.retain(is_first);
    first.processed = None;
    let rest = Step {
        processed: step.processed,
        jobs: step.jobs.iter().filter(|job| !is_first(job)).cloned().collect(),
        ..Step::default()
    };
    // The whole is not sent then, so one of the two has its number.
    Some((part(first, batch.number), part(rest, 0)))
}

fn effects_of(step: &Step) -> usize {
    step.effects.len() + step.jobs.iter().map(|job| job.effects.len()).sum::<usize>()
}
