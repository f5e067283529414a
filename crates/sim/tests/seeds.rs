//! The fixed seeds of the gate. What must hold, holds in each of them; the failure message names the
//! seed, and `cargo xtask sim --seed S` plays it again.
//!
//! Every fourth seed is played twice, with tracking and without: the jobs must fare the same.

use std::collections::BTreeMap;

use steadfast_model::LossCause;
use steadfast_sim::{Options, Sight, Sights, play, play_twins};

/// As many as a debug build plays in some seconds; `cargo xtask sim` plays more.
const SEEDS: u64 = 600;

fn plays(first: u64) {
    for seed in (first..SEEDS).step_by(4) {
        let options = Options::default();
        let played = if first == 0 { play_twins(seed, &options) } else { play(seed, &options) };
        if let Err(failure) = played {
            panic!("{failure}");
        }
    }
}

#[test]
fn every_fourth_fixed_seed_holds_and_the_label_changes_nothing() {
    plays(0);
}

#[test]
fn the_fixed_seeds_after_those_hold() {
    plays(1);
}

#[test]
fn the_fixed_seeds_two_after_hold() {
    plays(2);
}

#[test]
fn the_fixed_seeds_three_after_hold() {
    plays(3);
}

/// What is never played is not shown to hold.
#[test]
fn members_leave_as_planned_in_every_way() {
    let mut planned: BTreeMap<LossCause, u64> = BTreeMap::new();
    for seed in 0..150 {
        let played = play(seed, &Options::default()).unwrap_or_else(|failure| panic!("{failure}"));
        for (cause, losses) in played.planned {
            *planned.entry(cause).or_default() += losses;
        }
    }
    let ways: Vec<LossCause> = planned.keys().copied().collect();
    assert_eq!(ways, LossCause::ALL, "{planned:?}");
}

#[test]
fn a_lead_is_lost_in_every_way() {
    let mut sights = Sights::new();
    for seed in 0..SEEDS {
        let played = play(seed, &Options::default()).unwrap_or_else(|failure| panic!("{failure}"));
        for (sight, times) in played.sights {
            *sights.entry(sight).or_default() += times;
        }
    }
    let seen: Vec<Sight> = sights.keys().copied().collect();
    assert_eq!(seen, Sight::ALL, "{sights:?}");
}

#[test]
fn a_seed_is_a_whole_story() {
    let played = || {
        let options = Options { job_trace: true, ..Options::default() };
        let played = play(7, &options).unwrap_or_else(|failure| panic!("{failure}"));
        (played.steps, played.events, played.simulated_ms, played.jobs)
    };
    assert_eq!(played(), played());
}
