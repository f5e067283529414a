//! From ops to rows.
//!
//! A batch knows its keys at once and encodes each value only when it is written, into one buffer: the
//! values of a large batch need not be in memory together, and not even in the cache twice. Encoding on
//! a second thread was tried: on a machine with work to do the threads wait for each other instead.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_engine::records::{
    HistoryRecord, JobRecord, MemberEvent, MemberRecord, OperatorRequest,
};
use steadfast_ledger::JobLedger;
use steadfast_model::{JobId, MemberEventSeq};

use crate::history::{HistorySummary, finish_time};
use crate::keys::{self, Range};
use crate::ops::Op;
use crate::records::{
    ClusterRecord, FinishedRecord, Head, ProcessedRecord, TokenRecord, decode, encode_into,
};
use crate::store::{Limits, Refusal};
use crate::transaction::{Rows, RowsMut};

/// Member events that the journal keeps.
pub(crate) const MAX_MEMBER_EVENTS: u64 = 1_000;

/// One transaction's writes, in this order: ranges go, keys go, puts come. No key is in it twice, which
/// some engines refuse.
#[derive(Debug, Default)]
pub(crate) struct Batch<'a> {
    ranges: Vec<Range>,
    deletes: BTreeSet<String>,
    puts: BTreeMap<String, Record<'a>>,
}

/// Every kind of record that a commit puts.
#[derive(Debug)]
enum Record<'a> {
    Head(&'a Head),
    Cluster(ClusterRecord),
    Processed(ProcessedRecord),
    Job(&'a JobRecord),
    Ledger(&'a JobLedger),
    Token(TokenRecord),
    Member(&'a MemberRecord),
    Request(&'a OperatorRequest),
    Event(&'a MemberEvent),
    History(&'a HistoryRecord),
    Finished(FinishedRecord),
    Summary(HistorySummary),
}

impl Record<'_> {
    fn encode(&self, into: &mut Vec<u8>) -> Result<(), Refusal> {
        let done = match self {
            Self::Head(record) => encode_into(into, record),
            Self::Cluster(record) => encode_into(into, record),
            Self::Processed(record) => encode_into(into, record),
            Self::Job(record) => encode_into(into, record),
            Self::Ledger(record) => encode_into(into, record),
            Self::Token(record) => encode_into(into, record),
            Self::Member(record) => encode_into(into, record),
            Self::Request(record) => encode_into(into, record),
            Self::Event(record) => encode_into(into, record),
            Self::History(record) => encode_into(into, record),
            Self::Finished(record) => encode_into(into, record),
            Self::Summary(record) => encode_into(into, record),
        };
        done.map_err(Refusal::Unavailable)
    }
}

/// The writes of `ops` and of the head that follows them. Of several ops on one key the last counts, so
/// they are read from the end, and what a later one has decided is passed over.
///
/// # Errors
/// A row that must be looked up and cannot.
pub(crate) fn batch_of<'a>(
    ops: &'a [Op],
    head: &'a Head,
    rows: &impl Rows,
) -> Result<Batch<'a>, Refusal> {
    let mut batch = Batch::default();
    batch.put(keys::HEAD.to_owned(), Record::Head(head));
    for op in ops.iter().rev() {
        match op {
            Op::PutJob(record) => batch.put(keys::job(record.id), Record::Job(record)),
            Op::PutLedger { job, ledger } => batch.put(keys::ledger(*job), Record::Ledger(ledger)),
            Op::PutToken { job, .. } if batch.ends(*job) => {}
            Op::PutToken { job, task_group, token } => {
                let record = TokenRecord { token: *token };
                batch.put(keys::token(*job, *task_group), Record::Token(record));
            }
            Op::EndJob(history) => batch.end_job(history),
            Op::ForgetHistory(job) => batch.forget(*job, rows)?,
            Op::PutMember(record) => batch.put(keys::member(record.uuid), Record::Member(record)),
            Op::RemoveMember(uuid) => batch.delete(keys::member(*uuid)),
            Op::PutRequest(request) => {
                batch.put(keys::request(&request.id), Record::Request(request));
            }
            Op::ForgetRequest(id) => batch.delete(keys::request(id)),
            Op::PutMemberEvent(event) => batch.member_event(event),
            Op::PutProcessed(seq) => {
                let record = ProcessedRecord { member_event_seq: *seq };
                batch.put(keys::PROCESSED.to_owned(), Record::Processed(record));
            }
        }
    }
    Ok(batch)
}

impl<'a> Batch<'a> {
    /// Writes it into an open transaction.
    ///
    /// # Errors
    /// [`Refusal::TooLarge`] beyond `limits`, or why a row was not encoded or written; the transaction
    /// must be dropped then.
    pub(crate) fn write(&self, rows: &mut impl RowsMut, limits: Limits) -> Result<(), Refusal> {
        let Self { ranges, deletes, puts } = self;
        if ranges.len() + deletes.len() + puts.len() > limits.max_ops {
            return Err(Refusal::TooLarge);
        }
        ranges.iter().try_for_each(|range| rows.delete_range(range))?;
        deletes.iter().try_for_each(|key| rows.delete(key))?;
        let removed = ranges.iter().map(|range| range.from.len() + range.to.len());
        let mut bytes: usize = removed.chain(deletes.iter().map(String::len)).sum();
        let mut value = Vec::with_capacity(16 * 1024);
        for (key, record) in puts {
            value.clear();
            record.encode(&mut value)?;
            bytes += key.len() + value.len();
            if bytes > limits.max_bytes {
                return Err(Refusal::TooLarge);
            }
            rows.put(key, &value)?;
        }
        Ok(())
    }

    fn decided(&self, key: &str) -> bool {
        self.puts.contains_key(key) || self.deletes.contains(key)
    }

    /// Whether the job ends in this batch: nothing of it may come back by an earlier op.
    fn ends(&self, job: JobId) -> bool {
        self.deletes.contains(&keys::job(job))
    }

    fn put(&mut self, key: String, record: Record<'a>) {
        if !self.decided(&key) {
            self.puts.insert(key, record);
        }
    }

    fn delete(&mut self, key: String) {
        if !self.decided(&key) {
            self.deletes.insert(key);
        }
    }

    fn end_job(&mut self, history: &'a HistoryRecord) {
        let job = history.job.id;
        if !self.ends(job) {
            self.delete(keys::job(job));
            self.delete(keys::ledger(job));
            self.ranges.push(Range::tokens_of(job));
            self.ranges.push(Range::checkpoints_of(job));
        }
        if self.decided(&keys::history(job)) {
            return;
        }
        let finished = finish_time(history);
        self.put(keys::history(job), Record::History(history));
        self.put(keys::finished(job), Record::Finished(FinishedRecord { finished }));
        let summary = Record::Summary(HistorySummary::of(history));
        self.put(keys::summary(finished, job), summary);
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

    fn member_event(&mut self, event: &'a MemberEvent) {
        let newest = !self.decided(keys::CLUSTER);
        self.put(keys::event(event.seq), Record::Event(event));
        let cluster = ClusterRecord { member_event_seq: event.seq };
        self.put(keys::CLUSTER.to_owned(), Record::Cluster(cluster));
        let first_kept = (event.seq.get() + 1).saturating_sub(MAX_MEMBER_EVENTS);
        if newest && first_kept > 1 {
            self.ranges.push(Range::events_before(MemberEventSeq::new(first_kept)));
        }
    }
}
