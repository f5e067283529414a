//! How a ledger is written down.
//!
//! Whole, as an ended job's history keeps it; or in two parts, as a running job's is stored: the closed
//! episodes are most of it and change only when an episode closes, so a loss writes the rest alone. The
//! rest names the revision of the closed episodes that belong to it, so that parts of two moments are
//! never taken for one ledger.

use serde::{Deserialize, Serialize, Serializer};
use steadfast_model::{LedgerRevision, MemberEventSeq, PipelineId, TaskGroupId, Timestamp};

use crate::job_ledger::{JobLedger, LastLoss};
use crate::loss::LossFacts;
use crate::tracking::Tracking;
use crate::{Episode, EpisodeHistory, Incident};

/// A ledger with its closed episodes, or with what stands for them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a, H> {
    revision: LedgerRevision,
    threshold: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dirty_since: Option<Timestamp>,
    #[serde(skip_serializing_if = "is_complete")]
    tracking: &'a Tracking,
    recovery_attempt_count: u64,
    episode_count: u64,
    incident_count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<&'a Episode>,
    history: H,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_counted: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_loss: Option<&'a LastLoss>,
    watermark: MemberEventSeq,
}

fn is_complete(tracking: &&Tracking) -> bool {
    **tracking == Tracking::Complete
}

/// A ledger as it is read, of any format.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredLedger {
    revision: LedgerRevision,
    threshold: u64,
    dirty_since: Option<Timestamp>,
    /// Up to format 4 it was written in any case.
    #[serde(default)]
    tracking: Tracking,
    recovery_attempt_count: u64,
    episode_count: u64,
    incident_count: u64,
    #[serde(alias = "active")]
    open: Option<Episode>,
    history: EpisodeHistory,
    last_counted: Option<Timestamp>,
    last_loss: Option<LastLoss>,
    watermark: MemberEventSeq,
}

impl From<StoredLedger> for JobLedger {
    fn from(stored: StoredLedger) -> Self {
        // Up to format 3 the newest incident stood beside its episode in any case.
        let shown = stored.open.as_ref().and_then(Episode::newest_incident).is_some();
        Self {
            revision: stored.revision,
            threshold: stored.threshold,
            dirty_since: stored.dirty_since,
            tracking: stored.tracking,
            recovery_attempt_count: stored.recovery_attempt_count,
            episode_count: stored.episode_count,
            incident_count: stored.incident_count,
            open: stored.open,
            history: stored.history,
            last_counted: stored.last_counted,
            last_loss: stored.last_loss.filter(|_| !shown),
            watermark: stored.watermark,
        }
    }
}

/// An incident as it is written: a count stands beside its sample only where that is not all.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenIncident<'a> {
    loss: &'a LossFacts,
    pipelines: &'a [PipelineId],
    #[serde(skip_serializing_if = "Option::is_none")]
    pipeline_count: Option<u64>,
    task_groups: &'a [TaskGroupId],
    #[serde(skip_serializing_if = "Option::is_none")]
    task_group_count: Option<u64>,
}

impl Serialize for Incident {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let beside = |count: u64, sample: usize| Some(count).filter(|_| count != sample as u64);
        let Self { loss, pipelines, pipeline_count, task_groups, task_group_count } = self;
        let written = WrittenIncident {
            loss,
            pipelines,
            pipeline_count: beside(*pipeline_count, pipelines.len()),
            task_groups,
            task_group_count: beside(*task_group_count, task_groups.len()),
        };
        written.serialize(serializer)
    }
}

/// An incident as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredIncident {
    #[serde(flatten)]
    loss: StoredLoss,
    pipelines: Vec<PipelineId>,
    pipeline_count: Option<u64>,
    task_groups: Vec<TaskGroupId>,
    task_group_count: Option<u64>,
}

/// Up to format 3 what is known of a loss was not apart from what it did to the job.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredLoss {
    Apart { loss: LossFacts },
    Together(LossFacts),
}

impl From<StoredIncident> for Incident {
    fn from(stored: StoredIncident) -> Self {
        let StoredIncident { loss, pipelines, pipeline_count, task_groups, task_group_count } =
            stored;
        let (StoredLoss::Apart { loss } | StoredLoss::Together(loss)) = loss;
        Self {
            loss,
            pipeline_count: pipeline_count.unwrap_or(pipelines.len() as u64),
            pipelines,
            task_group_count: task_group_count.unwrap_or(task_groups.len() as u64),
            task_groups,
        }
    }
}

/// Stands for closed episodes that are stored apart. Read as a history in which they are missing.
#[derive(Serialize)]
struct Elsewhere {
    revision: LedgerRevision,
    size: usize,
}

