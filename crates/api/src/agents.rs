//! Messages on an agent's one connection: a WebSocket on [`crate::paths::AGENT`], one JSON message a
//! text frame; a binary frame carries a part of a container's output ([`crate::LogPart`]). Its closing is
//! the news that the agent died.
//!
//! ```text
//! agent                                   coordinator
//!   │ ── Hello {uuid, containers} ───────────▶ │
//!   │ ◀──────── Welcome | RegisterAnew ─────── │   RegisterAnew: end your containers, make a new UUID
//!   │ ── Beat, every second ─────────────────▶ │
//!   │ ◀──────────────── Launch, Stop ───────── │   refused when their epoch is lower than the highest seen
//!   │ ── Report, again until acknowledged ───▶ │
//!   │ ◀──────────────── Acknowledge ────────── │
//!   │ ◀─────────────────────── Log ─────────── │
//!   │ ── LogsFound, or a part ───────────────▶ │
//!   │ ── Leaving ────────────────────────────▶ │
//!   │ ◀──────────── LeaveAcknowledged ──────── │   only now the agent stops its containers
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steadfast_model::{
    ContainerEvent, Epoch, ExecutionId, InvalidReason, LeaseTerms, MemberUuid, ValidatorKind,
};

use crate::{LogRequest, LogsFound, TaskGroupAttempt};

/// From an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum FromAgent {
    /// The first message of every connection.
    Hello(Hello),
    /// "I am here", every second.
    Beat,
    /// Something happened to a container. `Ended` is repeated on every new connection until it is
    /// acknowledged; `Started` is also part of each `Hello`.
    Report(ContainerReport),
    /// "I was told to go": the loss is declared and acknowledged before a container is stopped.
    Leaving,
    /// The answer to [`crate::LogQuestion::Find`].
    LogsFound(LogsFound),
}

/// Who connects, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// Made at the agent's start.
    pub uuid: MemberUuid,
    /// The host's name.
    pub host: String,
    /// The agent's pid.
    pub pid: u32,
    /// Containers that it can hold at once.
    pub slots: u32,
    /// What placement can ask for.
    pub tags: BTreeMap<String, String>,
    /// The build.
    pub version: String,
    /// See [`steadfast_model::FEATURE_LEVEL`].
    pub feature_level: u32,
    /// Whether this UUID has been welcomed before. A coordinator that does not know a UUID that has been
    /// answers `RegisterAnew`: once removed, a member is never valid again.
    pub welcomed: bool,
    /// The highest epoch it has obeyed; a coordinator with a lower one has been deposed.
    pub highest_epoch: Epoch,
    /// The cluster in which it was welcomed first. A coordinator of another one knows nothing of its
    /// containers, so it must neither take the member nor tell it to end them, and hangs up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Every container that it runs, and every ended one whose end is not acknowledged.
    pub containers: Vec<ContainerSighting>,
}

/// A container as its agent sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSighting {
    /// Which.
    pub execution_resource_id: ExecutionId,
    /// The last thing that happened to it; `None` while it waits for its first "yes".
    pub last_event: Option<ContainerEvent>,
}

/// Something happened to a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerReport {
    /// Which.
    pub execution_resource_id: ExecutionId,
    /// What.
    pub event: ContainerEvent,
}

/// To an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum ToAgent {
    /// The UUID is known, or is known from now on.
    #[serde(rename_all = "camelCase")]
    Welcome {
        /// The leader's term.
        epoch: Epoch,
        /// Base URLs of all coordinators.
        coordinators: Vec<String>,
        /// Which cluster this is: the same for every coordinator on the same store, or on a copy of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cluster: Option<String>,
    },
    /// The UUID is not in the table of members any more: end every container, prove it, and come back
    /// under a new UUID.
    RegisterAnew,
    /// Run this container. Idempotent per execution id.
    Launch(LaunchOrder),
    /// End this container: SIGTERM, grace, SIGKILL. Unknown ids are answered with an `Ended` report.
    #[serde(rename_all = "camelCase")]
    Stop {
        /// The leader's term.
        epoch: Epoch,
        /// Which.
        execution_resource_id: ExecutionId,
        /// Why.
        reason: InvalidReason,
        /// From SIGTERM to SIGKILL.
        grace_ms: u64,
    },
    /// The report of this container's end is durable; forget it.
    #[serde(rename_all = "camelCase")]
    Acknowledge {
        /// Which.
        execution_resource_id: ExecutionId,
    },
    /// The loss is declared; stop the containers and go.
    LeaveAcknowledged,
    /// A question about what containers have written. It is answered whatever else goes on, and decides
    /// nothing.
    Log(LogRequest),
}

/// Everything that it takes to run a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchOrder {
    /// The leader's term.
    pub epoch: Epoch,
    /// Which.
    pub execution_resource_id: ExecutionId,
    /// What it runs: its output is found by it later. A coordinator of an earlier version does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<TaskGroupAttempt>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The whole of what a container is told (03), the job file's own variables included.
    pub environment: BTreeMap<String, String>,
    /// The lease that its wrapper keeps.
    pub lease: LeaseTerms,
    /// Who holds the lease.
    pub validator: ValidatorKind,
    /// False: the wrapper asks nobody and starts at once (`job.container.validator.enabled = false`).
    pub validator_enabled: bool,
}
