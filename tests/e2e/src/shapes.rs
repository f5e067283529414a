//! The wire shapes that outside tests rely on, written down a second time.
//!
//! On purpose not the product's own types: those could be renamed together with what they describe, and
//! nobody would notice. Fields may be added, so unknown ones are passed over; a word that is not listed
//! here is an error.

use serde::Deserialize;
use serde_json::value::RawValue;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident),* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
        #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
        #[allow(missing_docs, reason = "the words of the interface; their meaning stands there")]
        pub enum $name { $($variant),* }
    };
}

words! {
    /// A job's status.
    JobStatus { Created, Pending, Scheduled, Running, Failing, Canceling, Finished, Failed, Canceled }
}
words! {
    /// A pipeline's status.
    PipelineStatus { Created, Scheduled, Deploying, Running, Failing, Canceling, Finished, Failed, Canceled }
}
words! {
    /// A task group's status.
    TaskGroupStatus { Created, Deploying, Running, Failing, Canceling, Finished, Failed, Canceled }
}
words! {
    /// A member's status.
    MemberStatus { Alive, Suspected, Disconnected, Lost, Draining }
}
words! {
    /// What is known about a job's recovery tracking.
    Evaluation { Disabled, Clean, Dirty, Unknown }
}
words! {
    /// How a loss was noticed.
    LossCause { ConnectionClosed, Silence, Leaving, ToldByOperator }
}
words! {
    /// Where an episode stands.
    EpisodeStatus { Active, Completed, Aborted, Expired }
}
words! {
    /// What became of an attempt.
    AttemptOutcome { Recovered, Failed, Pending }
}
words! {
    /// Whether a leave was proven to be planned.
    Classification { Unclassified, PlannedVerified }
}

/// What a coordinator that is ready does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoordinatorRole {
    /// It decides.
    Leader,
    /// It follows.
    Standby,
}

/// How a coordinator answers for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It leads, in this term.
    Leads {
        /// Grows with every leader.
        epoch: u64,
    },
    /// It follows whoever leads.
    StandsBy {
        /// The leader's base URL.
        leader: String,
        /// The store's revision up to which it has.
        revision: u64,
    },
    /// 503: it does not lead, and knows nobody who does.
    NotReady,
    /// No answer.
    Silent,
}

macro_rules! shape {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize)]
        #[serde(rename_all = "camelCase")]
        #[allow(missing_docs, reason = "the fields of the interface; their meaning stands there")]
        pub struct $name { $(pub $field: $type),* }
    };
}

