//! What readers see: a snapshot that the loop publishes after each commit. Cheap to clone, so a reader
//! holds nothing that the loop waits for.

use std::cmp::Reverse;
use std::sync::Arc;

use imbl::OrdMap;
use steadfast_engine::records::{DurableLedger, JobRecord};
use steadfast_engine::{Counters, MemberView, SelfSuspicion, Step};
use steadfast_ledger::{Evaluation, JobLedger, Watermarks};
use steadfast_model::{Epoch, JobId, Timestamp};
use steadfast_store::HistorySummary;

use crate::commit::Refused;

/// One job that has not ended.
#[derive(Clone)]
pub(crate) struct JobView {
    pub record: Arc<JobRecord>,
    pub ledger: Option<Arc<JobLedger>>,
}

impl JobView {
    /// What readers see is durable.
    pub fn durable_ledger(&self) -> Option<DurableLedger> {
        Some(self.record.durable_ledger(self.ledger.clone()?))
    }

    pub fn evaluation(&self, watermarks: Watermarks) -> Evaluation {
        self.record.evaluation(self.ledger.as_deref(), watermarks)
    }
}

/// Newest first.
pub(crate) type Finished = OrdMap<(Reverse<Timestamp>, JobId), Arc<HistorySummary>>;

/// Everything that can be read of a term.
#[derive(Clone)]
pub(crate) struct View {
    pub epoch: Epoch,
    /// How many views were published in this term before this one.
    pub number: u64,
    pub since: Timestamp,
    pub watermarks: Watermarks,
    pub jobs: OrdMap<JobId, JobView>,
    pub finished: Finished,
    pub members: Arc<Vec<MemberView>>,
    pub counters: Counters,
    pub self_suspicion: Option<SelfSuspicion>,
}

impl View {
    /// Takes in what a step has made durable; ledgers that were refused are not.
    pub fn apply(&mut self, step: &Step, refused: &Refused) {
        for job in &step.jobs {
            if let Some(ended) = &job.writes.ended {
                self.jobs.remove(&job.job);
                let summary = Arc::new(HistorySummary::of(ended));
                self.finished.insert((Reverse(summary.finished), job.job), summary);
                continue;
            }
            let before = self.jobs.get(&job.job);
            let left_out = refused.get(&job.job);
            let record = left_out.cloned().flatten().or_else(|| job.writes.record.clone());
            let record = record.or_else(|| before.map(|job| job.record.clone()));
            let ledger = job.writes.ledger.clone().filter(|_| left_out.is_none());
            let ledger = ledger.or_else(|| before.and_then(|job| job.ledger.clone()));
            if let Some(record) = record {
                self.jobs.insert(job.job, JobView { record, ledger });
            }
        }
        for forgotten in &step.forgotten {
            let key = self.finished.iter().rev().find(|((_, job), _)| job == forgotten);
            if let Some(key) = key.map(|(key, _)| *key) {
                self.finished.remove(&key);
            }
        }
    }

    /// The summary of an ended job.
    pub fn finished_job(&self, job: JobId) -> Option<&Arc<HistorySummary>> {
        self.finished.values().find(|summary| summary.job == job)
    }
}
