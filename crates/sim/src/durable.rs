//! What survives: the records of the last commit, applied all at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use steadfast_engine::records::{HistoryRecord, JobRecord, MemberRecord, Snapshot};
use steadfast_engine::{MemberWrite, Step};
use steadfast_ledger::JobLedger;
use steadfast_model::{JobId, MemberEventSeq, MemberUuid};

/// The records, as the newest commit left them.
#[derive(Clone, Debug, Default)]
pub struct Durable {
    /// Jobs that have not ended.
    pub jobs: BTreeMap<JobId, Arc<JobRecord>>,
    /// Their ledgers.
    pub ledgers: BTreeMap<JobId, Arc<JobLedger>>,
    /// Jobs that have.
    pub history: BTreeMap<JobId, Arc<HistoryRecord>>,
    members: BTreeMap<MemberUuid, MemberRecord>,
    seq: MemberEventSeq,
}

impl Durable {
    /// Applies one step; the ledger's part of a job in `refused` is left out.
    pub fn apply(&mut self, step: &Step, refused: &[JobId]) {
        if let Some(event) = &step.member_event {
            self.seq = self.seq.max(event.seq);
        }
        for write in &step.members {
            match write {
                MemberWrite::Put(record) => {
                    self.members.insert(record.uuid, record.clone());
                }
                MemberWrite::Remove(uuid) => {
                    self.members.remove(uuid);
                }
            }
        }
        for job in &step.jobs {
            if let Some(record) = &job.writes.record {
                self.jobs.insert(job.job, record.clone());
            }
            if let Some(ledger) = job.writes.ledger.as_ref().filter(|_| !refused.contains(&job.job))
            {
                self.ledgers.insert(job.job, ledger.clone());
            }
            if let Some(history) = &job.writes.ended {
                self.history.insert(job.job, history.clone());
                self.jobs.remove(&job.job);
                self.ledgers.remove(&job.job);
            }
        }
        for job in &step.forgotten {
            self.history.remove(job);
        }
    }

    /// What a new term starts from.
    pub fn snapshot(&self) -> Snapshot {
        let finished = self
            .history
            .iter()
            .map(|(id, history)| (*id, history.job.finished.unwrap_or_default()));
        Snapshot {
            member_event_seq: self.seq,
            jobs: self.jobs.values().map(|record| JobRecord::clone(record)).collect(),
            ledgers: self
                .ledgers
                .iter()
                .map(|(id, ledger)| (*id, Ok(JobLedger::clone(ledger))))
                .collect(),
            members: self.members.values().cloned().collect(),
            finished: finished.collect(),
        }
    }
}
