//! Waiting: for a condition, up to a deadline, never for a time.

use std::time::{Duration, Instant};

/// How long a test waits for what has to come. Far above every bound: a test says whether something
/// happens, the scenes say how fast.
pub const PATIENCE: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Looks until there is something to see, and gives it back.
///
/// # Panics
/// When the deadline has passed; `what` says what did not come.
#[track_caller]
pub fn wait_until<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "waited {limit:?} in vain: {what}");
        std::thread::sleep(LOOK_EVERY); // polls
    }
}

/// Whether outages take as long as promised, and random rounds are a hundred (`cargo xtask e2e --long`).
pub fn is_long() -> bool {
    std::env::var("STEADFAST_E2E_LONG").is_ok_and(|value| value == "1")
}
