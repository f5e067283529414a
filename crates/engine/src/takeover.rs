//! The beginning of a term: what was loaded is put into memory, then reconciled before anything is
//! scheduled. Nothing that still runs is restarted.
//!
//! A new leader has seen no answers, so for every container it assumes one at the moment it took over:
//! no earlier leader can have given a later one. That is the takeover rest.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_ledger::{Confirmed, JobLedger, Redo, TrackingLostCause};
use steadfast_model::{
    ExecutionId, JobId, JobStatus, PipelineId, PipelineStatus, TermNonce, Timestamp,
};

use crate::containers::{Answer, Container, Containers};
use crate::draft::Draft;
use crate::engine::{Counters, Engine, Job, Ledger};
use crate::membership::Members;
use crate::records::{JobRecord, Snapshot};
use crate::settings::Settings;
use crate::step::IndexChange;

impl Engine {
    /// The engine of a new term. `nonce` is random and used for no other term; `now` is when the term
    /// began. The first step must be [`crate::Input::TookOver`].
    pub fn load(snapshot: Snapshot, settings: Settings, nonce: TermNonce, now: Timestamp) -> Self {
        let Snapshot {
            member_event_seq,
            processed,
            journal,
            jobs,
            mut ledgers,
            members,
            requests,
            finished,
        } = snapshot;
        let members = Members::new(members, &settings, now);
        let mut engine = Self {
            settings,
            nonce,
            began: now,
            jobs_made: 0,
            seq: member_event_seq,
            processed,
            journal: journal.into(),
            jobs: BTreeMap::new(),
            members,
            containers: Containers::default(),
            requests: BTreeMap::new(),
            ready: BTreeSet::new(),
            place_again: true,
            alarms: BTreeMap::new(),
            ledger_alarms: BTreeMap::new(),
            finished: finished.into_iter().map(|(job, at)| (at, job)).collect(),
            counters: Counters::default(),
        };
        engine.load_requests(requests);
        for mut record in jobs {
            let ledger = match (record.spec.tracking_threshold(), ledgers.remove(&record.id)) {
                (None, _) => Ledger::Off,
                (Some(_), Some(Ok(ledger))) => Ledger::Kept(Box::new(ledger)),
                (Some(threshold), Some(Err(_)) | None) => {
                    Ledger::Kept(Box::new(engine.in_place_of_missing(&mut record, threshold)))
                }
            };
            engine.adopt(&record, now);
            let stored = ledger.kept().map(|ledger| ledger.history().revision());
            let stored_episodes = stored.unwrap_or_default();
            if !ledger.kept().is_some_and(|ledger| record.redo.leads_to(ledger)) {
                // The ledger is as its own record says, or another one than the job expects.
                record.redo = Redo::default();
            }
            let is_stored = engine.settings.redo && record.redo.is_empty();
            let stored_ledger = ledger.kept().filter(|_| is_stored).map(JobLedger::revision);
            engine.jobs.insert(
                record.id,
                Job { record, ledger, stored_ledger, stored_episodes, refusals: 0 },
            );
        }
        engine
    }

    /// The ledger that goes on for one that is missing or cannot be read.
    fn in_place_of_missing(&self, record: &mut JobRecord, threshold: u64) -> JobLedger {
        // These attempts are of episodes of which it knows nothing.
        for pipeline in &mut record.pipelines {
            pipeline.recovery = None;
        }
        let ledger = JobLedger::new(threshold, self.processed, self.settings.event_history_size);
        let expected = record.ledger_revision.unwrap_or_default();
        ledger.in_place_of_missing(expected, record.dirty_since, self.began)
    }

    fn adopt(&mut self, job: &JobRecord, now: Timestamp) {
        for pipeline in &job.pipelines {
            for group in &pipeline.task_groups {
                let present = group.container.iter().filter(|container| !container.gone);
                let present = present.map(|container| (container, Answer::Live));
                let old = group.leftovers.iter().map(|old| (old, Answer::Told(Some(now))));
                for (container, answer) in present.chain(old) {
                    let at = Container {
                        job: job.id,
                        pipeline: pipeline.id,
                        group: group.id,
                        member: container.member,
                        answer,
                    };
                    self.containers.insert(container.id, at);
                    if let Some(member) = self.members.get_mut(container.member) {
                        member.containers.insert(container.id);
                    }
                }
            }
        }
    }

