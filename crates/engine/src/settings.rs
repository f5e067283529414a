//! What an operator can set of the engine's behaviour. Durations are milliseconds of listening time.

/// The engine's settings, with the defaults of the design.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `member.timeout.ms`: a member that is silent for this long is lost.
    pub member_timeout_ms: u64,
    /// `member.reconnect.grace.ms`: a member whose connection closed may come back within this time.
    pub reconnect_grace_ms: u64,
    /// `member.suspect-self`: hold declarations of loss when most members go at once.
    pub suspect_self: bool,
    /// `engine.dirty-task.event-history-size`: episodes kept per job.
    pub event_history_size: usize,
    /// Whether what a loss tells a ledger may stand in the job's record until the ledger changes otherwise.
    /// Tests say no, to see every write of a ledger fail.
    pub redo: bool,
    /// `engine.dirty-task.pending-incident-ttl`: an episode that was not deployed within it is parked.
    pub pending_incident_ttl_ms: u64,
    /// How long a lost member stays listed.
    pub lost_listed_ms: u64,
    /// Ended jobs that the history keeps.
    pub finished_jobs: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            member_timeout_ms: 5_000,
            reconnect_grace_ms: 300,
            suspect_self: true,
            event_history_size: 10,
            redo: true,
            pending_incident_ttl_ms: 600_000,
            lost_listed_ms: 600_000,
            finished_jobs: 10_000,
        }
    }
}
