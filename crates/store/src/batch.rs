//! From ops to rows.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use steadfast_engine::records::{HistoryRecord, MemberEvent};
use steadfast_model::{JobId, MemberEventSeq};

use crate::history::{HistorySummary, finish_time};
use crate::keys::{self, Range};
use crate::ops::Op;
use crate::records::{ClusterRecord, FinishedRecord, Head, TokenRecord, decode, encode};
use crate::store::{Limits, Refusal};
use crate::transaction::Rows;

/// Member events that the journal keeps.
pub(crate) const MAX_MEMBER_EVENTS: u64 = 1_000;

/// One transaction's writes, in this order: ranges go, keys go, puts come. No key is in it twice, which
/// some engines refuse.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub ranges: Vec<Range>,
    pub deletes: BTreeSet<String>,
    pub puts: BTreeMap<String, Vec<u8>>,
}

/// The writes of `ops` and of the head that follows them. Of several ops on one key the last counts, so
/// they are read from the end, and what a later one has decided is not even encoded.
///
/// # Errors
/// A record that cannot be encoded, or a row that must be looked up and cannot.
pub(crate) fn batch_of(ops: &[Op], head: &Head, rows: &impl Rows) -> Result<Batch, Refusal> {
    let mut batch = Batch::default();
    batch.put(keys::HEAD.to_owned(), head)?;
    for op in ops.iter().rev() {
        match op {
            Op::PutJob(record) => batch.put(keys::job(record.id), &**record)?,
            Op::PutLedger { job, ledger } => batch.put(keys::ledger(*job), &**ledger)?,
            Op::PutToken { job, .. } if batch.ends(*job) => {}
            Op::PutToken { job, task_group, token } => {
                batch.put(keys::token(*job, *task_group), &TokenRecord { token: *token })?;
            }
            Op::EndJob(history) => batch.end_job(history)?,
            Op::ForgetHistory(job) => batch.forget(*job, rows)?,
            Op::PutMember(record) => batch.put(keys::member(record.uuid), record)?,
            Op::RemoveMember(uuid) => batch.delete(keys::member(*uuid)),
            Op::PutMemberEvent(event) => batch.member_event(event)?,
        }
    }
    Ok(batch)
}

impl Batch {
    /// Whether it does not fit into one transaction.
    pub(crate) fn exceeds(&self, limits: Limits) -> bool {
        let Self { ranges, deletes, puts } = self;
        let ops = ranges.len() + deletes.len() + puts.len();
        let ranges = ranges.iter().map(|range| range.from.len() + range.to.len());
        let puts = puts.iter().map(|(key, value)| key.len() + value.len());
        let bytes: usize = ranges.chain(deletes.iter().map(String::len)).chain(puts).sum();
        ops > limits.max_ops || bytes > limits.max_bytes
    }

    fn decided(&self, key: &str) -> bool {
        self.puts.contains_key(key) || self.deletes.contains(key)
    }

    /// Whether the job ends in this batch: nothing of it may come back by an earlier op.
    fn ends(&self, job: JobId) -> bool {
        self.deletes.contains(&keys::job(job))
    }

    fn put<T: Serialize>(&mut self, key: String, record: &T) -> Result<(), Refusal> {
        if !self.decided(&key) {
            let value = encode(record).map_err(Refusal::Unavailable)?;
            self.puts.insert(key, value);
        }
        Ok(())
    }

    fn delete(&mut self, key: String) {
        if !self.decided(&key) {
            self.deletes.insert(key);
        }
    }

    fn end_job(&mut self, history: &HistoryRecord) -> Result<(), Refusal> {
        let job = history.job.id;
        if !self.ends(job) {
            self.delete(keys::job(job));
            self.delete(keys::ledger(job));
            self.ranges.push(Range::tokens_of(job));
            self.ranges.push(Range::checkpoints_of(job));
        }
        if self.decided(&keys::history(job)) {
            return Ok(());
        }
        let finished = finish_time(history);
        self.put(keys::history(job), history)?;
        self.put(keys::finished(job), &FinishedRecord { finished })?;
        self.put(keys::summary(finished, job), &HistorySummary::of(history))
    }

    fn forget(&mut self, job: JobId, rows: &impl Rows) -> Result<(), Refusal> {
        let key = keys::finished(job);
        let look_up = || {
            let found = rows.get(&key)?.map(|bytes| decode(&key, &bytes));
            found.transpose()
        };
        let found = look_up().map_err(|error| Refusal::Unavailable(error.to_string()))?;
        if let Some(FinishedRecord { finished }) = found {
            self.delete(keys::summary(finished, job));
        }
        self.delete(keys::history(job));
        self.delete(key);
        Ok(())
    }

    fn member_event(&mut self, event: &MemberEvent) -> Result<(), Refusal> {
        let newest = !self.decided(keys::CLUSTER);
        self.put(keys::event(event.seq), event)?;
        self.put(keys::CLUSTER.to_owned(), &ClusterRecord { member_event_seq: event.seq })?;
        let first_kept = (event.seq.get() + 1).saturating_sub(MAX_MEMBER_EVENTS);
        if newest && first_kept > 1 {
            self.ranges.push(Range::events_before(MemberEventSeq::new(first_kept)));
        }
        Ok(())
    }
}