    /// Reconciles ledgers with pipelines, fills the validity index, and moves on what had been waiting.
    pub(crate) fn took_over(&mut self, d: &mut Draft) {
        let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in jobs.iter().copied() {
            self.shorten_pauses(id, d);
            self.reconcile_ledger(id, d);
            self.watch_expiry(id, d.now);
        }
        self.finish_walks(self.processed, d);
        for id in jobs.iter().copied() {
            let Some(job) = self.jobs.get(&id) else { continue };
            let pipelines: Vec<PipelineId> = job.record.pipelines.iter().map(|p| p.id).collect();
            for pipeline in pipelines {
                self.advance(id, pipeline, d);
            }
        }
        // Last, so that no entry is put for an old copy that stands in nobody's way any more.
        for id in jobs {
            self.fill_index(id, d);
        }
    }

    /// The clocks of two terms may differ: a pause is never longer than it was meant to be. Written, so that
    /// it does not begin anew with every change of coordinator.
    fn shorten_pauses(&mut self, id: JobId, d: &mut Draft) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let latest = d.now + job.record.spec.retry.interval_seconds * 1_000;
        for pipeline in &mut job.record.pipelines {
            if pipeline.not_before.is_some_and(|at| at > latest) {
                pipeline.not_before = Some(latest);
                d.job(id);
            }
        }
    }

    fn fill_index(&self, id: JobId, d: &mut Draft) {
        let Some(job) = self.jobs.get(&id) else { return };
        let mut live: Vec<ExecutionId> = Vec::new();
        for group in job.record.pipelines.iter().flat_map(|pipeline| &pipeline.task_groups) {
            for container in group.container.iter().chain(&group.leftovers).filter(|c| !c.gone) {
                let mut entry = container.entry(&job.record, group.id);
                entry.assumed_answer = Some(d.now);
                d.step.index.push(match container.revoked {
                    Some(reason) => IndexChange::Invalid(container.id, reason, entry),
                    None => {
                        live.push(container.id);
                        IndexChange::Live(container.id, entry)
                    }
                });
            }
        }
        for execution in live {
            let member = self.containers.get(execution).and_then(|at| self.members.get(at.member));
            let ask_in_ms = member.map_or(0, |member| self.members.decided_in_ms(member));
            d.step.index.push(IndexChange::Hold(execution, ask_in_ms));
        }
    }

    /// Compares the stored episode with the pipelines, as the first seed lists under "active-master
    /// recovery". Job and ledger are one transaction, so after a crash they agree; a restored backup or
    /// a refused ledger write is what this is for.
    fn reconcile_ledger(&mut self, id: JobId, d: &mut Draft) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let expected = job.record.ledger_revision;
        let owes = job.record.owed_since.is_some();
        let is_restored = std::mem::take(&mut job.record.restored);
        if is_restored {
            d.job(id);
        }
        let Some(ledger) = job.ledger.kept_mut() else { return };
        let before = ledger.revision();
        if let Some(expected) = expected.filter(|expected| *expected != before && owes) {
            // Behind, and known to be: the journal holds what it lacks.
            ledger.skip_to_revision(expected.next());
        } else if Some(before) != expected {
            ledger.tracking_lost(TrackingLostCause::Unreadable, d.now);
        }
        if is_restored {
            ledger.tracking_lost(TrackingLostCause::Restored, d.now);
        }
        self.catch_up(id, d);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(ledger) = job.ledger.kept_mut() else { return };
        if matches!(job.record.status, JobStatus::Failing | JobStatus::Canceling) {
            let _ = ledger.abort("the job can no longer restore", d.now);
        }
        if !explain(ledger, &job.record, d.now) {
            ledger.tracking_lost(TrackingLostCause::Unexplained, d.now);
        }
        if let Some(expected) = expected.filter(|_| Some(ledger.revision()) != expected) {
            ledger.skip_to_revision(expected.next());
        }
        if ledger.revision() != before {
            d.job(id);
        }
    }
}

/// Brings the episode up to its pipelines where the seed says how; `false` where they contradict.
fn explain(ledger: &mut JobLedger, job: &JobRecord, now: Timestamp) -> bool {
    let mut explained = true;
    for pipeline in &job.pipelines {
        let open = ledger
            .active()
            .or(ledger.parked())
            .is_some_and(|episode| episode.open_pipelines().any(|open| open == pipeline.id));
        let deployed =
            matches!(pipeline.status, PipelineStatus::Deploying | PipelineStatus::Running);
        match pipeline.recovery {
            Some(attempt) if deployed => {
                // Confirmed with the deployment, or confirmed now: the same id counts once.
                let confirmed = ledger.confirm(attempt, pipeline.fenced.unwrap_or(now), now);
                explained &= confirmed != Confirmed::NotPrepared;
            }
            Some(_) => explained &= open,
            // The ledger missed that it had recovered. Left open, its next ordinary failure would count.
            None if open => {
                let _ = ledger.recovered(pipeline.id, now);
                explained = false;
            }
            None => {}
        }
    }
    explained
}
