//! **What was acknowledged is kept** (the third promise): a job whose submission was acknowledged is
//! running or in the history, in one of the two; and a job whose cancelling was acknowledged ends
//! `CANCELED`, whatever happens on the way; a leave whose registration was acknowledged stays registered as
//! it was; a container whose wrapper's good-bye was acknowledged is proven gone; and no checkpoint is taken
//! back that was acknowledged.
//!
//! Seen to fail on `AcknowledgedTooSoon` (effects before the commit), `StartsBehind`, `NothingCompared` and
//! `CheckpointNotCompared`.

use std::collections::BTreeMap;

use steadfast_model::{JobId, JobStatus, TaskGroupId};

use super::View;
use super::bounded::not_gone;
use crate::checkpoints::Position;

/// Remembers the checkpoints that were acknowledged.
#[derive(Default)]
pub(crate) struct Kept {
    checkpoints: BTreeMap<(JobId, TaskGroupId), Position>,
}

impl Kept {
    /// A checkpoint was put, and its program may hear of that.
    ///
    /// # Errors
    /// Which later one it has taken back.
    pub fn checkpoint(
        &mut self,
        place: (JobId, TaskGroupId),
        position: Position,
        answered: bool,
    ) -> Result<(), String> {
        let (job, group) = place;
        let kept = self.checkpoints.entry(place).or_default();
        if position < *kept {
            return Err(format!(
                "task group {group} of job {job} was told that checkpoint {kept:?} is kept, and it is {position:?}"
            ));
        }
        if answered {
            *kept = position;
        }
        Ok(())
    }

    /// # Errors
    /// What is missing, or ended otherwise.
    pub fn judge(&mut self, view: &View<'_>) -> Result<(), String> {
        for id in view.submitted.iter().flatten() {
            let runs = view.engine.jobs().any(|(record, _)| record.id == *id);
            let ended = view.durable.history.contains_key(id);
            if runs == ended {
                let how = if runs { "both running and ended" } else { "gone" };
                return Err(format!("job {id} was acknowledged and is {how}"));
            }
        }
        for id in view.stopped {
            if let Some(history) = view.durable.history.get(id)
                && history.job.status != JobStatus::Canceled
            {
                return Err(format!("job {id} was cancelled and ended {}", history.job.status));
            }
        }
        for (id, answers) in view.planned {
            let kept = view.durable.requests.get(id);
            if let Some(told) = answers.iter().find(|told| Some(*told) != kept) {
                return Err(format!("{told:?} was acknowledged, and registered is {kept:?}"));
            }
        }
        for (record, _) in view.engine.jobs() {
            if let Some(back) = not_gone(record).find(|one| view.noted.contains(&one.id)) {
                return Err(format!("the end of {} was acknowledged and is forgotten", back.id));
            }
        }
        Ok(())
    }
}
