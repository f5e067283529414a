//! **A count never falls, and dirty is for ever**: whatever a reader was shown once, no later view takes
//! back, whichever coordinator shows it.
//!
//! A count may fall in one case: the store refused a write of this ledger and the coordinator died
//! before the next one; then the view says that it does not know. `dirty` has no such case, since the
//! job's own record keeps it.
//!
//! Seen to fail on `OldLedgers` (a new term is given the ledgers of some commits ago) and on
//! `DirtForgotten` (it has neither the job's mark nor the ledger).

use std::collections::BTreeMap;

use steadfast_ledger::Evaluation;
use steadfast_model::JobId;

use super::View;

/// What was shown.
#[derive(Default)]
pub(crate) struct Forever {
    shown: BTreeMap<JobId, (u64, bool)>,
}

impl Forever {
    /// # Errors
    /// What a view takes back.
    pub fn judge(&mut self, view: &View<'_>) -> Result<(), String> {
        for (record, ledger) in view.engine.jobs() {
            let evaluation = record.evaluation(ledger, view.engine.watermarks());
            self.compare(record.id, &evaluation, view)?;
        }
        for (id, history) in &view.durable.history {
            if let Some(evaluation) = &history.evaluation {
                self.compare(*id, evaluation, view)?;
            }
        }
        Ok(())
    }

    fn compare(&mut self, job: JobId, now: &Evaluation, view: &View<'_>) -> Result<(), String> {
        let now = (now.recovery_attempt_count, now.dirty);
        let before = self.shown.insert(job, now).unwrap_or_default();
        let excused = view.refused.contains(&job);
        if now.0 < before.0 && !excused {
            return Err(format!("job {job} showed {} attempts and now shows {}", before.0, now.0));
        }
        if before.1 && !now.1 {
            return Err(format!("job {job} was dirty and is not any more"));
        }
        Ok(())
    }
}
