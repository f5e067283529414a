//! What must hold at every moment, one file for each, judged from outside.

mod bounded;
mod commits;
mod containers;
mod count;
mod drains;
mod forever;
mod heals;
mod history;
mod kept;
mod lease;
mod restores;
mod revoked;
mod twin;
mod zombies;

use std::collections::{BTreeMap, BTreeSet};

use steadfast_engine::records::OperatorRequest;
use steadfast_engine::{Engine, Input, Step};
use steadfast_model::{
    ExecutionId, JobId, LeaveClassification, LossCause, RequestId, TaskGroupId, Timestamp,
};

use crate::checkpoints::Position;
use crate::durable::{Durable, Head, TermNumber};
use crate::index::Index;
use crate::story::Story;

use bounded::Bounded;
use commits::OneAfterTheOther;
pub(crate) use containers::OneContainer;
use count::CountEqualsOracle;
use drains::Drains;
use forever::Forever;
pub(crate) use heals::{has_ended, has_healed};
use history::HistoryIsLastLedger;
use kept::Kept;
pub(crate) use lease::Act;
use restores::RestoresWithinLimit;
use revoked::OnlyTheRevokedStop;
pub use twin::JobTrace;
pub(crate) use twin::compare;
pub(crate) use zombies::ZombieStops;

/// What a reader of the coordinator would be shown, and what it is compared with.
pub(crate) struct View<'a> {
    pub engine: &'a Engine,
    pub durable: &'a Durable,
    pub index: &'a Index,
    /// What the coordinator's clock shows.
    pub now: Timestamp,
    /// A lost member is listed for this long.
    pub lost_listed_ms: u64,
    /// An episode that is not deployed for this long is parked.
    pub ttl_ms: u64,
    /// Jobs whose ledger the store refused at least once.
    pub refused: &'a BTreeSet<JobId>,
    /// Jobs whose cancelling was acknowledged.
    pub stopped: &'a BTreeSet<JobId>,
    /// Jobs whose submission was acknowledged.
    pub submitted: &'a [Option<JobId>],
    /// Leaves whose registration was acknowledged, each as often as it was.
    pub planned: &'a BTreeMap<RequestId, Vec<OperatorRequest>>,
    /// Containers whose end was acknowledged.
    pub noted: &'a BTreeSet<ExecutionId>,
}

/// One of the things that must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// See `count.rs`.
    CountEqualsOracle,
    /// See `containers.rs`.
    OneContainer,
    /// See `restores.rs`.
    RestoresWithinLimit,
    /// See `drains.rs`.
    Drains,
    /// See `forever.rs`.
    Forever,
    /// See `kept.rs`.
    Kept,
    /// See `zombies.rs`.
    ZombieStops,
    /// See `history.rs`.
    HistoryIsLastLedger,
    /// See `bounded.rs`.
    Bounded,
    /// See `heals.rs`.
    Heals,
    /// See `twin.rs`.
    Twin,
    /// See `lease.rs`.
    ActsWithinLease,
    /// See `commits.rs`.
    DeposedChangesNothing,
    /// See `revoked.rs`.
    OnlyTheRevokedStop,
    /// The store takes every commit, and gives back what was written.
    Store,
    /// The engine stops on a state that its transition tables do not hold.
    Transitions,
}

impl std::fmt::Display for Invariant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::CountEqualsOracle => "the count equals the oracle's",
            Self::OneContainer => "at most one live container per task group",
            Self::RestoresWithinLimit => "restores stay within the limit",
            Self::Drains => "a drain moves before its member goes",
            Self::Forever => "a count never falls, and dirty is for ever",
            Self::Kept => "what was acknowledged is kept",
            Self::ZombieStops => "a zombie stops within its bound",
            Self::HistoryIsLastLedger => "history equals the last ledger",
            Self::Bounded => "state is bounded",
            Self::Heals => "it heals when the faults stop",
            Self::Twin => "the label changes nothing",
            Self::ActsWithinLease => "who no longer leads does nothing",
            Self::DeposedChangesNothing => "a deposed leader changes nothing durable",
            Self::OnlyTheRevokedStop => "nobody is stopped who was not revoked",
            Self::Store => "what was written is what is read",
            Self::Transitions => "no state that cannot be",
        })
    }
}

/// What does not hold, and how that showed.
pub(crate) type Broken = (Invariant, String);

