//! The shell around the engine, as the order law asks for it: freeze, commit, index, effects, view.
//!
//! One batch of steps is in flight at a time; what is heard meanwhile waits. A commit takes time, is
//! refused, loses its ledger part, or ends with nobody knowing; and the coordinator dies at any moment,
//! between a commit and its effects above all. Whatever dies is loaded again from what is durable.

use std::collections::{BTreeMap, VecDeque};

use steadfast_engine::{
    Effect, Engine, IndexChange, Input, MAX_LEAVE_VALID_MS, Reply, Reporter, Step,
};
use steadfast_ledger::JobLedger;
use steadfast_model::{ContainerEvent, ExecutionId, JobId, Timestamp};

use crate::commit::Batch;
use crate::index::{Answer, Index};
use crate::invariants::View;
use crate::mutation::Mutation;
use crate::recording::Recording;
use crate::world::{Event, Waiter, World};

const MAX_BATCH: u64 = 4;

/// A term, or the time between two.
#[derive(Default)]
pub(crate) struct Coordinator {
    pub engine: Option<Engine>,
    pub index: Index,
    pub inbox: VecDeque<Input>,
    pub in_flight: Option<Batch>,
    pub stopped: bool,
    pub term: u64,
    /// What its wall clock shows beyond the simulated time; another one each term.
    pub clock_ms: u64,
    pub wake_at: Option<u64>,
    /// The last answers as they were before the commit, for one of the mutations.
    pub told_early: BTreeMap<ExecutionId, Option<Timestamp>>,
    /// The ledgers as they were some commits ago, for another.
    pub old_ledgers: VecDeque<BTreeMap<JobId, std::sync::Arc<JobLedger>>>,
    /// Steps of the engine.
    pub steps: u64,
    /// What it was told, if somebody wants to tell it again.
    pub recording: Option<Recording>,
}

impl Coordinator {
    pub fn is_up(&self) -> bool {
        self.engine.is_some()
    }

    pub fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref()
    }

    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Nothing waits and nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_none() && self.inbox.is_empty()
    }

    pub fn clock(&self, now: u64) -> Timestamp {
        Timestamp::from_millis(self.clock_ms + now)
    }
}

impl World {
    /// A container asks; `None` where nobody answers.
    pub fn coordinator_answers(&mut self, execution: ExecutionId, started: bool) -> Option<Answer> {
        if self.coordinator.stopped {
            return None;
        }
        if !self.coordinator.is_up() {
            return Some(Answer::Unknown);
        }
        let now = self.coordinator.clock(self.now);
        let answer = self.coordinator.index.ask(execution, now);
        if started && self.coordinator.index.note_started(execution) {
            let event = ContainerEvent::Started { pid: 2, wrapper_pid: 1 };
            let reporter = Reporter::Wrapper(None);
            self.hear(Input::Container { execution, event, reporter });
        }
        Some(answer)
    }

    /// Takes an input in; a copy may come again, at once or much later.
    pub fn hear(&mut self, input: Input) {
        if !self.coordinator.is_up() {
            return;
        }
        let may_repeat = !matches!(input, Input::Hello { .. } | Input::Submit { .. });
        if may_repeat && self.faulty && self.network_rng.chance(self.plan.odds.twice) {
            let later = if self.network_rng.chance(500) { 10 } else { 20_000 };
            let at = self.now + self.network_rng.between(0, later);
            self.at(at, Event::Again(self.coordinator.term, Box::new(input.clone())));
        }
        self.coordinator.inbox.push_back(input);
        self.pump();
    }

    pub fn hear_again(&mut self, term: u64, input: Input) {
        // Connections and tickets mean something within their term alone.
        if self.coordinator.is_up() && self.coordinator.term == term {
            self.coordinator.inbox.push_back(input);
            self.pump();
        }
    }

    pub fn wake(&mut self, term: u64) {
        if self.coordinator.term == term {
            self.coordinator.wake_at = None;
            self.pump();
        }
    }

