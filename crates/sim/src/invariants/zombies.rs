//! **A zombie stops within its bound**: a program whose container was revoked is over at `L − m` after the
//! commit that revoked it; one that gets no more answers, at `L − m` after the last one that granted
//! anything; one that is told to stop, by its coordinator's verdict or its agent, when its grace is over.
//!
//! What is measured is the program, not what anybody says of it: whoever is cut off, or left alone by a
//! killed agent, has the same bound. Jobs with their validator disabled gave this promise up and are not
//! judged. A killed wrapper takes its program with it, a moment later.
//!
//! Seen to fail on `RevokedGoesOn` (the index goes on answering "valid" for what was revoked).

use std::collections::{BTreeMap, BTreeSet};

use steadfast_engine::{IndexChange, Step};
use steadfast_model::{ExecutionId, LeaseTerms};

/// What a program may outlive its killed wrapper by.
const WRAPPER_DIES_MS: u64 = 100;

/// Programs that run, and when each must be over.
#[derive(Default)]
pub(crate) struct ZombieStops {
    bounds: BTreeMap<ExecutionId, Bound>,
    due: BTreeSet<(u64, ExecutionId)>,
    running: BTreeSet<ExecutionId>,
}

#[derive(Clone, Copy)]
struct Bound {
    /// By the answers that it was given.
    granted: u64,
    /// By its revocation, and by what it was told.
    revoked: u64,
}

impl Bound {
    fn due(self) -> u64 {
        self.granted.min(self.revoked)
    }
}

impl ZombieStops {
    /// A container was told at `now` that it may go on for so long, counted from an earlier moment.
    pub fn granted(&mut self, execution: ExecutionId, now: u64, lease_ms: u64, terms: LeaseTerms) {
        let until = (now + lease_ms).saturating_sub(terms.margin_ms());
        self.change(execution, |bound| bound.granted = bound.granted.max(until));
    }

    /// What a step that is durable revokes.
    pub fn committed(&mut self, now: u64, step: &Step) {
        let of_jobs = step.jobs.iter().flat_map(|job| &job.index);
        for change in step.index.iter().chain(of_jobs) {
            if let IndexChange::Invalid(execution, _, entry) = change {
                self.must_be_over(*execution, now + entry.lease.kill_after_ms());
            }
        }
    }

    /// It must be over at `at`, whatever it was granted.
    pub fn must_be_over(&mut self, execution: ExecutionId, at: u64) {
        self.change(execution, |bound| bound.revoked = bound.revoked.min(at));
    }

    pub fn wrapper_killed(&mut self, execution: ExecutionId, now: u64) {
        let dies = now + WRAPPER_DIES_MS;
        self.change(execution, |bound| {
            *bound = Bound { granted: dies.max(bound.due()), revoked: u64::MAX };
        });
    }

    pub fn program_started(&mut self, execution: ExecutionId) {
        self.running.insert(execution);
        self.change(execution, |_| {});
    }

    pub fn program_ended(&mut self, execution: ExecutionId) {
        self.running.remove(&execution);
        if let Some(bound) = self.bounds.remove(&execution) {
            self.due.remove(&(bound.due(), execution));
        }
    }

    fn change(&mut self, execution: ExecutionId, change: impl FnOnce(&mut Bound)) {
        let fresh = Bound { granted: 0, revoked: u64::MAX };
        let bound = self.bounds.entry(execution).or_insert(fresh);
        self.due.remove(&(bound.due(), execution));
        change(bound);
        if self.running.contains(&execution) {
            self.due.insert((bound.due(), execution));
        }
    }

    /// # Errors
    /// Who runs past its bound.
    pub fn verdict(&self, now: u64) -> Result<(), String> {
        match self.due.first() {
            Some((due, execution)) if *due < now => {
                Err(format!("{execution} had to be over {} ms ago and still runs", now - due))
            }
            _ => Ok(()),
        }
    }
}