/// All of them. The first one that fails is kept.
#[derive(Default)]
pub(crate) struct Checks {
    /// Nothing is judged: to measure what the engine alone costs.
    pub off: bool,
    /// Only this one is judged: to see that it sees a mistake by itself.
    pub only: Option<Invariant>,
    story: Story,
    count: CountEqualsOracle,
    restores: RestoresWithinLimit,
    drains: Drains,
    forever: Forever,
    kept: Kept,
    history: HistoryIsLastLedger,
    bounded: Bounded,
    commits: OneAfterTheOther,
    revoked: OnlyTheRevokedStop,
    pub zombies: ZombieStops,
    pub containers: OneContainer,
    /// Losses that were planned, by how they were noticed.
    pub planned: BTreeMap<LossCause, u64>,
    /// What happened to the jobs, for the twin.
    pub jobs: JobTrace,
    failed: Option<Broken>,
}

impl Checks {
    /// Another coordinator begins, at this moment by its clock.
    pub fn term_begins(&mut self, began: Timestamp) {
        self.story.term_begins(began);
    }

    /// A step is durable. `history_size`: the episodes that a ledger may keep.
    pub fn committed(&mut self, now: u64, input: &Input, step: &Step, history_size: usize) {
        if self.off {
            return;
        }
        self.jobs.note(now, step);
        let planned = LeaveClassification::PlannedVerified;
        if let Some(event) = step.member_event.as_ref().filter(|e| e.classification == planned) {
            *self.planned.entry(event.cause).or_default() += 1;
        }
        self.history.committed(step);
        self.revoked.committed(step);
        self.zombies.committed(now, step);
        let verdict = self.bounded.committed(step, history_size);
        self.fail(Invariant::Bounded, verdict);
        for (job, fact) in self.story.go_on(input, step) {
            self.count.hear(job, &fact);
            let verdict = self.restores.hear(job, &fact);
            self.fail(Invariant::RestoresWithinLimit, verdict);
        }
        let verdict = self.restores.judge(step);
        self.fail(Invariant::RestoresWithinLimit, verdict);
        let verdict = self.drains.hear(step);
        self.fail(Invariant::Drains, verdict);
    }

    /// A term begins in the store.
    pub fn lead_begins(&mut self, head: Head) {
        self.commits.lead_begins(head);
    }

    /// A commit has landed.
    pub fn landed(&mut self, batch: u64, head: Head, leads: bool) {
        let verdict = self.commits.landed(batch, head, leads);
        self.fail(Invariant::DeposedChangesNothing, verdict);
    }

    /// A term does something that others see. `leads`: its lease cannot have run out.
    pub fn acts(&mut self, term: TermNumber, leads: bool, act: Act) {
        self.fail(Invariant::ActsWithinLease, lease::judge(term, leads, act));
        if let Act::Invalid(execution) = act {
            self.told_to_stop(execution);
        }
    }

    /// A checkpoint was put; `answered`: its program may hear of it.
    pub fn checkpoint(&mut self, place: (JobId, TaskGroupId), position: Position, answered: bool) {
        let verdict = self.kept.checkpoint(place, position, answered);
        self.fail(Invariant::Kept, verdict);
    }

    /// A coordinator wants a container stopped.
    pub fn told_to_stop(&mut self, execution: ExecutionId) {
        let verdict = self.revoked.told(execution);
        self.fail(Invariant::OnlyTheRevokedStop, verdict);
    }

    /// The store was used.
    pub fn store(&mut self, verdict: Result<(), String>) {
        self.fail(Invariant::Store, verdict);
    }

    /// A view was published.
    pub fn view(&mut self, view: &View<'_>) {
        if self.off {
            return;
        }
        let verdict = self.count.judge(view);
        self.fail(Invariant::CountEqualsOracle, verdict);
        let verdict = self.forever.judge(view);
        self.fail(Invariant::Forever, verdict);
        let verdict = self.kept.judge(view);
        self.fail(Invariant::Kept, verdict);
        let verdict = self.history.judge(view);
        self.fail(Invariant::HistoryIsLastLedger, verdict);
        let verdict = self.bounded.judge(view);
        self.fail(Invariant::Bounded, verdict);
    }

    fn fail(&mut self, invariant: Invariant, verdict: Result<(), String>) {
        if let Err(what) = verdict
            && self.only.is_none_or(|only| only == invariant)
        {
            self.failed.get_or_insert((invariant, what));
        }
    }

    /// # Errors
    /// What is wrong, and which invariant says so.
    pub fn verdict(&mut self, now: u64) -> Result<(), Broken> {
        if self.off {
            return Ok(());
        }
        let verdict = self.containers.verdict();
        self.fail(Invariant::OneContainer, verdict);
        let verdict = self.zombies.verdict(now);
        self.fail(Invariant::ZombieStops, verdict);
        self.failed.clone().map_or(Ok(()), Err)
    }
}
