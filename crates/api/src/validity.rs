//! What containers and coordinators say to each other (05, "On the wire").

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use steadfast_model::{Epoch, ExecutionId, FencingToken, InvalidReason, Outcome, Proof, Verdict};

/// The body of a 200 answer to `GET /isContainerValid`. Every other status means *unknown*.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValidityAnswer {
    /// The seed's one field. Without the container's secret it stands alone.
    pub is_valid: bool,
    /// The lease, counted from the request's sending; only to the container itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// When to ask again, jitter included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_poll_ms: Option<u64>,
    /// The container's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<FencingToken>,
    /// The leader's term; a container ignores answers of a lower one than it has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator_epoch: Option<Epoch>,
    /// Base URLs of all coordinators; shared by the answers that carry them, which is every "yes".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinators: Option<Arc<Vec<String>>>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<InvalidReason>,
    /// The request's own; an answer with another one is not believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<u64>,
}

impl ValidityAnswer {
    /// Reads the answer as the container that sent `nonce` must: whatever is missing or does not fit
    /// makes it `Unknown`.
    pub fn verdict(&self, nonce: u64) -> Verdict {
        let Some(epoch) = self.coordinator_epoch.filter(|_| self.nonce == Some(nonce)) else {
            return Verdict::Unknown;
        };
        if !self.is_valid {
            return self
                .reason
                .map_or(Verdict::Unknown, |reason| Verdict::Invalid { reason, epoch });
        }
        match (self.lease_ms, self.next_poll_ms, self.fencing_token) {
            (Some(lease_ms), Some(next_poll_ms), Some(token)) => {
                Verdict::Valid { lease_ms, next_poll_ms, token, epoch }
            }
            _ => Verdict::Unknown,
        }
    }
}

/// The body of a 200 answer to `GET /containerHeartbeat`, and never one field more: the client of Samza 1.8
/// takes any other field for "dead". Every other status means *unknown*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatAnswer {
    /// Whether the container may go on. It extends nothing: the wrapper holds the lease.
    pub alive: bool,
}

/// `POST /containerEnded` (secret required): a wrapper's good-bye after it has proved the end.
/// Repeated to every known coordinator until one answers 200.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerEnded {
    /// Whose end.
    pub execution_resource_id: ExecutionId,
    /// How it ended.
    pub outcome: Outcome,
    /// How it is known that nothing is left of it.
    pub proof: Option<Proof>,
}

/// The body of 409 from `PUT /checkpoint`: a newer container has been minted, or the job has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointConflict {
    /// Always `fail`.
    pub status: String,
    /// What was refused.
    pub message: String,
    /// The token that is current now; `None` when the job has ended.
    pub current_token: Option<FencingToken>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yes() -> ValidityAnswer {
        ValidityAnswer {
            is_valid: true,
            lease_ms: Some(15_000),
            next_poll_ms: Some(1_000),
            fencing_token: Some(FencingToken::new(7)),
            coordinator_epoch: Some(Epoch::new(3)),
            nonce: Some(42),
            ..ValidityAnswer::default()
        }
    }

    #[test]
    fn a_yes_counts_only_with_its_own_nonce_and_a_lease() {
        assert!(matches!(yes().verdict(42), Verdict::Valid { lease_ms: 15_000, .. }));
        assert_eq!(yes().verdict(43), Verdict::Unknown);
        assert_eq!(ValidityAnswer { lease_ms: None, ..yes() }.verdict(42), Verdict::Unknown);
    }

    #[test]
    fn a_bare_no_is_not_a_verdict() {
        let bare = ValidityAnswer::default();
        assert_eq!(bare.verdict(42), Verdict::Unknown, "a page that happens to parse ends nobody");
        let no =
            ValidityAnswer { is_valid: false, reason: Some(InvalidReason::Superseded), ..yes() };
        assert!(matches!(no.verdict(42), Verdict::Invalid { .. }));
    }

    #[test]
    fn without_the_secret_the_answer_is_the_seeds_one_field() {
        let bare = ValidityAnswer { is_valid: true, ..ValidityAnswer::default() };
        assert_eq!(serde_json::to_string(&bare).unwrap(), r#"{"isValid":true}"#);
    }
}
