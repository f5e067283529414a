//! What goes over the wire: paths, JSON shapes, the error body. No I/O.
//!
//! The shapes follow SeaTunnel's REST and Samza's heartbeat where the thing is the same; outside tests
//! rely on them, so fields may be added and none renamed. Stored records never appear here: the
//! coordinator has one conversion module between the two.

mod agents;
mod error;
mod events;
mod jobs;
mod logs;
mod members;
mod overview;
pub mod paths;
mod recovery;
mod time;
mod validity;
mod wrapper;

pub use agents::{ContainerReport, ContainerSighting, FromAgent, Hello, LaunchOrder, ToAgent};
pub use error::{ErrorBody, ErrorDetail};
pub use events::{Change, Event};
pub use jobs::{
    DirtyTask, DirtyTaskSummary, JobInfo, JobSummary, PipelineInfo, RestoreCounts, StopJobAnswer,
    StopJobRequest, SubmitAnswer, TaskGroupInfo,
};
pub use logs::{
    LogAnswer, LogOwner, LogPart, LogPosition, LogQuestion, LogRequest, LogStream, LogsFound,
    MAX_PART_BYTES, ParsePartError, TaskGroupAttempt,
};
pub use members::{MemberInfo, PlannedLeave, PlannedLeaveRequest};
pub use overview::{
    CoordinatorInfo, CoordinatorRole, CoordinatorStanding, EvaluationCounts, MemberCounts,
    Overview, Readiness, SelfSuspicion, SlotCounts, StandbyInfo, StoreStatus, StoreTrouble,
};
pub use recovery::{
    AttemptInfo, AttemptOutcome, EpisodeInfo, EpisodeStatus, Explanation, IncidentInfo, Latencies,
    RecoveryEpisodes, Sentence,
};
pub use time::{ParseTimeError, WireTime};
pub use validity::{CheckpointConflict, ContainerEnded, HeartbeatAnswer, ValidityAnswer};
pub use wrapper::{AgentMessage, WrapperMessage};
