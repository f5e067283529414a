//! What is said about a container: verdicts while it lives, reports when it starts and ends.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::status::words;
use crate::{Epoch, FencingToken};

words! {
    /// Why a container is no longer valid. Final for its execution id.
    InvalidReason {
        /// Its pipeline is deployed again.
        Superseded = "SUPERSEDED",
        /// Its member was declared lost.
        MemberLost = "MEMBER_LOST",
        /// Its job ended.
        JobEnded = "JOB_ENDED",
        /// Its job was cancelled.
        Canceled = "CANCELED",
        /// Nobody knows the id.
        UnknownId = "UNKNOWN_ID",
    }
}

/// One of three answers to "may I go on?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Runs on until request-send time + `lease_ms`.
    Valid {
        /// What this answer extends the lease to, counted from the request's sending.
        lease_ms: u64,
        /// When to ask again.
        next_poll_ms: u64,
        /// The container's token.
        token: FencingToken,
        /// The answering leader's term.
        epoch: Epoch,
    },
    /// Stops now.
    Invalid {
        /// Why.
        reason: InvalidReason,
        /// The answering leader's term.
        epoch: Epoch,
    },
    /// Whoever was asked cannot know; the lease runs on.
    Unknown,
}

/// Why the ladder ended a program that would have gone on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "reason")]
pub enum StopCause {
    /// It was told that it is invalid.
    Invalid(InvalidReason),
    /// Its lease ended without a "yes".
    LeaseExpired,
    /// Its agent passed on the coordinator's stop.
    Told(InvalidReason),
}

/// How a container ended. Told by the report, never by the number of an exit code: programs use the
/// ladder's numbers too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "outcome")]
pub enum Outcome {
    /// The program ended by itself.
    Exited {
        /// Its exit code; 0 finishes the task group.
        code: i32,
    },
    /// A signal that the ladder did not send ended the program.
    Signaled {
        /// The signal's number.
        signal: i32,
    },
    /// The ladder ended it.
    Ended {
        /// Why.
        why: StopCause,
        /// Whether it had to be killed.
        killed: bool,
    },
    /// The program was never started: the command could not be executed, or no "yes" ever came.
    NotStarted {
        /// What was tried and what the system said.
        error: String,
    },
}

impl Outcome {
    /// The wrapper's exit code (05): the program's own, 128 + n for signal n, 70 told invalid, 71 lease
    /// ended, 72 had to be killed, 73 could not be started.
    pub const fn exit_code(&self) -> i32 {
        match self {
            Self::Exited { code } => *code,
            Self::Signaled { signal } => 128 + *signal,
            Self::Ended { killed: true, .. } => 72,
            Self::Ended { why: StopCause::LeaseExpired, .. } => 71,
            Self::Ended { why: StopCause::Invalid(_) | StopCause::Told(_), .. } => 70,
            Self::NotStarted { .. } => 73,
        }
    }
}

words! {
    /// How it is known that nothing of a container is left (03, "The agent's duties").
    Proof {
        /// Its wrapper, a subreaper that lived throughout, has no child left (`ECHILD`).
        NoChildLeft = "NO_CHILD_LEFT",
        /// The cgroup that held all of it is empty.
        CgroupEmpty = "CGROUP_EMPTY",
        /// Its pid namespace's first process has ended, which the kernel lets happen last.
        NamespaceEnded = "NAMESPACE_ENDED",
        /// Its program was never started.
        NeverStarted = "NEVER_STARTED",
    }
}

/// Why an attempt failed, as far as it is known. The first cause wins over what it led to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// It failed, and nobody has told yet how. Settles once.
    #[serde(rename = "PENDING")]
    Pending,
    /// What was seen.
    #[serde(untagged)]
    Seen(String),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("PENDING"),
            Self::Seen(text) => f.write_str(text),
        }
    }
}

/// What is reported about a container, by its agent or by its wrapper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "event")]
pub enum ContainerEvent {
    /// The program runs, after its first "yes".
    #[serde(rename_all = "camelCase")]
    Started {
        /// The program's pid in the host's numbering.
        pid: u32,
        /// The wrapper's pid.
        wrapper_pid: u32,
    },
    /// The container ended.
    Ended {
        /// How; `None` when whoever reports was not there to see it.
        outcome: Option<Outcome>,
        /// How it is known that nothing is left of it; `None` without proof: then the lease has to run
        /// out before a replacement starts.
        proof: Option<Proof>,
    },
}
