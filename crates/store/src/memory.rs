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
use tokio::sync::watch;

use crate::batch;
use crate::history::{HistoryCursor, HistoryPage};
use crate::keys::Range;
use crate::ops::Op;
use crate::records::Head;
use crate::store::{
    CheckpointError, CheckpointGuard, CommitError, LeaderInfo, Limits, Loaded, Refusal, Rev, Store,
    StoreError, Term,
};
use crate::transaction::{self, Rows, RowsMut};

/// A handle on one store in memory.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    limits: Limits,
    state: Arc<Mutex<State>>,
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
}

#[derive(Debug, Default)]
struct Table(BTreeMap<String, Vec<u8>>);

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
        let state = State { rows, faults: VecDeque::new(), leading: None, lost };
        Self { limits, state: Arc::new(Mutex::new(state)) }
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
            state.rows.transaction(|rows: &mut Transaction<'_>| {
                transaction::commit(rows, &head, &batch)
            })?;
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
        let write = |rows: &mut Transaction<'_>| transaction::write_checkpoint(rows, guard, value);
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
        self.state().rows.0.insert(key.to_owned(), value.to_vec());
    }

    /// Every key and its bytes, for comparing two moments.
    pub fn dump(&self) -> BTreeMap<String, Vec<u8>> {
        self.state().rows.0.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs between two writes of one transaction.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin_term(&mut self, me: &LeaderInfo) -> Result<Epoch, StoreError> {
        // No candidate gets no answer here, so commits need no random id.
        let head = self.rows.transaction(|rows| transaction::lead(rows, me, 0))?;
        let epoch = head.epoch;
        self.leading = Some(head);
        self.lost.send_replace(true);
        self.lost = watch::Sender::new(false);
        Ok(epoch)
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

impl Rows for Table {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(&self, range: &Range, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let rows = self.0.range(range.from.clone()..range.to.clone());
        Ok(rows.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

/// An open transaction: what was written, in order, until it is applied.
struct Transaction<'a> {
    table: &'a mut Table,
    writes: Vec<Write>,
}

enum Write {
    Put(String, Vec<u8>),
    Delete(String),
    DeleteRange(Range),
}

impl Table {
    /// Runs `body` in one transaction, of which nothing is left after an error.
    fn transaction<T, E>(
        &mut self,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut transaction = Transaction { table: self, writes: Vec::new() };
        let done = body(&mut transaction)?;
        let Transaction { table: Self(rows), writes } = transaction;
        for write in writes {
            match write {
                Write::Put(key, value) => drop(rows.insert(key, value)),
                Write::Delete(key) => drop(rows.remove(&key)),
                Write::DeleteRange(Range { from, to }) => {
                    let keys: Vec<_> = rows.range(from..to).map(|(key, _)| key.clone()).collect();
                    keys.iter().for_each(|key| drop(rows.remove(key)));
                }
            }
        }
        Ok(done)
    }
}

impl Rows for Transaction<'_> {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.table.get(key)
    }

    fn scan(&self, range: &Range, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.table.scan(range, limit)
    }
}

impl RowsMut for Transaction<'_> {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), Refusal> {
        self.writes.push(Write::Put(key.to_owned(), value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, key: &str) -> Result<(), Refusal> {
        self.writes.push(Write::Delete(key.to_owned()));
        Ok(())
    }

    fn delete_range(&mut self, range: &Range) -> Result<(), Refusal> {
        self.writes.push(Write::DeleteRange(range.clone()));
        Ok(())
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
        let mut state = self.state();
        let epoch = state.begin_term(&me)?;
        Ok(Box::new(MemoryTerm { store: self.clone(), epoch, lost: state.lost.subscribe() }))
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
    lost: watch::Receiver<bool>,
}

#[async_trait]
impl Term for MemoryTerm {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    async fn commit(&mut self, ops: Vec<Op>) -> Result<Rev, CommitError> {
        self.store.apply(self.epoch, &ops)
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }

    async fn resign(self: Box<Self>) {
        let state = &mut *self.store.state();
        if let Some(head) = state.leading.take_if(|head| head.epoch == self.epoch) {
            let resigned = state.rows.transaction(|rows| transaction::resign(rows, &head));
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
}
