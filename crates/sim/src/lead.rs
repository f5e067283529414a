//! Who leads: a key in the store that lives as long as its lease, and on the other side a tenure that ends
//! before the lease can.
//!
//! The lease runs from the moment in which the store hears of a renewal; the tenure from the moment in
//! which it was sent, less a margin. A leader that is stopped, or cut off from the store, or whose store is
//! away, renews nothing; when its lease has run out, sooner or later, another one leads. An embedded store
//! is held by one process for as long as that lives.

use steadfast_engine::records::Snapshot;
use steadfast_engine::{Engine, Input};
use steadfast_ledger::JobLedger;
use steadfast_model::TermNonce;

use crate::coordinator::{CoordinatorNumber, Term};
use crate::durable::TermNumber;
use crate::index::Index;
use crate::mutation::Mutation;
use crate::sights::Sight;
use crate::world::{Event, World};

/// Where the wall clock stands when a simulation begins.
const EPOCH_MS: u64 = 1_700_000_000_000;
/// A lease ends late by up to this, never early.
const EXPIRES_LATE_MS: u64 = 500;

/// The leader's key, and its lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lead {
    pub term: TermNumber,
    /// When the store may take it away.
    pub expires: u64,
}

impl World {
    fn ttl_ms(&self) -> Option<u64> {
        self.plan.etcd.as_ref().map(|etcd| etcd.ttl_ms)
    }

    /// Whether this term leads, and its lease cannot have run out.
    pub fn lead_holds(&self, term: TermNumber) -> bool {
        self.lead.is_some_and(|lead| lead.term == term && self.now < lead.expires)
    }

    /// Whether this term leads, as far as the store knows.
    pub fn lead_held(&self, term: TermNumber) -> bool {
        self.lead.is_some_and(|lead| lead.term == term)
    }

    /// How long a leader may act after it has sent what renews its lease.
    fn tenure_ms(ttl_ms: u64) -> u64 {
        ttl_ms - ttl_ms / 10
    }

    /// Tries to lead; whoever does not succeed is told when nobody leads any more.
    pub fn campaign(&mut self, c: CoordinatorNumber) {
        let coordinator = &self.coordinators[c];
        let stands_by = coordinator.term.is_none() && coordinator.won.is_none();
        if !coordinator.runs() || !stands_by {
            return;
        }
        let Some(ttl_ms) = self.ttl_ms() else {
            let term = self.lead_begins(c, u64::MAX);
            return self.term_begins(c, term, u64::MAX);
        };
        if self.lead.is_some() || !self.reaches_etcd(c) {
            return;
        }
        let term = self.lead_begins(c, self.now + ttl_ms);
        let latency = self.store_latency(c, 11);
        let late = self.chance_of(c, 12).between(0, EXPIRES_LATE_MS);
        self.at(self.now + ttl_ms + late, Event::LeaseEnds(term));
        let tenure_until = self.now + Self::tenure_ms(ttl_ms);
        self.at(self.now + latency, Event::Won(c, term, tenure_until));
    }

    /// The store makes its key, and moves the head in the same transaction.
    fn lead_begins(&mut self, c: CoordinatorNumber, expires: u64) -> TermNumber {
        self.terms += 1;
        let term = self.terms;
        self.lead = Some(Lead { term, expires });
        self.coordinators[c].won = Some(term);
        let began = self.durable.begin_term(term);
        self.checks.store(began);
        self.checks.lead_begins(self.durable.head);
        term
    }

    /// A coordinator learns that it has won.
    pub fn won(&mut self, c: CoordinatorNumber, term: TermNumber, tenure_until: u64) {
        if self.coordinators[c].won != Some(term) {
            return;
        }
        if !self.coordinators[c].runs() {
            return self.coordinators[c].missed.push(Event::Won(c, term, tenure_until));
        }
        if self.now >= tenure_until {
            self.coordinators[c].won = None;
            self.resign(c, term);
            return self.campaign_soon(c);
        }
        self.term_begins(c, term, tenure_until);
        self.at(tenure_until, Event::TenureEnds(term));
        self.renew(term);
    }

    /// The coordinator loads what is durable and leads, under a new nonce and with another clock.
    fn term_begins(&mut self, c: CoordinatorNumber, number: TermNumber, tenure_until: u64) {
        self.coordinators[c].won = None;
        let mut clock_ms = EPOCH_MS;
        let rng = &mut self.chance_of(c, 5);
        if rng.chance(300) {
            // The wall clock of another machine, or a clock that was set. One that is only seconds ahead is
            // reached again by the next one.
            let most_ms = if rng.chance(500) { 20_000 } else { 7_200_000 };
            clock_ms += rng.between(0, most_ms);
        }
        let nonce = TermNonce::new(rng.bits());
        let loaded = self.durable.load();
        let mut snapshot = loaded.clone().unwrap_or_default();
        self.checks.store(loaded.map(drop));
        self.mutate_snapshot(&mut snapshot);
        let now = steadfast_model::Timestamp::from_millis(clock_ms + self.now);
        self.checks.term_begins(now);
        let mut settings = self.plan.settings.clone();
        if self.mutated(Mutation::EpisodesKept) {
            settings.event_history_size = usize::MAX;
        }
        self.trace.note(self.now, || format!("coordinator {c} leads term {number}"));
        if let Some(recording) = &mut self.recording {
            recording.load(c, (snapshot.clone(), settings.clone(), nonce), now);
        }
        self.coordinators[c].term = Some(Box::new(Term {
            number,
            engine: Engine::load(snapshot, settings, nonce, now),
            index: Index::default(),
            inbox: [Input::TookOver].into(),
            in_flight: None,
            carrying: None,
            waiters: Default::default(),
            clock_ms,
            tenure_until,
            head: self.durable.head,
            wake_at: None,
            told_early: Default::default(),
        }));
        self.pump(c);
    }

