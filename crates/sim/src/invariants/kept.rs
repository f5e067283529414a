//! **What was acknowledged is kept** (the third promise): a job whose submission was acknowledged is
//! running or in the history, in one of the two; and a job whose cancelling was acknowledged ends
//! `CANCELED`, whatever happens on the way; a leave whose registration was acknowledged stays registered as
//! it was; and a container whose wrapper's good-bye was acknowledged is proven gone.
//!
//! Seen to fail on `AcknowledgedTooSoon` (effects before the commit).

use steadfast_model::JobStatus;

use super::View;
use super::bounded::not_gone;

/// Needs no memory.
#[derive(Default)]
pub(crate) struct Kept;

impl Kept {
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
