//! One job's ledger and its verbs.

use serde::{Deserialize, Serialize};
use steadfast_model::{
    AttemptId, Cause, EpisodeNumber, LeaveClassification, LedgerRevision, MemberEventSeq,
    MemberUuid, PipelineId, TaskGroupId, Timestamp,
};

use crate::episode::{AttemptOutcome, Episode, EpisodeStatus, Incident, bounded_cause};
use crate::history::EpisodeHistory;
use crate::loss::{Facts, SharedLoss, is_unclassified, unclassified};
use crate::stored::StoredLedger;
use crate::tracking::{Tracking, TrackingLostCause};

/// The newest incident, kept beside the bounded samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastLoss {
    /// The lost member.
    pub member: MemberUuid,
    /// Its address; diagnostic only.
    pub address: String,
    /// Whether it was proven to be planned. Written only where it was.
    #[serde(default = "unclassified", skip_serializing_if = "is_unclassified")]
    pub classification: LeaveClassification,
}

impl LastLoss {
    fn of(facts: &Facts) -> Self {
        Self {
            member: facts.member,
            address: facts.address.clone(),
            classification: facts.classification,
        }
    }
}

/// What [`JobLedger::member_lost`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum MemberLost {
    /// The event lies at or below the watermark.
    AlreadyProcessed,
    /// No pipeline of the job was affected; only the watermark moved.
    Unaffected,
    /// A new episode began.
    Opened(EpisodeNumber),
    /// The incident belongs to the active episode.
    Joined(EpisodeNumber),
    /// The episode had been parked, and is active again under its id.
    Reopened(EpisodeNumber),
}

/// What [`JobLedger::confirm`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Confirmed {
    /// The job's count grew; `dirty_now` when it reached the threshold by that.
    Counted {
        /// The job's count after it.
        total: u64,
        /// Whether the job became dirty at this moment.
        dirty_now: bool,
    },
    /// Its first confirmation, but no new generation, since another pipeline had come as far; or the
    /// episode is excluded, since all of its incidents were planned.
    SameGeneration,
    /// This very attempt was confirmed before, in the episode that is open.
    AlreadyCounted,
    /// No such attempt waits: it was never prepared, its pipeline recovered without it, or its episode
    /// has closed. (Of a closed episode the ledger does not keep who was confirmed: nothing can come of
    /// it any more.)
    NotPrepared,
}

/// What [`JobLedger::recovered`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Recovered {
    /// The pipeline was not under member-loss recovery.
    NotRecovering,
    /// It recovered; others have yet to.
    Pipeline,
    /// It was the last one: the episode is complete.
    Episode(EpisodeNumber),
}

/// What [`JobLedger::expire`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Expired {
    /// There was nothing to park, or it is not time yet.
    Nothing,
    /// This episode is parked.
    Parked(EpisodeNumber),
}

/// What [`JobLedger::abort`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Aborted {
    /// No episode was open.
    Nothing,
    /// This one was closed as aborted; its counts stay.
    Episode(EpisodeNumber),
}

/// The durable recovery state of one job (first seed, "State model").
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "StoredLedger")]
pub struct JobLedger {
    pub(crate) revision: LedgerRevision,
    pub(crate) threshold: u64,
    pub(crate) dirty_since: Option<Timestamp>,
    pub(crate) tracking: Tracking,
    pub(crate) recovery_attempt_count: u64,
    pub(crate) episode_count: u64,
    pub(crate) incident_count: u64,
    /// The one that is not closed: active, or parked.
    pub(crate) open: Option<Episode>,
    pub(crate) history: EpisodeHistory,
    pub(crate) last_counted: Option<Timestamp>,
    /// The newest incident, where the open episode does not show it.
    pub(crate) last_loss: Option<LastLoss>,
    pub(crate) watermark: MemberEventSeq,
}

impl JobLedger {
    /// The ledger of a job that is being created: `threshold` is at least 1, `watermark` the newest
    /// member event at that moment, and `history_size` the number of episodes to keep.
    pub fn new(threshold: u64, watermark: MemberEventSeq, history_size: usize) -> Self {
        Self {
            revision: LedgerRevision::new(1),
            threshold,
            dirty_since: None,
            tracking: Tracking::Complete,
            recovery_attempt_count: 0,
            episode_count: 0,
            incident_count: 0,
            open: None,
            history: EpisodeHistory::new(history_size),
            last_counted: None,
            last_loss: None,
            watermark,
        }
    }

