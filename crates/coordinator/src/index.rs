//! The validity index: what every container's question is answered from, without the loop.
//!
//! An entry is `LIVE`, `FROZEN` or `INVALID`. A handler records its answer by compare-and-swap on a live
//! entry *before* sending it; to revoke, the loop freezes the entry before its commit, so that no answer
//! can slip past, and makes it invalid after it with one swap, which returns the last answer. Nothing
//! thaws: a term that ends drops its whole index.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use steadfast_engine::{IndexChange, IndexEntry};
use steadfast_model::{ExecutionId, FencingToken, InvalidReason, JobId, TaskGroupId, Timestamp};
use steadfast_store::Tenure;

use crate::pace::{Load, Pace};
use crate::progress::Progress;

const SHARDS: usize = 64;
/// Containers that are proven gone, remembered in each shard: what of them still asks is told why, and
/// whose token has replaced its own.
const DEPARTED_PER_SHARD: usize = 256;
/// Checkpoints that one task group may write in a second.
const CHECKPOINTS_PER_SECOND: u64 = 10;

/// State and last answer of one container in one word, so that neither can change without the other.
///
/// The two high bits are the state; the rest is the instant of the last answer in milliseconds since the
/// Unix epoch, 0 for none.
#[derive(Debug)]
struct AnswerCell(AtomicU64);

const FROZEN: u64 = 1 << 62;
const INVALID: u64 = 1 << 63;
const INSTANT: u64 = FROZEN - 1;

impl AnswerCell {
    fn new(last: Option<Timestamp>) -> Self {
        Self(AtomicU64::new(last.map_or(0, Timestamp::as_millis) & INSTANT))
    }

    /// Records an answer at `now` if the entry is live; `false` if it is not.
    fn record(&self, now: Timestamp) -> bool {
        let mut seen = self.0.load(Ordering::Acquire);
        while seen & (FROZEN | INVALID) == 0 {
            let next = (now.as_millis() & INSTANT).max(seen);
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(changed) => seen = changed,
            }
        }
        false
    }

    fn freeze(&self) {
        self.0.fetch_or(FROZEN, Ordering::AcqRel);
    }

    /// Makes it invalid for good and returns the last answer.
    fn invalidate(&self) -> Option<Timestamp> {
        instant(self.0.fetch_or(INVALID, Ordering::AcqRel))
    }

    fn state(&self) -> State {
        match self.0.load(Ordering::Acquire) {
            word if word & INVALID != 0 => State::Invalid,
            word if word & FROZEN != 0 => State::Frozen,
            word => State::Live { last: instant(word) },
        }
    }
}

fn instant(word: u64) -> Option<Timestamp> {
    Some(word & INSTANT).filter(|ms| *ms > 0).map(Timestamp::from_millis)
}

enum State {
    Live { last: Option<Timestamp> },
    Frozen,
    Invalid,
}

struct Entry {
    job: JobId,
    task_group: TaskGroupId,
    token: FencingToken,
    lease_ms: u64,
    pace: Pace,
    cell: AnswerCell,
    /// Index into [`InvalidReason::ALL`]; meaningful once the cell is invalid.
    reason: AtomicU8,
    /// 0, or: its member is away, and it is asked back after this many milliseconds.
    hold_ms: AtomicU64,
    started: AtomicBool,
    /// The second, and the checkpoints written in it, as `second * 16 + count`.
    checkpoints: AtomicU64,
    /// Whether Samza's client in the program is answered too.
    samza: bool,
    /// What its program's steps say; taken only by its own questions, which come one after the other.
    progress: Mutex<Progress>,
    /// When it was made invalid, in milliseconds since the Unix epoch; 0: it was not.
    revoked_ms: AtomicU64,
    /// How long after that it last called, and one more; 0: it never did.
    haunted_ms: AtomicU32,
}

