//! The validity index of one term: who may go on, and when each was last told so.
//!
//! An answer is recorded in the moment in which it is given, on a LIVE entry alone; so the last answer
//! that an entry tells when it is made INVALID is the last one there will ever be.

use std::collections::BTreeMap;

use steadfast_engine::{IndexChange, IndexEntry};
use steadfast_model::{ExecutionId, InvalidReason, Timestamp};

/// What a container is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Go on for this long, counted from the request's sending.
    Valid(u64),
    /// Stop.
    Invalid(InvalidReason),
    /// Nobody can know.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live { held: bool },
    Frozen,
    Invalid(InvalidReason),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: State,
    last: Option<Timestamp>,
    lease_ms: u64,
    started: bool,
}

/// The index.
#[derive(Clone, Debug, Default)]
pub struct Index {
    entries: BTreeMap<ExecutionId, Entry>,
    /// Whether the term has reconciled what it loaded; before that nobody is told anything.
    pub serves: bool,
}

impl Index {
    /// Answers a container at `now`.
    pub fn ask(&mut self, execution: ExecutionId, now: Timestamp) -> Answer {
        if !self.serves {
            return Answer::Unknown;
        }
        let Some(entry) = self.entries.get_mut(&execution) else {
            return Answer::Invalid(InvalidReason::UnknownId);
        };
        match entry.state {
            State::Frozen => Answer::Unknown,
            State::Invalid(reason) => Answer::Invalid(reason),
            State::Live { held: false } => {
                entry.last = Some(now);
                Answer::Valid(entry.lease_ms)
            }
            State::Live { held: true } => {
                let left = entry.last.map(|last| (last + entry.lease_ms).millis_since(now));
                match left {
                    Some(left) if left > 0 => Answer::Valid(left),
                    _ => Answer::Unknown,
                }
            }
        }
    }

    /// Notes that a container says that its program runs; `true` the first time.
    pub fn note_started(&mut self, execution: ExecutionId) -> bool {
        let entry = self.entries.get_mut(&execution).filter(|_| self.serves);
        entry.is_some_and(|entry| !std::mem::replace(&mut entry.started, true))
    }

    /// Answers "unknown" from now on.
    pub fn freeze(&mut self, execution: ExecutionId) {
        if let Some(entry) = self.entries.get_mut(&execution)
            && matches!(entry.state, State::Live { .. })
        {
            entry.state = State::Frozen;
        }
    }

    /// Makes a change, after the commit. An entry that becomes invalid tells its last answer.
    pub fn change(&mut self, change: &IndexChange) -> Option<(ExecutionId, Option<Timestamp>)> {
        match change {
            IndexChange::Live(id, entry) => {
                self.entries.insert(*id, Entry::new(State::Live { held: false }, entry));
            }
            IndexChange::Invalid(id, reason, entry) => {
                let state = State::Invalid(*reason);
                let entry = self.entries.entry(*id).or_insert_with(|| Entry::new(state, entry));
                entry.state = state;
                return Some((*id, entry.last));
            }
            IndexChange::Remove(id) => {
                self.entries.remove(id);
            }
            IndexChange::Hold(id, _) => self.hold(*id, true),
            IndexChange::Release(id) => self.hold(*id, false),
        }
        None
    }

    fn hold(&mut self, execution: ExecutionId, held: bool) {
        if let Some(Entry { state: State::Live { held: now }, .. }) =
            self.entries.get_mut(&execution)
        {
            *now = held;
        }
    }

    /// When a container was last told "valid".
    pub fn last_answer(&self, execution: ExecutionId) -> Option<Timestamp> {
        self.entries.get(&execution).and_then(|entry| entry.last)
    }

    /// The containers that it still knows.
    pub fn known(&self) -> impl Iterator<Item = ExecutionId> + '_ {
        self.entries.keys().copied()
    }
}

impl Entry {
    fn new(state: State, entry: &IndexEntry) -> Self {
        Self {
            state,
            last: entry.assumed_answer,
            lease_ms: entry.lease.lease_ms,
            started: entry.started,
        }
    }
}
