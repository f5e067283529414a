//! The store in memory: for tests, and for the simulator, which calls it without an async runtime and
//! makes it fail on purpose.
//!
//! It goes through the same mapping and the same bytes as the durable engines. Clones share one store,
//! so what survives a coordinator's end is whatever handle the test has kept.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_engine::records::HistoryRecord;
use steadfast_model::{Epoch, JobId, TaskGroupId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::batch;
use crate::history::{HistoryCursor, HistoryPage};
use crate::ops::Op;
use crate::records::Head;
use crate::standby::{Change, MAX_BEHIND, Standby};
use crate::store::{
    CheckpointError, CheckpointGuard, CommitError, LeaderInfo, Limits, Loaded, Refusal, Rev, Store,
    StoreError, Term,
};
use crate::table::{Staged, Table};
use crate::tenure::Tenure;
use crate::transaction;

/// A handle on one store in memory.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    limits: Limits,
    state: Arc<Mutex<State>>,
    /// Whose turn it is, where candidates wait.
    turn: Option<Arc<Semaphore>>,
}

/// What goes wrong on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A commit is refused, whatever is in it.
    Refuse(Refusal),
    /// A commit that writes the ledger of this job, or of any job (`None`), is refused.
    RefuseLedger(Option<JobId>, Refusal),
    /// The outcome of a commit is unknown.
    Unknown {
        /// Whether it was applied all the same.
        applied: bool,
    },
}

impl Fault {
    fn concerns(&self, ops: &[Op]) -> bool {
        match self {
            Self::Refuse(_) | Self::Unknown { .. } => true,
            Self::RefuseLedger(job, _) => {
                ops.iter().any(|op| op.is_ledger_part() && (job.is_none() || op.job() == *job))
            }
        }
    }
}

#[derive(Debug)]
struct State {
    rows: Table,
    faults: VecDeque<(Fault, u32)>,
    /// The present term, unless it is in doubt after an unknown outcome.
    leading: Option<Head>,
    lost: watch::Sender<bool>,
    tenure: Tenure,
    followers: Vec<mpsc::Sender<Change>>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store without practical limits.
    pub fn new() -> Self {
        Self::with_limits(Limits { max_ops: usize::MAX, max_bytes: usize::MAX })
    }

    /// An empty store that refuses larger transactions.
    pub fn with_limits(limits: Limits) -> Self {
        let mut rows = Table::default();
        // The same key in every run: the simulator must be repeatable, and no real secret is derived.
        let created = rows.transaction(|rows| transaction::create(rows, [0x5f; 32]));
        debug_assert_eq!(created, Ok(()));
        let lost = watch::Sender::new(false);
        let state = State {
            rows,
            faults: VecDeque::new(),
            leading: None,
            lost,
            tenure: Tenure::without_end(),
            followers: Vec::new(),
        };
        Self { limits, state: Arc::new(Mutex::new(state)), turn: None }
    }

    /// The same store where nobody begins a term before the last one was resigned or dropped, as with a
    /// lease. Otherwise whoever wants to lead fences the former leader at once.
    #[must_use]
    pub fn where_candidates_wait(self) -> Self {
        Self { turn: Some(Arc::new(Semaphore::new(1))), ..self }
    }

    /// Ends the tenure of the present term and tells nobody: what a process finds that was stopped for
    /// longer than its lease.
    pub fn end_tenure(&self) {
        self.state().tenure.end();
    }

    /// Makes the next `commits` commits that the fault concerns fail. Faults apply in the order in which
    /// they were injected, one to a commit.
    pub fn inject(&self, fault: Fault, commits: u32) {
        self.state().faults.push_back((fault, commits));
    }

    /// Takes back every fault that has not happened yet.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// [`Store::lead`] without async.
    ///
    /// # Errors
    /// Where the head was put there by somebody else and cannot be read.
    pub fn begin_term(&self, me: &LeaderInfo) -> Result<Epoch, StoreError> {
        self.state().begin_term(me)
    }