shape! {
    /// One of `GET /members`.
    Member {
        uuid: String,
        address: String,
        pid: u32,
        status: MemberStatus,
        slots: u32,
        used_slots: u32,
        last_seen: String,
    }
}
shape! {
    /// `GET /overview`.
    Overview { coordinator: Coordinator, standbys: Vec<Standby>, members: MemberCounts, slots: Slots }
}
shape! {
    /// A coordinator that stands by, as the one that leads was told.
    Standby { url: String, commits_behind: Option<u64> }
}
shape! {
    /// Who leads.
    Coordinator { url: String, pid: u32, epoch: u64 }
}
shape! {
    /// `GET /health/ready`.
    Readiness { role: CoordinatorRole, leader: String, revision: u64, epoch: Option<u64> }
}
shape! {
    /// Members by liveness.
    MemberCounts { alive: u64, suspected: u64, lost: u64 }
}
shape! {
    /// Slots of living members.
    Slots { total: u64, used: u64 }
}
shape! {
    /// One of `GET /running-jobs` and `GET /finished-jobs`.
    JobSummary {
        job_id: String,
        job_name: String,
        job_status: JobStatus,
        finish_time: Option<String>,
        dirty_task: DirtyTaskSummary,
    }
}
shape! {
    /// The subset of the label that lists carry.
    DirtyTaskSummary { dirty: bool, evaluation_status: Evaluation, recovery_attempt_count: u64 }
}
shape! {
    /// The whole label, all twelve fields.
    DirtyTask {
        dirty: bool,
        evaluation_status: Evaluation,
        tracking_complete: bool,
        threshold: i64,
        recovery_attempt_count: u64,
        recovery_episode_count: u64,
        member_loss_incident_count: u64,
        active_episode_id: Option<String>,
        last_leave_classification: Option<Classification>,
        last_lost_member_uuid: Option<String>,
        last_lost_address: Option<String>,
        last_counted_time: Option<u64>,
    }
}
shape! {
    /// `GET /job-info/:jobId`. The label is kept as the bytes that came.
    Job {
        job_id: String,
        job_status: JobStatus,
        error_msg: Option<String>,
        counts: RestoreCounts,
        pipelines: Vec<Pipeline>,
        dirty_task: Box<RawValue>,
    }
}
shape! {
    /// Restores by kind.
    RestoreCounts { member_loss: u64, program: u64, ladder: u64, planned: u64 }
}
shape! {
    /// A pipeline.
    Pipeline {
        pipeline_id: u32,
        pipeline_status: PipelineStatus,
        restores: u32,
        attempt: u32,
        task_groups: Vec<TaskGroup>,
    }
}
shape! {
    /// A task group and its container.
    TaskGroup {
        task_group_id: u32,
        index: u32,
        status: TaskGroupStatus,
        attempt: u32,
        execution_resource_id: Option<String>,
        member_uuid: Option<String>,
        pid: Option<u32>,
        wrapper_pid: Option<u32>,
        fencing_token: Option<u64>,
        lease_ends: Option<String>,
        stalled: bool,
        last_error: Option<String>,
    }
}
shape! {
    /// `GET /job-info/:jobId/recovery-episodes`.
    Episodes { episodes: Vec<Episode>, dropped_episodes: u64 }
}
shape! {
    /// An episode.
    Episode {
        episode_id: String,
        status: EpisodeStatus,
        generation: u64,
        start_time: String,
        end_time: Option<String>,
        incidents: Vec<Incident>,
        incident_count: u64,
        attempts: Vec<Attempt>,
    }
}
shape! {
    /// A lost member.
    Incident {
        member_uuid: String,
        classification: Classification,
        cause: LossCause,
        evidence: String,
        time: String,
    }
}
shape! {
    /// A deployment.
    Attempt { pipeline_id: u32, confirmed_time: Option<String>, outcome: AttemptOutcome }
}
shape! {
    /// `GET /job-info/:jobId/explain`.
    Explanation { sentences: Vec<Sentence> }
}
shape! {
    /// A sentence of the story.
    Sentence { time: String, text: String, episode_id: Option<String> }
}

impl Readiness {
    /// The same, as what can be.
    pub(crate) fn standing(self) -> Standing {
        match self.role {
            CoordinatorRole::Leader => {
                let epoch = self.epoch.expect("whoever leads knows its term");
                Standing::Leads { epoch }
            }
            CoordinatorRole::Standby => {
                Standing::StandsBy { leader: self.leader, revision: self.revision }
            }
        }
    }
}

impl Job {
    /// The label, read.
    ///
    /// # Panics
    /// When it has not the published shape.
    #[track_caller]
    pub fn label(&self) -> DirtyTask {
        let text = self.dirty_task.get();
        serde_json::from_str(text).unwrap_or_else(|error| panic!("dirtyTask {text}: {error}"))
    }

    /// Every task group of every pipeline.
    pub fn task_groups(&self) -> impl Iterator<Item = &TaskGroup> {
        self.pipelines.iter().flat_map(|pipeline| &pipeline.task_groups)
    }

    /// Whether every task group runs, each in a container of this deployment.
    pub fn runs(&self, attempt: u32) -> bool {
        let running = |group: &TaskGroup| {
            group.status == TaskGroupStatus::Running
                && group.attempt == attempt
                && group.pid.is_some()
        };
        self.job_status == JobStatus::Running
            && self.pipelines.iter().all(|pipeline| {
                pipeline.pipeline_status == PipelineStatus::Running && pipeline.attempt == attempt
            })
            && self.task_groups().all(running)
    }

    /// The containers and their programs' pids: unchanged as long as nothing was restarted.
    pub fn containers(&self) -> Vec<(String, u32)> {
        self.task_groups()
            .filter_map(|group| Some((group.execution_resource_id.clone()?, group.pid?)))
            .collect()
    }
}