    /// This new ledger in the place of one that is missing or cannot be read, of which this revision was
    /// expected: tracking is lost, and what is counted from now on is a lower bound. `dirty_since` is what the
    /// job's record remembers.
    #[must_use]
    pub fn in_place_of_missing(
        mut self,
        revision: LedgerRevision,
        dirty_since: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        self.dirty_since = dirty_since;
        self.tracking_lost(TrackingLostCause::Unreadable, now);
        self.skip_to_revision(revision.next());
        self
    }

    /// Registers a member's loss. Call it for a job before its task groups are failed. `affected` are
    /// the pipelines that have a container of their current attempt there; `task_groups` what ran there.
    pub fn member_lost(
        &mut self,
        loss: impl Into<SharedLoss>,
        affected: &[PipelineId],
        task_groups: &[TaskGroupId],
    ) -> MemberLost {
        let loss = &loss.into();
        let Facts { seq, classification, declared, .. } = *loss.facts;
        if seq <= self.watermark {
            return MemberLost::AlreadyProcessed;
        }
        self.watermark = seq;
        self.touch();
        if affected.is_empty() {
            return MemberLost::Unaffected;
        }
        let (episode, outcome) = match &mut self.open {
            Some(episode) if episode.is_parked() => {
                episode.reopen(declared);
                (episode, MemberLost::Reopened as fn(EpisodeNumber) -> MemberLost)
            }
            Some(episode) => (episode, MemberLost::Joined as fn(EpisodeNumber) -> MemberLost),
            none => {
                self.episode_count += 1;
                let number = EpisodeNumber::new(self.episode_count);
                let episode = none.insert(Episode::open(number, loss));
                (episode, MemberLost::Opened as fn(EpisodeNumber) -> MemberLost)
            }
        };
        self.incident_count += 1;
        let incident = Incident::new(loss, affected, task_groups);
        episode.add_incident(incident, affected);
        let is_shown = episode.newest_incident().is_some();
        self.last_loss = (!is_shown).then(|| LastLoss::of(&loss.facts));
        let (number, generation) = (episode.number, episode.generation);
        if classification == LeaveClassification::Unclassified && !episode.counts {
            // What the episode has deployed so far was excluded as planned; now it counts, once.
            episode.counts = true;
            self.count(generation, declared);
        }
        outcome(number)
    }

    /// Prepares the next deployment of a pipeline. `None` when it is not under member-loss recovery, so
    /// that an ordinary failure is never counted. Repeated before the confirmation it hands out the
    /// same id.
    pub fn prepare(&mut self, pipeline: PipelineId) -> Option<AttemptId> {
        let episode = self.open.as_mut()?;
        let number = episode.number;
        let context = episode.context(pipeline)?;
        let prepare_seq = context.confirmed + 1;
        let again = std::mem::replace(&mut context.prepared, true);
        let id = AttemptId { episode: number, pipeline, prepare_seq };
        if !again {
            episode.note_attempt(id);
            self.touch();
        }
        Some(id)
    }

