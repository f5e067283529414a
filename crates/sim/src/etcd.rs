//! A store of several nodes, as its clients see it: a request takes time, lands late or not at all, and
//! may have landed though nobody said so.
//!
//! What a node that is paused holds back lands when it wakes, whatever was committed meanwhile: a **ghost**.
//! So every commit is compared with who leads and with the head that its sender last saw. And where no
//! answer comes, the sender reads both: its own head → applied; as before → the same is sent again;
//! else another one leads. What it cannot learn before its tenure ends it does not know, and its term is
//! over.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::commit::{Batch, split_loss};
use crate::coordinator::CoordinatorNumber;
use crate::durable::{Head, TermNumber};
use crate::mutation::Mutation;
use crate::sights::Sight;
use crate::world::{Event, World};

/// Who sends a request waits so long for its answer.
const REQUEST_TIMEOUT_MS: u64 = 1_000;

/// A commit on its way.
#[derive(Clone)]
pub(crate) struct Request {
    pub term: TermNumber,
    /// The head that the sender last saw.
    pub head: Head,
    pub next: Head,
    pub part: Arc<Batch>,
    pub sending: u64,
    /// Whether its answer comes in time.
    pub answered: bool,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Request({:?} after {:?})", self.next, self.head)
    }
}

/// What the store says of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Applied,
    Superseded,
    /// It cannot take it at the moment.
    Refused,
}

impl World {
    pub fn etcd_is_away(&self) -> bool {
        self.now < self.etcd_away_until
    }

    pub fn reaches_etcd(&self, c: CoordinatorNumber) -> bool {
        !self.etcd_is_away() && !self.coordinators[c].cut_off
    }

    /// Soon after every node goes on.
    pub fn when_etcd_is_back(&mut self, event: Event) {
        let soon = self.chance_of(0, 20).between(1, 300);
        self.at(self.etcd_away_until + soon, event);
    }

    pub fn store_latency(&self, c: CoordinatorNumber, concern: u64) -> u64 {
        let rng = &mut self.chance_of(c, concern);
        let slow = self.faulty && rng.chance(self.plan.odds.stalled);
        rng.between(0, if slow { 3_000 } else { 4 })
    }

    /// A member's loss may be split between jobs.
    pub fn parts_of(&self, c: CoordinatorNumber, batch: &Batch) -> Option<VecDeque<Arc<Batch>>> {
        let etcd = self.plan.etcd.as_ref()?;
        let splits = self.faulty && self.chance_of(c, 3).chance(self.plan.odds.torn_loss);
        let (first, rest) = split_loss(batch, self.now).filter(|_| splits || etcd.always_splits)?;
        Some([Arc::new(first), Arc::new(rest)].into())
    }

    pub fn send_to_etcd(&mut self, c: CoordinatorNumber) {
        let Some(etcd) = &self.plan.etcd else { return };
        let odds = &self.plan.odds;
        let rng = &mut self.chance_of(c, 2);
        let stalled = self.faulty && rng.chance(odds.stalled);
        let mut takes_ms = rng.between(0, if stalled { 3_000 } else { 4 });
        let held = self.faulty && rng.chance(etcd.held);
        let silent = self.faulty && rng.chance(etcd.unanswered + odds.unknown);
        if held {
            takes_ms = rng.between(200, 10_000);
        }
        takes_ms += self.waits_for_the_label(c);
        let reaches = self.reaches_etcd(c);
        let sending = self.number();
        let Some(term) = self.term_mut(c) else { return };
        let (number, head) = (term.number, term.head);
        let Some(in_flight) = &mut term.in_flight else { return };
        let Some(part) = in_flight.parts.front().cloned() else { return };
        in_flight.sent = true;
        in_flight.sending = sending;
        let answered = takes_ms < REQUEST_TIMEOUT_MS && !held && !silent;
        let next = in_flight.next;
        if reaches {
            let request = Request { term: number, head, next, part, sending, answered };
            self.at(self.now + takes_ms, Event::Lands(Box::new(request)));
        }
        if !answered || !reaches {
            self.at(self.now + REQUEST_TIMEOUT_MS, Event::InDoubt(number, sending));
        }
        // It may be stopped or killed while its commit is under way.
        self.passes(c);
    }

