//! What a ledger was told since its record was written, as long as that is short.
//!
//! A member's loss changes the ledger of every job that it affects, and the job's record with it. What is
//! known of the loss stands in the cluster's journal already; so the job's record says whom it affected, and
//! the ledger's own record waits for the next change of another kind. Whoever reads the records tells the
//! ledger the same again, and comes to the same ledger: losses and preparations depend on nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steadfast_model::{AttemptId, LedgerRevision, MemberEventSeq, PipelineId, TaskGroupId};

use crate::episode::{MAX_PIPELINES, MAX_TASK_GROUPS};
use crate::{JobLedger, Loss, MemberLost, SharedLoss};

/// What is to be told again to the ledger that was stored, in order. Empty where its record is up to date.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Redo {
    /// The revision of the ledger's record. Each entry brings the ledger to the next one.
    from: LedgerRevision,
    told: Vec<Told>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Told {
    /// [`JobLedger::member_lost`]; the loss itself is in the journal.
    #[serde(rename_all = "camelCase")]
    Lost { seq: MemberEventSeq, pipelines: Vec<PipelineId>, task_groups: Vec<TaskGroupId> },
    /// [`JobLedger::prepare`].
    Prepared(PipelineId),
}

/// Losses of the journal, by their number.
pub type Journal = BTreeMap<MemberEventSeq, SharedLoss>;

impl Redo {
    /// Entries that a job's record holds at most; then the ledger is written.
    pub const MAX_TOLD: usize = 8;

    /// Whether the ledger's record is up to date.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Whether telling all of it again leads from the stored ledger to this one.
    pub fn leads_to(&self, ledger: &JobLedger) -> bool {
        !self.is_empty() && self.reached() == ledger.revision().get()
    }

    /// The oldest loss that the journal must go on holding for it.
    pub fn first_loss(&self) -> Option<MemberEventSeq> {
        self.told.iter().find_map(|told| match told {
            Told::Lost { seq, .. } => Some(*seq),
            Told::Prepared(_) => None,
        })
    }

    /// [`JobLedger::member_lost`], and kept if it can be. `stored` is the revision of the ledger's record, if
    /// that is known.
    pub fn member_lost(
        &mut self,
        ledger: &mut JobLedger,
        stored: Option<LedgerRevision>,
        loss: &SharedLoss,
        affected: &[PipelineId],
        task_groups: &[TaskGroupId],
    ) -> MemberLost {
        let lost = ledger.member_lost(loss, affected, task_groups);
        if lost != MemberLost::AlreadyProcessed {
            let small = affected.len() <= MAX_PIPELINES && task_groups.len() <= MAX_TASK_GROUPS;
            let told = small.then(|| Told::Lost {
                seq: loss.facts.seq,
                pipelines: affected.to_vec(),
                task_groups: task_groups.to_vec(),
            });
            self.keep(stored, told);
        }
        lost
    }

    /// [`JobLedger::prepare`], and kept if it can be.
    pub fn prepare(
        &mut self,
        ledger: &mut JobLedger,
        stored: Option<LedgerRevision>,
        pipeline: PipelineId,
    ) -> Option<AttemptId> {
        let before = ledger.revision();
        let prepared = ledger.prepare(pipeline);
        if ledger.revision() != before {
            self.keep(stored, Some(Told::Prepared(pipeline)));
        }
        prepared
    }

    /// What is not kept makes it lead nowhere: the ledger's revision has gone on, and no later entry makes up
    /// for that.
    fn keep(&mut self, stored: Option<LedgerRevision>, told: Option<Told>) {
        let from = if self.is_empty() { stored } else { Some(self.from) };
        if let (Some(told), Some(from)) = (told, from)
            && self.told.len() < Self::MAX_TOLD
        {
            self.from = from;
            self.told.push(told);
        }
    }

    /// The ledger that `stored` has become by all that it was told. `None` where there is nothing to tell,
    /// where this was told to another ledger, or where the journal no longer holds a loss.
    pub fn apply(&self, stored: &JobLedger, journal: &Journal) -> Option<JobLedger> {
        if self.is_empty() || stored.revision() != self.from {
            return None;
        }
        let mut ledger = stored.clone();
        for told in &self.told {
            match told {
                Told::Lost { seq, pipelines, task_groups } => {
                    let _ = ledger.member_lost(journal.get(seq)?, pipelines, task_groups);
                }
                Told::Prepared(pipeline) => {
                    let _ = ledger.prepare(*pipeline);
                }
            }
        }
        self.leads_to(&ledger).then_some(ledger)
    }

