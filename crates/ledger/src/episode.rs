//! A recovery episode: one continuous recovery of a job from member loss (first seed, "Terminology").

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::{Deserialize, Serialize, Serializer};
use steadfast_model::{AttemptId, Cause, EpisodeNumber, PipelineId, TaskGroupId, Timestamp};

use crate::loss::{Facts, LossFacts, SharedLoss};
use crate::stored::StoredIncident;

/// Incidents kept per episode; the count beside them is exact.
pub const MAX_INCIDENTS: usize = 16;
/// Attempts kept per episode; what they amounted to is in the generation.
pub const MAX_ATTEMPTS: usize = 32;
/// Pipelines kept per incident: that each is under recovery is known from its context.
pub(crate) const MAX_PIPELINES: usize = 8;
/// Task groups kept per incident.
pub(crate) const MAX_TASK_GROUPS: usize = 8;
/// Bytes kept of any text that somebody else wrote: an address, evidence, a cause.
pub(crate) const MAX_TEXT_BYTES: usize = 200;

/// One member's loss as far as it affected one job. Its identity is job id + member UUID.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "StoredIncident")]
pub struct Incident {
    /// The loss.
    pub loss: LossFacts,
    /// A sample of the pipelines that it affected.
    pub pipelines: Vec<PipelineId>,
    /// How many pipelines it affected.
    pub pipeline_count: u64,
    /// A sample of the task groups that ran there.
    pub task_groups: Vec<TaskGroupId>,
    /// How many task groups ran there.
    pub task_group_count: u64,
}

impl Deref for Incident {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.loss
    }
}

impl Incident {
    pub(crate) fn new(
        loss: &SharedLoss,
        affected: &[PipelineId],
        task_groups: &[TaskGroupId],
    ) -> Self {
        Self {
            loss: loss.facts.clone(),
            pipelines: affected[..affected.len().min(MAX_PIPELINES)].to_vec(),
            pipeline_count: affected.len() as u64,
            task_groups: task_groups[..task_groups.len().min(MAX_TASK_GROUPS)].to_vec(),
            task_group_count: task_groups.len() as u64,
        }
    }
}

/// Where an episode stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EpisodeStatus {
    /// Pipelines are being recovered.
    #[default]
    Active,
    /// All of them recovered.
    Completed,
    /// The job could not restore, or ended.
    Aborted,
    /// Nothing of it was deployed in time: parked. A confirmation or a new loss makes it active again.
    Expired,
}

/// What became of a deployment attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AttemptOutcome {
    /// Not known yet.
    #[default]
    Pending,
    /// Every task group ran.
    Recovered,
    /// It failed before that.
    Failed,
}

/// What is as it is in most ledgers is not written down: ten thousand of them may be written at once.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// One deployment of one affected pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Its stable identity.
    #[serde(serialize_with = "numbers_of")]
    pub id: AttemptId,
    /// When it reached `DEPLOYING`; `None` while only prepared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<Timestamp>,
    /// What became of it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub outcome: AttemptOutcome,
    /// Why it failed; the first cause wins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

/// Its three numbers without their names; it is read with them as well.
fn numbers_of<S: Serializer>(id: &AttemptId, serializer: S) -> Result<S::Ok, S::Error> {
    let AttemptId { episode, pipeline, prepare_seq } = id;
    (episode, pipeline, prepare_seq).serialize(serializer)
}

/// The moments of an episode, from which its latencies follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Marks {
    /// The first lost member's last sign of life.
    pub last_seen: Timestamp,
    /// When its loss was declared: the episode's start.
    pub declared: Timestamp,
    /// When it was made active again after it had been parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reopened: Option<Timestamp>,
    /// When the old copies of the first pipeline to deploy were proven gone, or their leases over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fenced: Option<Timestamp>,
    /// The first deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployed: Option<Timestamp>,
    /// When the last pipeline had recovered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovered: Option<Timestamp>,
}

/// What one pipeline has been through in the episode: its *context*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Context {
    /// Whether it still has to recover. A recovered pipeline's context is consumed: it stays only so
    /// that a further loss within the episode goes on with the next sequence.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open: bool,
    /// Whether the next attempt has been prepared and not confirmed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prepared: bool,
    /// Deployments so far: the sequence of the last confirmed attempt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub confirmed: u32,
}

/// One continuous recovery of a job from member loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Episode {
    /// From 1 within the job.
    pub number: EpisodeNumber,
    /// Where it stands.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status: EpisodeStatus,
    /// The largest number of deployments of any of its pipelines: what it adds to the job's count,
    /// unless all of its incidents were planned.
    #[serde(default, skip_serializing_if = "is_default")]
    pub generation: u64,
    /// A bounded sample, oldest first.
    pub incidents: Vec<Incident>,
    /// Exact.
    pub incident_count: u64,
    /// The newest attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// Its moments.
    pub marks: Marks,
    /// When it closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Why it was aborted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort_reason: Option<String>,
    /// Whether its generations count: true as soon as one incident is not planned.
    pub(crate) counts: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) contexts: BTreeMap<PipelineId, Context>,
}