impl<'a, H> Written<'a, H> {
    fn new(ledger: &'a JobLedger, history: H) -> Self {
        Self {
            revision: ledger.revision,
            threshold: ledger.threshold,
            dirty_since: ledger.dirty_since,
            tracking: &ledger.tracking,
            recovery_attempt_count: ledger.recovery_attempt_count,
            episode_count: ledger.episode_count,
            incident_count: ledger.incident_count,
            open: ledger.open.as_ref(),
            history,
            last_counted: ledger.last_counted,
            last_loss: ledger.last_loss.as_ref(),
            watermark: ledger.watermark,
        }
    }
}

impl Serialize for JobLedger {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written::new(self, &self.history).serialize(serializer)
    }
}

impl JobLedger {
    /// The ledger to be written without its closed episodes, which are stored apart. It is read as a
    /// ledger and made whole by [`JobLedger::with_closed_episodes`].
    pub fn without_closed_episodes(&self) -> impl Serialize + '_ {
        let (revision, size) = (self.history.revision(), self.history.size());
        Written::new(self, Elsewhere { revision, size })
    }

    /// Whether it was read without its closed episodes, so that they must be read too.
    pub fn lacks_closed_episodes(&self) -> bool {
        self.closed() != self.history.closed()
    }

    /// A ledger that was stored in two parts; `None` where these are not of one moment.
    #[must_use]
    pub fn with_closed_episodes(self, history: EpisodeHistory) -> Option<Self> {
        let same_moment = history.revision() == self.history.revision();
        Some(Self { history, ..self }).filter(|whole| same_moment && !whole.lacks_closed_episodes())
    }

    /// The closed episodes where the store has not got them yet: it was last given those of revision
    /// `stored`, or none (0). What was stored within the ledger gets a revision by this.
    pub fn closed_episodes_to_store(&mut self, stored: LedgerRevision) -> Option<EpisodeHistory> {
        if self.closed() == 0 {
            return None;
        }
        if self.history.revision() == LedgerRevision::default() {
            self.history.name(self.revision);
        }
        (self.history.revision() != stored).then(|| self.history.clone())
    }

    fn closed(&self) -> u64 {
        self.episode_count.saturating_sub(u64::from(self.open.is_some()))
    }
}

#[cfg(test)]
mod tests {
    use steadfast_model::Cause;

    use super::*;
    use crate::{Loss, MemberLost, Recovered};

