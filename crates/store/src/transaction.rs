//! What happens inside a transaction, whatever engine is below: every compare, and the mapping of ops
//! and snapshots to rows. Synchronous, over rows that do not change meanwhile.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use steadfast_engine::records::{HistoryRecord, JobRecord, MemberEvent, Snapshot};
use steadfast_ledger::{EpisodeHistory, JobLedger, Journal};
use steadfast_model::{Epoch, JobId, TaskGroupId};

use crate::batch::EncodedBatch;
use crate::history::{HistoryCursor, HistoryEntry, HistoryPage};
use crate::keys::{self, Range};
use crate::mark::Top;
use crate::records::{
    ClusterRecord, Head, ProcessedRecord, SecretRecord, TokenRecord, decode, decode_checkpoint,
    encode, encode_checkpoint,
};
use crate::store::{
    CheckpointError, CheckpointGuard, CommitError, LeaderInfo, Loaded, MAX_CHECKPOINT_BYTES,
    Refusal, Rev, SecretKey, StoreError,
};

/// Ledgers of jobs, or why they cannot be read.
type Ledgers = BTreeMap<JobId, Result<JobLedger, String>>;

/// Rows at one revision.
pub(crate) trait Rows {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;
    /// At most `limit` rows, in order of their keys.
    fn scan(&self, range: &Range, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError>;
}

/// Rows of an open transaction, which its engine drops as a whole after an error. All reads come before
/// the first write.
pub(crate) trait RowsMut: Rows {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), Refusal>;
    fn delete(&mut self, key: &str) -> Result<(), Refusal>;
    fn delete_range(&mut self, range: &Range) -> Result<(), Refusal>;
}

/// Gives an empty store its head and its secret key.
pub(crate) fn create(rows: &mut impl RowsMut, secret: [u8; 32]) -> Result<(), StoreError> {
    put_record(rows, keys::SECRET, &SecretRecord { key: secret })?;
    put_record(rows, keys::HEAD, &Head::default())
}

/// Begins a term. `commit_id` is random; see [`Head`].
pub(crate) fn lead(
    rows: &mut impl RowsMut,
    me: &LeaderInfo,
    commit_id: u64,
) -> Result<Head, StoreError> {
    let last = head(rows)?;
    let head = Head { epoch: last.epoch.next(), n: last.n + 1, commit_id };
    if record::<ProcessedRecord>(rows, keys::PROCESSED)?.is_none() {
        // Format 1 took each event to all jobs in one transaction. From here on a record that lags says
        // that a walk was not finished, so it must be there before the first event.
        let cluster = record::<ClusterRecord>(rows, keys::CLUSTER)?.unwrap_or_default();
        let member_event_seq = cluster.member_event_seq;
        put_record(rows, keys::PROCESSED, &ProcessedRecord { member_event_seq })?;
    }
    put_record(rows, keys::LEADER, me)?;
    put_record(rows, keys::HEAD, &head)?;
    Ok(head)
}

/// Gives the lead up, if it is still `mine`.
pub(crate) fn resign(rows: &mut impl RowsMut, mine: &Head) -> Result<(), StoreError> {
    if head_is(rows, |head| head == mine)? {
        rows.delete(keys::LEADER)?;
    }
    Ok(())
}

/// Applies a batch if `last` is the head. The batch moves the head itself.
pub(crate) fn commit(
    rows: &mut impl RowsMut,
    last: &Head,
    batch: &EncodedBatch,
) -> Result<(), CommitError> {
    if !head_is(rows, |head| head == last).map_err(refused)? {
        return Err(CommitError::Fenced);
    }
    batch.write(rows).map_err(CommitError::NotApplied)
}

/// Everything that the engine starts from.
pub(crate) fn load(rows: &impl Rows) -> Result<Loaded, StoreError> {
    let head = head(rows)?;
    let cluster = record::<ClusterRecord>(rows, keys::CLUSTER)?.unwrap_or_default();
    let processed = record::<ProcessedRecord>(rows, keys::PROCESSED)?;
    let SecretRecord { key } = required(rows, keys::SECRET)?;
    let mut jobs = all(rows, &Range::jobs())?;
    jobs.sort_by_key(|job: &JobRecord| job.id);
    let history: Vec<HistoryEntry> =
        summaries(rows, &Range::summaries(), usize::MAX)?.into_iter().map(entry).collect();
    let journal: Vec<MemberEvent> = all(rows, &Range::events())?;
    let journalled = journal.iter().map(|event| event.seq);
    let newest = journalled.chain(processed.iter().map(|record| record.member_event_seq)).max();
    if newest > Some(cluster.member_event_seq) {
        let reason = "it is missing, or older than the journal: losses would be numbered again";
        return Err(StoreError::Undecodable {
            key: keys::CLUSTER.to_owned(),
            reason: reason.into(),
        });
    }
    let ledgers = told(ledgers(rows)?, &jobs, &steadfast_ledger::journal(&journal));
    Ok(Loaded {
        snapshot: Snapshot {
            member_event_seq: cluster.member_event_seq,
            processed: processed.map_or(cluster.member_event_seq, |record| record.member_event_seq),
            journal,
            jobs,
            ledgers,
            members: all(rows, &Range::members())?,
            requests: all(rows, &Range::requests())?,
            finished: history.iter().map(|entry| (entry.job, entry.finished)).collect(),
        },
        history,
        rev: Rev(head.n),
        secret_key: SecretKey(key),
        leader: record(rows, keys::LEADER)?,
    })
}

