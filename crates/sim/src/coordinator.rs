//! The coordinators: processes that are dead, stand by, or believe that they lead; and how whoever wants
//! something finds the one that does.
//!
//! A term is all that a coordinator has of its lead: engine, index, clock, what waits and what is under
//! way. It ends with the process, or when the coordinator learns that it leads no more; and a process that
//! is stopped learns nothing, so it may wake with a term that is long over.

use std::collections::{BTreeMap, VecDeque};

use steadfast_engine::{Effect, Engine, Input, Reporter, Ticket};
use steadfast_model::{ContainerEvent, ExecutionId, Timestamp};

use crate::agents::Process;
use crate::commit::{Batch, InFlight};
use crate::durable::{Head, TermNumber};
use crate::index::{Answer, Index};
use crate::invariants::Act;
use crate::mutation::Mutation;
use crate::sights::Sight;
use crate::world::{Event, Waiter, World};

/// Which coordinator, of those that there are.
pub(crate) type CoordinatorNumber = usize;

/// A coordinator's process.
pub(crate) struct Coordinator {
    pub process: Process,
    /// The term that it believes to lead.
    pub term: Option<Box<Term>>,
    /// The term that it has won and not yet loaded.
    pub won: Option<TermNumber>,
    /// Whether it is cut off from the store.
    pub cut_off: bool,
    /// What happened while it was stopped.
    pub missed: Vec<Event>,
}

/// A term, as its coordinator has it in memory.
pub(crate) struct Term {
    pub number: TermNumber,
    pub engine: Engine,
    pub index: Index,
    pub inbox: VecDeque<Input>,
    pub in_flight: Option<InFlight>,
    /// A durable batch whose effects are being carried out.
    pub carrying: Option<Carrying>,
    pub waiters: BTreeMap<Ticket, Waiter>,
    /// What its wall clock shows beyond the simulated time; another one each term.
    pub clock_ms: u64,
    /// When it must have stopped acting, unless its lease is renewed before.
    pub tenure_until: u64,
    /// The last commit that it knows of.
    pub head: Head,
    pub wake_at: Option<u64>,
    /// The last answers as they were before the commit, for one of the mutations.
    pub told_early: BTreeMap<ExecutionId, Option<Timestamp>>,
}

/// What is left to do of a batch that is durable.
pub(crate) struct Carrying {
    pub effects: VecDeque<Effect>,
    pub batch: Batch,
    /// The coordinator dies before the last effect.
    pub cut_short: bool,
}

impl Coordinator {
    pub fn new() -> Self {
        let process = Process::Dead;
        Self { process, term: None, won: None, cut_off: false, missed: Vec::new() }
    }

    pub fn runs(&self) -> bool {
        self.process == Process::Runs
    }

    pub fn is_dead(&self) -> bool {
        self.process == Process::Dead
    }
}

impl Term {
    pub fn clock(&self, now: u64) -> Timestamp {
        Timestamp::from_millis(self.clock_ms + now)
    }

    pub fn holds(&self, now: u64) -> bool {
        now < self.tenure_until
    }

    /// Nothing waits and nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_none() && self.inbox.is_empty() && self.carrying.is_none()
    }
}

impl World {
    pub fn term(&self, c: CoordinatorNumber) -> Option<&Term> {
        self.coordinators[c].term.as_deref()
    }

    pub fn term_mut(&mut self, c: CoordinatorNumber) -> Option<&mut Term> {
        self.coordinators[c].term.as_deref_mut()
    }

    /// Whoever believes to lead this term.
    pub fn coordinator_of(&self, term: TermNumber) -> Option<CoordinatorNumber> {
        let believes = |c: &Coordinator| c.term.as_ref().is_some_and(|of| of.number == term);
        self.coordinators.iter().position(believes)
    }

    /// The same, if its process can act now; if it is stopped, it will see `event` later.
    pub fn awake_leader(&mut self, term: TermNumber, event: Event) -> Option<CoordinatorNumber> {
        let c = self.coordinator_of(term)?;
        if self.coordinators[c].runs() {
            return Some(c);
        }
        self.coordinators[c].missed.push(event);
        None
    }