impl Entry {
    fn new(entry: &IndexEntry) -> Self {
        let IndexEntry { job, task_group, token, lease, assumed_answer, started, samza } = *entry;
        Self {
            job,
            task_group,
            token,
            lease_ms: lease.lease_ms,
            pace: Pace::of(lease),
            cell: AnswerCell::new(assumed_answer),
            reason: AtomicU8::new(0),
            hold_ms: AtomicU64::new(0),
            started: AtomicBool::new(started),
            checkpoints: AtomicU64::new(0),
            samza,
            progress: Mutex::default(),
            revoked_ms: AtomicU64::new(0),
            haunted_ms: AtomicU32::new(0),
        }
    }

    fn set_reason(&self, reason: InvalidReason) {
        let at = InvalidReason::ALL.iter().position(|known| *known == reason).unwrap_or(0);
        self.reason.store(u8::try_from(at).unwrap_or(0), Ordering::Release);
    }

    fn reason(&self) -> InvalidReason {
        let at = usize::from(self.reason.load(Ordering::Acquire));
        InvalidReason::ALL.get(at).copied().unwrap_or(InvalidReason::UnknownId)
    }

    fn ask(&self, hash: u64, load: &Load, now: Timestamp) -> Answer {
        let schedule_ms = self.pace.schedule_ms();
        match self.cell.state() {
            State::Invalid => Answer::Invalid(self.reason()),
            State::Frozen => Answer::Unknown { ask_again_ms: schedule_ms.min(200) },
            State::Live { last } => match self.hold_ms.load(Ordering::Acquire) {
                0 if self.cell.record(now) => {
                    self.valid(self.lease_ms, self.pace.next_poll_ms(load, hash, now))
                }
                0 => Answer::Unknown { ask_again_ms: schedule_ms.min(200) },
                ask_again_ms => match last {
                    None => Answer::Unknown { ask_again_ms },
                    Some(last) => match (last + self.lease_ms).millis_since(now) {
                        0 => Answer::Unknown { ask_again_ms },
                        left_ms => self.valid(left_ms, ask_again_ms.min(schedule_ms)),
                    },
                },
            },
        }
    }

    /// As [`Entry::ask`], for somebody who extends nothing.
    fn heartbeat(&self, now: Timestamp) -> Heartbeat {
        if !self.samza {
            return Heartbeat::NotAsked;
        }
        match self.cell.state() {
            State::Invalid => Heartbeat::Dead(self.reason()),
            State::Frozen => Heartbeat::Unknown,
            State::Live { last } => {
                let is_held = self.hold_ms.load(Ordering::Acquire) > 0;
                let has_lease = last.is_some_and(|last| now < last + self.lease_ms);
                if !is_held || has_lease { Heartbeat::Alive } else { Heartbeat::Unknown }
            }
        }
    }

    /// It called though it is invalid; whether for the first time.
    fn haunt(&self, now: Timestamp) -> bool {
        let revoked_ms = self.revoked_ms.load(Ordering::Acquire);
        let since_ms = now.as_millis().saturating_sub(revoked_ms);
        let word = u32::try_from(since_ms).unwrap_or(u32::MAX).saturating_add(1);
        self.haunted_ms.fetch_max(word, Ordering::AcqRel) == 0
    }

    /// It is about to be invalid. Called with the shard locked, so that nobody is counted out twice.
    fn asks_no_more(&self, load: &Load) {
        if !matches!(self.cell.state(), State::Invalid) {
            load.left(self.pace);
        }
    }

    fn standing(&self) -> Standing {
        match self.cell.state() {
            State::Live { last } => Standing {
                lease_ends: last.map(|last| last + self.lease_ms),
                quiet_ms: self.progress.lock().quiet_ms(),
            },
            State::Frozen | State::Invalid => Standing::default(),
        }
    }

    fn valid(&self, lease_ms: u64, next_poll_ms: u64) -> Answer {
        Answer::Valid { lease_ms, next_poll_ms, token: self.token }
    }

