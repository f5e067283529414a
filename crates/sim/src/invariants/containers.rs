//! **At most one live container per task group** (the first promise), at every instant, over all of
//! simulated reality: programs of lost members, of machines that are cut off, of killed agents too. A
//! program that starts also has a higher token than every one before it.
//!
//! Jobs with their validator disabled gave this promise up and are not judged.
//!
//! Seen to fail on `IndexNotFrozen` (a "yes" slips past the last answer that was told) and on
//! `LeaseNotWaitedFor` (a replacement beside an old copy whose lease still runs).

use std::collections::BTreeMap;

use steadfast_model::{ExecutionId, JobId, TaskGroupId};

type Place = (JobId, TaskGroupId);

/// Programs that run now.
#[derive(Default)]
pub(crate) struct OneContainer {
    running: BTreeMap<Place, ExecutionId>,
    places: BTreeMap<ExecutionId, Place>,
    tokens: BTreeMap<Place, u64>,
    failed: Option<String>,
}

impl OneContainer {
    /// A program runs from now on.
    pub fn program_started(&mut self, place: Place, execution: ExecutionId, token: u64) {
        let (job, group) = place;
        if let Some(other) = self.running.insert(place, execution) {
            self.failed.get_or_insert(format!(
                "{execution} starts while {other} still runs task group {group} of job {job}"
            ));
        }
        self.places.insert(execution, place);
        let highest = self.tokens.insert(place, token);
        if highest.is_some_and(|highest| highest >= token) {
            self.failed.get_or_insert(format!(
                "{execution} starts task group {group} of job {job} with token {token} after {highest:?}"
            ));
        }
    }

    /// It does not run any more.
    pub fn program_ended(&mut self, execution: ExecutionId) {
        if let Some(place) = self.places.remove(&execution)
            && self.running.get(&place) == Some(&execution)
        {
            self.running.remove(&place);
        }
    }

    pub fn verdict(&self) -> Result<(), String> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}