    /// Counts a prepared attempt. Call it in the very commit that moves the pipeline to `DEPLOYING`.
    /// `fenced` is the moment from which no old copy stood in the way.
    pub fn confirm(&mut self, id: AttemptId, fenced: Timestamp, now: Timestamp) -> Confirmed {
        let Some(episode) = self.open.as_mut().filter(|episode| episode.number == id.episode)
        else {
            return Confirmed::NotPrepared;
        };
        let Some(context) = episode.contexts.get_mut(&id.pipeline) else {
            return Confirmed::NotPrepared;
        };
        if (1..=context.confirmed).contains(&id.prepare_seq) {
            return Confirmed::AlreadyCounted;
        }
        if !context.prepared || id.prepare_seq != context.confirmed + 1 {
            return Confirmed::NotPrepared;
        }
        context.prepared = false;
        context.confirmed = id.prepare_seq;
        if episode.is_parked() {
            episode.reopen(now);
        }
        episode.marks.fenced.get_or_insert(fenced);
        episode.marks.deployed.get_or_insert(now);
        if let Some(attempt) = episode.last_attempt(id.pipeline) {
            attempt.confirmed = Some(now);
        }
        let advanced = u64::from(id.prepare_seq) > episode.generation;
        if advanced {
            episode.generation = u64::from(id.prepare_seq);
        }
        let counts = episode.counts;
        self.touch();
        if !(advanced && counts) {
            return Confirmed::SameGeneration;
        }
        let dirty_before = self.is_dirty();
        self.count(1, now);
        let dirty_now = self.is_dirty() && !dirty_before;
        Confirmed::Counted { total: self.recovery_attempt_count, dirty_now }
    }

    /// Notes why the newest attempt of a pipeline failed before the pipeline had recovered. The first
    /// cause wins.
    pub fn attempt_failed(&mut self, pipeline: PipelineId, cause: &Cause) {
        let Some(episode) = self.open.as_mut() else { return };
        if episode.context(pipeline).is_none() {
            return;
        }
        let attempt = episode.last_attempt(pipeline);
        if let Some(attempt) =
            attempt.filter(|a| a.confirmed.is_some() && a.outcome == AttemptOutcome::Pending)
        {
            attempt.outcome = AttemptOutcome::Failed;
            attempt.cause = Some(bounded_cause(cause));
            self.touch();
        }
    }

    /// Settles the cause of a failed attempt that was pending, also in an episode that has ended. A cause
    /// that is known stays.
    pub fn settle_cause(&mut self, id: AttemptId, cause: &Cause) {
        let settle = |episode: &mut Episode| episode.settle_cause(id, cause);
        let open = self.open.as_mut().filter(|episode| episode.number == id.episode);
        let settled = match open {
            Some(episode) => settle(episode),
            None => self.history.change(id.episode, self.revision.next(), settle),
        };
        if settled {
            self.touch();
        }
    }

    /// A pipeline runs again, or has finished: its context is consumed, so that a later ordinary failure
    /// is not counted. The last one completes the episode.
    pub fn recovered(&mut self, pipeline: PipelineId, now: Timestamp) -> Recovered {
        let Some(mut episode) = self.open.take() else { return Recovered::NotRecovering };
        let Some(context) = episode.context(pipeline) else {
            self.open = Some(episode);
            return Recovered::NotRecovering;
        };
        context.open = false;
        context.prepared = false;
        if let Some(attempt) = episode.last_attempt(pipeline)
            && attempt.confirmed.is_some()
        {
            attempt.outcome = AttemptOutcome::Recovered;
        }
        self.touch();
        if episode.open_pipelines().next().is_some() {
            self.open = Some(episode);
            return Recovered::Pipeline;
        }
        let number = episode.number;
        episode.marks.recovered = Some(now);
        episode.close(EpisodeStatus::Completed, now);
        self.keep_closed(episode);
        Recovered::Episode(number)
    }

    /// Parks the active episode if nothing of it has been deployed. The caller knows when its time is over
    /// (`engine.dirty-task.pending-incident-ttl`; see [`JobLedger::pending_since`]). It is shown as expired and is no longer active. Its
    /// bindings are kept, so a confirmation of one of its attempts, or a new loss, reopens it under the
    /// same id: nothing is lost and nothing doubled.
    pub fn expire(&mut self, now: Timestamp) -> Expired {
        match self.open.as_mut() {
            Some(episode) if episode.pending_since().is_some() => {
                episode.park(now);
                let number = episode.number;
                self.touch();
                Expired::Parked(number)
            }
            _ => Expired::Nothing,
        }
    }

    /// Since when an episode has been active without a deployment, if one is.
    pub fn pending_since(&self) -> Option<Timestamp> {
        self.open.as_ref()?.pending_since()
    }

    /// Closes the open episode because the job can no longer restore, or ended. Counts stay.
    pub fn abort(&mut self, reason: &str, now: Timestamp) -> Aborted {
        let Some(mut episode) = self.open.take() else { return Aborted::Nothing };
        let number = episode.number;
        episode.abort(reason, now);
        self.touch();
        self.keep_closed(episode);
        Aborted::Episode(number)
    }

