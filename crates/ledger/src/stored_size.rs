//! How large a stored ledger can get: a job's records are written in one transaction, and a store has
//! a limit for that.
//!
//! Everything that grows with what happens to a job is a bounded sample with a count beside it. What
//! is left grows with what the operator and the job ask for: episodes in the history, and pipelines,
//! because each one's deployments must be known exactly while its episode is open.

use crate::episode::{MAX_ATTEMPTS, MAX_INCIDENTS, MAX_PIPELINES, MAX_TASK_GROUPS, MAX_TEXT_BYTES};

/// A text in JSON: a quote or a backslash takes two bytes.
const TEXT: usize = 2 * MAX_TEXT_BYTES;
/// An id of 32 bits with its comma.
const ID: usize = 11;
/// What is beside the variable parts: names, quotes, braces and numbers of up to 20 digits.
const INCIDENT: usize = 2 * TEXT + (MAX_PIPELINES + MAX_TASK_GROUPS) * ID + 320;
const ATTEMPT: usize = TEXT + 130;
const EPISODE: usize = MAX_INCIDENTS * INCIDENT + MAX_ATTEMPTS * ATTEMPT + TEXT + 440;
const CONTEXT: usize = 70;
const LEDGER: usize = TEXT + 640;

/// Bytes that a ledger takes as JSON, at most, in a job of so many pipelines, its closed episodes, which are
/// stored apart from it, included. With the default history
/// of ten episodes it is less than half a mebibyte, and 70 bytes more for each pipeline.
pub const fn max_stored_bytes(history_size: usize, pipelines: usize) -> usize {
    let kept = if history_size == 0 { 1 } else { history_size };
    LEDGER + (kept + 1) * EPISODE + pipelines * CONTEXT
}
