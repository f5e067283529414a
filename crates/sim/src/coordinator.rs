//! The shell around the engine, as the order law asks for it: freeze, commit, index, effects, view.
//!
//! One batch of steps is in flight at a time; what is heard meanwhile waits. A commit takes time, is
//! refused, loses its ledger part, or ends with nobody knowing; and the coordinator dies at any moment,
//! between a commit and its effects above all. Whatever dies is loaded again from what is durable.

use std::collections::{BTreeMap, VecDeque};

use steadfast_engine::{Effect, Engine, Input, Reply, Reporter, Step};
use steadfast_ledger::JobLedger;
use steadfast_model::{ContainerEvent, ExecutionId, JobId, TermNonce, Timestamp};

use crate::index::{Answer, Index};
use crate::invariants::View;
use crate::mutation::Mutation;
use crate::recording::Recording;
use crate::rng::Rng;
use crate::world::{Event, Waiter, World};

/// Where the wall clock stands when a simulation begins.
const EPOCH_MS: u64 = 1_700_000_000_000;
const MAX_BATCH: u64 = 4;

/// A term, or the time between two.
#[derive(Default)]
pub(crate) struct Coordinator {
    engine: Option<Engine>,
    index: Index,
    inbox: VecDeque<Input>,
    in_flight: Option<Batch>,
    pub stopped: bool,
    term: u64,
    /// What its wall clock shows beyond the simulated time; another one each term.
    clock_ms: u64,
    wake_at: Option<u64>,
    /// The last answers as they were before the commit, for one of the mutations.
    told_early: BTreeMap<ExecutionId, Option<Timestamp>>,
    /// The ledgers as they were some commits ago, for another.
    old_ledgers: VecDeque<BTreeMap<JobId, std::sync::Arc<JobLedger>>>,
    /// Steps of the engine.
    pub steps: u64,
    /// What it was told, if somebody wants to tell it again.
    pub recording: Option<Recording>,
}

/// Steps that are committed together.
#[derive(Default)]
struct Batch {
    steps: Vec<(Input, Step)>,
    refused: Vec<JobId>,
}

impl Batch {
    /// A takeover is committed in any case: what it writes may be a ledger's part alone, and the label
    /// must not change when the next step comes.
    fn writes_nothing(&self) -> bool {
        self.steps
            .iter()
            .all(|(input, step)| step.writes_nothing() && !matches!(input, Input::TookOver))
    }

    fn has_ledger_of(&self, job: JobId) -> bool {
        let mut jobs = self.steps.iter().flat_map(|(_, step)| &step.jobs);
        jobs.any(|step| step.job == job && step.writes.ledger.is_some())
    }
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

