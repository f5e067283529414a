//! What a wrapper (`steadfast exec --agent-on-stdin`) and its agent say to each other: one JSON object
//! a line on a Unix stream socket, which is the wrapper's standard input.
//!
//! ```text
//! wrapper                                   agent
//!   │ ── Lease, at each "yes" ───────────────▶ │   what the agent's own deadline follows (03)
//!   │ ── Enclosed, Started ──────────────────▶ │   after the first "yes"
//!   │ ◀──────────────────────────────── Stop ─ │
//!   │ ── Ended, with the proof ──────────────▶ │
//!   │ ◀───────────────────────────── EndSeen ─ │   only now the wrapper goes
//! ```
//!
//! Each side learns of the other's death by the end of the stream, at once. Unknown types are skipped,
//! because an agent may be younger or older than the wrappers that it adopted.

use serde::{Deserialize, Serialize};
use steadfast_model::{InvalidReason, Outcome, Proof};

/// From a wrapper to its agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum WrapperMessage {
    /// The program runs.
    #[serde(rename_all = "camelCase")]
    Started {
        /// The program's pid, also the id of its process group.
        pid: u32,
        /// The wrapper's pid.
        wrapper_pid: u32,
    },
    /// What the program is locked into; said before [`WrapperMessage::Started`], and only if there is
    /// something. When the wrapper was killed, an agent that finds it empty has the proof (03).
    #[serde(rename_all = "camelCase")]
    Enclosed {
        /// The folder of a cgroup (v2) that holds the program and whatever it started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cgroup: Option<String>,
        /// The first process of the program's pid namespace, in the host's numbering: when it has
        /// ended, nothing of the namespace is left.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init_pid: Option<u32>,
    },
    /// A "yes" extended the lease.
    Lease {
        /// When `L` ends, in milliseconds of `CLOCK_BOOTTIME` on this machine. The wrapper itself acts
        /// earlier: it stops the program at `until − G − m` and kills it at `until − m` (05).
        #[serde(rename = "until")]
        until_ms: u64,
    },
    /// Nothing of the container is left but the wrapper.
    Ended {
        /// How the program ended.
        outcome: Outcome,
        /// How that is known.
        proof: Proof,
    },
}

/// From an agent to a wrapper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum AgentMessage {
    /// End the program: SIGTERM, grace, SIGKILL.
    #[serde(rename_all = "camelCase")]
    Stop {
        /// Why.
        reason: InvalidReason,
        /// From SIGTERM to SIGKILL.
        grace_ms: u64,
    },
    /// The agent has taken note of [`WrapperMessage::Ended`].
    EndSeen,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(value: &impl Serialize) -> String {
        serde_json::to_string(value).unwrap()
    }

    #[test]
    fn messages_have_the_shapes_that_both_sides_agreed_on() {
        let started = WrapperMessage::Started { pid: 11, wrapper_pid: 10 };
        assert_eq!(json(&started), r#"{"type":"started","pid":11,"wrapperPid":10}"#);
        let lease = WrapperMessage::Lease { until_ms: 99_000 };
        assert_eq!(json(&lease), r#"{"type":"lease","until":99000}"#);
        let enclosed = WrapperMessage::Enclosed { cgroup: Some("/c".into()), init_pid: Some(12) };
        assert_eq!(json(&enclosed), r#"{"type":"enclosed","cgroup":"/c","initPid":12}"#);
        let enclosed = WrapperMessage::Enclosed { cgroup: None, init_pid: Some(12) };
        assert_eq!(json(&enclosed), r#"{"type":"enclosed","initPid":12}"#);
        let ended = WrapperMessage::Ended {
            outcome: Outcome::Exited { code: 0 },
            proof: Proof::NoChildLeft,
        };
        assert_eq!(
            json(&ended),
            r#"{"type":"ended","outcome":{"outcome":"exited","code":0},"proof":"NO_CHILD_LEFT"}"#
        );
        let stop = r#"{"type":"stop","reason":"CANCELED","graceMs":5000}"#;
        assert_eq!(
            serde_json::from_str::<AgentMessage>(stop).unwrap(),
            AgentMessage::Stop { reason: InvalidReason::Canceled, grace_ms: 5_000 }
        );
        assert_eq!(json(&AgentMessage::EndSeen), r#"{"type":"endSeen"}"#);
    }
}