    /// [`Term::commit`] without async, for the term that began with this epoch.
    ///
    /// # Errors
    /// As that.
    pub fn apply(&self, epoch: Epoch, ops: &[Op]) -> Result<Rev, CommitError> {
        let state = &mut *self.state();
        let head = state.leading.clone().filter(|head| head.epoch == epoch);
        let head = head.ok_or(CommitError::Fenced)?;
        let applied = match state.take_fault(ops) {
            Some(Fault::Refuse(refusal) | Fault::RefuseLedger(_, refusal)) => {
                return Err(CommitError::NotApplied(refusal));
            }
            Some(Fault::Unknown { applied }) => Some(applied),
            None => None,
        };
        if applied != Some(false) {
            let next = head.next();
            let batch = batch::encode(ops, &next, self.limits).map_err(CommitError::NotApplied)?;
            state.write(|rows| transaction::commit(rows, &head, &batch))?;
            state.leading = Some(next);
        }
        if applied.is_some() {
            state.leading = None;
            state.lost.send_replace(true);
            return Err(CommitError::Unknown("injected".to_owned()));
        }
        Ok(Rev(head.n + 1))
    }

    /// [`Store::load`] without async.
    ///
    /// # Errors
    /// As that.
    pub fn snapshot(&self) -> Result<Loaded, StoreError> {
        transaction::load(&self.state().rows)
    }

    /// [`Store::write_checkpoint`] without async.
    ///
    /// # Errors
    /// As that.
    pub fn put_checkpoint(
        &self,
        guard: CheckpointGuard,
        value: &[u8],
    ) -> Result<(), CheckpointError> {
        let write = |rows: &mut Staged<'_>| transaction::write_checkpoint(rows, guard, value);
        self.state().rows.transaction(write)
    }

    /// [`Store::read_checkpoint`] without async.
    ///
    /// # Errors
    /// As that.
    pub fn checkpoint(
        &self,
        epoch: Epoch,
        job: JobId,
        task_group: TaskGroupId,
    ) -> Result<Option<Bytes>, CheckpointError> {
        transaction::read_checkpoint(&self.state().rows, epoch, job, task_group)
    }

    /// Puts bytes under a key past every guard: what damage, or a newer version, may have left there.
    pub fn plant(&self, key: &str, value: &[u8]) {
        self.state().rows.insert(key.to_owned(), value.to_vec());
    }

