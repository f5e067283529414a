//! Whether a program gets on: what its containers' questions say of its steps (05, `STALLED`).
//!
//! A step count that no longer rises says that a run loop hangs under a healthy validator. Only time in
//! which the container was heard counts: between two of its questions, and for a long gap no more than
//! [`GAP_POLLS`] polls. So neither a coordinator that was away nor a container that was cut off marks
//! anybody, and after a takeover everybody has one full timeout.

use steadfast_model::Timestamp;

/// Of a gap between two questions at most this many polls count.
const GAP_POLLS: u64 = 2;

/// The steps that one container has told of, all of its senders together.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The largest count; a wrapper beside a library sends a smaller one of its own.
    steps: u64,
    /// The last question, in milliseconds since the Unix epoch; 0: none yet.
    heard_ms: u64,
    /// For how long it was heard and did not rise.
    quiet_ms: u32,
}

impl Progress {
    /// Takes in the count of one question.
    pub fn hear(&mut self, steps: u64, now: Timestamp, schedule_ms: u64) {
        let heard_ms = std::mem::replace(&mut self.heard_ms, now.as_millis());
        if heard_ms == 0 || steps > self.steps {
            self.steps = steps.max(self.steps);
            self.quiet_ms = 0;
            return;
        }
        let gap_ms = now.as_millis().saturating_sub(heard_ms).min(GAP_POLLS * schedule_ms);
        self.quiet_ms = self.quiet_ms.saturating_add(u32::try_from(gap_ms).unwrap_or(u32::MAX));
    }

    /// For how long it has told of no step.
    pub fn quiet_ms(&self) -> u64 {
        self.quiet_ms.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE_MS: u64 = 1_000;

    /// The quiet after questions at these instants with these counts.
    fn quiet(questions: &[(u64, u64)]) -> u64 {
        let mut progress = Progress::default();
        for (at_ms, steps) in questions {
            progress.hear(*steps, Timestamp::from_millis(1_000_000 + at_ms), SCHEDULE_MS);
        }
        progress.quiet_ms()
    }

    #[test]
    fn only_a_larger_count_is_a_step() {
        assert_eq!(quiet(&[]), 0);
        assert_eq!(quiet(&[(0, 5)]), 0, "the first count is the beginning, whatever it is");
        assert_eq!(quiet(&[(0, 5), (1_000, 5), (2_000, 5)]), 2_000);
        assert_eq!(quiet(&[(0, 5), (1_000, 5), (2_000, 6)]), 0);
        assert_eq!(quiet(&[(0, 5), (1_000, 5), (2_000, 4)]), 2_000, "a count never falls");
    }

    #[test]
    fn a_wrapper_that_counts_nothing_does_not_hide_a_librarys_steps() {
        assert_eq!(quiet(&[(0, 0), (500, 1), (1_000, 0), (1_500, 2)]), 0);
        assert_eq!(quiet(&[(0, 0), (500, 2), (1_000, 0), (1_500, 2)]), 1_000);
    }

    #[test]
    fn time_in_which_it_was_not_heard_counts_for_little() {
        assert_eq!(quiet(&[(0, 1), (600_000, 1)]), 2_000, "the coordinator was away");
    }
}
