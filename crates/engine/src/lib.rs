//! The decisions: membership, jobs, pipelines, restore, leases.
//!
//! [`Engine::step`] takes the time and one [`Input`], changes the engine and returns a [`Step`]: what to
//! remember and what to do then. Nothing else moves time and nothing else changes state, so a whole
//! cluster can be replayed in a loop, and a term that ends is simply dropped and loaded again.
//!
//! The story of a lost member reads through these modules in this order: `membership` notices it,
//! `member_loss` walks the affected jobs, `pipeline` revokes and deploys again, `containers` knows when
//! an old copy is gone. `planned_leave` knows which loss was planned, and begins the same story while the
//! member is still there.

mod agents;
mod catch_up;
mod causes;
mod containers;
mod draft;
mod engine;
mod input;
mod job;
mod member_loss;
mod membership;
mod pipeline;
mod placement;
mod planned_leave;
pub mod records;
mod settings;
mod step;
mod submitted;
mod suspicion;
mod takeover;
mod transitions;

pub use engine::{Counters, Engine, MemberView};
pub use input::{Connection, Input, LeaveRequest, Reporter, Ticket};
pub use planned_leave::{DEFAULT_LEAVE_VALID_MS, MAX_LEAVE_VALID_MS, MIN_LEAVE_VALID_MS};
pub use settings::Settings;
pub use step::{
    AgentMessage, Effect, IndexChange, IndexEntry, JobStep, JobWrites, Launch, MemberWrite, Reply,
    RequestWrite, Step,
};
pub use suspicion::SelfSuspicion;