    /// Every key and its bytes, for comparing two moments.
    pub fn dump(&self) -> BTreeMap<String, Vec<u8>> {
        self.state().rows.as_map().clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs between two writes of one transaction.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin_term(&mut self, me: &LeaderInfo) -> Result<Epoch, StoreError> {
        // No candidate gets no answer here, so commits need no random id.
        let head = self.write(|rows| transaction::lead(rows, me, 0))?;
        let epoch = head.epoch;
        self.leading = Some(head);
        self.lost.send_replace(true);
        self.lost = watch::Sender::new(false);
        self.tenure.end();
        self.tenure = Tenure::without_end();
        Ok(epoch)
    }

    /// One transaction that standbys are told of.
    fn write<T, E>(&mut self, body: impl FnOnce(&mut Staged<'_>) -> Result<T, E>) -> Result<T, E> {
        let (done, writes) = self.rows.stage(body)?;
        if !self.followers.is_empty() {
            let change: Change = writes.clone().into();
            // One that is too far behind, or gone, is dropped: it has missed something.
            self.followers.retain(|follower| follower.try_send(change.clone()).is_ok());
        }
        self.rows.apply(writes);
        Ok(done)
    }

    fn take_fault(&mut self, ops: &[Op]) -> Option<Fault> {
        let index = self.faults.iter().position(|(fault, _)| fault.concerns(ops))?;
        let (fault, left) = &mut self.faults[index];
        let fault = fault.clone();
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.faults.remove(index);
        }
        Some(fault)
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn limits(&self) -> Limits {
        self.limits
    }

    async fn load(&self) -> Result<Loaded, StoreError> {
        self.snapshot()
    }

    async fn lead(&self, me: LeaderInfo) -> Result<Box<dyn Term>, StoreError> {
        let turn = match &self.turn {
            // It is never closed, so there always comes a permit.
            Some(turn) => Arc::clone(turn).acquire_owned().await.ok(),
            None => None,
        };
        let mut state = self.state();
        let epoch = state.begin_term(&me)?;
        let rev = state.leading.as_ref().map_or(Rev(0), |head| Rev(head.n));
        let (lost, tenure) = (state.lost.subscribe(), state.tenure.clone());
        Ok(Box::new(MemoryTerm { store: self.clone(), epoch, rev, lost, tenure, _turn: turn }))
    }

    async fn follow(&self) -> Result<Option<Standby>, StoreError> {
        let mut state = self.state();
        let (sender, changes) = mpsc::channel(MAX_BEHIND);
        let rows = state.rows.as_map().iter().map(|(key, value)| (key.clone(), value.clone()));
        let (_, heard) = watch::channel(true);
        let standby = Standby::new(rows, changes, heard)?;
        state.followers.push(sender);
        Ok(Some(standby))
    }

    async fn history(&self, job: JobId) -> Result<Option<HistoryRecord>, StoreError> {
        transaction::history(&self.state().rows, job)
    }

    async fn history_page(
        &self,
        after: Option<HistoryCursor>,
        limit: usize,
    ) -> Result<HistoryPage, StoreError> {
        transaction::history_page(&self.state().rows, after, limit)
    }

    async fn read_checkpoint(
        &self,
        epoch: Epoch,
        job: JobId,
        task_group: TaskGroupId,
    ) -> Result<Option<Bytes>, CheckpointError> {
        self.checkpoint(epoch, job, task_group)
    }

    async fn write_checkpoint(
        &self,
        guard: CheckpointGuard,
        value: Bytes,
    ) -> Result<(), CheckpointError> {
        self.put_checkpoint(guard, &value)
    }
}

struct MemoryTerm {
    store: MemoryStore,
    epoch: Epoch,
    rev: Rev,
    lost: watch::Receiver<bool>,
    tenure: Tenure,
    _turn: Option<OwnedSemaphorePermit>,
}

#[async_trait]
impl Term for MemoryTerm {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn rev(&self) -> Rev {
        self.rev
    }

    fn tenure(&self) -> Tenure {
        self.tenure.clone()
    }

    async fn commit(&mut self, ops: Vec<Op>) -> Result<Rev, CommitError> {
        self.rev = self.store.apply(self.epoch, &ops)?;
        Ok(self.rev)
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }

    async fn resign(self: Box<Self>) {
        let state = &mut *self.store.state();
        if let Some(head) = state.leading.take_if(|head| head.epoch == self.epoch) {
            let resigned = state.write(|rows| transaction::resign(rows, &head));
            debug_assert_eq!(resigned, Ok(()));
            state.lost.send_replace(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::samples;

    #[test]
    fn what_exceeds_a_limit_is_refused_whole() {
        let ops = [1, 2].map(|n| Op::PutJob(Arc::new(samples::job(n))));
        // The head and one job fit.
        for limits in
            [Limits { max_ops: 2, max_bytes: 9_999 }, Limits { max_ops: 9, max_bytes: 5_000 }]
        {
            let store = MemoryStore::with_limits(limits);
            let epoch = store.begin_term(&samples::leader(1)).unwrap();
            let before = store.dump();
            let refused = store.apply(epoch, &ops);
            assert_eq!(refused, Err(CommitError::NotApplied(Refusal::TooLarge)));
            assert_eq!(store.dump(), before);
            for op in &ops {
                store.apply(epoch, std::slice::from_ref(op)).unwrap();
            }
        }
    }

    #[test]
    fn a_fault_waits_for_the_commit_that_it_concerns() {
        let store = MemoryStore::new();
        let epoch = store.begin_term(&samples::leader(1)).unwrap();
        let job = JobId::new(1);
        store.inject(Fault::RefuseLedger(None, Refusal::Full), 2);
        store.inject(Fault::Refuse(Refusal::TooLarge), 1);
        let ledger = [Op::PutLedger { job, ledger: Arc::new(samples::ledger()) }];
        let refused = |refusal| Err(CommitError::NotApplied(refusal));
        assert_eq!(store.apply(epoch, &[]), refused(Refusal::TooLarge));
        assert!(store.apply(epoch, &[]).is_ok());
        assert_eq!(store.apply(epoch, &ledger), refused(Refusal::Full));
        assert_eq!(store.apply(epoch, &ledger), refused(Refusal::Full));
        assert!(store.apply(epoch, &ledger).is_ok());
    }

    #[tokio::test]
    async fn a_standby_that_is_too_far_behind_has_missed_something() {
        let store = MemoryStore::new();
        let mut standby = store.follow().await.unwrap().unwrap();
        let epoch = store.begin_term(&samples::leader(1)).unwrap();
        let mut last = Rev(0);
        for _ in 0..MAX_BEHIND {
            last = store.apply(epoch, &[]).unwrap();
        }
        assert_eq!(standby.reach(last).await, Err(crate::Missed));
        let mut standby = store.follow().await.unwrap().unwrap();
        assert_eq!(standby.rev(), last);
        let next = store.apply(epoch, &[]).unwrap();
        assert_eq!(standby.reach(next).await, Ok(()));
    }
}
