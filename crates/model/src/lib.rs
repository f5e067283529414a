//! The vocabulary that every other crate speaks: ids, the job spec, statuses, timestamps, leases.
//!
//! Everything here is a value. Nothing reads a clock, a random source or the environment, so that the
//! engine above can be replayed step by step. Ids are newtypes that are parsed once, at the edge.

mod container;
mod ids;
mod lease;
mod spec;
mod status;
mod text;
mod time;

pub mod jobfile;

pub use container::{Cause, ContainerEvent, InvalidReason, Outcome, Proof, StopCause, Verdict};
pub use ids::{
    AttemptId, EpisodeNumber, Epoch, ExecutionId, FencingToken, JobId, LedgerRevision,
    MemberEventSeq, MemberUuid, ParseIdError, PipelineId, RequestId, TaskGroupId, TermNonce,
};
pub use lease::LeaseTerms;
pub use spec::{
    ContainerPolicy, JobMode, JobSpec, PipelineSpec, RetryPolicy, TaskSpec, ValidatorKind,
};
pub use status::{
    EvaluationStatus, JobStatus, LeaveClassification, LossCause, MemberStatus, PipelineStatus,
    TaskGroupStatus,
};
pub use text::bounded;
pub use time::Timestamp;

/// The feature level of this build. Level 1 knows the recovery ledger. Coordinators and members
/// announce theirs, so that a job can be refused while somebody lags.
pub const FEATURE_LEVEL: u32 = 1;