    fn clock(&self, now: u64) -> Timestamp {
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
        let step = engine.step(now, input.clone());
        if !(step.writes_nothing() && matches!(input, Input::Heard { .. } | Input::Deadline)) {
            self.trace.note(self.now, || format!("{}{}", brief(&input), outcome(&step)));
        }
        self.coordinator.steps += 1;
        for execution in &step.freeze {
            if self.mutated(Mutation::IndexNotFrozen) {
                let last = self.coordinator.index.last_answer(*execution);
                self.coordinator.told_early.insert(*execution, last);
            } else {
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

    fn begin_commit(&mut self, mut batch: Batch) {
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

    /// Chance for one concern at this very moment, drawn from no stream: one more step of the engine, for
    /// the label's sake, changes no later chance.
    fn chance_now(&self, concern: u64) -> Rng {
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
    fn apply(&mut self, mut batch: Batch) -> Batch {
        if self.mutated(Mutation::OldLedgers) {
            self.coordinator.old_ledgers.push_back(self.durable.ledgers.clone());
            if self.coordinator.old_ledgers.len() > 6 {
                self.coordinator.old_ledgers.pop_front();
            }
        }
        let refused = batch.refused.iter().copied().filter(|job| batch.has_ledger_of(*job));
        batch.refused = refused.collect();
        self.refused.extend(&batch.refused);
        let mut left_out = batch.refused.clone();
        if self.mutated(Mutation::LedgerApart) {
            left_out.extend(self.durable.ledgers.keys());
        }
        for (_, step) in &batch.steps {
            self.durable.apply(step, &left_out);
        }
        self.observe(&batch);
        batch
    }

    fn observe(&mut self, batch: &Batch) {
        for (input, step) in &batch.steps {
            self.checks.committed(self.now, input, step);
        }
    }

    /// Index, effects, view; at most so many effects, where the coordinator dies among them.
    fn carry_out(&mut self, batch: Batch, mut most: usize) {
        let mut answers = Vec::new();
        for (_, step) in &batch.steps {
            let jobs = step.jobs.iter().flat_map(|job| &job.index);
            for change in jobs.chain(&step.index) {
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
            self.coordinator.inbox.push_front(Input::LedgerRefused { job: *job });
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

    fn take_effect(&mut self, effect: Effect) {
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
                refused: &self.refused,
                stopped: &self.stopped,
                submitted: &self.submitted,
            });
        }
    }

    /// The coordinator dies. Whether the commit that is in flight was applied, nobody knows.
    pub fn coordinator_dies(&mut self) {
        if !self.coordinator.is_up() {
            return;
        }
        let rng = &mut self.chance_now(4);
        if let Some(batch) = self.coordinator.in_flight.take()
            && rng.chance(500)
        {
            let _ = self.apply(batch);
        }
        let coordinator = &mut self.coordinator;
        coordinator.engine = None;
        coordinator.index = Index::default();
        coordinator.inbox.clear();
        coordinator.told_early.clear();
        coordinator.stopped = false;
        coordinator.wake_at = None;
        coordinator.term += 1;
        self.waiters.clear();
        self.links_break();
        let most_ms = if rng.chance(700) { 300 } else { 20_000 };
        let down_ms = rng.between(5, most_ms);
        self.trace.note(self.now, || format!("the coordinator is down for {down_ms} ms"));
        self.at(self.now + down_ms, Event::CoordinatorStarts);
    }

    fn links_break(&mut self) {
        for (connection, link) in std::mem::take(&mut self.links) {
            let latency = self.network_rng.between(0, 30);
            self.at(self.now + latency, Event::AgentSeesClosed(link.agent, connection));
        }
    }

    pub fn coordinator_starts(&mut self) {
        if self.coordinator.is_up() {
            return;
        }
        self.coordinator.term += 1;
        self.coordinator.clock_ms = EPOCH_MS;
        let rng = &mut self.chance_now(5);
        if rng.chance(300) {
            // The wall clock of another machine, or a clock that was set.
            self.coordinator.clock_ms += rng.between(0, 7_200_000);
        }
        let nonce = TermNonce::new(rng.bits());
        let mut snapshot = self.durable.snapshot();
        self.mutate_snapshot(&mut snapshot);
        let now = self.coordinator.clock(self.now);
        let settings = self.plan.settings.clone();
        self.trace.note(self.now, || "the coordinator starts".to_owned());
        if let Some(recording) = &mut self.coordinator.recording {
            recording.load((snapshot.clone(), settings.clone(), nonce), now);
        }
        self.coordinator.engine = Some(Engine::load(snapshot, settings, nonce, now));
        self.coordinator.inbox.push_back(Input::TookOver);
        self.pump();
    }

    fn mutate_snapshot(&self, snapshot: &mut steadfast_engine::records::Snapshot) {
        match self.mutation {
            Some(Mutation::OldLedgers) => {
                if let Some(old) = self.coordinator.old_ledgers.front() {
                    let old = old.iter().map(|(id, ledger)| (*id, Ok(JobLedger::clone(ledger))));
                    snapshot.ledgers.extend(old);
                }
            }
            Some(Mutation::DirtForgotten) => {
                for job in &mut snapshot.jobs {
                    job.dirty_since = None;
                    snapshot.ledgers.remove(&job.id);
                }
            }
            Some(Mutation::BudgetForgotten) => {
                for pipeline in snapshot.jobs.iter_mut().flat_map(|job| &mut job.pipelines) {
                    pipeline.budget_used = 0;
                }
            }
            _ => {}
        }
    }

    pub fn coordinator_continues(&mut self) {
        if self.coordinator.stopped {
            self.coordinator.stopped = false;
            if self.coordinator.in_flight.is_some() {
                let term = self.coordinator.term;
                self.at(self.now, Event::CommitEnds(term));
            }
            self.pump();
        }
    }
}

fn effects_of(step: &Step) -> usize {
    step.effects.len() + step.jobs.iter().map(|job| job.effects.len()).sum::<usize>()
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
