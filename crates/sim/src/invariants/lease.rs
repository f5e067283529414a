//! **Who no longer leads does nothing**: whenever a container is told "valid" or "invalid", and whenever an
//! effect is carried out, the lease of the term that does it cannot have run out, and no later term has
//! begun. What was sent before may arrive at any time.
//!
//! Judged by the store's own count of the lease, not by the leader's.
//!
//! Seen to fail on `VerdictPastTenure` and on `EffectsPastTenure`.

use steadfast_model::ExecutionId;

use crate::durable::TermNumber;

/// What a term does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// It tells a container that it may go on.
    Valid(ExecutionId),
    /// It tells a container to stop.
    Invalid(ExecutionId),
    /// It answers a request, or sends to an agent.
    Effect,
}

/// # Errors
/// What is done by whom, though it may not lead any more.
pub(crate) fn judge(term: TermNumber, leads: bool, act: Act) -> Result<(), String> {
    match act {
        _ if leads => Ok(()),
        Act::Valid(id) => Err(format!("term {term} tells {id} \"valid\" when its lease is over")),
        Act::Invalid(id) => {
            Err(format!("term {term} tells {id} \"invalid\" when its lease is over"))
        }
        Act::Effect => Err(format!("term {term} carries out an effect when its lease is over")),
    }
}
