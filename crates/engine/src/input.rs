//! Everything that can happen to the engine.

use steadfast_model::{
    ContainerEvent, ExecutionId, JobId, JobSpec, MemberUuid, RequestId, Timestamp,
};

use crate::records::{DurableLedger, MemberRecord};

/// One agent's connection, numbered by the shell. A reconnection has another number, so that the late
/// news of an old connection's end is not taken for the new one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection(pub u64);

/// Somebody who waits for an answer, numbered by the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// The closed list of what can happen. Nothing else changes the engine.
#[derive(Clone, Debug)]
pub enum Input {
    /// The first input of a term: reconcile what was loaded before anything is scheduled.
    TookOver,
    /// [`crate::Engine::next_deadline`] has passed. Harmless at any time.
    Deadline,
    /// Somebody submits a checked job.
    Submit {
        /// Who waits.
        ticket: Ticket,
        /// The job.
        spec: Box<JobSpec>,
    },
    /// Somebody wants a job to end.
    Stop {
        /// Who waits.
        ticket: Ticket,
        /// Which.
        job: JobId,
    },
    /// An agent connected and said who it is and what it holds.
    Hello {
        /// Its connection.
        connection: Connection,
        /// What it said of itself; `registered` and `lost` are the engine's to fill.
        member: Box<MemberRecord>,
        /// Whether this UUID has been welcomed before.
        welcomed: bool,
        /// Every container that it runs, and every ended one whose end is not acknowledged.
        containers: Vec<(ExecutionId, Option<ContainerEvent>)>,
    },
    /// An agent spoke.
    Heard {
        /// Which.
        member: MemberUuid,
        /// On which connection.
        connection: Connection,
    },
    /// An agent's connection ended.
    Disconnected {
        /// Which agent's.
        member: MemberUuid,
        /// Which connection.
        connection: Connection,
        /// The coordinator closed it: not the member's fault, so the short grace does not apply.
        by_us: bool,
    },
    /// An agent says that it goes. Its containers still run.
    Leaving {
        /// Which.
        member: MemberUuid,
        /// On which connection.
        connection: Connection,
    },
    /// An authenticated operator says that a member is going to leave, or that it is to be emptied now.
    PlanLeave {
        /// Who waits.
        ticket: Ticket,
        /// What was asked for.
        request: LeaveRequest,
    },
    /// Something happened to a container.
    Container {
        /// Which.
        execution: ExecutionId,
        /// What.
        event: ContainerEvent,
        /// Who says so.
        reporter: Reporter,
    },
    /// The validity index has made these entries invalid and tells the last answer each was given;
    /// `None` if it never was told "valid".
    LastAnswers(Vec<(ExecutionId, Option<Timestamp>)>),
    /// The store refused the ledger's part of a job's writes; the job's part was committed alone.
    LedgerRefused {
        /// Whose ledger.
        job: JobId,
        /// Its last durable ledger; `None` if it never had one.
        durable: Option<DurableLedger>,
    },
}

/// An operator's request for a planned leave, checked at the edge: texts of 1 to 200 characters without
/// control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveRequest {
    /// Its name; one that was used is known for a repetition.
    pub id: RequestId,
    /// The member that is to leave.
    pub member: MemberUuid,
    /// Who asks, as the authentication knows them.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// For how long it is valid from now on; at most [`crate::MAX_LEAVE_VALID_MS`] counts.
    pub valid_ms: u64,
    /// Whether its containers are to be moved now, while its agent still runs.
    pub drain: bool,
}

/// Who reports about a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reporter {
    /// Its agent, on this connection.
    Agent(MemberUuid, Connection),
    /// Its wrapper, over HTTP; somebody waits for the acknowledgement of an end.
    Wrapper(Option<Ticket>),
}
