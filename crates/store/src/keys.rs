//! Under which key each record lies. Keys are text, so that a dump can be read, and ordered as their
//! readers want them: events ascending, summaries newest first.

use std::fmt::Display;
use std::sync::LazyLock;

use steadfast_model::{JobId, MemberEventSeq, MemberUuid, RequestId, TaskGroupId, Timestamp};

/// Makes [`Kind`] and the list of all of them from one list, so that neither can lack what the other has.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// A kind of record. Every key is made from one, so nothing can be stored that is of none.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// What its keys begin with.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// Who committed last, and how often; compared by every commit.
    Head = "head",
    /// Who leads.
    Leader = "leader",
    /// The cluster's member event sequence.
    Cluster = "cluster",
    /// The member event up to which every job has been processed.
    Processed = "processed",
    /// The key from which container secrets are derived.
    Secret = "secret",
    /// A coordinator that is there. Before the first key that standbys follow: whoever follows commits
    /// must not meet writes that are none.
    Announced = "announced",
    /// A job that has not ended.
    Job = "job",
    /// Its ledger.
    Ledger = "ledger",
    /// The closed episodes of a ledger.
    Episodes = "episodes",
    /// The newest token of a task group.
    Token = "token",
    /// Its newest checkpoint.
    Checkpoint = "checkpoint",
    /// A member of the table.
    Member = "member",
    /// What an operator asked for.
    Request = "request",
    /// An entry of the journal of member events.
    Event = "event",
    /// A job that has ended.
    History = "history",
    /// Where an ended job's summary lies, which has the finish time in its key.
    Finished = "finished",
    /// What lists show of an ended job.
    Summary = "summary",
}

impl Kind {
    fn key(self, rest: impl Display) -> String {
        format!("{}/{rest}", self.name())
    }

    /// Where its records lie: one key, or a folder.
    pub(crate) fn range(self) -> Range {
        match self {
            Self::Head | Self::Leader | Self::Cluster | Self::Processed | Self::Secret => {
                Range::only(self.name())
            }
            Self::Announced
            | Self::Job
            | Self::Ledger
            | Self::Episodes
            | Self::Token
            | Self::Checkpoint
            | Self::Member
            | Self::Request
            | Self::Event
            | Self::History
            | Self::Finished
            | Self::Summary => Range::folder(self.name()),
        }
    }
}

pub(crate) const HEAD: &str = Kind::Head.name();
pub(crate) const LEADER: &str = Kind::Leader.name();
pub(crate) const CLUSTER: &str = Kind::Cluster.name();
pub(crate) const PROCESSED: &str = Kind::Processed.name();
pub(crate) const SECRET: &str = Kind::Secret.name();

#[cfg(any(test, feature = "etcd"))]
pub(crate) fn announced(url: &str) -> String {
    Kind::Announced.key(url)
}

pub(crate) fn job(id: JobId) -> String {
    Kind::Job.key(id)
}

pub(crate) fn ledger(id: JobId) -> String {
    Kind::Ledger.key(id)
}

pub(crate) fn episodes(id: JobId) -> String {
    Kind::Episodes.key(id)
}

pub(crate) fn token(job: JobId, task_group: TaskGroupId) -> String {
    Kind::Token.key(format_args!("{job}/{task_group}"))
}

pub(crate) fn checkpoint(job: JobId, task_group: TaskGroupId) -> String {
    Kind::Checkpoint.key(format_args!("{job}/{task_group}"))
}

pub(crate) fn member(uuid: MemberUuid) -> String {
    Kind::Member.key(uuid)
}

pub(crate) fn request(id: &RequestId) -> String {
    Kind::Request.key(id)
}

pub(crate) fn event(seq: MemberEventSeq) -> String {
    Kind::Event.key(format_args!("{:020}", seq.get()))
}

pub(crate) fn history(id: JobId) -> String {
    Kind::History.key(id)
}

pub(crate) fn finished(id: JobId) -> String {
    Kind::Finished.key(id)
}

pub(crate) fn summary(finished: Timestamp, id: JobId) -> String {
    Kind::Summary.key(format_args!("{:020}/{id}", u64::MAX - finished.as_millis()))
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

    pub(crate) fn only(key: &str) -> Self {
        // No key lies between a key and the same with a zero byte added.
        Self { from: key.to_owned(), to: format!("{key}\0") }
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.from.as_str() <= key && key < self.to.as_str()
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.from < other.to && other.from < self.to
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
        Kind::Announced.range()
    }

    pub(crate) fn jobs() -> Self {
        Kind::Job.range()
    }

    pub(crate) fn ledgers() -> Self {
        Kind::Ledger.range()
    }

    pub(crate) fn episodes() -> Self {
        Kind::Episodes.range()
    }

    pub(crate) fn members() -> Self {
        Kind::Member.range()
    }

    pub(crate) fn requests() -> Self {
        Kind::Request.range()
    }

    pub(crate) fn events() -> Self {
        Kind::Event.range()
    }

    /// The events before this one.
    pub(crate) fn events_before(seq: MemberEventSeq) -> Self {
        Self { to: event(seq), ..Self::events() }
    }

    pub(crate) fn summaries() -> Self {
        Kind::Summary.range()
    }

    /// The summaries behind this one.
    pub(crate) fn summaries_after(finished: Timestamp, id: JobId) -> Self {
        Self { from: summary(finished, id) + "\0", ..Self::summaries() }
    }

    pub(crate) fn tokens_of(job: JobId) -> Self {
        Self::folder(&Kind::Token.key(job))
    }

    pub(crate) fn checkpoints_of(job: JobId) -> Self {
        Self::folder(&Kind::Checkpoint.key(job))
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