/// Ledgers, with what stands in the records of their jobs alone.
fn told(mut ledgers: Ledgers, jobs: &[JobRecord], journal: &Journal) -> Ledgers {
    for job in jobs {
        // Where it cannot be told, its revision is not the one that the job expects.
        if let Some(Ok(ledger)) = ledgers.get_mut(&job.id)
            && let Some(told) = job.redo.apply(ledger, journal)
        {
            *ledger = told;
        }
    }
    ledgers
}

/// Every ledger; one that cannot be read is an error text, because a label must not stop recovery.
fn ledgers(rows: &impl Rows) -> Result<Ledgers, StoreError> {
    let mut episodes = of_jobs::<EpisodeHistory>(rows, &Range::episodes())?;
    let ledgers = of_jobs::<JobLedger>(rows, &Range::ledgers())?.into_iter();
    let whole = ledgers.map(|(job, ledger)| {
        let ledger = ledger.and_then(|ledger| whole(ledger, episodes.remove(&job)));
        (job, ledger)
    });
    Ok(whole.collect())
}

/// A ledger with its closed episodes, which older formats kept within it.
fn whole(
    ledger: JobLedger,
    episodes: Option<Result<EpisodeHistory, String>>,
) -> Result<JobLedger, String> {
    if !ledger.lacks_closed_episodes() {
        return Ok(ledger);
    }
    let episodes = episodes.ok_or("its closed episodes are missing")?;
    let episodes = episodes.map_err(|reason| format!("its closed episodes: {reason}"))?;
    let whole = ledger.with_closed_episodes(episodes);
    whole.ok_or_else(|| "its closed episodes are those of another moment".to_owned())
}

/// A record of each job, or why it cannot be read.
fn of_jobs<T: DeserializeOwned>(
    rows: &impl Rows,
    range: &Range,
) -> Result<BTreeMap<JobId, Result<T, String>>, StoreError> {
    let mut records = BTreeMap::new();
    for (key, value) in rows.scan(range, usize::MAX)? {
        let Some(job) = keys::parse_job(&key) else {
            return Err(StoreError::Undecodable { key, reason: "its key names no job".to_owned() });
        };
        let record = match decode(&key, &value) {
            Ok(record) => Ok(record),
            Err(StoreError::Undecodable { reason, .. }) => Err(reason),
            Err(error) => return Err(error),
        };
        records.insert(job, record);
    }
    Ok(records)
}

/// One ended job.
pub(crate) fn history(rows: &impl Rows, job: JobId) -> Result<Option<HistoryRecord>, StoreError> {
    record(rows, &keys::history(job))
}

/// A page of ended jobs.
pub(crate) fn history_page(
    rows: &impl Rows,
    after: Option<HistoryCursor>,
    limit: usize,
) -> Result<HistoryPage, StoreError> {
    let mut found = summaries(rows, &page_range(after), limit.saturating_add(1))?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().map(|(cursor, _)| *cursor).filter(|_| more);
    Ok(HistoryPage { entries: found.into_iter().map(entry).collect(), next })
}

fn entry((HistoryCursor { finished, job }, value): (HistoryCursor, Vec<u8>)) -> HistoryEntry {
    let summary = decode(&keys::summary(finished, job), &value);
    HistoryEntry { job, finished, summary: summary.map_err(|error| error.to_string()) }
}

/// Where a page begins; it ends after one row more than it shows.
pub(crate) fn page_range(after: Option<HistoryCursor>) -> Range {
    match after {
        Some(HistoryCursor { finished, job }) => Range::summaries_after(finished, job),
        None => Range::summaries(),
    }
}

/// Summaries as they are stored; what they are of is in their keys.
fn summaries(
    rows: &impl Rows,
    range: &Range,
    limit: usize,
) -> Result<Vec<(HistoryCursor, Vec<u8>)>, StoreError> {
    let parse = |(key, value): (String, Vec<u8>)| match keys::parse_summary(&key) {
        Some((finished, job)) => Some((HistoryCursor { finished, job }, value)),
        None => {
            tracing::warn!(key, "no summary has such a key; it is left out");
            None
        }
    };
    Ok(rows.scan(range, limit)?.into_iter().filter_map(parse).collect())
}

/// A task group's newest checkpoint.
pub(crate) fn read_checkpoint(
    rows: &impl Rows,
    epoch: Epoch,
    job: JobId,
    task_group: TaskGroupId,
) -> Result<Option<Bytes>, CheckpointError> {
    leads(rows, epoch)?;
    let key = keys::checkpoint(job, task_group);
    let value = rows.get(&key).map_err(in_doubt)?;
    value.map(|bytes| decode_checkpoint(&key, bytes)).transpose().map_err(in_doubt)
}