    /// Steps the engine through what waits, until a commit is under way.
    pub fn pump(&mut self) {
        while self.coordinator.is_up()
            && !self.coordinator.stopped
            && self.coordinator.in_flight.is_none()
        {
            let mut batch = Batch::default();
            let (mut counted, mut most) = (0, u64::MAX);
            while counted < most {
                let Some(input) = self.next_input() else { break };
                // The label must not change which steps are committed together: neither what it alone
                // brings counts, nor the ticks that follow it.
                if !matches!(input, Input::LedgerRefused { .. } | Input::Deadline) {
                    most = self.chance_now(1).between(1, MAX_BATCH);
                    counted += 1;
                }
                self.step(input, &mut batch);
            }
            if batch.steps.is_empty() {
                break;
            }
            if batch.writes_nothing() {
                self.observe(&batch);
                self.carry_out(batch, usize::MAX);
            } else if self.is_of_the_label(&batch) {
                // It takes no time: what the label alone writes must not change when the next step comes.
                let batch = self.apply(batch);
                self.carry_out(batch, usize::MAX);
            } else {
                self.begin_commit(batch);
            }
        }
        self.set_alarm();
    }

    /// Time comes first: what it has brought about must not be mixed up with a report, so that the
    /// oracle knows which of the two was first.
    fn next_input(&mut self) -> Option<Input> {
        let now = self.coordinator.clock(self.now);
        let engine = self.coordinator.engine.as_ref()?;
        let loading = matches!(self.coordinator.inbox.front(), Some(Input::TookOver));
        let due = engine.next_deadline().is_some_and(|deadline| deadline <= now);
        if due && !loading {
            return Some(Input::Deadline);
        }
        self.coordinator.inbox.pop_front()
    }

    fn step(&mut self, input: Input, batch: &mut Batch) {
        let now = self.coordinator.clock(self.now);
        let Some(engine) = self.coordinator.engine.as_mut() else { return };
        if let Some(recording) = &mut self.coordinator.recording {
            recording.step(input.clone(), now);
        }
        let mut told = input.clone();
        if let Input::PlanLeave { request, .. } = &mut told
            && self.mutation == Some(Mutation::ExpiryIgnored)
        {
            request.valid_ms = MAX_LEAVE_VALID_MS;
        }
        let mut step = engine.step(now, told);
        if self.mutation == Some(Mutation::DrainBurnsARestore) {
            burn_a_restore(&input, &mut step);
        }
        if !(step.writes_nothing() && matches!(input, Input::Heard { .. } | Input::Deadline)) {
            self.trace.note(self.now, || format!("{}{}", brief(&input), outcome(&step)));
        }
        self.coordinator.steps += 1;
        for execution in &step.freeze {
            if self.mutated(Mutation::IndexNotFrozen) {
                let last = self.coordinator.index.last_answer(*execution);
                self.coordinator.told_early.insert(*execution, last);
            } else if !self.mutated(Mutation::RevokedGoesOn) {
                self.coordinator.index.freeze(*execution);
            }
        }
        batch.steps.push((input, step));
    }

    fn set_alarm(&mut self) {
        let coordinator = &mut self.coordinator;
        let Some(deadline) = coordinator.engine.as_ref().and_then(|e| e.next_deadline()) else {
            return;
        };
        if coordinator.in_flight.is_some() || coordinator.stopped {
            return;
        }
        let at = deadline.as_millis().saturating_sub(coordinator.clock_ms).max(self.now);
        if coordinator.wake_at.is_none_or(|wake_at| at < wake_at) {
            coordinator.wake_at = Some(at);
            let term = coordinator.term;
            self.at(at, Event::Wake(term));
        }
    }

    /// Index, effects, view; at most so many effects, where the coordinator dies among them.
    pub fn carry_out(&mut self, batch: Batch, mut most: usize) {
        let mut answers = Vec::new();
        let goes_on = self.mutated(Mutation::RevokedGoesOn);
        let remembers = self.mutated(Mutation::ContainersRemembered);
        for (_, step) in &batch.steps {
            let jobs = step.jobs.iter().flat_map(|job| &job.index);
            for change in step.index.iter().chain(jobs) {
                match change {
                    IndexChange::Remove(_) if remembers => continue,
                    IndexChange::Invalid(id, ..) if goes_on => {
                        answers.push((*id, self.coordinator.index.last_answer(*id)));
                        continue;
                    }
                    _ => {}
                }
                answers.extend(self.coordinator.index.change(change));
            }
        }
        self.tell_last_answers(answers);
        for (input, step) in batch.steps {
            if matches!(input, Input::TookOver) {
                self.coordinator.index.serves = true;
            }
            let jobs = step.jobs.into_iter().flat_map(|job| job.effects);
            for effect in jobs.chain(step.effects) {
                if most == 0 {
                    return;
                }
                most -= 1;
                self.take_effect(effect);
            }
        }
        for job in batch.refused.iter().rev() {
            let durable = self.durable.ledgers.get(job).cloned();
            self.coordinator.inbox.push_front(Input::LedgerRefused { job: *job, durable });
        }
        if !matches!(self.coordinator.inbox.front(), Some(Input::LedgerRefused { .. })) {
            self.look_at_view();
        }
    }