    /// As format 3 wrote it: one episode is closed, and one open.
    const FORMAT_3: &str = r#"{"revision":7,"threshold":2,"dirtySince":null,"tracking":{"state":
        "complete"},"recoveryAttemptCount":1,"episodeCount":2,"incidentCount":2,"open":{"number":2,
        "status":"active","generation":0,"incidents":[{"seq":2,"member":
        "00000000-0000-4000-8000-000000000002","address":"b","classification":"UNCLASSIFIED","cause":
        "SILENCE","evidence":"silent","declared":200,"pipelines":[1],"pipelineCount":1,"taskGroups":[2],
        "taskGroupCount":1}],"incidentCount":1,"attempts":[{"id":{"episode":2,"pipeline":1,"prepareSeq":
        1},"confirmed":null,"outcome":"pending","cause":null}],"marks":{"lastSeen":150,"declared":200,
        "reopened":null,"fenced":null,"deployed":null,"recovered":null},"ended":null,"abortReason":null,
        "counts":true,"contexts":{"1":{"open":true,"prepared":true,"confirmed":0}}},"history":{"size":
        10,"first":{"number":1,"status":"completed","generation":1,"incidents":[{"seq":1,"member":
        "00000000-0000-4000-8000-000000000001","address":"a","classification":"UNCLASSIFIED","cause":
        "SILENCE","evidence":"silent","declared":100,"pipelines":[1],"pipelineCount":1,"taskGroups":[1],
        "taskGroupCount":1}],"incidentCount":1,"attempts":[{"id":{"episode":1,"pipeline":1,"prepareSeq":
        1},"confirmed":110,"outcome":"recovered","cause":null}],"marks":{"lastSeen":50,"declared":100,
        "reopened":null,"fenced":105,"deployed":110,"recovered":120},"ended":120,"abortReason":null,
        "counts":true,"contexts":{}},"newest":[],"dropped":0},"lastCounted":110,"lastLoss":{"member":
        "00000000-0000-4000-8000-000000000002","address":"b","classification":"UNCLASSIFIED"},
        "watermark":2}"#;

    fn loss(seq: u64) -> Loss {
        Loss {
            seq: MemberEventSeq::new(seq),
            member: format!("00000000-0000-4000-8000-{seq:012x}").parse().unwrap(),
            address: if seq == 1 { "a" } else { "b" }.to_owned(),
            classification: steadfast_model::LeaveClassification::Unclassified,
            cause: steadfast_model::LossCause::Silence,
            evidence: "silent".to_owned(),
            last_seen: Timestamp::from_millis(seq * 100 - 50),
            declared: Timestamp::from_millis(seq * 100),
        }
    }

    /// The story that [`FORMAT_3`] tells.
    fn ledger() -> JobLedger {
        let (pipeline, at) = (PipelineId::new(1), Timestamp::from_millis);
        let mut ledger = JobLedger::new(2, MemberEventSeq::new(0), 10);
        let lost = ledger.member_lost(&loss(1), &[pipeline], &[TaskGroupId::new(1)]);
        assert!(matches!(lost, MemberLost::Opened(_)));
        let attempt = ledger.prepare(pipeline).unwrap();
        let _ = ledger.confirm(attempt, at(105), at(110));
        assert!(matches!(ledger.recovered(pipeline, at(120)), Recovered::Episode(_)));
        let lost = ledger.member_lost(&loss(2), &[pipeline], &[TaskGroupId::new(2)]);
        assert!(matches!(lost, MemberLost::Opened(_)));
        assert!(ledger.prepare(pipeline).is_some());
        ledger
    }

    fn rest(ledger: &JobLedger) -> JobLedger {
        let rest = serde_json::to_string(&ledger.without_closed_episodes()).unwrap();
        serde_json::from_str(&rest).unwrap()
    }

    #[test]
    fn closed_episodes_of_an_older_format_are_stored_apart_with_the_next_write() {
        let mut old: JobLedger = serde_json::from_str(FORMAT_3).unwrap();
        assert!(!old.lacks_closed_episodes());
        let none_yet = old.history().revision();
        assert_eq!(none_yet, LedgerRevision::default());
        let episodes = old.closed_episodes_to_store(none_yet).expect("the store has not got them");
        assert_eq!(old.closed_episodes_to_store(episodes.revision()), None);
        assert_eq!(rest(&old).with_closed_episodes(episodes).as_ref(), Some(&old));
        let new = ledger();
        assert!(old.history().holds_the_same_as(new.history()));
        assert_eq!(JobLedger { history: new.history().clone(), ..old }, new);
    }

    #[test]
    fn parts_of_two_moments_are_no_ledger() {
        let ledger = ledger();
        let lacking = rest(&ledger);
        assert!(lacking.lacks_closed_episodes());
        let whole = lacking.clone().with_closed_episodes(ledger.history().clone());
        assert_eq!(whole.as_ref(), Some(&ledger));
        let mut later = ledger.clone();
        let recovered = later.recovered(PipelineId::new(1), Timestamp::from_millis(220));
        assert!(matches!(recovered, Recovered::Episode(_)));
        assert_eq!(lacking.clone().with_closed_episodes(later.history().clone()), None);
        assert_eq!(rest(&later).with_closed_episodes(ledger.history().clone()), None);
        assert_eq!(lacking.with_closed_episodes(EpisodeHistory::new(10)), None);
    }

    #[test]
    fn a_cause_that_settles_in_a_closed_episode_makes_another_moment() {
        let (pipeline, at) = (PipelineId::new(1), Timestamp::from_millis(110));
        let mut ledger = JobLedger::new(2, MemberEventSeq::new(0), 10);
        let lost = ledger.member_lost(&loss(1), &[pipeline], &[]);
        assert!(matches!(lost, MemberLost::Opened(_)));
        let attempt = ledger.prepare(pipeline).unwrap();
        let _ = ledger.confirm(attempt, at, at);
        ledger.attempt_failed(pipeline, &Cause::Pending);
        assert!(matches!(ledger.recovered(pipeline, at), Recovered::Episode(_)));
        let mut settled = ledger.clone();
        settled.settle_cause(attempt, &Cause::Seen("exit code 1".to_owned()));
        assert!(settled.closed_episodes_to_store(ledger.history().revision()).is_some());
        assert_eq!(rest(&ledger).with_closed_episodes(settled.history().clone()), None);
        assert_eq!(rest(&settled).with_closed_episodes(ledger.history().clone()), None);
    }

    #[test]
    fn a_whole_ledger_is_read_as_it_was_written() {
        let text = serde_json::to_string(&ledger()).unwrap();
        assert_eq!(serde_json::from_str::<JobLedger>(&text).unwrap(), ledger());
    }

    #[test]
    fn the_newest_loss_is_known_whether_its_episode_shows_it_or_not() {
        let mut ledger = ledger();
        let newest = |ledger: &JobLedger| ledger.last_loss().map(|loss| loss.member);
        for seq in 3..30 {
            let _ = ledger.member_lost(&loss(seq), &[PipelineId::new(1)], &[]);
            assert_eq!(newest(&ledger), Some(loss(seq).member));
            assert_eq!(newest(&rest(&ledger)), Some(loss(seq).member));
        }
        let _ = ledger.abort("the job ended", Timestamp::from_millis(9_000));
        assert_eq!(newest(&ledger), Some(loss(29).member));
    }
}
