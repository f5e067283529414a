//! **History equals the last ledger**: what is kept of an ended job is the ledger that it had, closed, and
//! an evaluation that says what this ledger says; and no later event, whichever coordinator saw it,
//! changes a word of it.
//!
//! A job's end adds no attempt: it only closes the episode that was open. Where a member's loss is what
//! ends the job, in the same step (also one that an earlier coordinator could not take to this job), that
//! loss is one incident more and belongs to the last episode; and if it is the first one there that was
//! not planned, what had been deployed before counts from now on. Where the
//! store refused a write of this ledger, the two may differ, and the evaluation must still be that of
//! the ledger that was kept.
//!
//! Seen to fail on `HistoryOfOldLedger` (a job ends with its ledger of some commits ago).

use std::collections::BTreeMap;
use std::sync::Arc;

use steadfast_engine::Step;
use steadfast_engine::records::HistoryRecord;
use steadfast_ledger::{Episode, JobLedger};
use steadfast_model::{EpisodeNumber, JobId, LeaveClassification, MemberUuid};

use super::View;

/// The last ledgers, and what was kept of them.
#[derive(Default)]
pub(crate) struct HistoryIsLastLedger {
    last: BTreeMap<JobId, Arc<JobLedger>>,
    kept: BTreeMap<JobId, Arc<HistoryRecord>>,
}

impl HistoryIsLastLedger {
    /// A step is durable.
    pub fn committed(&mut self, step: &Step) {
        for job in &step.jobs {
            if let Some(ledger) = &job.writes.ledger {
                self.last.insert(job.job, Arc::clone(ledger));
            }
        }
    }

    /// # Errors
    /// What differs.
    pub fn judge(&mut self, view: &View<'_>) -> Result<(), String> {
        for (id, history) in &view.durable.history {
            match self.kept.get(id) {
                Some(kept) if Arc::ptr_eq(kept, history) || kept == history => continue,
                Some(_) => return Err(format!("the history of job {id} has changed")),
                None => {}
            }
            self.judge_one(history, view).map_err(|what| format!("job {id}: {what}"))?;
            self.kept.insert(*id, Arc::clone(history));
        }
        Ok(())
    }

    fn judge_one(&mut self, history: &HistoryRecord, view: &View<'_>) -> Result<(), String> {
        let record = &history.job;
        let evaluation = record.evaluation(history.ledger.as_ref(), view.engine.watermarks());
        if history.evaluation.as_ref() != Some(&evaluation) {
            let frozen = &history.evaluation;
            return Err(format!("its ledger says {evaluation:?}, its frozen label {frozen:?}"));
        }
        let last = self.last.remove(&record.id);
        if view.refused.contains(&record.id) {
            return Ok(());
        }
        match (last, &history.ledger) {
            (None, None) => Ok(()),
            (Some(last), Some(kept)) if is_closing_of(kept, &last) => Ok(()),
            (last, kept) => Err(format!("its last ledger was {last:?}, what is kept is {kept:?}")),
        }
    }
}

/// An episode's number, its generation, and the members whose loss it is about.
type Told = (EpisodeNumber, u64, Vec<MemberUuid>);

/// Whether `kept` is `last` with its open episode closed, after the losses that `last` had not heard of;
/// closing it may have pushed an older one out.
fn is_closing_of(kept: &JobLedger, last: &JobLedger) -> bool {
    let (mut of_last, of_kept) = (episodes(last), episodes(kept));
    let closed = kept.history().iter().last();
    let incidents = closed.into_iter().flat_map(|episode| &episode.incidents);
    let unheard = incidents.filter(|incident| incident.seq > last.watermark());
    let unheard: Vec<MemberUuid> = unheard.map(|incident| incident.member).collect();
    let Some(more) = kept.incident_count().checked_sub(last.incident_count()) else { return false };
    // A history of one keeps the first alone, and then nobody sees what the last one was about.
    let is_seen = unheard.len() as u64 == more || of_kept.len() == 1;
    if !is_seen || (more == 0 && kept.last_loss() != last.last_loss()) {
        return false;
    }
    if more > 0 && last.active().or(last.parked()).is_none() {
        of_last.push((last_number(last).next(), 0, Vec::new()));
    }
    // It is there: it was open, or has just been put there.
    if let Some((_, _, members)) = of_last.last_mut() {
        members.extend(unheard);
    }
    let all = |ledger: &JobLedger, listed: usize| ledger.history().dropped() + listed as u64;
    counted_as(kept, last, counted_at_the_end(kept, last))
        && kept.active().or(kept.parked()).is_none()
        && of_kept.iter().all(|episode| of_last.contains(episode))
        && of_kept.first() == of_last.first()
        // A history of one keeps the first alone.
        && (of_kept.len() == 1 || of_kept.last() == of_last.last())
        && all(kept, of_kept.len()) == all(last, of_last.len())
        && kept.episode_count() == all(kept, of_kept.len())
}

/// Attempts of an episode that was planned until the loss that ended the job joined it.
fn counted_at_the_end(kept: &JobLedger, last: &JobLedger) -> u64 {
    let open = last.active().or(last.parked()).filter(|episode| !episode.counts());
    let Some(open) = open else { return 0 };
    let counts = match kept.history().iter().find(|episode| episode.number == open.number) {
        Some(closed) => closed.counts(),
        // A history of one does not keep it: what the newest loss was says it.
        None => {
            let unplanned = LeaveClassification::Unclassified;
            kept.incident_count() > last.incident_count()
                && kept.last_loss().is_some_and(|loss| loss.classification == unplanned)
        }
    };
    if counts { open.generation } else { 0 }
}

/// What a ledger says of the whole job is left as it was, but for attempts that count late.
fn counted_as(kept: &JobLedger, last: &JobLedger, late: u64) -> bool {
    let count = kept.recovery_attempt_count();
    let same =
        kept.dirty_since() == last.dirty_since() && kept.last_counted() == last.last_counted();
    let told_late = kept.last_counted() > last.last_counted()
        && kept.dirty_since().is_some() == (count >= kept.threshold())
        && last.dirty_since().is_none_or(|since| kept.dirty_since() == Some(since));
    count == last.recovery_attempt_count() + late
        && (kept.threshold(), kept.tracking()) == (last.threshold(), last.tracking())
        && if late == 0 { same } else { told_late }
}

fn last_number(ledger: &JobLedger) -> EpisodeNumber {
    EpisodeNumber::new(ledger.episode_count())
}

fn episodes(ledger: &JobLedger) -> Vec<Told> {
    let open = ledger.active().or(ledger.parked());
    let told = |episode: &Episode| {
        let members = episode.incidents.iter().map(|incident| incident.member);
        (episode.number, episode.generation, members.collect())
    };
    ledger.history().iter().chain(open).map(told).collect()
}
