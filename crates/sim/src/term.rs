//! Terms: a coordinator dies at any moment and is loaded again from what is durable, under a new nonce
//! and with another clock.

use steadfast_engine::records::Snapshot;
use steadfast_engine::{Engine, Input};
use steadfast_ledger::JobLedger;
use steadfast_model::TermNonce;

use crate::index::Index;
use crate::mutation::Mutation;
use crate::world::{Event, World};

/// Where the wall clock stands when a simulation begins.
const EPOCH_MS: u64 = 1_700_000_000_000;
impl World {
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
        let loaded = self.durable.load();
        let mut snapshot = loaded.clone().unwrap_or_default();
        self.checks.store(loaded.map(drop));
        self.mutate_snapshot(&mut snapshot);
        let now = self.coordinator.clock(self.now);
        self.checks.term_begins(now);
        let mut settings = self.plan.settings.clone();
        if self.mutated(Mutation::EpisodesKept) {
            settings.event_history_size = usize::MAX;
        }
        self.trace.note(self.now, || "the coordinator starts".to_owned());
        if let Some(recording) = &mut self.coordinator.recording {
            recording.load((snapshot.clone(), settings.clone(), nonce), now);
        }
        self.coordinator.engine = Some(Engine::load(snapshot, settings, nonce, now));
        self.coordinator.inbox.push_back(Input::TookOver);
        self.pump();
    }

    fn mutate_snapshot(&self, snapshot: &mut Snapshot) {
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
            Some(Mutation::DrainForgotten) => {
                snapshot.members.iter_mut().for_each(|member| member.draining = false);
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
