//! The one source of chance, so that a seed is a whole story.
//!
//! SplitMix64: small, and good enough to choose faults with. Each concern has a stream of its own, so
//! that one more draw for the network does not change which machine is lost next.

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of a seed for one concern.
    pub fn new(seed: u64, concern: u64) -> Self {
        let mut rng = Self(seed ^ concern.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let _ = rng.bits();
        rng
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.bits() % (high - low + 1)
    }

    /// True in `thousandths` of a thousand cases.
    pub fn chance(&mut self, thousandths: u64) -> bool {
        self.bits() % 1_000 < thousandths
    }

    /// One of `items`, or nothing if there is none.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        if items.is_empty() {
            return None;
        }
        let at = usize::try_from(self.between(0, items.len() as u64 - 1)).ok()?;
        items.get(at).copied()
    }
}
