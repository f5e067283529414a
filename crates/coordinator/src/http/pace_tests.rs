//! `nextPollMs`, as a container hears it while the load changes.

use std::ops::RangeInclusive;

use steadfast_engine::{IndexChange, IndexEntry};
use steadfast_model::{ExecutionId, FencingToken, JobId, LeaseTerms, TaskGroupId, TermNonce};

use super::stage::{LIVE, Stage};

/// What is told to a container of the default lease, over several questions.
fn told(stage: &Stage) -> RangeInclusive<u64> {
    let secret = stage.secret(LIVE);
    let asked = (0..20).map(|nonce| {
        let target = format!("/isContainerValid?execution_resource_id={LIVE}&nonce={nonce}");
        let answer = stage.get(&target, Some(&secret)).json();
        assert_eq!((&answer["isValid"], &answer["leaseMs"]), (&true.into(), &15_000.into()));
        answer["nextPollMs"].as_u64().unwrap_or_else(|| panic!("{answer}"))
    });
    let asked: Vec<u64> = asked.collect();
    asked.iter().copied().min().unwrap()..=asked.into_iter().max().unwrap()
}

fn lies_in(told: &RangeInclusive<u64>, from: u64, to: u64) -> bool {
    from <= *told.start() && *told.end() <= to
}

#[test]
fn the_interval_grows_with_a_crowd_and_falls_with_it() {
    let stage = Stage::leading();
    let usual = told(&stage);
    assert!(lies_in(&usual, 900, 1_000), "{usual:?}");
    assert_eq!(stage.metric("steadfast_poll_interval_stretch"), 1.0);
    let entry = IndexEntry {
        job: JobId::new(1),
        task_group: TaskGroupId::new(1),
        token: FencingToken::new(1),
        lease: LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 },
        assumed_answer: None,
        started: true,
        samza: false,
    };
    let crowd = || (1..=20_000).map(|seq| ExecutionId::of_term(TermNonce::new(9), seq));
    for id in crowd() {
        stage.term.index.apply(&IndexChange::Live(id, entry));
    }
    let crowded = told(&stage);
    assert!(lies_in(&crowded, 1_800, 2_100), "{crowded:?}");
    for id in crowd() {
        stage.term.index.apply(&IndexChange::Remove(id));
    }
    let usual = told(&stage);
    assert!(lies_in(&usual, 900, 1_000), "{usual:?}");
}

#[test]
fn a_coordinator_that_is_late_is_asked_less_often_and_every_lease_still_holds_three_questions() {
    let stage = Stage::leading();
    stage.term.index.load.late_by(60_000);
    let late = told(&stage);
    // L − G − m = 9,600, and a third of it is 3,200.
    assert!(lies_in(&late, 2_880, 3_200), "{late:?}");
    assert!(stage.metric("steadfast_poll_interval_stretch") > 3.2);
    (0..60).for_each(|_| stage.term.index.load.late_by(0));
    let usual = told(&stage);
    assert!(lies_in(&usual, 900, 1_000), "{usual:?}");
}
