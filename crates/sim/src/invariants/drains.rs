//! **A drain moves before its member goes**: it is journalled while the member is present; what the member
//! holds is superseded, so that its agent stops it with grace; nothing is deployed there any more; and
//! when the member goes at last, no second event follows. One event for each member holds for every other
//! loss too.
//!
//! Seen to fail on `DrainForgotten` (a new term does not know which members are drained).

use std::collections::BTreeSet;

use steadfast_engine::{IndexChange, MemberWrite, Step};
use steadfast_model::{ExecutionId, InvalidReason, LossCause, MemberUuid};

/// What was journalled, and what was deployed.
#[derive(Default)]
pub(crate) struct Drains {
    lost: BTreeSet<MemberUuid>,
    drained: BTreeSet<MemberUuid>,
    deployed: BTreeSet<ExecutionId>,
}

impl Drains {
    /// # Errors
    /// What a committed step does that it must not.
    pub fn hear(&mut self, step: &Step) -> Result<(), String> {
        if let Some(event) = &step.member_event {
            let member = event.member;
            if !self.lost.insert(member) {
                return Err(format!("event {} is the second one of member {member}", event.seq));
            }
            if event.cause == LossCause::ToldByOperator {
                self.drained.insert(member);
                is_present(step, member)?;
                is_told_with_grace(step)?;
            }
        }
        let records = step.jobs.iter().filter_map(|job| job.writes.record.as_deref());
        let groups = records.flat_map(|job| &job.pipelines).flat_map(|p| &p.task_groups);
        for container in groups.filter_map(|group| group.container.as_ref()) {
            if self.deployed.insert(container.id) && self.drained.contains(&container.member) {
                let (id, member) = (container.id, container.member);
                return Err(format!("{id} is deployed on member {member}, which is drained"));
            }
        }
        Ok(())
    }
}

fn is_present(step: &Step, member: MemberUuid) -> Result<(), String> {
    let drained = step.members.iter().any(|write| {
        matches!(write, MemberWrite::Put(record)
            if record.uuid == member && record.draining && record.lost.is_none())
    });
    if drained { Ok(()) } else { Err(format!("member {member} is drained and not present")) }
}

fn is_told_with_grace(step: &Step) -> Result<(), String> {
    let changes = step.index.iter().chain(step.jobs.iter().flat_map(|job| &job.index));
    for change in changes {
        if let IndexChange::Invalid(id, InvalidReason::MemberLost, _) = change {
            return Err(format!("{id} is invalid by a drain as if its member were lost"));
        }
    }
    Ok(())
}