    /// The term that leads, as whoever looks into the store and at the processes at once would see.
    pub fn leading(&self) -> Option<(CoordinatorNumber, &Term)> {
        let c = self.coordinator_of(self.lead.as_ref()?.term)?;
        Some((c, self.term(c)?))
    }

    /// Who would take a request now.
    pub fn serving(&self) -> Option<CoordinatorNumber> {
        let serves =
            |c: &Coordinator| c.runs() && c.term.as_ref().is_some_and(|term| term.holds(self.now));
        self.coordinators.iter().position(serves)
    }

    /// Who would take it, now or when it wakes.
    pub fn serving_or_asleep(&self) -> Option<CoordinatorNumber> {
        let asleep = |c: &Coordinator| c.process == Process::Stopped && c.term.is_some();
        self.serving().or_else(|| self.coordinators.iter().position(asleep))
    }

    /// Hands in a request whose answer somebody waits for.
    pub fn request(
        &mut self,
        c: CoordinatorNumber,
        waiter: Waiter,
        input: impl FnOnce(Ticket) -> Input,
    ) {
        let ticket = Ticket(self.number());
        if let Some(term) = self.term_mut(c) {
            term.waiters.insert(ticket, waiter);
            self.hear(c, input(ticket));
        }
    }

    /// A container asks, first this coordinator and then the others; `None` where nobody answers.
    pub fn coordinators_answer(
        &mut self,
        execution: ExecutionId,
        question: u64,
        started: bool,
        first: CoordinatorNumber,
    ) -> Option<Answer> {
        let many = self.coordinators.len();
        for c in (first..first + many).map(|c| c % many) {
            match self.coordinators[c].process {
                Process::Dead => {}
                Process::Stopped => {
                    // The question waits there, and whoever asked turns to the next one.
                    let waits = Event::Asked(execution, question, started, c);
                    self.coordinators[c].missed.push(waits);
                    self.asks_next(execution, c + 1);
                    return None;
                }
                Process::Runs => {
                    if let Some(answer) = self.verdict(c, execution, started) {
                        self.asks_next(execution, c);
                        return Some(answer);
                    }
                }
            }
        }
        Some(Answer::Unknown)
    }

    pub fn asks_next(&mut self, execution: ExecutionId, c: CoordinatorNumber) {
        let many = self.coordinators.len();
        if let Some(container) = self.containers.get_mut(&execution) {
            container.asks = c % many;
        }
    }

    /// What this coordinator says; `None` where another one has to be asked.
    fn verdict(
        &mut self,
        c: CoordinatorNumber,
        execution: ExecutionId,
        started: bool,
    ) -> Option<Answer> {
        let (now, unlooked) = (self.now, self.mutated(Mutation::VerdictPastTenure));
        let term = self.term_mut(c)?;
        if !term.holds(now) && !unlooked {
            return None;
        }
        let clock = term.clock(now);
        let answer = term.index.ask(execution, clock);
        let news = started && term.index.note_started(execution);
        let number = term.number;
        match answer {
            Answer::Valid(_) => self.acts(number, Act::Valid(execution)),
            Answer::Invalid(_) => self.acts(number, Act::Invalid(execution)),
            Answer::Unknown => {}
        }
        if news {
            let event = ContainerEvent::Started { pid: 2, wrapper_pid: 1 };
            let reporter = Reporter::Wrapper(None);
            self.hear(c, Input::Container { execution, event, reporter });
        }
        Some(answer)
    }

    /// Somebody outside sees what a term does, and whether it may.
    pub fn acts(&mut self, term: TermNumber, act: Act) {
        let leads = self.lead_holds(term);
        self.checks.acts(term, leads, act);
    }

    /// Takes an input in; a copy may come again, at once or much later.
    pub fn hear(&mut self, c: CoordinatorNumber, input: Input) {
        let Some(number) = self.term(c).map(|term| term.number) else { return };
        let may_repeat = !matches!(input, Input::Hello { .. } | Input::Submit { .. });
        if may_repeat && self.faulty && self.network_rng.chance(self.plan.odds.twice) {
            let later = if self.network_rng.chance(500) { 10 } else { 20_000 };
            let at = self.now + self.network_rng.between(0, later);
            self.at(at, Event::Again(number, Box::new(input.clone())));
        }
        self.take_in(c, input);
    }

