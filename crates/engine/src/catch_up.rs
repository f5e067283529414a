//! Jobs that owe their ledger something: what the store refused is taken in again from the journal.
//!
//! A refused loss or preparation makes a job lag. It is cured by replaying the journal, in order, before
//! anything else is told to the ledger; a deployment tells it in the very commit that it happens in, so
//! that what is refused then, or a refused recovery or end, is lost for good and said to be.

use steadfast_ledger::{JobLedger, TrackingLostCause};
use steadfast_model::{JobId, LedgerRevision, MemberEventSeq, PipelineId};

use crate::draft::Draft;
use crate::engine::Engine;
use crate::records::{DurableLedger, MemberEvent};

/// Events that the journal keeps for jobs that lag.
pub(crate) const JOURNAL_EVENTS: usize = 1_000;
/// How long it takes until a refused ledger is tried again by itself; twice as long after each further refusal,
/// since each costs the whole loop the tries of a commit.
const TRY_AGAIN_MS: u64 = 1_000;
/// The longest that grows.
const MOST_DOUBLINGS: u32 = 6;

impl Engine {
    /// The store refused the ledger's part of a commit. The job goes on without; its ledger goes back to
    /// what is durable, and owes the rest, or has lost it.
    pub(crate) fn ledger_refused(
        &mut self,
        id: JobId,
        durable: Option<&DurableLedger>,
        d: &mut Draft,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(ledger) = job.ledger.kept_mut() else { return };
        let replayable = durable.filter(|durable| ledger.is_replayable_from(&durable.ledger));
        let refused = ledger.revision();
        job.record.redo = durable.map(|durable| durable.redo.clone()).unwrap_or_default();
        job.stored_ledger = None;
        // Closed episodes may have been part of it.
        job.stored_episodes = LedgerRevision::default();
        if let Some(durable) = replayable {
            *ledger = JobLedger::clone(&durable.ledger);
            job.record.owed_since = Some(ledger.watermark().next());
            job.record.ledger_revision = Some(refused.next());
            for pipeline in job.record.pipelines.iter_mut().filter(|pipeline| pipeline.waits()) {
                pipeline.recovery = None;
            }
        } else {
            job.record.owed_since = None;
            ledger.tracking_lost(TrackingLostCause::WriteRefused, d.now);
        }
        // What is written next must not be taken for what was refused. It is not written at once: a store
        // that goes on refusing would be asked all the time.
        ledger.skip_to_revision(refused.next());
        let doublings = job.refusals.min(MOST_DOUBLINGS);
        job.refusals += 1;
        self.ledger_alarm(d.now + (TRY_AGAIN_MS << doublings), id);
    }

    /// A ledger that has lost something is durable as soon as the store takes it again: also that of a job to
    /// which nothing more happens.
    pub(crate) fn write_what_was_refused(&mut self, id: JobId, d: &mut Draft) {
        let Some(job) = self.jobs.get(&id) else { return };
        if job.record.owed_since.is_none() && !job.record.expects(job.ledger.kept()) {
            d.job(id);
        }
    }

    /// Takes in what the job's ledger lacks, in order, before anything else is told to it.
    pub(crate) fn catch_up(&mut self, id: JobId, d: &mut Draft) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.record.owed_since.is_none() {
            return;
        }
        let Some(ledger) = job.ledger.kept_mut() else { return };
        let record = &mut job.record;
        let missed = ledger.watermark().next();
        let kept_from = self.journal.front().map_or(self.seq.next(), |event| event.seq);
        if missed < kept_from && missed <= self.seq {
            ledger.tracking_lost(TrackingLostCause::JournalGone, d.now);
        }
        for event in self.journal.iter().filter(|event| event.seq >= missed) {
            let affected: Vec<PipelineId> = record
                .pipelines
                .iter()
                .filter(|pipeline| pipeline.losses.contains(&event.seq))
                .map(|pipeline| pipeline.id)
                .collect();
            let _ = ledger.member_lost(event, &affected, &[]);
        }
        for pipeline in record.pipelines.iter_mut().filter(|pipeline| pipeline.waits()) {
            pipeline.recovery = ledger.prepare(pipeline.id);
        }
        record.owed_since = None;
        d.job(id);
    }

    /// Keeps an event for jobs that may come to lag.
    pub(crate) fn journal_event(&mut self, event: MemberEvent) {
        self.journal.push_back(event);
        while self.journal.len() > JOURNAL_EVENTS {
            self.journal.pop_front();
        }
    }

    /// Before the journal goes on without its oldest events, ledgers whose records count on them are written.
    /// Seldom enough to cost nothing, and soon enough that none is missed.
    pub(crate) fn write_before_forgotten(&mut self, d: &mut Draft) {
        let (every, kept) = (JOURNAL_EVENTS as u64 / 4, JOURNAL_EVENTS as u64 / 2);
        if !self.seq.get().is_multiple_of(every) {
            return;
        }
        for (id, job) in &mut self.jobs {
            let first = job.record.redo.first_loss();
            let is_old = first.is_some_and(|first| first.get() + kept <= self.seq.get());
            if let Some(ledger) = job.ledger.kept_mut().filter(|_| is_old) {
                ledger.skip_to_revision(ledger.revision().next());
                d.job(*id);
            }
        }
    }

    /// Events that not every job has been processed up to.
    pub(crate) fn unprocessed(&self, processed: MemberEventSeq) -> Vec<MemberEvent> {
        self.journal.iter().filter(|event| event.seq > processed).cloned().collect()
    }
}