    /// Says that something was missed for good. The first cause stays.
    pub fn tracking_lost(&mut self, cause: TrackingLostCause, now: Timestamp) {
        if self.tracking == Tracking::Complete {
            self.tracking = Tracking::Lost { since: now, cause };
            self.touch();
        }
    }

    /// Whether all that happened since `durable` are losses and preparations: these can be taken in again
    /// from the journal. A confirmation, a recovery or an end can not.
    pub fn is_replayable_from(&self, durable: &Self) -> bool {
        let closed_nothing =
            self.history.holds_the_same_as(&durable.history) && self.tracking == durable.tracking;
        let before = durable.open.as_ref();
        let counted_nothing = self.open.iter().all(|episode| {
            let before = before.filter(|before| before.number == episode.number);
            episode.contexts.iter().all(|(pipeline, context)| {
                let was = before.and_then(|before| before.contexts.get(pipeline));
                let was = was.copied().unwrap_or_default();
                context.confirmed == was.confirmed && (context.open || !was.open)
            })
        });
        closed_nothing && counted_nothing
    }

    /// Sets the revision past one that the store may have seen, after a refused write.
    pub fn skip_to_revision(&mut self, revision: LedgerRevision) {
        self.revision = self.revision.max(revision);
    }

    fn count(&mut self, attempts: u64, now: Timestamp) {
        if attempts == 0 {
            return;
        }
        self.recovery_attempt_count += attempts;
        // A loss that is replayed to a lagging job may be older than what was counted meanwhile.
        self.last_counted = self.last_counted.max(Some(now));
        if self.recovery_attempt_count >= self.threshold {
            self.dirty_since.get_or_insert(now);
        }
    }

    fn keep_closed(&mut self, episode: Episode) {
        if let Some(incident) = episode.newest_incident() {
            self.last_loss = Some(LastLoss::of(incident));
        }
        self.history.push(episode, self.revision);
    }

    fn touch(&mut self) {
        self.revision = self.revision.next();
    }

    /// Grows with every change.
    pub fn revision(&self) -> LedgerRevision {
        self.revision
    }

    /// Attempts that make the job dirty.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Whether the threshold was ever reached.
    pub fn is_dirty(&self) -> bool {
        self.dirty_since.is_some()
    }

    /// When it was first reached.
    pub fn dirty_since(&self) -> Option<Timestamp> {
        self.dirty_since
    }

    /// Whether the counts are exact.
    pub fn tracking(&self) -> &Tracking {
        &self.tracking
    }

    /// Job-level deployment attempts that member loss caused.
    pub fn recovery_attempt_count(&self) -> u64 {
        self.recovery_attempt_count
    }

    /// Episodes so far.
    pub fn episode_count(&self) -> u64 {
        self.episode_count
    }

    /// Incidents so far.
    pub fn incident_count(&self) -> u64 {
        self.incident_count
    }

    /// The episode that is being recovered.
    pub fn active(&self) -> Option<&Episode> {
        self.open.as_ref().filter(|episode| !episode.is_parked())
    }

    /// The episode that expired before it was ever deployed. Its bindings are kept.
    pub fn parked(&self) -> Option<&Episode> {
        self.open.as_ref().filter(|episode| episode.is_parked())
    }

    /// Closed episodes.
    pub fn history(&self) -> &EpisodeHistory {
        &self.history
    }

    /// When the count last grew.
    pub fn last_counted(&self) -> Option<Timestamp> {
        self.last_counted
    }

    /// The newest incident.
    pub fn last_loss(&self) -> Option<LastLoss> {
        let shown = self.open.as_ref().and_then(Episode::newest_incident);
        shown.map(|incident| LastLoss::of(incident)).or_else(|| self.last_loss.clone())
    }

    /// The newest member event that this ledger has taken in by itself.
    pub fn watermark(&self) -> MemberEventSeq {
        self.watermark
    }
}

#[cfg(test)]
#[path = "job_ledger_tests.rs"]
mod tests;
