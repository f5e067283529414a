//! What survives: the records of the last commit, applied all at once.
//!
//! They go through the real store in memory: its mapping to keys, its bytes, its fenced transactions.
//! Beside it the records are kept as they are, for the checks, and at every load the two must agree: what
//! was written is what is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use steadfast_engine::records::{
    DurableLedger, HistoryRecord, JobRecord, MemberEvent, MemberRecord, OperatorRequest, Snapshot,
};
use steadfast_engine::{MemberWrite, RequestWrite, Step};
use steadfast_ledger::JobLedger;
use steadfast_model::{Epoch, JobId, MemberEventSeq, MemberUuid, RequestId};
use steadfast_store::conformance::samples;
use steadfast_store::{CheckpointGuard, MemoryStore, Op, ops_of};

/// A term, as its coordinator, the store and everybody outside number it.
pub(crate) type TermNumber = u64;

/// Which commit was the last: what every commit compares, and moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Whose commit.
    pub term: TermNumber,
    /// Its number, over all terms.
    pub n: u64,
}

impl Head {
    /// The head after one more commit of the same term.
    pub fn next(self) -> Self {
        Self { n: self.n + 1, ..self }
    }
}

/// The records, as the newest commit left them.
#[derive(Clone, Debug, Default)]
pub struct Durable {
    /// Jobs that have not ended.
    pub jobs: BTreeMap<JobId, Arc<JobRecord>>,
    /// Their ledgers.
    pub ledgers: BTreeMap<JobId, Arc<JobLedger>>,
    /// Jobs that have.
    pub history: BTreeMap<JobId, Arc<HistoryRecord>>,
    members: BTreeMap<MemberUuid, MemberRecord>,
    /// What operators asked for.
    pub requests: BTreeMap<RequestId, OperatorRequest>,
    seq: MemberEventSeq,
    processed: MemberEventSeq,
    journal: Vec<MemberEvent>,
    store: MemoryStore,
    epoch: Epoch,
    /// The last commit.
    pub head: Head,
}

impl Durable {
    /// Commits steps as one transaction. The ledger's part of a job in `refused` is left out, and its
    /// record says what it owes; that of a job in `apart` is left out and nobody is told. What it is
    /// compared with was compared before: see `etcd.rs`.
    ///
    /// # Errors
    /// The store does not take what it must take.
    pub fn commit<'a>(
        &mut self,
        steps: impl Iterator<Item = &'a Step> + Clone,
        refused: &[JobId],
        apart: &[JobId],
        head: Head,
    ) -> Result<(), String> {
        let jobs = steps.clone().flat_map(|step| &step.jobs);
        let newest: BTreeMap<JobId, Arc<JobLedger>> = jobs
            .filter(|job| refused.contains(&job.job))
            .filter_map(|job| Some((job.job, job.writes.ledger.clone()?)))
            .collect();
        let before: BTreeMap<JobId, DurableLedger> =
            newest.keys().filter_map(|job| Some((*job, self.durable_ledger(*job)?))).collect();
        let amend = |job: JobId, record: &Arc<JobRecord>| match newest.get(&job) {
            Some(ledger) => Arc::new(record.without_ledger(ledger, before.get(&job))),
            None => Arc::clone(record),
        };
        let left_out = |job: JobId| refused.contains(&job) || apart.contains(&job);
        let mut ops: Vec<Op> = Vec::new();
        for step in steps {
            self.apply(step, &amend, &left_out);
            ops.extend(ops_of(step).into_iter().map(|op| match op {
                Op::PutJob(record) => Op::PutJob(amend(record.id, &record)),
                other => other,
            }));
        }
        self.head = head;
        ops.retain(|op| !(op.is_ledger_part() && op.job().is_some_and(left_out)));
        let committed = self.store.apply(self.epoch, &ops);
        committed.map(drop).map_err(|error| format!("the store refused a commit: {error}"))
    }

    /// A job's ledger, as a coordinator that asks for it would have seen it.
    pub fn durable_ledger(&self, job: JobId) -> Option<DurableLedger> {
        let (ledger, record) = (self.ledgers.get(&job)?, self.jobs.get(&job)?);
        Some(record.durable_ledger(Arc::clone(ledger)))
    }

    /// Begins a term, and moves the head to it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn begin_term(&mut self, term: TermNumber) -> Result<(), String> {
        self.epoch =
            self.store.begin_term(&samples::leader(1)).map_err(|error| error.to_string())?;
        self.head = Head { term, ..self.head.next() };
        Ok(())
    }

    /// Puts a checkpoint past the commits; whether the store takes it.
    pub fn put_checkpoint(&self, guard: CheckpointGuard, count: u64) -> bool {
        self.store.put_checkpoint(guard, &count.to_be_bytes()).is_ok()
    }

    /// Loads what a term starts from.
    ///
    /// # Errors
    /// The store cannot be read, or gives back what was not written.
    pub fn load(&self) -> Result<Snapshot, String> {
        let loaded = self.store.snapshot().map_err(|error| error.to_string())?.snapshot;
        let mut read = loaded.clone();
        read.finished.sort();
        let mut written = self.snapshot();
        written.finished.sort();
        if read == written {
            Ok(loaded)
        } else {
            Err(format!("the store gives back\n{read:?}\nwhere this was written\n{written:?}"))
        }
    }

    fn apply(
        &mut self,
        step: &Step,
        amend: &impl Fn(JobId, &Arc<JobRecord>) -> Arc<JobRecord>,
        left_out: &impl Fn(JobId) -> bool,
    ) {
        if let Some(event) = &step.member_event {
            self.seq = self.seq.max(event.seq);
            self.journal.push(event.clone());
        }
        self.processed = self.processed.max(step.processed.unwrap_or_default());
        for write in &step.members {
            match write {
                MemberWrite::Put(record) => {
                    self.members.insert(record.uuid, record.clone());
                }
                MemberWrite::Remove(uuid) => {
                    self.members.remove(uuid);
                }
            }
        }
        for write in &step.requests {
            match write {
                RequestWrite::Put(request) => {
                    self.requests.insert(request.id.clone(), request.clone());
                }
                RequestWrite::Forget(id) => {
                    self.requests.remove(id);
                }
            }
        }
        for job in &step.jobs {
            if let Some(record) = &job.writes.record {
                self.jobs.insert(job.job, amend(job.job, record));
            }
            if let Some(ledger) = job.writes.ledger.as_ref().filter(|_| !left_out(job.job)) {
                self.ledgers.insert(job.job, ledger.clone());
            }
            if let Some(history) = &job.writes.ended {
                self.history.insert(job.job, history.clone());
                self.jobs.remove(&job.job);
                self.ledgers.remove(&job.job);
            }
        }
        for job in &step.forgotten {
            self.history.remove(job);
        }
    }

    /// All that a term starts from, as it was written.
    pub fn snapshot(&self) -> Snapshot {
        let finished = self
            .history
            .iter()
            .map(|(id, history)| (*id, history.job.finished.unwrap_or_default()));
        Snapshot {
            member_event_seq: self.seq,
            processed: self.processed,
            journal: self.journal.clone(),
            jobs: self.jobs.values().map(|record| JobRecord::clone(record)).collect(),
            ledgers: self
                .ledgers
                .iter()
                .map(|(id, ledger)| (*id, Ok(JobLedger::clone(ledger))))
                .collect(),
            members: self.members.values().cloned().collect(),
            requests: self.requests.values().cloned().collect(),
            finished: finished.collect(),
        }
    }
}