    fn reached(&self) -> u64 {
        self.from.get() + self.told.len() as u64
    }
}

/// The journal as [`Redo::apply`] wants it.
pub fn journal(losses: &[Loss]) -> Journal {
    losses.iter().map(|loss| (loss.seq, SharedLoss::from(loss))).collect()
}

#[cfg(test)]
mod tests {
    use steadfast_model::{LeaveClassification, LossCause, Timestamp};

    use super::*;

    fn loss(seq: u64) -> Loss {
        Loss {
            seq: MemberEventSeq::new(seq),
            member: format!("00000000-0000-4000-8000-{seq:012x}").parse().unwrap(),
            address: "10.0.0.1:5801".to_owned(),
            classification: LeaveClassification::Unclassified,
            cause: LossCause::Silence,
            evidence: "silent".to_owned(),
            last_seen: Timestamp::from_millis(seq * 100 - 50),
            declared: Timestamp::from_millis(seq * 100),
        }
    }

    /// A ledger with its record, and what it was told since.
    struct Told {
        stored: JobLedger,
        ledger: JobLedger,
        redo: Redo,
    }

    impl Told {
        fn nothing() -> Self {
            let stored = JobLedger::new(2, MemberEventSeq::new(0), 10);
            Self { ledger: stored.clone(), stored, redo: Redo::default() }
        }

        fn lose(&mut self, seq: u64, pipelines: u32) {
            let pipelines: Vec<PipelineId> = (1..=pipelines).map(PipelineId::new).collect();
            let (stored, loss) = (Some(self.stored.revision()), SharedLoss::from(&loss(seq)));
            let lost = self.redo.member_lost(&mut self.ledger, stored, &loss, &pipelines, &[]);
            assert_ne!(lost, MemberLost::AlreadyProcessed);
        }

        fn prepare(&mut self) {
            let (stored, pipeline) = (Some(self.stored.revision()), PipelineId::new(1));
            assert!(self.redo.prepare(&mut self.ledger, stored, pipeline).is_some());
        }
    }

    #[test]
    fn the_stored_ledger_becomes_the_same_by_being_told_the_same() {
        let mut told = Told::nothing();
        told.lose(1, 2);
        told.prepare();
        told.prepare();
        told.lose(2, 1);
        assert_eq!(told.redo.first_loss(), Some(MemberEventSeq::new(1)));
        let both = journal(&[loss(1), loss(2)]);
        assert_eq!(told.redo.apply(&told.stored, &both).as_ref(), Some(&told.ledger));
        assert_eq!(told.redo.apply(&told.stored, &journal(&[loss(2)])), None, "a loss is gone");
        assert_eq!(told.redo.apply(&told.ledger, &both), None, "another ledger");
    }

    #[test]
    fn what_changes_otherwise_or_too_much_leads_nowhere() {
        let mut told = Told::nothing();
        told.lose(1, 1);
        assert!(told.redo.leads_to(&told.ledger));
        let mut aborted = told.ledger.clone();
        let _ = aborted.abort("the job ended", Timestamp::from_millis(200));
        assert!(!told.redo.leads_to(&aborted));
        for seq in 2..=Redo::MAX_TOLD as u64 {
            told.lose(seq, 1);
        }
        assert!(told.redo.leads_to(&told.ledger), "as much as a record holds");
        for seq in 9..12 {
            told.lose(seq, 1);
            assert!(!told.redo.leads_to(&told.ledger));
        }
        let mut wide = Told::nothing();
        wide.lose(1, MAX_PIPELINES as u32 + 1);
        assert!(!wide.redo.leads_to(&wide.ledger));
        wide.lose(2, 1);
        assert!(!wide.redo.leads_to(&wide.ledger), "no later entry makes up for it");
    }

    #[test]
    fn a_ledger_whose_record_is_not_known_is_written() {
        let mut told = Told::nothing();
        let (pipelines, loss) = ([PipelineId::new(1)], SharedLoss::from(&loss(1)));
        let _ = told.redo.member_lost(&mut told.ledger, None, &loss, &pipelines, &[]);
        assert!(told.redo.is_empty());
    }
}
