//! The agent: starts, watches and ends real processes on one member.
//!
//! ```text
//! coordinator ◀─ connection ─▶ agent (the loop) ◀─▶ container, one task each ◀─ socket ─▶ wrapper process
//!                                    │
//!                                  state: every decision, without I/O
//! ```
//! The agent decides little: it obeys the highest term that it has seen, reports what it sees until that is
//! acknowledged, and ends what outlives its lease. Whether a container may run is settled between its
//! wrapper and the coordinator, so that the agent's death ends nothing (05).

mod agent;
#[cfg(feature = "bench")]
pub mod bench;
mod connection;
mod container;
mod enclosure;
mod folders;
mod logs;
mod process;
mod rung;
mod state;
mod tombstones;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use steadfast_client::{BaseUrl, ClientError, Token};

use agent::Agent;
use connection::Line;
use container::Setup;
use folders::DataDir;
use state::Profile;

/// What an agent is started with.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Base URLs of the coordinators, `http://HOST:PORT` each; at least one.
    pub coordinators: Vec<String>,
    /// What it shows to be let in, where coordinators ask for it: a member's token.
    pub token: Option<Token>,
    /// Made where it is missing; belongs to one agent at a time.
    pub data_dir: PathBuf,
    /// Containers that it can hold at once.
    pub slots: u32,
    /// What placement can ask for.
    pub tags: BTreeMap<String, String>,
    /// The `steadfast` binary, whose `exec` wraps each container. Programs that are named without a
    /// folder are looked up beside it.
    pub executable: PathBuf,
    /// The rhythm of the connection.
    pub timings: Timings,
}

/// The rhythm of the connection. The defaults are what coordinators expect.
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// Between two beats.
    pub beat: Duration,
    /// A connection that carried nothing for this long is taken for closed.
    pub silence: Duration,
    /// How long a leaving agent waits for the coordinator to declare its loss before it stops anything.
    pub leave_wait: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            beat: Duration::from_secs(1),
            silence: Duration::from_secs(5),
            leave_wait: Duration::from_secs(1),
        }
    }
}

/// Runs an agent under a fresh UUID until `shutdown` is ready and its containers have ended.
///
/// From `shutdown` on it takes at most a second (for the coordinator to declare the loss) plus the
/// longest grace of its containers plus two seconds.
///
/// # Errors
/// A URL that cannot be used, a data folder that cannot be made or belongs to another agent. Once it
/// runs, nothing that happens to coordinators or containers is an error.
pub async fn run(config: AgentConfig, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
    let AgentConfig { coordinators, token, data_dir, slots, tags, executable, timings } = config;
    let coordinators: Result<Vec<BaseUrl>, _> =
        coordinators.iter().map(|text| text.parse()).collect();
    let coordinators = coordinators?;
    if coordinators.is_empty() {
        return Err(ClientError::NoCoordinators.into());
    }
    let data = DataDir::open(&data_dir)?;
    let executable = std::path::absolute(&executable)
        .with_context(|| format!("cannot use the executable {}", executable.display()))?;
    let profile = Profile {
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid: std::process::id(),
        slots,
        tags,
        version: env!("CARGO_PKG_VERSION").into(),
        leave_wait_ms: timings.leave_wait.as_millis().try_into().unwrap_or(u64::MAX),
    };
    let setup = Setup { executable, data };
    let line = Line::new(coordinators, token, timings.silence);
    let (agent, observed) = Agent::new(profile, timings, setup, line)?;
    agent.run(observed, shutdown).await
}
