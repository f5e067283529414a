//! **Nobody is stopped who was not revoked**: whoever is told "invalid", or whose agent is told to stop it,
//! was revoked by a commit that is durable. So a container that is alive through a change of leader goes on:
//! a leader that does not know it, or no longer, is no reason to end it.
//!
//! Seen to fail on `StartsBehind` (a new leader does not know what the last one deployed).

use std::collections::BTreeSet;

use steadfast_engine::{IndexChange, Step};
use steadfast_model::ExecutionId;

/// Containers that no durable commit has revoked.
#[derive(Default)]
pub(crate) struct OnlyTheRevokedStop {
    live: BTreeSet<ExecutionId>,
}

impl OnlyTheRevokedStop {
    /// A step is durable.
    pub fn committed(&mut self, step: &Step) {
        let of_jobs = step.jobs.iter().flat_map(|job| &job.index);
        for change in step.index.iter().chain(of_jobs) {
            match change {
                IndexChange::Live(id, _) => {
                    self.live.insert(*id);
                }
                IndexChange::Invalid(id, ..) | IndexChange::Remove(id) => {
                    self.live.remove(id);
                }
                IndexChange::Hold(..) | IndexChange::Release(_) => {}
            }
        }
    }

    /// # Errors
    /// Who is told to stop without a reason.
    pub fn told(&self, execution: ExecutionId) -> Result<(), String> {
        if self.live.contains(&execution) {
            return Err(format!("{execution} is told to stop, and nothing durable has revoked it"));
        }
        Ok(())
    }
}
