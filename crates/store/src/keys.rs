//! Under which key each record lies. Keys are text, so that a dump can be read, and ordered as their
//! readers want them: events ascending, summaries newest first.

use std::sync::LazyLock;

use steadfast_model::{JobId, MemberEventSeq, MemberUuid, RequestId, TaskGroupId, Timestamp};

/// Who committed last, and how often; compared by every commit.
pub(crate) const HEAD: &str = "head";
/// Who leads.
pub(crate) const LEADER: &str = "leader";
/// The cluster's member event sequence.
pub(crate) const CLUSTER: &str = "cluster";
/// The member event up to which every job has been processed.
pub(crate) const PROCESSED: &str = "processed";
/// The key from which container secrets are derived.
pub(crate) const SECRET: &str = "secret";

/// A coordinator that is there. Before the first key that standbys follow: whoever follows commits must
/// not meet writes that are none.
#[cfg(any(test, feature = "etcd"))]
pub(crate) fn announced(url: &str) -> String {
    format!("announced/{url}")
}

pub(crate) fn job(id: JobId) -> String {
    format!("job/{id}")
}

pub(crate) fn ledger(id: JobId) -> String {
    format!("ledger/{id}")
}

/// The closed episodes of a ledger.
pub(crate) fn episodes(id: JobId) -> String {
    format!("episodes/{id}")
}

pub(crate) fn token(job: JobId, task_group: TaskGroupId) -> String {
    format!("token/{job}/{task_group}")
}

pub(crate) fn checkpoint(job: JobId, task_group: TaskGroupId) -> String {
    format!("checkpoint/{job}/{task_group}")
}

pub(crate) fn member(uuid: MemberUuid) -> String {
    format!("member/{uuid}")
}

pub(crate) fn request(id: &RequestId) -> String {
    format!("request/{id}")
}

pub(crate) fn event(seq: MemberEventSeq) -> String {
    format!("event/{:020}", seq.get())
}

pub(crate) fn history(id: JobId) -> String {
    format!("history/{id}")
}

/// Says where a job's summary lies, which has the finish time in its key.
pub(crate) fn finished(id: JobId) -> String {
    format!("finished/{id}")
}

pub(crate) fn summary(finished: Timestamp, id: JobId) -> String {
    format!("summary/{:020}/{id}", u64::MAX - finished.as_millis())
}

/// What a key of [`SUMMARIES`] says.
pub(crate) fn parse_summary(key: &str) -> Option<(Timestamp, JobId)> {
    let (inverted, id) = key.strip_prefix("summary/")?.split_once('/')?;
    let finished = Timestamp::from_millis(u64::MAX - inverted.parse::<u64>().ok()?);
    Some((finished, id.parse().ok()?))
}

/// The id behind a prefix such as `ledger/`.
pub(crate) fn parse_job(key: &str) -> Option<JobId> {
    key.split_once('/')?.1.parse().ok()
}

/// The job of a ledger's key; `None` where it is another record's.
pub(crate) fn parse_ledger(key: &str) -> Option<JobId> {
    key.starts_with("ledger/").then(|| parse_job(key))?
}

/// Keys from `from` up to, not including, `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub from: String,
    pub to: String,
}

impl Range {
    fn folder(name: &str) -> Self {
        // The character behind '/' is '0'.
        Self { from: format!("{name}/"), to: format!("{name}0") }
    }

    fn only(key: &str) -> Self {
        // No key lies between a key and the same with a zero byte added.
        Self { from: key.to_owned(), to: format!("{key}\0") }
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.from.as_str() <= key && key < self.to.as_str()
    }

    /// Everything that a leader starts from.
    pub(crate) fn loaded() -> &'static [Self] {
        static LOADED: LazyLock<Vec<Range>> = LazyLock::new(|| {
            let keys = [CLUSTER, HEAD, LEADER, PROCESSED, SECRET].map(Range::only);
            let folders = [
                Range::episodes(),
                Range::events(),
                Range::jobs(),
                Range::ledgers(),
                Range::members(),
                Range::requests(),
                Range::summaries(),
            ];
            keys.into_iter().chain(folders).collect()
        });
        &LOADED
    }

    /// One range with all of it, and without what changes most often: checkpoints and tokens.
    #[cfg(any(test, feature = "etcd"))]
    pub(crate) fn followed() -> Self {
        Self { from: CLUSTER.to_owned(), to: "token/".to_owned() }
    }

    /// Whether a leader starts from this key.
    pub(crate) fn is_loaded(key: &str) -> bool {
        Self::loaded().iter().any(|range| range.contains(key))
    }

    #[cfg(any(test, feature = "etcd"))]
    pub(crate) fn announced() -> Self {
        Self::folder("announced")
    }

    pub(crate) fn jobs() -> Self {
        Self::folder("job")
    }

    pub(crate) fn ledgers() -> Self {
        Self::folder("ledger")
    }

    pub(crate) fn episodes() -> Self {
        Self::folder("episodes")
    }

    pub(crate) fn members() -> Self {
        Self::folder("member")
    }

    pub(crate) fn requests() -> Self {
        Self::folder("request")
    }

    pub(crate) fn events() -> Self {
        Self::folder("event")
    }

    /// The events before this one.
    pub(crate) fn events_before(seq: MemberEventSeq) -> Self {
        Self { to: event(seq), ..Self::events() }
    }

    pub(crate) fn summaries() -> Self {
        Self::folder("summary")
    }

    /// The summaries behind this one.
    pub(crate) fn summaries_after(finished: Timestamp, id: JobId) -> Self {
        Self { from: summary(finished, id) + "\0", ..Self::summaries() }
    }

    pub(crate) fn tokens_of(job: JobId) -> Self {
        Self::folder(&format!("token/{job}"))
    }

    pub(crate) fn checkpoints_of(job: JobId) -> Self {
        Self::folder(&format!("checkpoint/{job}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_lie_newest_first_and_tell_their_job() {
        let key = |ms, id| summary(Timestamp::from_millis(ms), JobId::new(id));
        assert!(key(2, 5) < key(1, 4));
        assert_eq!(parse_summary(&key(7, 5)), Some((Timestamp::from_millis(7), JobId::new(5))));
        assert_eq!(parse_summary("summary/x/5"), None);
        let after = Range::summaries_after(Timestamp::from_millis(7), JobId::new(5));
        assert!(key(7, 5) < after.from && after.from < key(7, 50) && after.from < key(6, 1));
    }

    #[test]
    fn what_is_loaded_is_told_by_its_key_alone() {
        for range in Range::loaded() {
            assert!(Range::is_loaded(&range.from), "{range:?}");
            assert!(Range::followed().contains(&range.from), "{range:?}");
        }
        let task_group = TaskGroupId::new(1);
        let others = [
            checkpoint(JobId::new(1), task_group),
            token(JobId::new(1), task_group),
            history(JobId::new(1)),
            finished(JobId::new(1)),
        ];
        for key in &others {
            assert!(!Range::is_loaded(key), "{key}");
        }
        assert!(others[..2].iter().all(|key| !Range::followed().contains(key)));
        let announced = announced("http://127.0.0.1:8080");
        assert!(Range::announced().contains(&announced) && !Range::followed().contains(&announced));
    }

    #[test]
    fn a_jobs_tokens_are_no_other_jobs() {
        let range = Range::tokens_of(JobId::new(1));
        let inside = |job| {
            let key = token(JobId::new(job), TaskGroupId::new(9));
            range.from <= key && key < range.to
        };
        assert!(inside(1) && !inside(10) && !inside(11) && !inside(2));
    }
}