    /// A commit lands, whatever has become of its sender.
    pub fn lands(&mut self, request: Request) {
        let Request { term, next, sending, answered, .. } = request;
        if self.etcd_is_away() {
            // The nodes that are stopped find it in their sockets, or nobody does.
            if answered {
                self.at(self.now + REQUEST_TIMEOUT_MS, Event::InDoubt(term, sending));
            }
            if self.chance_of(0, 21).chance(500) {
                let late = Request { answered: false, ..request };
                self.when_etcd_is_back(Event::Lands(Box::new(late)));
            }
            return;
        }
        let odds = self.plan.odds.not_applied;
        let outcome = if answered && self.faulty && self.chance_of(0, 22).chance(odds) {
            Outcome::Refused
        } else if self.admits(&request) {
            self.trace.note(self.now, || format!("{request:?} is applied"));
            self.apply(&request.part, next);
            Outcome::Applied
        } else if self.durable.head == next {
            // An earlier sending of the same.
            Outcome::Applied
        } else {
            self.trace.note(self.now, || format!("{request:?} is refused"));
            let same = self.lead_held(term);
            self.sees(if same { Sight::GhostOfLeader } else { Sight::GhostOfDeposed });
            Outcome::Superseded
        };
        if answered {
            let latency = self.chance_of(0, 23).between(0, 4);
            self.at(self.now + latency, Event::CommitAnswered(term, sending, outcome));
        }
        if outcome == Outcome::Applied
            && let Some(c) = self.coordinator_of(term)
        {
            self.passes(c);
        }
    }

    /// The compares of a commit: who leads, and which commit was the last.
    fn admits(&self, request: &Request) -> bool {
        let leader = self.lead_held(request.term);
        let head = self.durable.head == request.head;
        match self.mutation {
            Some(Mutation::HeadNotCompared) => leader,
            Some(Mutation::LeaderNotCompared) => head,
            Some(Mutation::NothingCompared) => true,
            _ => leader && head,
        }
    }

    pub fn commit_answered(&mut self, term: TermNumber, sending: u64, outcome: Outcome) {
        let later = Event::CommitAnswered(term, sending, outcome);
        let Some(c) = self.awake_leader(term, later) else { return };
        if !self.waits_for(c, sending) {
            return;
        }
        match outcome {
            Outcome::Applied => self.part_is_durable(c),
            Outcome::Superseded => self.drop_term(c, "its commit was fenced"),
            Outcome::Refused => {
                let again_ms = self.chance_of(c, 24).between(20, 800);
                self.at(self.now + again_ms, Event::InDoubt(term, sending));
            }
        }
    }

    fn waits_for(&self, c: CoordinatorNumber, sending: u64) -> bool {
        let in_flight = self.term(c).and_then(|term| term.in_flight.as_ref());
        in_flight.is_some_and(|commit| commit.sending == sending)
    }

    /// No answer came, or a refusal that may not be true: what is there is looked at.
    pub fn in_doubt(&mut self, term: TermNumber, sending: u64) {
        let Some(c) = self.awake_leader(term, Event::InDoubt(term, sending)) else { return };
        if !self.waits_for(c, sending) {
            return;
        }
        if !self.reaches_etcd(c) {
            // Until its tenure is over.
            let again_ms = self.chance_of(c, 25).between(50, 500);
            return self.at(self.now + again_ms, Event::InDoubt(term, sending));
        }
        let (head, leads) = (self.durable.head, self.lead_held(term));
        let unlooked = self.mutated(Mutation::UnknownTakenForRefused);
        let Some(term) = self.term_mut(c) else { return };
        let Some(in_flight) = &mut term.in_flight else { return };
        if unlooked && leads {
            // As if it were another commit.
            term.head = head;
            in_flight.next = head.next();
            self.send_commit(c);
        } else if head == in_flight.next {
            self.sees(Sight::FoundApplied);
            self.part_is_durable(c);
        } else if head == term.head && leads {
            self.sees(Sight::SentAgain);
            self.send_commit(c);
        } else {
            self.sees(Sight::FoundFenced);
            self.drop_term(c, "its commit was fenced");
        }
    }

    /// The part that was under way is durable: the next one is sent, or all of it is carried out.
    fn part_is_durable(&mut self, c: CoordinatorNumber) {
        let Some(term) = self.term_mut(c) else { return };
        let Some(mut in_flight) = term.in_flight.take() else { return };
        term.head = in_flight.next;
        in_flight.parts.pop_front();
        if in_flight.parts.is_empty() {
            self.carry_out(c, Arc::unwrap_or_clone(in_flight.batch), usize::MAX);
            return self.pump(c);
        }
        in_flight.next = term.head.next();
        in_flight.sent = false;
        term.in_flight = Some(in_flight);
        if self.passes(c) {
            self.send_commit(c);
        }
    }
}
