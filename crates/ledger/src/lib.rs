//! The recovery ledger: how often a job had to be deployed again because a member was lost.
//!
//! It implements SeaTunnel's proposal of a recovery-degraded ("dirty job") label. A ledger is a value:
//! its verbs take the time as an argument, change it, and return what happened. It knows no job status
//! and no retry limit, does no I/O and can be used by another engine as it stands.
//!
//! ```text
//! member_lost ─▶ an episode is open ─▶ prepare ─▶ confirm ─▶ recovered ─▶ the episode is complete
//!                     ▲     │             │ again: the same id  │ counted once per generation
//!                     └─────┘ joins       └── abort ────────────┴──────▶ the episode is aborted
//! ```
//!
//! Two rules keep the count exact (found by a model of the proposal; read to the letter it is not):
//! an attempt is confirmed in the very commit that moves its pipeline to `DEPLOYING`, and a sequence
//! number counts deployments, so a preparation that is repeated hands out the same id.

mod episode;
mod evaluation;
mod history;
mod job_ledger;
mod loss;
mod redo;
mod stored;
mod stored_size;
mod tracking;

pub use episode::{
    Attempt, AttemptOutcome, Episode, EpisodeStatus, Incident, MAX_ATTEMPTS, MAX_INCIDENTS, Marks,
};
pub use evaluation::{Evaluation, Watermarks, evaluate};
pub use history::EpisodeHistory;
pub use job_ledger::{Aborted, Confirmed, Expired, JobLedger, LastLoss, MemberLost, Recovered};
pub use loss::{Facts, Loss, LossFacts, SharedLoss};
pub use redo::{Journal, Redo, journal};
pub use stored_size::max_stored_bytes;
pub use tracking::{Tracking, TrackingLostCause};
