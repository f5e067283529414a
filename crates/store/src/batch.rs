//! From ops to rows.
//!
//! A batch is encoded as a whole before its transaction begins: only then its size is known, and a batch
//! beyond a limit must be refused before anything of it is written.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_engine::records::{
    HistoryRecord, JobRecord, MemberEvent, MemberRecord, OperatorRequest,
};
use steadfast_ledger::{EpisodeHistory, JobLedger};
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

/// One transaction's writes. No key is in it twice, which some engines refuse.
#[derive(Debug, Default)]
struct Batch<'a> {
    removals: Removals,
    puts: BTreeMap<String, Record<'a>>,
}

/// What a transaction removes, before anything is put.
#[derive(Debug, Default)]
struct Removals {
    ranges: Vec<Range>,
    deletes: BTreeSet<String>,
    /// Ended jobs to forget; where their summaries are has to be looked up.
    forgotten: Vec<JobId>,
}

/// One transaction's writes as an engine takes them: ranges go, keys go, rows come.
#[derive(Debug)]
pub(crate) struct EncodedBatch {
    removals: Removals,
    /// Each key followed by its value.
    bytes: Vec<u8>,
    /// Where each row's key ends, and where its value does.
    rows: Vec<(usize, usize)>,
}

/// Every kind of record that a commit puts.
#[derive(Debug)]
enum Record<'a> {
    Head(&'a Head),
    Cluster(ClusterRecord),
    Processed(ProcessedRecord),
    Job(&'a JobRecord),
    Ledger(&'a JobLedger),
    Episodes(&'a EpisodeHistory),
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
            Self::Ledger(record) => encode_into(into, &record.without_closed_episodes()),
            Self::Episodes(record) => encode_into(into, record),
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

/// The writes of `ops` and of the head that follows them.
///
/// # Errors
/// [`Refusal::TooLarge`] beyond `limits`, or why a record cannot be encoded.
pub(crate) fn encode(ops: &[Op], head: &Head, limits: Limits) -> Result<EncodedBatch, Refusal> {
    let Batch { removals, puts } = batch_of(ops, head);
    if removals.count() + puts.len() > limits.max_ops {
        return Err(Refusal::TooLarge);
    }
    let removed_bytes = removals.bytes();
    let mut bytes = Vec::with_capacity(4 * 1024 * puts.len());
    let mut rows = Vec::with_capacity(puts.len());
    for (key, record) in &puts {
        bytes.extend_from_slice(key.as_bytes());
        let key_end = bytes.len();
        record.encode(&mut bytes)?;
        rows.push((key_end, bytes.len()));
        if removed_bytes + bytes.len() > limits.max_bytes {
            return Err(Refusal::TooLarge);
        }
    }
    Ok(EncodedBatch { removals, bytes, rows })
}

/// Of several ops on one key the last counts, so they are read from the end, and what a later one has
/// decided is passed over.
fn batch_of<'a>(ops: &'a [Op], head: &'a Head) -> Batch<'a> {
    let mut batch = Batch::default();
    batch.put(keys::HEAD.to_owned(), Record::Head(head));
    for op in ops.iter().rev() {
        match op {
            Op::PutJob(record) => batch.put(keys::job(record.id), Record::Job(record)),
            Op::PutLedger { job, ledger } => batch.put(keys::ledger(*job), Record::Ledger(ledger)),
            Op::PutEpisodes { job, episodes } => {
                batch.put(keys::episodes(*job), Record::Episodes(episodes));
            }
            Op::PutToken { job, .. } if batch.ends(*job) => {}
            Op::PutToken { job, task_group, token } => {
                let record = TokenRecord { token: *token };
                batch.put(keys::token(*job, *task_group), Record::Token(record));
            }
            Op::EndJob(history) => batch.end_job(history),
            Op::ForgetHistory(job) => batch.forget(*job),
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
    batch
}

impl EncodedBatch {
    /// The keys that [`EncodedBatch::write`] reads, for an engine that has to fetch them first.
    #[cfg(feature = "etcd")]
    pub(crate) fn reads(&self) -> impl Iterator<Item = String> {
        self.removals.forgotten.iter().map(|job| keys::finished(*job))
    }

    /// Writes it into an open transaction.
    ///
    /// # Errors
    /// Why a row was not written; the transaction must be dropped then.
    pub(crate) fn write(&self, rows: &mut impl RowsMut) -> Result<(), Refusal> {
        self.removals.apply(rows)?;
        let mut start = 0;
        for (key_end, end) in &self.rows {
            // What was a `str` is one again.
            let key = std::str::from_utf8(&self.bytes[start..*key_end]).unwrap_or_default();
            rows.put(key, &self.bytes[*key_end..*end])?;
            start = *end;
        }
        Ok(())
    }
}

impl Removals {
    fn apply(&self, rows: &mut impl RowsMut) -> Result<(), Refusal> {
        let summaries = self.forgotten.iter().filter_map(|job| summary_of(*job, rows).transpose());
        let summaries: Vec<String> = summaries.collect::<Result<_, _>>()?;
        self.ranges.iter().try_for_each(|range| rows.delete_range(range))?;
        self.deletes.iter().chain(&summaries).try_for_each(|key| rows.delete(key))
    }

    fn count(&self) -> usize {
        self.ranges.len() + self.deletes.len() + self.forgotten.len()
    }

    fn bytes(&self) -> usize {
        let ranges = self.ranges.iter().map(|range| range.from.len() + range.to.len());
        ranges.chain(self.deletes.iter().map(String::len)).sum()
    }
}

/// The key of an ended job's summary, if there is one.
fn summary_of(job: JobId, rows: &impl Rows) -> Result<Option<String>, Refusal> {
    let key = keys::finished(job);
    let look_up = || rows.get(&key)?.map(|bytes| decode(&key, &bytes)).transpose();
    let found = look_up().map_err(|error| Refusal::Unavailable(error.to_string()))?;
    Ok(found.map(|FinishedRecord { finished }| keys::summary(finished, job)))
}

impl<'a> Batch<'a> {
    fn decided(&self, key: &str) -> bool {
        self.puts.contains_key(key) || self.removals.deletes.contains(key)
    }

    /// Whether the job ends in this batch: nothing of it may come back by an earlier op.
    fn ends(&self, job: JobId) -> bool {
        self.removals.deletes.contains(&keys::job(job))
    }

    fn put(&mut self, key: String, record: Record<'a>) {
        if !self.removals.deletes.contains(&key) {
            self.puts.entry(key).or_insert(record);
        }
    }

    fn delete(&mut self, key: String) {
        if !self.decided(&key) {
            self.removals.deletes.insert(key);
        }
    }

    fn end_job(&mut self, history: &'a HistoryRecord) {
        let job = history.job.id;
        if !self.ends(job) {
            self.delete(keys::job(job));
            self.delete(keys::ledger(job));
            self.delete(keys::episodes(job));
            self.removals.ranges.push(Range::tokens_of(job));
            self.removals.ranges.push(Range::checkpoints_of(job));
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

    fn forget(&mut self, job: JobId) {
        self.removals.forgotten.push(job);
        self.delete(keys::history(job));
        self.delete(keys::finished(job));
    }

    fn member_event(&mut self, event: &'a MemberEvent) {
        let newest = !self.decided(keys::CLUSTER);
        self.put(keys::event(event.seq), Record::Event(event));
        let cluster = ClusterRecord { member_event_seq: event.seq };
        self.put(keys::CLUSTER.to_owned(), Record::Cluster(cluster));
        let first_kept = (event.seq.get() + 1).saturating_sub(MAX_MEMBER_EVENTS);
        if newest && first_kept > 1 {
            self.removals.ranges.push(Range::events_before(MemberEventSeq::new(first_kept)));
        }
    }
}