impl Episode {
    pub(crate) fn open(number: EpisodeNumber, loss: &SharedLoss) -> Self {
        Self {
            number,
            status: EpisodeStatus::Active,
            generation: 0,
            // Most episodes have one of each, and there is one in each job that the loss affects.
            incidents: Vec::with_capacity(1),
            incident_count: 0,
            attempts: Vec::with_capacity(1),
            marks: Marks {
                last_seen: loss.last_seen,
                declared: loss.facts.declared,
                reopened: None,
                fenced: None,
                deployed: None,
                recovered: None,
            },
            ended: None,
            abort_reason: None,
            counts: false,
            contexts: BTreeMap::new(),
        }
    }

    /// Whether its generations count towards the threshold.
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// Pipelines that have not recovered yet.
    pub fn open_pipelines(&self) -> impl Iterator<Item = PipelineId> + '_ {
        self.contexts.iter().filter(|(_, context)| context.open).map(|(pipeline, _)| *pipeline)
    }

    pub(crate) fn add_incident(&mut self, incident: Incident, affected: &[PipelineId]) {
        self.incident_count += 1;
        for pipeline in affected {
            self.contexts.entry(*pipeline).or_default().open = true;
        }
        if self.incidents.len() < MAX_INCIDENTS {
            self.incidents.push(incident);
        }
    }

    /// The newest incident, if it is in the sample.
    pub(crate) fn newest_incident(&self) -> Option<&Incident> {
        let all_are_kept = self.incidents.len() as u64 == self.incident_count;
        self.incidents.last().filter(|_| all_are_kept)
    }

    /// The open context of a pipeline.
    pub(crate) fn context(&mut self, pipeline: PipelineId) -> Option<&mut Context> {
        self.contexts.get_mut(&pipeline).filter(|context| context.open)
    }

    pub(crate) fn note_attempt(&mut self, id: AttemptId) {
        if self.attempts.iter().all(|attempt| attempt.id != id) {
            if self.attempts.len() == MAX_ATTEMPTS {
                self.attempts.remove(0);
            }
            let outcome = AttemptOutcome::Pending;
            self.attempts.push(Attempt { id, confirmed: None, outcome, cause: None });
        }
    }

    /// The newest kept attempt of a pipeline.
    pub(crate) fn last_attempt(&mut self, pipeline: PipelineId) -> Option<&mut Attempt> {
        self.attempts.iter_mut().rev().find(|attempt| attempt.id.pipeline == pipeline)
    }

    /// Settles the cause of a failed attempt that was pending, and says whether it did.
    pub(crate) fn settle_cause(&mut self, id: AttemptId, cause: &Cause) -> bool {
        let pending =
            |attempt: &&mut Attempt| attempt.id == id && attempt.cause == Some(Cause::Pending);
        let Some(attempt) = self.attempts.iter_mut().find(pending) else { return false };
        attempt.cause = Some(bounded_cause(cause));
        true
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.status == EpisodeStatus::Expired
    }

    /// Since when it has been active, if nothing of it has been deployed.
    pub(crate) fn pending_since(&self) -> Option<Timestamp> {
        let pending = self.status == EpisodeStatus::Active && self.generation == 0;
        pending.then(|| self.marks.reopened.unwrap_or(self.marks.declared))
    }

    pub(crate) fn park(&mut self, now: Timestamp) {
        self.status = EpisodeStatus::Expired;
        self.ended = Some(now);
    }

    pub(crate) fn reopen(&mut self, now: Timestamp) {
        self.status = EpisodeStatus::Active;
        self.ended = None;
        self.marks.reopened = Some(now);
    }

    /// Closes it because nothing is recovered any more: so no attempt of it has, whose end is not known yet.
    pub(crate) fn abort(&mut self, reason: &str, now: Timestamp) {
        let reason = bounded(reason);
        let pending = |attempt: &&mut Attempt| attempt.outcome == AttemptOutcome::Pending;
        for attempt in self.attempts.iter_mut().filter(pending) {
            attempt.outcome = AttemptOutcome::Failed;
            attempt.cause = Some(Cause::Seen(reason.clone()));
        }
        self.abort_reason = Some(reason);
        self.close(EpisodeStatus::Aborted, now);
    }

    pub(crate) fn close(&mut self, status: EpisodeStatus, now: Timestamp) {
        self.status = status;
        self.ended = Some(now);
        self.contexts.clear();
    }
}

/// A text within the stated size.
pub(crate) fn bounded(text: &str) -> String {
    steadfast_model::bounded(text, MAX_TEXT_BYTES)
}

/// A cause whose text has the stated size.
pub(crate) fn bounded_cause(cause: &Cause) -> Cause {
    match cause {
        Cause::Pending => Cause::Pending,
        Cause::Seen(text) => Cause::Seen(bounded(text)),
    }
}
