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
    /// When a container that has told of no lease can have none any more; `None` once it has, or if it
    /// needs none.
    silent_due_ms: Option<u64>,
    /// `L − m/2` of the newest extension.
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
    /// A wrapper waits for its first "yes" for `L` and no longer, and that one is worth `L`: one that was
    /// stopped between starting its program and telling the lease is overdue after both.
    pub fn new(now_ms: u64, terms: LeaseTerms, needs_lease: bool) -> Self {
        let longest_ms = terms.lease_ms.saturating_mul(2);
        Self {
            terms,
            silent_due_ms: needs_lease.then(|| now_ms.saturating_add(longest_ms)),
            lease_due_ms: None,
            stop_due_ms: None,
            next: Some(Step::KillProgram),
            wrapper_due_ms: 0,
        }
    }

    /// The wrapper told that `L` now ends at `until_ms`. It kills at `L − m`, so this lies behind it
    /// and before `L`.
    pub fn extended(&mut self, until_ms: u64) {
        let due_ms = until_ms.saturating_sub(self.terms.margin_ms() / 2);
        self.silent_due_ms = None;
        self.lease_due_ms = self.lease_due_ms.max(Some(due_ms));
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
                self.wrapper_due_ms = now_ms.saturating_add(MARGIN_MS);
                self.next = Some(Step::KillWrapper);
            }
            Step::KillWrapper => self.next = None,
        }
        step
    }

    fn due_ms(&self) -> Option<u64> {
        match self.next? {
            Step::KillProgram => [self.silent_due_ms, self.lease_due_ms, self.stop_due_ms]
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
    fn a_wrapper_that_never_tells_of_a_lease_is_overdue_after_two() {
        let mut rung = Rung::new(1_000, TERMS, true);
        assert_eq!((rung.step(30_999), rung.step(31_000)), (None, Some(Step::KillProgram)));
        let mut rung = Rung::new(1_000, TERMS, true);
        rung.extended(16_000);
        assert_eq!((rung.step(15_799), rung.step(15_800)), (None, Some(Step::KillProgram)));
        let mut rung = Rung::new(1_000, TERMS, true);
        rung.extended(60_000);
        assert_eq!(rung.step(31_000), None, "the lease that was told is what counts");
    }

    #[test]
    fn the_program_goes_half_a_margin_before_the_lease_ends_and_the_wrapper_later() {
        let mut rung = Rung::new(0, TERMS, true);
        rung.extended(20_000);
        rung.extended(19_000);
        assert_eq!((rung.wait_ms(10_000), rung.step(19_799)), (9_800, None));
        assert_eq!(rung.step(19_800), Some(Step::KillProgram));
        assert_eq!(rung.step(20_799), None);
        assert_eq!(rung.step(20_800), Some(Step::KillWrapper));
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
