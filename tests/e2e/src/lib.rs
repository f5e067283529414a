//! What the end-to-end tests and the scenes share: a cluster of real processes, and ways to look at it
//! and to hurt it.
//!
//! Nothing here knows the product's code. A cluster is started by the one command that a person types,
//! looked at through REST and the command line, and judged by oracles of its own: `wc` for the sums, the
//! kernel for who is alive, the test's own kills for the counts.
//!
//! ```text
//! test ──▶ Cluster ── steadfast dev ─┬─ coordinator
//!   │        │                       └─ agent ─ wrapper ─ program ──▶ part-*.json, runs-*.jsonl
//!   │        └── Rest: typed reads, polled up to a deadline
//!   └──▶ Process: SIGKILL, SIGSTOP, … for processes of this cluster only
//! ```
//! Everything panics where something is not as expected: a panic fails the test and lets the cluster, as
//! it is dropped, print what its processes have said.

#![expect(
    clippy::print_stderr,
    reason = "a failing test has to show what the processes of its cluster have said"
)]

mod access;
mod cluster;
mod command;
mod container;
mod detector;
mod etcd;
mod input;
mod logs;
mod network;
#[path = "../../../crates/store/tests/etcd/node.rs"]
mod node;
mod output;
mod process;
mod rest;
mod shapes;
mod wait;
mod witness;

pub use access::{Access, Role};
pub use cluster::{Cluster, Size};
pub use command::{Finished, Running, binary, example_job};
pub use container::{Container, LastWords};
pub use detector::{Beat, Detector, Lease, Manner, Who, python};
pub use etcd::{Etcd, Record};
pub use input::{input, wc};
pub use network::Network;
pub use node::Node as EtcdNode;
pub use output::{Counts, Output, Run, RunEvent};
pub use process::{Marker, Process, is_root};
pub use rest::{Answer, Rest};
pub use rustix::process::Signal;
pub use shapes::{
    AttemptOutcome, Classification, CoordinatorRole, DirtyTask, DirtyTaskSummary, Episode,
    EpisodeStatus, Episodes, Evaluation, Incident, Job, JobStatus, JobSummary, LossCause, Member,
    MemberStatus, Overview, Pipeline, PipelineStatus, Sentence, Standing, TaskGroup,
    TaskGroupStatus,
};
pub use wait::{PATIENCE, is_long, wait_until};
pub use witness::{Asked, Tally, Told, Witness};
