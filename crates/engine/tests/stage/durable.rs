//! What the scenarios' engine has made durable: the contract of a store, without one.

use std::collections::BTreeMap;

use steadfast_engine::records::{HistoryRecord, JobRecord, MemberEvent, MemberRecord, Snapshot};
use steadfast_engine::{MemberWrite, Step};
use steadfast_ledger::JobLedger;
use steadfast_model::{JobId, MemberEventSeq, MemberUuid};

#[derive(Default)]
pub struct Durable {
    seq: MemberEventSeq,
    processed: MemberEventSeq,
    journal: Vec<MemberEvent>,
    jobs: BTreeMap<JobId, JobRecord>,
    pub ledgers: BTreeMap<JobId, JobLedger>,
    members: BTreeMap<MemberUuid, MemberRecord>,
    pub history: BTreeMap<JobId, HistoryRecord>,
}

impl Durable {
    pub fn apply(&mut self, step: &Step, refused: &[JobId]) {
        self.seq = step.member_event.as_ref().map_or(self.seq, |event| event.seq);
        self.journal.extend(step.member_event.clone());
        self.processed = step.processed.unwrap_or(self.processed);
        for write in &step.members {
            match write {
                MemberWrite::Put(record) => drop(self.members.insert(record.uuid, record.clone())),
                MemberWrite::Remove(uuid) => drop(self.members.remove(uuid)),
            }
        }
        for job in &step.jobs {
            if let Some(record) = &job.writes.record {
                let record = match job.writes.ledger.as_ref().filter(|_| refused.contains(&job.job))
                {
                    Some(ledger) => record.without_ledger(ledger, self.ledgers.get(&job.job)),
                    None => JobRecord::clone(record),
                };
                self.jobs.insert(job.job, record);
            }
            if let Some(ledger) = job.writes.ledger.as_ref().filter(|_| !refused.contains(&job.job))
            {
                self.ledgers.insert(job.job, JobLedger::clone(ledger));
            }
            if let Some(history) = &job.writes.ended {
                self.history.insert(job.job, HistoryRecord::clone(history));
                self.jobs.remove(&job.job);
                self.ledgers.remove(&job.job);
            }
        }
    }

    pub fn snapshot(&self) -> Snapshot {
        let ledgers = self.ledgers.iter().map(|(id, ledger)| (*id, Ok(ledger.clone())));
        let ended = |history: &HistoryRecord| history.job.finished.unwrap_or_default();
        Snapshot {
            member_event_seq: self.seq,
            processed: self.processed,
            journal: self.journal.clone(),
            jobs: self.jobs.values().cloned().collect(),
            ledgers: ledgers.collect(),
            members: self.members.values().cloned().collect(),
            finished: self.history.iter().map(|(id, history)| (*id, ended(history))).collect(),
        }
    }
}
