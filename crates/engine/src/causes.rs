//! Causes that are not known when something fails.
//!
//! A container may end where nobody saw how: its wrapper was killed, and its agent only found it gone. What
//! failed is then certain and the cause is not. It is `PENDING` until the container's own report comes, or
//! until its end is proven, or its lease over, without one; then it settles, once. What other containers of
//! the attempt report meanwhile are symptoms: they were stopped because of it.

use std::fmt;

use steadfast_model::{Cause, ExecutionId};

use crate::containers::Container;
use crate::draft::Draft;
use crate::engine::Engine;
use crate::records::{Failure, FailureKind};

/// Said when nobody can tell.
pub(crate) const NOBODY_SAW: &str = "the container ended and nobody saw how";

/// What made an attempt fail.
#[derive(Clone, Debug)]
pub(crate) struct FirstCause {
    pub kind: FailureKind,
    pub cause: Cause,
    /// Whose report is to settle a cause that is pending.
    pub waits_for: Option<ExecutionId>,
}

impl FirstCause {
    pub fn seen(kind: FailureKind, text: String) -> Self {
        Self { kind, cause: Cause::Seen(text), waits_for: None }
    }

    pub fn pending(kind: FailureKind, execution: ExecutionId) -> Self {
        Self { kind, cause: Cause::Pending, waits_for: Some(execution) }
    }
}

impl fmt::Display for FirstCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Pending => f.write_str(NOBODY_SAW),
            Cause::Seen(text) => f.write_str(text),
        }
    }
}

impl Engine {
    /// Settles the cause of the failure that waits for news of this container, if one does.
    pub(crate) fn settle_cause(
        &mut self,
        execution: ExecutionId,
        at: Container,
        seen: &str,
        d: &mut Draft,
    ) {
        let Some(job) = self.jobs.get_mut(&at.job) else { return };
        let Some(pipeline) = job.pipeline(at.pipeline) else { return };
        let waits = |failure: &&mut Failure| failure.waits_for == Some(execution);
        let Some(failure) = pipeline.failures.iter_mut().find(waits) else { return };
        failure.waits_for = None;
        failure.cause = Cause::Seen(format!("task group {}: {seen}", at.group));
        let (cause, attempt) = (failure.cause.clone(), failure.recovery);
        if let (Some(attempt), Some(ledger)) = (attempt, job.ledger.kept_mut()) {
            ledger.settle_cause(attempt, &cause);
        }
        d.job(at.job);
    }
}
