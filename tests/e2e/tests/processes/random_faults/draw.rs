//! Which faults, drawn by a seed, and the story of what was drawn.

use std::time::SystemTime;

use super::Fault;

/// The same numbers for the same seed (an additive sequence, mixed well).
pub struct Draw(pub u64);

impl Draw {
    /// A fault of those that are left; each comes once before any comes again, so that a few rounds see
    /// them all.
    pub fn fault(&mut self, all: &[Fault], undrawn: &mut Vec<Fault>) -> Fault {
        if undrawn.is_empty() {
            undrawn.extend(all);
        }
        undrawn.swap_remove(self.below(undrawn.len()))
    }

    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % end as u64).expect("less than a length")
    }
}

/// Says what was done, and at a failure how to do it again.
pub struct Story {
    name: &'static str,
    pub seed: u64,
    rounds: Vec<String>,
}

impl Story {
    #[track_caller]
    pub fn begin(name: &'static str, rounds: u32) -> Self {
        let seed = match std::env::var("STEADFAST_E2E_SEED") {
            Ok(text) => text.parse().expect("STEADFAST_E2E_SEED is a number"),
            Err(_) => SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()),
        };
        eprintln!("{name}: {rounds} rounds, STEADFAST_E2E_SEED={seed}");
        Self { name, seed, rounds: Vec::new() }
    }

    pub fn tell(&mut self, round: String) {
        eprintln!("{round}");
        self.rounds.push(round);
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let last = self.rounds.last().map_or("before the first round", String::as_str);
            eprintln!("{} FAILED with STEADFAST_E2E_SEED={}; {last}", self.name, self.seed);
        }
    }
}