    fn admit_checkpoint(&self, now: Timestamp) -> bool {
        let second = now.as_millis() / 1_000;
        self.checkpoints
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                let count = if word / 16 == second { word % 16 } else { 0 };
                (count < CHECKPOINTS_PER_SECOND).then_some(second * 16 + count + 1)
            })
            .is_ok()
    }
}

fn hash(execution: ExecutionId) -> u64 {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(execution)
}

/// What a container is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Valid { lease_ms: u64, next_poll_ms: u64, token: FencingToken },
    Invalid(InvalidReason),
    Unknown { ask_again_ms: u64 },
}

/// What Samza's client in a container is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heartbeat {
    Alive,
    Dead(InvalidReason),
    Unknown,
    /// Its job does not ask for Samza's heartbeat.
    NotAsked,
}

/// The last "yes" that a container was given; `None`: it never had one.
pub(crate) type LastAnswer = (ExecutionId, Option<Timestamp>);

/// How a container stands, for those who look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// When its lease ends if nothing extends it.
    pub lease_ends: Option<Timestamp>,
    /// For how long its program has told of no step.
    pub quiet_ms: u64,
}

/// Whose checkpoint a container writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointOwner {
    pub job: JobId,
    pub task_group: TaskGroupId,
    pub token: FencingToken,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<ExecutionId, Entry>,
    /// The newest that are proven gone; their entries are invalid.
    departed: VecDeque<ExecutionId>,
}

impl Shard {
    fn depart(&mut self, execution: ExecutionId, load: &Load) {
        let Some(entry) = self.entries.get(&execution) else { return };
        if let State::Live { .. } = entry.cell.state() {
            entry.set_reason(InvalidReason::UnknownId);
        }
        entry.asks_no_more(load);
        entry.cell.invalidate();
        self.departed.push_back(execution);
        if self.departed.len() > DEPARTED_PER_SHARD
            && let Some(oldest) = self.departed.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }
}

/// Every container that may still ask, of one term.
pub(crate) struct ValidityIndex {
    shards: Vec<RwLock<Shard>>,
    /// Whether this leader may answer at all. Checked before each look-up.
    open: AtomicBool,
    /// Compared with the clock at each answer: a process that was stopped past its term's end may answer
    /// before anything has closed this.
    tenure: Tenure,
    /// What containers are told to come back later for.
    pub load: Load,
}

impl ValidityIndex {
    /// An index that answers nobody until it is opened.
    pub fn new(tenure: Tenure) -> Self {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        Self { shards, open: AtomicBool::new(false), tenure, load: Load::default() }
    }

    /// The term is reconciled: verdicts may be given.
    pub fn open(&self) {
        self.open.store(true, Ordering::Release);
    }

    /// The term is over, or doubtful: no verdict leaves from now on.
    pub fn close(&self) {
        self.open.store(false, Ordering::Release);
    }

