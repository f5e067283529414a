//! The clock of a term: anchored to the wall once, then moved by `CLOCK_BOOTTIME`, so that differences
//! are true durations, a suspended machine included.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use steadfast_model::Timestamp;

/// Milliseconds since the Unix epoch that never jump.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    wall_ms: u64,
    boot_ms: u64,
}

impl Clock {
    /// A clock that shows the wall's time now.
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        Self { wall_ms, boot_ms: boot_ms() }
    }

    /// The instant now.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.wall_ms + (boot_ms() - self.boot_ms))
    }
}

fn boot_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds * 1_000 + nanos / 1_000_000
}
