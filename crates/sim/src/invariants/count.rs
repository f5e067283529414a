//! **The count equals an independent oracle's** (the second promise).
//!
//! The oracle is written from the first seed's text: it hears of losses with the pipelines that had
//! containers there, of deployments, of pipelines that run again, and of jobs that can restore no more.
//! Per episode it counts each affected pipeline's deployments; the largest is what the episode adds, from
//! the first loss in it on that nobody had planned. It
//! knows nothing of attempt ids, watermarks or revisions.
//!
//! A view must show its numbers exactly, `DIRTY` from the threshold on and `CLEAN` below it. Only where
//! the store refused a write of this very ledger may the view say that tracking is not complete, and then
//! `UNKNOWN`, or `DIRTY`, and less than the oracle; never more, and never `CLEAN`. Where it says that
//! tracking is complete, again or still, every number is exact. Episodes may be more where tracking was
//! lost: one in which a loss was not recorded ends too soon, and what belonged to it begins another.
//!
//! Seen to fail on `LedgerApart` (the ledger's part is not in its job's transaction) and on
//! `ExpiryIgnored` (a planned leave excuses losses after it has expired).

use std::collections::{BTreeMap, BTreeSet};

use steadfast_ledger::Evaluation;
use steadfast_model::{EvaluationStatus, JobId, MemberUuid, PipelineId};

use super::View;
use crate::story::Fact;

/// Longer than any simulated cluster lives.
const LONG_MS: u64 = 600_000;

/// One episode: a continuous recovery from member loss.
#[derive(Default)]
struct Episode {
    /// Affected pipelines, with their deployments since.
    deployments: BTreeMap<PipelineId, u64>,
    recovering: BTreeSet<PipelineId>,
    generation: u64,
    /// Somebody was lost in it and nobody had planned that.
    counts: bool,
}

/// One job's numbers.
#[derive(Default)]
struct Book {
    threshold: u64,
    count: u64,
    episodes: u64,
    lost: BTreeSet<MemberUuid>,
    open: Option<Episode>,
}

/// The oracle.
#[derive(Default)]
pub(crate) struct CountEqualsOracle {
    books: BTreeMap<JobId, Book>,
    judged: BTreeSet<JobId>,
}

impl CountEqualsOracle {
    pub fn hear(&mut self, job: JobId, fact: &Fact) {
        if let Fact::Submitted(spec) = fact
            && let Some(threshold) = spec.tracking_threshold()
        {
            self.books.insert(job, Book { threshold, ..Book::default() });
        }
        if let Some(book) = self.books.get_mut(&job) {
            book.hear(fact);
        }
    }

    /// # Errors
    /// What a view shows otherwise.
    pub fn judge(&mut self, view: &View<'_>) -> Result<(), String> {
        for (record, ledger) in view.engine.jobs() {
            let Some(book) = self.books.get(&record.id) else { continue };
            let evaluation = record.evaluation(ledger, view.engine.watermarks());
            book.judge(&evaluation, view.refused.contains(&record.id), view.ttl_ms < LONG_MS)
                .map_err(|what| format!("job {}: {what}", record.id))?;
        }
        for (id, history) in &view.durable.history {
            if let (Some(book), Some(evaluation)) = (self.books.get(id), &history.evaluation)
                && self.judged.insert(*id)
            {
                book.judge(evaluation, view.refused.contains(id), false)
                    .map_err(|what| format!("the history of job {id}: {what}"))?;
            }
        }
        Ok(())
    }
}

impl Book {
    fn hear(&mut self, fact: &Fact) {
        match fact {
            Fact::Submitted(_) | Fact::Failed(_) => {}
            Fact::Lost { member, pipelines, planned } => {
                if !self.lost.insert(*member) {
                    return;
                }
                if self.open.is_none() {
                    self.episodes += 1;
                }
                let episode = self.open.get_or_insert_default();
                episode.recovering.extend(pipelines);
                if !planned && !std::mem::replace(&mut episode.counts, true) {
                    self.count += episode.generation;
                }
            }
            Fact::Deployed(pipeline) => self.deployed(*pipeline),
            Fact::Ran(pipeline) => {
                if let Some(episode) = &mut self.open {
                    episode.recovering.remove(pipeline);
                    if episode.recovering.is_empty() {
                        self.open = None;
                    }
                }
            }
            Fact::Over => self.open = None,
        }
    }

    fn deployed(&mut self, pipeline: PipelineId) {
        let Some(episode) = &mut self.open else { return };
        if !episode.recovering.contains(&pipeline) {
            return;
        }
        let deployments = episode.deployments.entry(pipeline).or_default();
        *deployments += 1;
        if *deployments > episode.generation {
            episode.generation = *deployments;
            self.count += u64::from(episode.counts);
        }
    }

    /// `may_park`: an episode that was not deployed in time is no longer active, and not over either.
    fn judge(&self, shown: &Evaluation, refused: bool, may_park: bool) -> Result<(), String> {
        let count = shown.recovery_attempt_count;
        let incidents = self.lost.len() as u64;
        if refused && !shown.tracking_complete {
            let fewer = count <= self.count && shown.incident_count <= incidents;
            let honest =
                matches!(shown.status, EvaluationStatus::Unknown | EvaluationStatus::Dirty);
            if fewer && honest {
                return Ok(());
            }
        }
        let expected = if self.count >= self.threshold {
            EvaluationStatus::Dirty
        } else {
            EvaluationStatus::Clean
        };
        let pending = self.open.as_ref().is_some_and(|episode| episode.generation == 0);
        let parked = may_park && pending && shown.active_episode.is_none();
        let numbers = (count, shown.episode_count, shown.incident_count);
        let right = numbers == (self.count, self.episodes, incidents)
            && (shown.active_episode.is_some() == self.open.is_some() || parked)
            && shown.status == expected
            && shown.tracking_complete;
        if right {
            return Ok(());
        }
        Err(format!(
            "shown are {} attempts, {} episodes, {} incidents, open: {}, {}, complete: {}; \
             the oracle has {} attempts, {} episodes, {incidents} incidents, open: {}, {expected}{}",
            count,
            shown.episode_count,
            shown.incident_count,
            shown.active_episode.is_some(),
            shown.status,
            shown.tracking_complete,
            self.count,
            self.episodes,
            self.open.is_some(),
            if refused { ", and the store refused a write" } else { "" },
        ))
    }
}