/// Puts a checkpoint if its guard holds.
pub(crate) fn write_checkpoint(
    rows: &mut impl RowsMut,
    guard: CheckpointGuard,
    value: &[u8],
) -> Result<(), CheckpointError> {
    let CheckpointGuard { epoch, job, task_group, token } = guard;
    if value.len() > MAX_CHECKPOINT_BYTES {
        return Err(CheckpointError::TooLarge);
    }
    leads(rows, epoch)?;
    let current = record::<TokenRecord>(rows, &keys::token(job, task_group)).map_err(in_doubt)?;
    let current = current.map(|record| record.token);
    if current != Some(token) {
        return Err(CheckpointError::Superseded { current });
    }
    let bytes = encode_checkpoint(token, value).map_err(CheckpointError::Unavailable)?;
    let put = rows.put(&keys::checkpoint(job, task_group), &bytes);
    put.map_err(|refusal| CheckpointError::Unavailable(refusal.to_string()))
}

fn leads(rows: &impl Rows, epoch: Epoch) -> Result<(), CheckpointError> {
    let leads = head_is(rows, |head| head.epoch == epoch).map_err(in_doubt)?;
    if leads { Ok(()) } else { Err(CheckpointError::Fenced) }
}

/// Whether the head is such. One of a newer format is some newer coordinator's, never this one's, and a mark
/// is nobody's.
fn head_is(rows: &impl Rows, such: impl FnOnce(&Head) -> bool) -> Result<bool, StoreError> {
    match head(rows) {
        Ok(head) => Ok(such(&head)),
        Err(
            StoreError::NewerFormat { .. }
            | StoreError::Moved { .. }
            | StoreError::Unfinished { .. },
        ) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The head, which every store has since its creation.
///
/// # Errors
/// Also where a mark says that nobody may start here.
pub(crate) fn head(rows: &impl Rows) -> Result<Head, StoreError> {
    let top = rows.get(keys::HEAD)?.map(|bytes| Top::decode(&bytes)).transpose()?;
    let emptied = || StoreError::Undecodable {
        key: keys::HEAD.to_owned(),
        reason: "it is gone, so this store was emptied since: restore it from a backup".to_owned(),
    };
    top.ok_or_else(emptied)?.into_head()
}

fn record<T: DeserializeOwned>(rows: &impl Rows, key: &str) -> Result<Option<T>, StoreError> {
    rows.get(key)?.map(|bytes| decode(key, &bytes)).transpose()
}

fn required<T: DeserializeOwned>(rows: &impl Rows, key: &str) -> Result<T, StoreError> {
    record(rows, key)?.ok_or_else(|| missing(key))
}

fn missing(key: &str) -> StoreError {
    StoreError::Undecodable { key: key.to_owned(), reason: "it is missing".to_owned() }
}

fn all<T: DeserializeOwned>(rows: &impl Rows, range: &Range) -> Result<Vec<T>, StoreError> {
    rows.scan(range, usize::MAX)?.iter().map(|(key, value)| decode(key, value)).collect()
}

fn put_record<T: Serialize>(
    rows: &mut impl RowsMut,
    key: &str,
    record: &T,
) -> Result<(), StoreError> {
    let bytes = encode(record).map_err(StoreError::Unavailable)?;
    Ok(rows.put(key, &bytes)?)
}

/// A commit that could not read what it compares.
pub(crate) fn refused(error: StoreError) -> CommitError {
    CommitError::NotApplied(match error {
        StoreError::Full => Refusal::Full,
        other => Refusal::Unavailable(other.to_string()),
    })
}

fn in_doubt(error: StoreError) -> CheckpointError {
    CheckpointError::Unavailable(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::table::Table;

    /// Rows that note what is read of them.
    struct Noting {
        rows: Table,
        read: RefCell<Vec<Range>>,
    }

    impl Rows for Noting {
        fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
            let range = Range { from: key.to_owned(), to: format!("{key}\0") };
            self.read.borrow_mut().push(range);
            self.rows.get(key)
        }

        fn scan(&self, range: &Range, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
            self.read.borrow_mut().push(range.clone());
            self.rows.scan(range, limit)
        }
    }

    /// Stores at a distance fetch, and standbys follow, by that list.
    #[test]
    fn loading_reads_what_the_list_of_keys_says_and_nothing_else() {
        let mut rows = Table::default();
        rows.transaction(|rows| create(rows, [7; 32])).unwrap();
        let noting = Noting { rows, read: RefCell::default() };
        load(&noting).unwrap();
        let mut read = noting.read.into_inner();
        let mut listed = Range::loaded().to_vec();
        for ranges in [&mut read, &mut listed] {
            ranges.sort_by(|one, other| one.from.cmp(&other.from));
        }
        assert_eq!(read, listed);
    }
}