    pub fn hear_again(&mut self, term: TermNumber, input: Input) {
        // Connections and tickets mean something within their term alone.
        if let Some(c) = self.coordinator_of(term) {
            self.take_in(c, input);
        }
    }

    fn take_in(&mut self, c: CoordinatorNumber, input: Input) {
        if let Some(term) = self.term_mut(c) {
            term.inbox.push_back(input);
            self.pump(c);
        }
    }

    /// The coordinator's process dies. What it has sent to the store may land all the same.
    pub fn coordinator_dies(&mut self, c: CoordinatorNumber) {
        if self.coordinators[c].is_dead() {
            return;
        }
        let rng = &mut self.chance_of(c, 4);
        self.lands_or_not(c, rng.chance(500));
        let coordinator = &mut self.coordinators[c];
        coordinator.process = Process::Dead;
        coordinator.won = None;
        coordinator.missed.clear();
        let term = coordinator.term.take();
        if let Some(term) = term {
            self.links_break(term.number);
        }
        let most_ms = if rng.chance(700) { 300 } else { 20_000 };
        let down_ms = rng.between(5, most_ms);
        self.trace.note(self.now, || format!("coordinator {c} is down for {down_ms} ms"));
        self.at(self.now + down_ms, Event::CoordinatorStarts(c));
    }

    pub fn coordinator_starts(&mut self, c: CoordinatorNumber) {
        if self.coordinators[c].is_dead() {
            self.coordinators[c].process = Process::Runs;
            self.campaign(c);
        }
    }

    pub fn stop_coordinator(&mut self, c: CoordinatorNumber, for_ms: u64) {
        if !self.coordinators[c].runs() {
            return;
        }
        self.trace.note(self.now, || format!("coordinator {c} is stopped for {for_ms} ms"));
        self.coordinators[c].process = Process::Stopped;
        self.at(self.now + for_ms, Event::CoordinatorContinues(c));
        if let Some(term) = self.term(c).map(|term| term.number) {
            self.links_go_silent(term);
        }
    }

    /// It goes on where it was. What came meanwhile is seen before its own loop moves, or after.
    pub fn coordinator_continues(&mut self, c: CoordinatorNumber) {
        if self.coordinators[c].process != Process::Stopped {
            return;
        }
        self.trace.note(self.now, || format!("coordinator {c} goes on"));
        self.coordinators[c].process = Process::Runs;
        self.note_deposed(c);
        let loop_first = self.chance_of(c, 6).chance(500);
        if loop_first {
            self.at(self.now, Event::GoesOn(c));
        }
        for event in std::mem::take(&mut self.coordinators[c].missed) {
            self.at(self.now, event);
        }
        if !loop_first {
            self.at(self.now, Event::GoesOn(c));
        }
    }

    /// Where a leader was stopped that wakes when another one leads.
    fn note_deposed(&mut self, c: CoordinatorNumber) {
        let later = self.lead.map_or(0, |lead| lead.term);
        let Some(term) = self.term(c).filter(|term| term.number < later) else { return };
        let in_effects = term.carrying.is_some();
        let sent = term.in_flight.as_ref().map(|commit| commit.sent);
        match sent {
            Some(true) => self.sees(Sight::DeposedInCommit),
            Some(false) => self.sees(Sight::DeposedBeforeSending),
            None if in_effects => self.sees(Sight::DeposedInEffects),
            None => {}
        }
    }

    /// The step at which it was stopped.
    pub fn goes_on(&mut self, c: CoordinatorNumber) {
        if !self.coordinators[c].runs() {
            return;
        }
        match self.term(c) {
            None => self.campaign(c),
            Some(term) => {
                let unsent = term.in_flight.as_ref().is_some_and(|commit| !commit.sent);
                if unsent {
                    self.send_commit(c);
                }
                self.perform(c);
                self.pump(c);
            }
        }
    }
}
