//! What the answers are worth, as a value: no clock, no thread, `now` is an argument. The library and
//! the wrapper both stand on it.

use steadfast_model::LeaseTerms;

use crate::clock::BootTime;

/// The lease of one container, from its first "yes" on.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    terms: LeaseTerms,
    until: Option<BootTime>,
}

impl Lease {
    /// A lease that nobody has granted yet.
    pub(crate) const fn new(terms: LeaseTerms) -> Self {
        Self { terms, until: None }
    }

    /// Takes note of a "yes" to the question that was sent at `sent_at`, and says whether it counts.
    ///
    /// The lease runs from the *sending*: the answer was given at some unknown later time, so the
    /// coordinator's clock for the same answer never runs out before ours. The last word counts, also
    /// where it grants less than the one before (what is left of a lease, 05), and never more than `L`.
    /// A yes that comes when the stop is due moves nothing, or a program could be halfway through its
    /// shutdown and believe that it goes on.
    pub(crate) fn extend(&mut self, now: BootTime, sent_at: BootTime, lease_ms: u64) -> bool {
        if self.until.is_some() && now >= self.stop_at() {
            return false;
        }
        let until = sent_at.plus(lease_ms.min(self.terms.lease_ms));
        if self.until.is_none() && now >= self.stop_before(until) {
            return false;
        }
        self.until = Some(until);
        true
    }

    /// When `L` ends; `None` before the first "yes".
    pub(crate) const fn until(&self) -> Option<BootTime> {
        self.until
    }

    /// When the program is told to stop, `until − G − m`; never before the first "yes".
    pub(crate) fn stop_at(&self) -> BootTime {
        self.until.map_or(BootTime::NEVER, |until| self.stop_before(until))
    }

    /// When the program is killed, `until − m`; never before the first "yes".
    pub(crate) fn kill_at(&self) -> BootTime {
        self.until.map_or(BootTime::NEVER, |until| until.minus(self.terms.margin_ms()))
    }

    fn stop_before(&self, until: BootTime) -> BootTime {
        until.minus(self.terms.grace_ms + self.terms.margin_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: LeaseTerms = LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 };

    fn at(ms: u64) -> BootTime {
        BootTime::from_millis(ms)
    }

    #[test]
    fn the_default_lease_counts_from_the_sending() {
        let mut lease = Lease::new(TERMS);
        assert_eq!(lease.stop_at(), BootTime::NEVER);
        assert!(lease.extend(at(100_900), at(100_000), 15_000));
        // L = 15,000, G = 5,000, m = 100 + 2 % of 15,000 = 400.
        assert_eq!(lease.stop_at(), at(109_600));
        assert_eq!(lease.kill_at(), at(114_600));
        assert_eq!(lease.until(), Some(at(115_000)));
    }

    #[test]
    fn an_answer_may_grant_less_and_never_more() {
        let mut lease = Lease::new(TERMS);
        assert!(lease.extend(at(0), at(0), 90_000));
        assert_eq!(lease.until(), Some(at(15_000)));
        assert!(lease.extend(at(1_000), at(1_000), 9_000));
        assert_eq!(lease.until(), Some(at(10_000)));
        // The margin is that of the full L: it makes up for clocks, and they drift no less.
        assert_eq!(lease.kill_at(), at(9_600));
        assert_eq!(lease.stop_at(), at(4_600));
    }

    #[test]
    fn a_yes_when_the_stop_is_due_moves_nothing() {
        let mut lease = Lease::new(TERMS);
        assert!(lease.extend(at(0), at(0), 15_000));
        assert!(lease.extend(at(9_599), at(9_000), 15_000));
        assert_eq!(lease.stop_at(), at(18_600));
        assert!(
            !lease.extend(at(18_600), at(18_599), 15_000),
            "the stop is due in this millisecond"
        );
        assert_eq!(lease.stop_at(), at(18_600));
    }

    #[test]
    fn a_first_yes_that_is_already_over_is_none() {
        let mut lease = Lease::new(TERMS);
        assert!(!lease.extend(at(9_600), at(0), 15_000), "a launch that was delayed");
        assert!(!lease.extend(at(0), at(0), 5_400), "nothing is left besides grace and margin");
        assert_eq!(lease.until(), None);
        assert!(lease.extend(at(0), at(0), 5_401));
    }

    /// The law behind all the numbers: for every answer that a coordinator can have given to a request,
    /// stop < kill < replace, though the coordinator counts from its answer and we from our sending.
    #[test]
    fn stop_comes_before_kill_and_kill_before_replace() {
        for lease_ms in [1_500, 4_183, 15_000, 60_000, 600_000] {
            for grace_ms in [1, 300, 1_000, lease_ms / 3] {
                let terms = LeaseTerms { lease_ms, grace_ms, schedule_ms: 100 };
                for flight_ms in [0, 1, 40, 2_000] {
                    let sent = at(1_000_000);
                    let answered = sent.plus(flight_ms / 2);
                    let mut lease = Lease::new(terms);
                    if !lease.extend(sent.plus(flight_ms), sent, lease_ms) {
                        continue;
                    }
                    let replace = answered.plus(terms.replace_after_ms());
                    assert!(lease.stop_at() < lease.kill_at(), "{terms:?} {flight_ms}");
                    assert!(lease.kill_at() < replace, "{terms:?} {flight_ms}");
                    let between = replace.millis_since(lease.kill_at());
                    assert!(between >= 2 * terms.margin_ms(), "room for drift on both sides");
                }
            }
        }
    }
}