    fn tell_last_answers(&mut self, mut answers: Vec<(ExecutionId, Option<Timestamp>)>) {
        if answers.is_empty() || self.mutated(Mutation::LastAnswersUntold) {
            return;
        }
        for (execution, last) in &mut answers {
            if self.mutated(Mutation::LeaseNotWaitedFor) {
                *last = None;
            }
            if let Some(early) = self.coordinator.told_early.get(execution) {
                *last = *early;
            }
        }
        self.coordinator.inbox.push_back(Input::LastAnswers(answers));
    }

    pub fn take_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Send(connection, message) => self.send_down(connection, message),
            Effect::Reply(ticket, reply) => {
                let Some(waiter) = self.waiters.remove(&ticket) else { return };
                if self.is_lost() {
                    return;
                }
                match (waiter, reply) {
                    (Waiter::Submitter(number), Reply::Submitted(id)) => {
                        self.submit_answered(number, id);
                    }
                    (Waiter::Wrapper(execution), Reply::EndNoted) => {
                        let latency = self.latency();
                        self.at(self.now + latency, Event::GoodByeNoted(execution));
                    }
                    (Waiter::Stopper(job), reply) => self.stop_answered(job, &reply),
                    (Waiter::Operator(errand), reply) => self.leave_answered(errand, reply),
                    _ => {}
                }
            }
        }
    }

    /// What a reader would be shown now.
    fn look_at_view(&mut self) {
        if let Some(engine) = &self.coordinator.engine {
            self.checks.view(&View {
                engine,
                durable: &self.durable,
                index: &self.coordinator.index,
                now: self.coordinator.clock(self.now),
                lost_listed_ms: self.plan.settings.lost_listed_ms,
                ttl_ms: self.plan.settings.pending_incident_ttl_ms,
                refused: &self.refused,
                stopped: &self.stopped,
                submitted: &self.submitted,
                planned: &self.planned,
            });
        }
    }
}

fn burn_a_restore(input: &Input, step: &mut Step) {
    if !matches!(input, Input::PlanLeave { .. }) || step.member_event.is_none() {
        return;
    }
    for record in step.jobs.iter_mut().filter_map(|job| job.writes.record.as_mut()) {
        for pipeline in &mut std::sync::Arc::make_mut(record).pipelines {
            pipeline.budget_used += 1;
        }
    }
}

/// What a step decided, as far as it tells the story.
fn outcome(step: &Step) -> String {
    let mut text = String::new();
    if let Some(event) = &step.member_event {
        text.push_str(&format!("\n{:14}lost: {} ({})", "", event.member, event.evidence));
    }
    for job in &step.jobs {
        let ended = job.writes.ended.as_ref().map(|history| &history.job);
        let Some(record) = job.writes.record.as_deref().or(ended) else { continue };
        text.push_str(&format!("\n{:14}job {} {}", "", record.id, record.status));
        for pipeline in &record.pipelines {
            let number = pipeline.attempt;
            text.push_str(&format!(", {} {} #{number}", pipeline.id, pipeline.status));
        }
    }
    text
}

fn brief(input: &Input) -> String {
    match input {
        Input::Submit { spec, .. } => format!("Submit {}", spec.name),
        Input::Hello { connection, member, containers, .. } => {
            format!("Hello {} {connection:?} with {containers:?}", member.uuid)
        }
        Input::Heard { member, .. } => format!("Heard {member}"),
        Input::Container { execution, event, .. } => format!("{execution}: {event:?}"),
        other => format!("{other:?}"),
    }
}
