//! The lease in numbers: who may act when, so that a container's end always lies strictly before its
//! replacement's start.

use serde::{Deserialize, Serialize};

/// What one "yes" is worth. All durations are milliseconds on `CLOCK_BOOTTIME`.
///
/// With `L` the lease, `G` the grace and `m` the margin: a container stops itself `L − G − m` after
/// *sending* the last request that got a yes and is killed at `L − m`; the coordinator may replace it
/// `L + m` after its last *answer*. An answer is never earlier than its request was sent, so the kill
/// comes at least `2 m` before the replacement, which is room for two clocks that drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseTerms {
    /// `L`: how long one "yes" lasts.
    pub lease_ms: u64,
    /// `G`: from "stop" to SIGKILL.
    pub grace_ms: u64,
    /// How often a container asks.
    pub schedule_ms: u64,
}

impl LeaseTerms {
    /// `m`: 100 ms and 2 % of the lease, for drift and scheduling.
    pub const fn margin_ms(self) -> u64 {
        100 + self.lease_ms / 50
    }

    /// `L − G − m`: the container begins to stop this long after sending its last answered request.
    pub const fn stop_after_ms(self) -> u64 {
        self.lease_ms.saturating_sub(self.grace_ms + self.margin_ms())
    }

    /// `L − m`: the container is killed.
    pub const fn kill_after_ms(self) -> u64 {
        self.lease_ms.saturating_sub(self.margin_ms())
    }

    /// `L − 2 % of L`: the agent kills what its wrapper has not. It lies 100 ms behind the wrapper's own
    /// deadline, and before every replacement also where each of the two clocks is wrong by 2 %.
    pub const fn second_rung_after_ms(self) -> u64 {
        self.lease_ms - self.lease_ms / 50
    }

    /// `L + m`: the coordinator may start a replacement this long after its last answer.
    pub const fn replace_after_ms(self) -> u64 {
        self.lease_ms + self.margin_ms()
    }

    /// Whether `L − G − m` holds three polls. Where it does not, one slow answer would end a healthy
    /// container, and the job is refused.
    pub const fn holds_three_polls(self) -> bool {
        self.lease_ms >= self.grace_ms + self.margin_ms() + 3 * self.schedule_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_lease_has_the_published_numbers() {
        let terms = LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 };
        assert_eq!(terms.margin_ms(), 400);
        assert_eq!(terms.stop_after_ms(), 9_600);
        assert_eq!(terms.kill_after_ms(), 14_600);
        assert_eq!(terms.second_rung_after_ms(), 14_700);
        assert_eq!(terms.replace_after_ms(), 15_400);
        assert!(terms.holds_three_polls());
    }

    #[test]
    fn three_polls_is_a_sharp_bound() {
        let terms = |lease_ms| LeaseTerms { lease_ms, grace_ms: 1_000, schedule_ms: 1_000 };
        // At L = 4,182 the margin is 100 + 83 = 183 and 1,000 + 183 + 3,000 = 4,183 would be needed.
        assert!(!terms(4_182).holds_three_polls());
        assert!(terms(4_183).holds_three_polls());
    }
}
