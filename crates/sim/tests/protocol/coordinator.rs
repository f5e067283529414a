//! A coordinator: one term's validity index, and how far it is with the old container.

use steadfast_engine::{IndexChange, IndexEntry};
use steadfast_model::{
    ExecutionId, FencingToken, InvalidReason, JobId, TaskGroupId, TermNonce, Timestamp,
};

use super::bounds::{Bounds, Mistake, reading, when};
use crate::index::{Answer, ValidityIndex};

const OLD: ExecutionId = ExecutionId::of_term(TermNonce::new(1), 1);
/// The second coordinator's wall clock is behind: instants of two terms are not to be compared.
const BEHIND_MS: u64 = 50_000;

/// What a coordinator's clock shows.
pub fn clock(c: usize, percent: u64, true_ms: u64) -> Timestamp {
    Timestamp::from_millis(reading(percent, true_ms) - c as u64 * BEHIND_MS)
}

/// When it shows that.
pub fn when_clock(c: usize, percent: u64, at: Timestamp) -> u64 {
    when(percent, at.as_millis() + c as u64 * BEHIND_MS)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Life {
    Standby,
    Leads,
    Deposed,
}

/// How far a term is with the old container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    Valid,
    /// Frozen, and on its way to the store.
    Decided {
        read: Option<Timestamp>,
    },
    /// The revocation is durable.
    Committed {
        read: Option<Timestamp>,
    },
    /// The index has told the last answer.
    Told(Option<Timestamp>),
}

/// What was done to an entry of the validity index; the real one is made from it to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    last: Option<Timestamp>,
    pub held: bool,
    frozen: bool,
    invalid: bool,
}

pub enum Verdict {
    Valid { lease_ms: u64 },
    Invalid,
    Unknown,
}

impl Entry {
    fn live(last: Option<Timestamp>, held: bool) -> Self {
        Self { last, held, frozen: false, invalid: false }
    }

    fn index(self, bounds: &Bounds) -> (ValidityIndex, IndexChange) {
        let entry = IndexEntry {
            job: JobId::new(1),
            task_group: TaskGroupId::new(1),
            token: FencingToken::new(1),
            lease: bounds.machine_terms(),
            assumed_answer: self.last,
            started: false,
            samza: false,
        };
        let revoke = IndexChange::Invalid(OLD, InvalidReason::Superseded, entry);
        let index = ValidityIndex::new(steadfast_store::Tenure::without_end());
        index.apply(&IndexChange::Live(OLD, entry));
        if self.held {
            index.apply(&IndexChange::Hold(OLD, 300));
        }
        if self.frozen {
            index.freeze(OLD);
        }
        if self.invalid {
            index.apply(&revoke);
        }
        index.open();
        (index, revoke)
    }

    /// A question of the old container.
    pub fn ask(&mut self, bounds: &Bounds, now: Timestamp) -> Verdict {
        let (index, revoke) = self.index(bounds);
        let answer = index.ask(OLD, now);
        self.last = index.apply(&revoke).and_then(|(_, last)| last);
        match answer {
            Answer::Valid { lease_ms, .. } => Verdict::Valid { lease_ms },
            Answer::Invalid(_) => Verdict::Invalid,
            Answer::Unknown { .. } => Verdict::Unknown,
        }
    }

    /// The swap: invalid from now on; tells the last answer.
    fn revoke(&mut self, bounds: &Bounds) -> Option<Timestamp> {
        let (index, revoke) = self.index(bounds);
        self.invalid = true;
        index.apply(&revoke).and_then(|(_, last)| last)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    pub life: Life,
    pub entry: Entry,
    pub stage: Stage,
}

impl Coordinator {
    /// It has minted the old container and sent its launch.
    pub fn leading() -> Self {
        Self { life: Life::Leads, entry: Entry::live(None, false), stage: Stage::Valid }
    }

    pub fn standby() -> Self {
        Self { life: Life::Standby, entry: Entry::live(None, true), stage: Stage::Valid }
    }

    /// `Engine::load` and `fill_index` of crates/engine/src/takeover.rs.
    pub fn took_over(assumed: Option<Timestamp>, held: bool, revoked: bool) -> Self {
        let live = Entry::live(assumed, held);
        Self {
            life: Life::Leads,
            entry: Entry { invalid: revoked, ..live },
            stage: if revoked { Stage::Told(assumed) } else { Stage::Valid },
        }
    }

    pub fn decide(&mut self, bounds: &Bounds) {
        let read = self.entry.last;
        self.entry.frozen =
            !bounds.makes(Mistake::NotFrozen) && !bounds.makes(Mistake::ReadBeforeTheCommit);
        self.stage = Stage::Decided { read };
    }

    pub fn apply(&mut self, bounds: &Bounds) {
        let Stage::Committed { read } = self.stage else { return };
        let told = self.entry.revoke(bounds);
        self.stage =
            Stage::Told(if bounds.makes(Mistake::ReadBeforeTheCommit) { read } else { told });
    }
}
