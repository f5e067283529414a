//! What the scenarios' engine has made durable: the contract of a store, without one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use steadfast_engine::records::{
    DurableLedger, HistoryRecord, JobRecord, MemberEvent, MemberRecord, OperatorRequest, Snapshot,
};
use steadfast_engine::{MemberWrite, RequestWrite, Step};
use steadfast_ledger::JobLedger;
use steadfast_model::{JobId, MemberEventSeq, MemberUuid, RequestId};

/// How much of a commit is durable when the coordinator dies on it. A large one is several transactions:
/// the journal entry first, then the jobs, and last how far every job has been processed.
#[derive(Clone, Copy)]
pub enum Part {
    Nothing,
    Journal { jobs: usize },
    All,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing of its commit is durable"),
            Self::Journal { jobs } => write!(f, "the loss is in the journal and {jobs} jobs know"),
            Self::All => f.write_str("its commit is durable and nothing of it is said"),
        }
    }
}

#[derive(Default)]
pub struct Durable {
    seq: MemberEventSeq,
    processed: MemberEventSeq,
    journal: Vec<MemberEvent>,
    jobs: BTreeMap<JobId, JobRecord>,
    /// Their records.
    pub ledgers: BTreeMap<JobId, JobLedger>,
    members: BTreeMap<MemberUuid, MemberRecord>,
    requests: BTreeMap<RequestId, OperatorRequest>,
    pub history: BTreeMap<JobId, HistoryRecord>,
}

impl Durable {
    /// What becomes durable of a commit on which the coordinator dies.
    pub fn apply_part(&mut self, step: &Step, part: Part) {
        match part {
            Part::Nothing => {}
            Part::All => self.apply(step, &[]),
            Part::Journal { jobs } => {
                let mut part = step.clone();
                part.processed = None;
                part.jobs.truncate(jobs);
                self.apply(&part, &[]);
            }
        }
    }

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
        for write in &step.requests {
            match write {
                RequestWrite::Put(request) => {
                    drop(self.requests.insert(request.id.clone(), request.clone()));
                }
                RequestWrite::Forget(id) => drop(self.requests.remove(id)),
            }
        }
        for job in &step.jobs {
            if let Some(record) = &job.writes.record {
                let newest = job.writes.ledger_to_put();
                let record = match newest.filter(|_| refused.contains(&job.job)) {
                    Some(ledger) => {
                        record.without_ledger(ledger, self.durable_ledger(job.job).as_ref())
                    }
                    None => JobRecord::clone(record),
                };
                self.jobs.insert(job.job, record);
            }
            let put = job.writes.ledger_to_put().filter(|_| !refused.contains(&job.job));
            if let Some(ledger) = put {
                self.ledgers.insert(job.job, JobLedger::clone(ledger));
            }
            if let Some(history) = &job.writes.ended {
                self.history.insert(job.job, HistoryRecord::clone(history));
                self.jobs.remove(&job.job);
                self.ledgers.remove(&job.job);
            }
        }
    }

    /// The journal goes on to this event. It holds a thousand.
    pub fn journal_until(&mut self, event: u64) {
        self.seq = MemberEventSeq::new(event);
        self.processed = self.seq;
        self.journal.retain(|kept| kept.seq.get() + 1_000 > event);
    }

    /// As a copy of a backup leaves it.
    pub fn was_a_backup(&mut self) {
        self.jobs.values_mut().for_each(|job| job.restored = true);
    }

    pub fn durable_ledger(&self, job: JobId) -> Option<DurableLedger> {
        Some(self.jobs.get(&job)?.durable_ledger(Arc::new(self.ledger(job)?)))
    }

    /// A ledger with what stands in its job's record alone.
    fn ledger(&self, job: JobId) -> Option<JobLedger> {
        let (stored, record) = (self.ledgers.get(&job)?, self.jobs.get(&job)?);
        let told = record.redo.apply(stored, &steadfast_ledger::journal(&self.journal));
        Some(told.unwrap_or_else(|| stored.clone()))
    }

    pub fn snapshot(&self) -> Snapshot {
        let ledgers = self.ledgers.keys().filter_map(|id| Some((*id, Ok(self.ledger(*id)?))));
        let ended = |history: &HistoryRecord| history.job.finished.unwrap_or_default();
        Snapshot {
            member_event_seq: self.seq,
            processed: self.processed,
            journal: self.journal.clone(),
            jobs: self.jobs.values().cloned().collect(),
            ledgers: ledgers.collect(),
            members: self.members.values().cloned().collect(),
            requests: self.requests.values().cloned().collect(),
            finished: self.history.iter().map(|(id, history)| (*id, ended(history))).collect(),
        }
    }
}

impl fmt::Display for Durable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (jobs, ledgers, ended) = (self.jobs.len(), self.ledgers.len(), self.history.len());
        let events = self.journal.len();
        write!(
            f,
            "stored: {jobs} jobs, {ledgers} ledgers, {ended} ended jobs, {events} member events"
        )?;
        let is_another = |job: &&JobRecord| !job.expects(self.ledger(job.id).as_ref());
        match self.jobs.values().filter(is_another).count() {
            0 => Ok(()),
            others => write!(f, "; {others} ledgers are not what their jobs expect"),
        }
    }
}