    /// Whether verdicts may be given.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire) && self.tenure.holds()
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        &self.shards[(hash % SHARDS as u64) as usize]
    }

    fn with<T>(&self, execution: ExecutionId, read: impl FnOnce(&Entry) -> T) -> Option<T> {
        self.shard(hash(execution)).read().entries.get(&execution).map(read)
    }

    /// Answers a container's question.
    pub fn ask(&self, execution: ExecutionId, now: Timestamp) -> Answer {
        if !self.is_open() {
            return Answer::Unknown { ask_again_ms: 200 };
        }
        let hash = hash(execution);
        let shard = self.shard(hash).read();
        let entry = shard.entries.get(&execution);
        entry
            .map(|entry| entry.ask(hash, &self.load, now))
            .unwrap_or(Answer::Invalid(InvalidReason::UnknownId))
    }

    /// What somebody without the container's secret is told: nothing is extended. `None` in doubt.
    pub fn peek(&self, execution: ExecutionId) -> Option<bool> {
        if !self.is_open() {
            return None;
        }
        let state = self.with(execution, |entry| match entry.cell.state() {
            State::Live { .. } => Some(true),
            State::Frozen => None,
            State::Invalid => Some(false),
        });
        state.unwrap_or(Some(false))
    }

    /// Whether a container's own word that it started is news.
    pub fn is_start_news(&self, execution: ExecutionId) -> bool {
        self.with(execution, |entry| !entry.started.swap(true, Ordering::AcqRel)).unwrap_or(false)
    }

    /// The news that it was for that question did not get through: the next one tells it.
    pub fn start_is_news_again(&self, execution: ExecutionId) {
        let _ = self.with(execution, |entry| entry.started.store(false, Ordering::Release));
    }

    /// Whose checkpoint this container writes; `None` for an id that is not known.
    pub fn checkpoint_owner(&self, execution: ExecutionId) -> Option<CheckpointOwner> {
        self.with(execution, |entry| CheckpointOwner {
            job: entry.job,
            task_group: entry.task_group,
            token: entry.token,
        })
    }

    /// Whether one more checkpoint may be written now.
    pub fn admit_checkpoint(&self, execution: ExecutionId, now: Timestamp) -> bool {
        self.with(execution, |entry| entry.admit_checkpoint(now)).unwrap_or(false)
    }

    /// What Samza's client is told about this container.
    pub fn heartbeat(&self, execution: ExecutionId, now: Timestamp) -> Heartbeat {
        if !self.is_open() {
            return Heartbeat::Unknown;
        }
        self.with(execution, |entry| entry.heartbeat(now))
            .unwrap_or(Heartbeat::Dead(InvalidReason::UnknownId))
    }

    /// Takes in how many steps a container's program has done.
    pub fn hear_progress(&self, execution: ExecutionId, steps: u64, now: Timestamp) {
        let _ = self.with(execution, |entry| {
            entry.progress.lock().hear(steps, now, entry.pace.interval_ms(&self.load));
        });
    }

    /// How a container stands: nothing for one that is not live.
    pub fn standing(&self, execution: ExecutionId) -> Standing {
        self.with(execution, Entry::standing).unwrap_or_default()
    }

    /// A container that is invalid called; whether for the first time. Of an id that nobody knows, nobody
    /// can tell.
    pub fn haunt(&self, execution: ExecutionId, now: Timestamp) -> bool {
        self.with(execution, |entry| entry.haunt(now)).unwrap_or(false)
    }

    /// From when this container's zombie lifetime is counted: its revocation is durable.
    pub fn note_revoked(&self, execution: ExecutionId, now: Timestamp) {
        let _ = self.with(execution, |entry| {
            let never = entry.revoked_ms.compare_exchange(
                0,
                now.as_millis(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            never.is_ok()
        });
    }

    /// How long after its revocation a container last called; `None` if it never did.
    pub fn zombie_lifetime_ms(&self, execution: ExecutionId) -> Option<u64> {
        let word = self.with(execution, |entry| entry.haunted_ms.load(Ordering::Acquire))?;
        word.checked_sub(1).map(u64::from)
    }

    /// Answers "unknown" for this container from now on.
    pub fn freeze(&self, execution: ExecutionId) {
        let _ = self.with(execution, |entry| entry.cell.freeze());
    }

    /// Applies a change whose commit is durable; for a revocation it returns the last answer.
    pub fn apply(&self, change: &IndexChange) -> Option<LastAnswer> {
        match *change {
            IndexChange::Live(id, ref entry) => {
                let entry = Entry::new(entry);
                self.load.joined(entry.pace);
                let before = self.shard(hash(id)).write().entries.insert(id, entry);
                if let Some(before) = before {
                    before.asks_no_more(&self.load);
                }
                None
            }
            IndexChange::Invalid(id, reason, ref entry) => {
                let mut shard = self.shard(hash(id)).write();
                let entry = shard.entries.entry(id).or_insert_with(|| {
                    let entry = Entry::new(entry);
                    self.load.joined(entry.pace);
                    entry
                });
                entry.set_reason(reason);
                entry.asks_no_more(&self.load);
                Some((id, entry.cell.invalidate()))
            }
            IndexChange::Remove(id) => {
                self.shard(hash(id)).write().depart(id, &self.load);
                None
            }
            IndexChange::Hold(id, ask_again_ms) => {
                let _ = self.with(id, |entry| {
                    entry.hold_ms.store(ask_again_ms.max(1), Ordering::Release);
                });
                None
            }
            IndexChange::Release(id) => {
                let _ = self.with(id, |entry| entry.hold_ms.store(0, Ordering::Release));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use steadfast_model::{LeaseTerms, TermNonce};

    use super::*;

    const ID: ExecutionId = ExecutionId::of_term(TermNonce::new(1), 1);

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + ms)
    }

    fn entry(assumed_answer: Option<Timestamp>) -> IndexEntry {
        IndexEntry {
            job: JobId::new(1),
            task_group: TaskGroupId::new(1),
            token: FencingToken::new(7),
            lease: LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 },
            assumed_answer,
            started: false,
            samza: true,
        }
    }

    fn index(assumed_answer: Option<Timestamp>) -> ValidityIndex {
        let index = ValidityIndex::new(Tenure::without_end());
        index.apply(&IndexChange::Live(ID, entry(assumed_answer)));
        index.open();
        index
    }

    fn revoke() -> IndexChange {
        IndexChange::Invalid(ID, InvalidReason::Superseded, entry(None))
    }

    #[test]
    fn a_closed_index_gives_no_verdict_not_even_for_an_unknown_id() {
        let index = index(None);
        index.close();
        assert!(matches!(index.ask(ID, at(0)), Answer::Unknown { .. }));
        let other = ExecutionId::of_term(TermNonce::new(1), 2);
        assert!(matches!(index.ask(other, at(0)), Answer::Unknown { .. }));
        index.open();
        assert_eq!(index.ask(other, at(0)), Answer::Invalid(InvalidReason::UnknownId));
    }

    /// Red where only the loop, or nobody, asks the tenure.
    #[test]
    fn a_term_that_is_over_gives_no_verdict_though_nobody_has_closed_it() {
        let tenure = Tenure::without_end();
        let index = ValidityIndex::new(tenure.clone());
        index.apply(&IndexChange::Live(ID, entry(None)));
        index.open();
        let other = ExecutionId::of_term(TermNonce::new(1), 2);
        assert_eq!((index.peek(ID), index.peek(other)), (Some(true), Some(false)));
        tenure.end();
        for id in [ID, other] {
            assert!(matches!(index.ask(id, at(0)), Answer::Unknown { .. }));
            assert_eq!(index.peek(id), None);
            assert_eq!(index.heartbeat(id, at(0)), Heartbeat::Unknown);
        }
        assert!(!index.is_open(), "checkpoints ask this");
        assert_eq!(index.apply(&revoke()), Some((ID, None)), "nothing was extended");
    }

    #[test]
    fn freezing_stops_answers_and_the_swap_tells_the_last_one() {
        let index = index(None);
        assert!(matches!(index.ask(ID, at(0)), Answer::Valid { lease_ms: 15_000, .. }));
        assert!(matches!(index.ask(ID, at(900)), Answer::Valid { .. }));
        index.freeze(ID);
        assert!(matches!(index.ask(ID, at(1_000)), Answer::Unknown { .. }));
        assert_eq!(index.apply(&revoke()), Some((ID, Some(at(900)))));
        assert_eq!(index.ask(ID, at(1_100)), Answer::Invalid(InvalidReason::Superseded));
    }

    #[test]
    fn what_never_had_a_yes_is_told_as_such() {
        let index = index(None);
        index.freeze(ID);
        assert_eq!(index.apply(&revoke()), Some((ID, None)));
    }

    #[test]
    fn a_held_container_gets_what_is_left_and_one_without_a_yes_gets_no_verdict() {
        let index = index(Some(at(0)));
        index.apply(&IndexChange::Hold(ID, 300));
        let left =
            Answer::Valid { lease_ms: 14_000, next_poll_ms: 300, token: FencingToken::new(7) };
        assert_eq!(index.ask(ID, at(1_000)), left);
        index.freeze(ID);
        assert_eq!(index.apply(&revoke()), Some((ID, Some(at(0)))), "nothing was extended");

        let fresh = self::index(None);
        fresh.apply(&IndexChange::Hold(ID, 300));
        assert_eq!(fresh.ask(ID, at(0)), Answer::Unknown { ask_again_ms: 300 });
        fresh.apply(&IndexChange::Release(ID));
        assert!(matches!(fresh.ask(ID, at(0)), Answer::Valid { lease_ms: 15_000, .. }));
    }

    #[test]
    fn a_task_group_writes_ten_checkpoints_a_second() {
        let index = index(None);
        let admitted = (0..20).filter(|_| index.admit_checkpoint(ID, at(0))).count();
        assert_eq!(admitted, 10);
        assert!(index.admit_checkpoint(ID, at(1_000)));
    }

    #[test]
    fn what_is_proven_gone_is_told_so_for_a_while_and_within_a_bound() {
        let index = index(None);
        index.apply(&revoke());
        index.apply(&IndexChange::Remove(ID));
        assert_eq!(index.ask(ID, at(0)), Answer::Invalid(InvalidReason::Superseded));
        let owner = index.checkpoint_owner(ID).map(|owner| owner.token);
        assert_eq!(owner, Some(FencingToken::new(7)), "the store says which token is current");
        for seq in 2..=20_000 {
            let id = ExecutionId::of_term(TermNonce::new(1), seq);
            index.apply(&IndexChange::Live(id, entry(None)));
            index.apply(&IndexChange::Remove(id));
        }
        let kept: usize = index.shards.iter().map(|shard| shard.read().entries.len()).sum();
        assert!(kept <= SHARDS * DEPARTED_PER_SHARD, "{kept}");
        assert_eq!(index.ask(ID, at(0)), Answer::Invalid(InvalidReason::UnknownId));
    }

    #[test]
    fn peeking_extends_nothing() {
        let index = index(None);
        assert_eq!(index.peek(ID), Some(true));
        index.freeze(ID);
        assert_eq!(index.peek(ID), None);
        assert_eq!(index.apply(&revoke()), Some((ID, None)));
        assert_eq!(index.peek(ID), Some(false));
    }

    #[test]
    fn samzas_client_hears_a_verdict_only_where_it_is_certain() {
        let index = index(None);
        assert_eq!(index.heartbeat(ID, at(0)), Heartbeat::Alive);
        index.apply(&IndexChange::Hold(ID, 300));
        assert_eq!(index.heartbeat(ID, at(0)), Heartbeat::Unknown, "it never had a yes");
        index.apply(&IndexChange::Release(ID));
        assert!(matches!(index.ask(ID, at(0)), Answer::Valid { .. }));
        index.apply(&IndexChange::Hold(ID, 300));
        assert_eq!(index.heartbeat(ID, at(14_999)), Heartbeat::Alive);
        assert_eq!(index.heartbeat(ID, at(15_000)), Heartbeat::Unknown, "its lease is over");
        index.freeze(ID);
        assert_eq!(index.heartbeat(ID, at(0)), Heartbeat::Unknown);
        assert_eq!(index.apply(&revoke()), Some((ID, Some(at(0)))), "nothing was extended");
        assert_eq!(index.heartbeat(ID, at(0)), Heartbeat::Dead(InvalidReason::Superseded));
        let other = ExecutionId::of_term(TermNonce::new(1), 2);
        assert_eq!(index.heartbeat(other, at(0)), Heartbeat::Dead(InvalidReason::UnknownId));
        index.close();
        for id in [ID, other] {
            assert_eq!(index.heartbeat(id, at(0)), Heartbeat::Unknown);
        }
    }

    #[test]
    fn a_job_that_does_not_ask_for_samzas_heartbeat_does_not_get_one() {
        let index = ValidityIndex::new(Tenure::without_end());
        index.apply(&IndexChange::Live(ID, IndexEntry { samza: false, ..entry(None) }));
        index.open();
        assert_eq!(index.heartbeat(ID, at(0)), Heartbeat::NotAsked);
    }

    #[test]
    fn a_zombie_lives_from_its_revocation_to_its_last_call() {
        let index = index(None);
        index.apply(&revoke());
        index.note_revoked(ID, at(100));
        index.note_revoked(ID, at(900));
        assert_eq!(index.zombie_lifetime_ms(ID), None, "it has not called");
        assert!(index.haunt(ID, at(100)), "the first call");
        assert_eq!(index.zombie_lifetime_ms(ID), Some(0));
        assert!(!index.haunt(ID, at(2_600)));
        assert!(!index.haunt(ID, at(1_000)), "a call that was overtaken");
        assert_eq!(index.zombie_lifetime_ms(ID), Some(2_500));
    }

    #[test]
    fn quiet_is_told_of_a_live_container_only() {
        let index = index(None);
        index.hear_progress(ID, 3, at(0));
        index.hear_progress(ID, 3, at(1_000));
        assert_eq!(index.standing(ID).quiet_ms, 1_000);
        index.freeze(ID);
        assert_eq!(index.standing(ID), Standing::default());
    }

    #[test]
    fn only_those_who_may_ask_count_as_load() {
        let index = ValidityIndex::new(Tenure::without_end());
        let ids = || (1..=20_000).map(|seq| ExecutionId::of_term(TermNonce::new(1), seq));
        ids().for_each(|id| {
            let _ = index.apply(&IndexChange::Live(id, entry(None)));
        });
        assert_eq!(index.load.stretch_permille(), 2_000, "20,000 questions a second");
        index.apply(&IndexChange::Live(ID, entry(None)));
        assert_eq!(index.load.stretch_permille(), 2_000, "nobody counts twice");
        for id in ids().take(5_000) {
            index.freeze(id);
            index.apply(&IndexChange::Invalid(id, InvalidReason::Superseded, entry(None)));
        }
        assert_eq!(index.load.stretch_permille(), 1_500);
        ids().for_each(|id| {
            let _ = index.apply(&IndexChange::Remove(id));
        });
        ids().for_each(|id| {
            let _ = index.apply(&IndexChange::Live(id, entry(None)));
        });
        assert_eq!(index.load.stretch_permille(), 2_000, "as many out as in");
        let stranger = ExecutionId::of_term(TermNonce::new(2), 1);
        index.apply(&IndexChange::Invalid(stranger, InvalidReason::Canceled, entry(None)));
        assert_eq!(index.load.stretch_permille(), 2_000, "who never could ask does not count");
    }

    #[test]
    fn no_answer_slips_past_a_freeze() {
        // Whatever the interleaving of askers and the freeze, an answer given is an answer told.
        let index = index(None);
        let latest = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for asker in 0..4 {
                let (index, latest) = (&index, &latest);
                scope.spawn(move || {
                    for step in 0..5_000 {
                        let now = at(step * 4 + asker);
                        if matches!(index.ask(ID, now), Answer::Valid { .. }) {
                            latest.fetch_max(now.as_millis(), Ordering::AcqRel);
                        }
                    }
                });
            }
            scope.spawn(|| index.freeze(ID));
        });
        let told = index.apply(&revoke()).unwrap().1.map_or(0, Timestamp::as_millis);
        assert_eq!(told, latest.load(Ordering::Acquire));
    }
}
