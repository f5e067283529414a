//! One notion of time for the whole core.

use std::fmt;
use std::ops::Add;

use serde::{Deserialize, Serialize};

/// An instant in milliseconds since the Unix epoch.
///
/// Within one term of a coordinator it only ever grows: the shell anchors it to the wall clock when the
/// term begins and moves it with `CLOCK_BOOTTIME` from then on, so differences are true durations (a
/// suspended machine included) and the value can still be shown to a person. Between terms it may jump;
/// nothing durable depends on the difference of two terms' instants.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The instant that lies `ms` milliseconds after the Unix epoch.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Milliseconds from `earlier` to `self`; 0 if `earlier` is not earlier.
    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Timestamp {
    type Output = Self;

    /// The instant `ms` milliseconds later.
    fn add(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}