    fn mutate_snapshot(&self, snapshot: &mut Snapshot) {
        match self.mutation {
            Some(Mutation::OldLedgers) => {
                if let Some(old) = self.old_ledgers.front() {
                    let old = old.iter().map(|(id, ledger)| (*id, Ok(JobLedger::clone(ledger))));
                    snapshot.ledgers.extend(old);
                }
            }
            Some(Mutation::StartsBehind) => {
                if let Some(last) = &self.last_snapshot {
                    *snapshot = last.clone();
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
            Some(Mutation::DrainForgotten) => {
                snapshot.members.iter_mut().for_each(|member| member.draining = false);
            }
            _ => {}
        }
    }

    /// The leader sends a renewal, and will send the next one.
    pub fn renew(&mut self, term: TermNumber) {
        let Some(ttl_ms) = self.ttl_ms() else { return };
        let Some(c) = self.awake_leader(term, Event::Renew(term)) else { return };
        if self.reaches_etcd(c) {
            let latency = self.store_latency(c, 13);
            self.at(self.now + latency, Event::RenewalLands(term, self.now));
        }
        self.at(self.now + ttl_ms / 4, Event::Renew(term));
    }

    /// A renewal lands. That of a lease that is over brings nothing back.
    pub fn renewal_lands(&mut self, term: TermNumber, sent: u64) {
        let (Some(ttl_ms), false) = (self.ttl_ms(), self.etcd_is_away()) else { return };
        let (now, holds) = (self.now, self.lead_holds(term));
        if holds && let Some(lead) = &mut self.lead {
            lead.expires = now + ttl_ms;
        }
        let latency = self.coordinator_of(term).map_or(0, |c| self.store_latency(c, 14));
        self.at(now + latency, Event::Renewed(term, sent, holds));
    }

    /// The leader hears of it. A tenure that is over stays over.
    pub fn renewed(&mut self, term: TermNumber, sent: u64, holds: bool) {
        let Some(ttl_ms) = self.ttl_ms() else { return };
        let Some(c) = self.awake_leader(term, Event::Renewed(term, sent, holds)) else { return };
        if !holds {
            return self.drop_term(c, "its lease is gone");
        }
        let now = self.now;
        if let Some(term) = self.term_mut(c).filter(|term| term.holds(now)) {
            term.tenure_until = term.tenure_until.max(sent + Self::tenure_ms(ttl_ms));
        }
    }

    pub fn tenure_ends(&mut self, term: TermNumber) {
        let Some(c) = self.awake_leader(term, Event::TenureEnds(term)) else { return };
        match self.term(c).map(|term| term.tenure_until) {
            Some(until) if self.now < until => self.at(until, Event::TenureEnds(term)),
            _ => {
                let in_commit = self.term(c).is_some_and(|term| term.in_flight.is_some());
                self.sees(if in_commit { Sight::NeverKnown } else { Sight::TenureOver });
                self.drop_term(c, "it could not renew its lead");
            }
        }
    }

    /// The store looks whether a lease has run out.
    pub fn lease_ends(&mut self, term: TermNumber) {
        let Some(lead) = self.lead.filter(|lead| lead.term == term) else { return };
        if self.etcd_is_away() {
            return self.when_etcd_is_back(Event::LeaseEnds(term));
        }
        if self.now < lead.expires {
            let late = self.chance_of(0, 15).between(0, EXPIRES_LATE_MS);
            return self.at(lead.expires + late, Event::LeaseEnds(term));
        }
        self.sees(Sight::LeaseRanOut);
        self.nobody_leads();
    }

    /// Whoever led gives its lease back, so that nobody has to wait for its end.
    pub fn resign(&mut self, c: CoordinatorNumber, term: TermNumber) {
        if self.reaches_etcd(c) {
            let latency = self.store_latency(c, 16);
            self.at(self.now + latency, Event::Resigns(term));
        }
    }

    pub fn resigns(&mut self, term: TermNumber) {
        if self.lead_held(term) && !self.etcd_is_away() {
            self.nobody_leads();
        }
    }

    fn nobody_leads(&mut self) {
        self.trace.note(self.now, || "nobody leads".to_owned());
        self.lead = None;
        self.all_campaign();
    }

    /// Every node of the store goes on. Whoever leads them now gives each lease its whole time again.
    pub fn etcd_back(&mut self) {
        if self.etcd_is_away() {
            return;
        }
        let anew = self.chance_of(0, 18).chance(500);
        let whole = self.ttl_ms().filter(|_| anew).map(|ttl_ms| self.now + ttl_ms);
        if let (Some(lead), Some(whole)) = (&mut self.lead, whole) {
            lead.expires = lead.expires.max(whole);
        }
        self.all_campaign();
    }

    fn all_campaign(&mut self) {
        for c in 0..self.coordinators.len() {
            self.campaign_soon(c);
        }
    }

    pub fn campaign_soon(&mut self, c: CoordinatorNumber) {
        let soon = self.chance_of(c, 17).between(0, 50);
        self.at(self.now + soon, Event::Campaign(c));
    }
}
