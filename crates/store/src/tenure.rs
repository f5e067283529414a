//! Until when a leader may act without asking its store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

/// What a term knows of its own end, readable on every path that must not act beyond it.
///
/// [`crate::Term::lost`] wakes whoever waits, but a process that was stopped, or a machine that was
/// suspended, may answer a request before any task of it has been woken. So the end is an instant on
/// `CLOCK_BOOTTIME`, which a suspended machine does not hold up, and a reader compares it with the clock
/// itself: one atomic and one call that stays in user space.
#[derive(Clone, Debug)]
pub struct Tenure(Arc<AtomicU64>);

/// No instant of the clock: this hold does not end in time.
const WITHOUT_END: u64 = u64::MAX;
/// Before every instant of the clock.
const OVER: u64 = 0;

impl Tenure {
    /// The hold of a term that ends only when it is told so.
    pub fn without_end() -> Self {
        Self(Arc::new(AtomicU64::new(WITHOUT_END)))
    }

    /// Whether the term may act at this moment.
    pub fn holds(&self) -> bool {
        match self.0.load(Ordering::Acquire) {
            WITHOUT_END => true,
            until_ms => now_ms() < until_ms,
        }
    }

    /// Ends it, for good: a late extension does not bring it back.
    pub fn end(&self) {
        self.0.store(OVER, Ordering::Release);
    }
}

#[cfg(feature = "etcd")]
impl Tenure {
    pub(crate) fn until(until_ms: u64) -> Self {
        Self(Arc::new(AtomicU64::new(until_ms)))
    }

    /// Moves the end to a later instant; one that has passed stays passed.
    pub(crate) fn extend_to(&self, until_ms: u64) {
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |present_ms| {
            (now_ms() < present_ms).then_some(present_ms.max(until_ms))
        });
    }

    /// How long it still holds; 0 when it is over.
    pub(crate) fn left_ms(&self) -> u64 {
        self.0.load(Ordering::Acquire).saturating_sub(now_ms())
    }
}

/// Milliseconds on `CLOCK_BOOTTIME`.
pub(crate) fn now_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    // The clock starts at 0 with the machine.
    time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_stays_over() {
        let tenure = Tenure::without_end();
        assert!(tenure.holds());
        let copy = tenure.clone();
        copy.end();
        assert!(!tenure.holds());
    }

    #[cfg(feature = "etcd")]
    #[test]
    fn an_end_moves_only_forward_and_only_while_it_holds() {
        let tenure = Tenure::until(now_ms() + 1_000_000);
        tenure.extend_to(now_ms() + 2_000_000);
        tenure.extend_to(0);
        assert!(tenure.holds() && tenure.left_ms() > 1_000_000);
        for over in [Tenure::until(1), tenure] {
            if over.holds() {
                over.end();
            }
            over.extend_to(now_ms() + 1_000_000);
            assert!(!over.holds() && over.left_ms() == 0);
        }
    }
}
