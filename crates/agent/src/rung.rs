//! When the agent acts because a wrapper did not: the second rung of the ladder (05), as numbers.

use steadfast_model::LeaseTerms;

/// What a stopped container gets on top of its grace before the agent kills it, and what a wrapper gets
/// to prove the end once its program was killed.
const MARGIN_MS: u64 = 1_000;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Kill everything but the wrapper.
    KillProgram,
    /// Kill the wrapper too.
    KillWrapper,
}

/// All instants are milliseconds of `CLOCK_BOOTTIME`.
#[derive(Debug)]
pub(crate) struct Rung {
    terms: LeaseTerms,
    /// When a container that has told of no lease must be gone; `None` once it has, or if it needs none.
    untold_due_ms: Option<u64>,
    /// The second rung's instant in the newest extension.
    lease_due_ms: Option<u64>,
    /// The end of a stop's grace, and the margin.
    stop_due_ms: Option<u64>,
    next: Option<Step>,
    /// When the wrapper is killed; set when the program was.
    wrapper_due_ms: u64,
}

impl Rung {
    /// A container launched now. `needs_lease` is false where the validator is disabled.
    ///
    /// A wrapper that was stopped between starting its program and telling of its lease is not known to have
    /// one. It cannot have asked before its launch, so what the launch itself would be worth is safe.
    pub fn new(now_ms: u64, terms: LeaseTerms, needs_lease: bool) -> Self {
        Self {
            terms,
            untold_due_ms: needs_lease.then(|| now_ms.saturating_add(terms.second_rung_after_ms())),
            lease_due_ms: None,
            stop_due_ms: None,
            next: Some(Step::KillProgram),
            wrapper_due_ms: 0,
        }
    }

    /// The wrapper told that `L` now ends at `until_ms`.
    pub fn extended(&mut self, until_ms: u64) {
        let early_ms = self.terms.lease_ms - self.terms.second_rung_after_ms();
        self.lease_due_ms = self.lease_due_ms.max(Some(until_ms.saturating_sub(early_ms)));
        let was_untold = self.untold_due_ms.take().is_some();
        if was_untold && self.stop_due_ms.is_none() && self.next == Some(Step::KillWrapper) {
            // Its first "yes" came late: what was due had nothing to kill yet.
            self.next = Some(Step::KillProgram);
        }
    }

    /// A stop was passed on.
    pub fn stopping(&mut self, now_ms: u64, grace_ms: u64) {
        let due_ms = now_ms.saturating_add(grace_ms).saturating_add(MARGIN_MS);
        self.stop_due_ms =
            Some(self.stop_due_ms.map_or(due_ms, |earlier_ms| earlier_ms.min(due_ms)));
    }

    /// How long nothing is due.
    pub fn wait_ms(&self, now_ms: u64) -> u64 {
        self.due_ms().map_or(u64::MAX, |due_ms| due_ms.saturating_sub(now_ms))
    }

    /// Takes the step that is due.
    pub fn step(&mut self, now_ms: u64) -> Option<Step> {
        if self.due_ms()? > now_ms {
            return None;
        }
        let step = self.next;
        match step? {
            Step::KillProgram => {
                // A wrapper that has not started anything waits for its first "yes" for `L`, and then says so.
                let waits_ms = self.terms.lease_ms - self.terms.second_rung_after_ms();
                let waits_ms = self.untold_due_ms.map_or(0, |_| waits_ms);
                self.wrapper_due_ms = now_ms.saturating_add(waits_ms).saturating_add(MARGIN_MS);
                self.next = Some(Step::KillWrapper);
            }
            Step::KillWrapper => self.next = None,
        }
        step
    }

    fn due_ms(&self) -> Option<u64> {
        match self.next? {
            Step::KillProgram => [self.untold_due_ms, self.lease_due_ms, self.stop_due_ms]
                .into_iter()
                .flatten()
                .min(),
            Step::KillWrapper => Some(self.wrapper_due_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `m` is 400 ms.
    const TERMS: LeaseTerms = LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 };

    #[test]
    fn without_a_lease_or_a_stop_nothing_is_ever_due() {
        let mut rung = Rung::new(0, TERMS, false);
        assert_eq!((rung.step(u64::MAX), rung.wait_ms(0)), (None, u64::MAX));
    }

    #[test]
    fn what_never_told_of_a_lease_goes_as_if_its_launch_had_been_its_first_question() {
        let mut rung = Rung::new(1_000, TERMS, true);
        assert_eq!((rung.step(15_699), rung.step(15_700)), (None, Some(Step::KillProgram)));
        // The wrapper may wait for its first "yes" until 16,000, and has a second to say so.
        assert_eq!((rung.step(16_999), rung.step(17_000)), (None, Some(Step::KillWrapper)));
        let mut rung = Rung::new(1_000, TERMS, true);
        rung.extended(16_000);
        assert_eq!((rung.step(15_699), rung.step(15_700)), (None, Some(Step::KillProgram)));
        let mut rung = Rung::new(1_000, TERMS, true);
        rung.extended(60_000);
        assert_eq!(rung.step(31_000), None, "the lease that was told is what counts");
    }

    #[test]
    fn a_first_yes_that_came_late_is_worth_as_much() {
        let mut rung = Rung::new(1_000, TERMS, true);
        assert_eq!(rung.step(15_700), Some(Step::KillProgram));
        rung.extended(30_900);
        assert_eq!((rung.step(30_599), rung.step(30_600)), (None, Some(Step::KillProgram)));
        let mut rung = Rung::new(1_000, TERMS, true);
        rung.stopping(1_000, 0);
        assert_eq!(rung.step(2_000), Some(Step::KillProgram));
        rung.extended(16_000);
        assert_eq!(rung.step(3_300), Some(Step::KillWrapper), "a stop is a stop");
    }

    #[test]
    fn the_program_goes_at_the_second_rung_and_the_wrapper_later() {
        let mut rung = Rung::new(0, TERMS, true);
        rung.extended(20_000);
        rung.extended(19_000);
        assert_eq!((rung.wait_ms(10_000), rung.step(19_699)), (9_700, None));
        assert_eq!(rung.step(19_700), Some(Step::KillProgram));
        assert_eq!(rung.step(20_699), None);
        assert_eq!(rung.step(20_700), Some(Step::KillWrapper));
        assert_eq!((rung.step(u64::MAX), rung.wait_ms(0)), (None, u64::MAX));
    }

    #[test]
    fn a_stop_has_a_deadline_that_neither_a_yes_nor_a_second_stop_puts_off() {
        let mut rung = Rung::new(0, TERMS, true);
        rung.stopping(1_000, 5_000);
        rung.extended(60_000);
        rung.stopping(2_000, 5_000);
        assert_eq!((rung.step(6_999), rung.step(7_000)), (None, Some(Step::KillProgram)));
        let mut rung = Rung::new(0, TERMS, true);
        rung.stopping(1_000, 5_000);
        rung.stopping(1_500, 0);
        assert_eq!(rung.step(2_500), Some(Step::KillProgram));
    }
}
