use super::*;

/// m = 100 + 2 % of 15,000 = 400, so a yes sent at 0 stops at 9,600 and kills at 14,600.
const TERMS: LeaseTerms = LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 };
const SUPERSEDED: InvalidReason = InvalidReason::Superseded;
const CANCELED: InvalidReason = InvalidReason::Canceled;

fn at(ms: u64) -> BootTime {
    BootTime::from_millis(ms)
}

fn waiting() -> Ladder {
    Ladder::new(at(0), TERMS, true)
}

fn running() -> Ladder {
    let mut ladder = waiting();
    assert_eq!(ladder.yes(at(0), at(0), 15_000), Some(Action::Start));
    ladder
}

fn program(end: ProgramEnd) -> Reaped {
    Reaped { program: Some(end), ..AN_ORPHAN }
}

fn last(end: ProgramEnd) -> Reaped {
    Reaped { program: Some(end), ..NOTHING_LEFT }
}

const AN_ORPHAN: Reaped = Reaped { program: None, rest_killed: false, no_child_left: false };
const NOTHING_LEFT: Reaped = Reaped { no_child_left: true, ..AN_ORPHAN };

fn ended(why: StopCause, killed: bool) -> Outcome {
    Outcome::Ended { why, killed }
}

fn assert_over(ladder: &Ladder, outcome: &Outcome, proof: Proof) {
    assert_eq!(ladder.over(), Some((outcome, proof)));
    assert_eq!(ladder.kill_at(), BootTime::NEVER);
}

fn assert_never_started(ladder: &Ladder, part: &str) {
    match ladder.over() {
        Some((Outcome::NotStarted { error }, Proof::NeverStarted)) => {
            assert!(error.contains(part), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_yes_no_start() {
    let mut ladder = waiting();
    assert_eq!(ladder.tick(at(14_999)), None);
    assert_eq!(ladder.next_deadline(), at(15_000));
    assert_eq!(ladder.tick(at(15_000)), None);
    assert_never_started(&ladder, "15000 ms");
    assert_eq!(ladder.yes(at(15_000), at(14_999), 15_000), None, "too late is never");
}

#[test]
fn a_first_yes_that_comes_too_late_starts_nothing() {
    let mut ladder = waiting();
    assert_eq!(ladder.yes(at(9_600), at(0), 15_000), None, "its own stop is due already");
    assert_eq!(ladder.yes(at(9_700), at(9_650), 15_000), Some(Action::Start));
    assert_eq!(ladder.yes(at(9_800), at(9_750), 15_000), None, "and it starts once");
}

#[test]
fn told_before_the_start_it_never_starts() {
    let mut ladder = waiting();
    assert_eq!(ladder.no(at(5), SUPERSEDED), None);
    assert_over(&ladder, &ended(StopCause::Invalid(SUPERSEDED), false), Proof::NeverStarted);
    let mut ladder = waiting();
    assert_eq!(ladder.told(at(5), CANCELED, 100), None);
    assert_over(&ladder, &ended(StopCause::Told(CANCELED), false), Proof::NeverStarted);
    let mut ladder = waiting();
    assert_eq!(ladder.agent_gone(), None);
    assert_never_started(&ladder, "agent");
    let mut ladder = waiting();
    assert_eq!(ladder.interrupted(15), None);
    assert_never_started(&ladder, "signal 15");
}

#[test]
fn a_command_that_cannot_be_started_is_over() {
    let mut ladder = running();
    ladder.not_started("no such file".into());
    assert_never_started(&ladder, "no such file");
}

#[test]
fn the_program_ends_by_itself() {
    for (end, outcome) in [
        (ProgramEnd::Exited(0), Outcome::Exited { code: 0 }),
        (ProgramEnd::Exited(70), Outcome::Exited { code: 70 }),
        (ProgramEnd::Signaled(9), Outcome::Signaled { signal: 9 }),
    ] {
        let mut ladder = running();
        assert_eq!(ladder.reaped(at(100), last(end)), None);
        assert_over(&ladder, &outcome, Proof::NoChildLeft);
    }
}

#[test]
fn descendants_do_not_outlive_the_program_and_its_outcome_counts() {
    let mut ladder = running();
    assert_eq!(ladder.reaped(at(100), program(ProgramEnd::Exited(3))), Some(Action::Terminate));
    assert_eq!(ladder.next_deadline(), at(5_100));
    assert_eq!(ladder.reaped(at(200), AN_ORPHAN), None);
    assert_eq!(ladder.tick(at(5_100)), Some(Action::Kill));
    assert_eq!(
        ladder.reaped(at(5_101), AN_ORPHAN),
        Some(Action::Kill),
        "who is orphaned by it too"
    );
    assert_eq!(ladder.tick(at(5_149)), None);
    assert_eq!(ladder.tick(at(5_150)), Some(Action::Kill), "again until nothing is left");
    assert_eq!(ladder.reaped(at(5_151), NOTHING_LEFT), None);
    assert_over(&ladder, &Outcome::Exited { code: 3 }, Proof::NoChildLeft);
}

#[test]
fn told_invalid_it_gets_its_grace() {
    let mut ladder = running();
    assert_eq!(ladder.no(at(1_000), SUPERSEDED), Some(Action::Terminate));
    assert_eq!(ladder.kill_at(), at(6_000));
    assert_eq!(ladder.reaped(at(1_500), last(ProgramEnd::Exited(0))), None);
    let outcome = ended(StopCause::Invalid(SUPERSEDED), false);
    assert_over(&ladder, &outcome, Proof::NoChildLeft);
    assert_eq!(outcome.exit_code(), 70);
}

#[test]
fn who_ignores_the_stop_is_killed() {
    let mut ladder = running();
    ladder.no(at(1_000), SUPERSEDED);
    assert_eq!(ladder.tick(at(5_999)), None);
    assert_eq!(ladder.tick(at(6_000)), Some(Action::Kill));
    ladder.reaped(at(6_001), last(ProgramEnd::Signaled(9)));
    assert_over(&ladder, &ended(StopCause::Invalid(SUPERSEDED), true), Proof::NoChildLeft);
}

#[test]
fn the_grace_never_reaches_past_the_lease() {
    let mut ladder = running();
    assert_eq!(ladder.told(at(9_000), CANCELED, 60_000), Some(Action::Terminate));
    assert_eq!(ladder.kill_at(), at(14_600));
}

#[test]
fn the_lease_runs_out_in_order() {
    let mut ladder = running();
    assert_eq!(ladder.next_deadline(), at(9_600));
    assert_eq!(ladder.kill_at(), at(14_600));
    assert_eq!(ladder.tick(at(9_600)), Some(Action::Terminate));
    assert_eq!(ladder.yes(at(9_601), at(9_599), 15_000), None);
    assert_eq!(ladder.kill_at(), at(14_600), "a yes after the stop began moves nothing");
    assert!(!ladder.wants_verdicts());
    assert_eq!(ladder.tick(at(14_600)), Some(Action::Kill));
    ladder.reaped(at(14_601), last(ProgramEnd::Signaled(9)));
    assert_over(&ladder, &ended(StopCause::LeaseExpired, true), Proof::NoChildLeft);
}

#[test]
fn a_yes_moves_the_whole_lease() {
    let mut ladder = running();
    assert_eq!(ladder.yes(at(5_100), at(5_000), 15_000), None);
    assert_eq!(ladder.next_deadline(), at(14_600));
    assert_eq!(ladder.kill_at(), at(19_600));
    assert_eq!(ladder.lease_until(), Some(at(20_000)));
}

#[test]
fn woken_after_the_end_it_kills_at_once() {
    let mut ladder = running();
    assert_eq!(ladder.tick(at(14_600)), Some(Action::Kill), "no SIGTERM, no grace");
    ladder.reaped(at(14_601), last(ProgramEnd::Signaled(9)));
    assert_over(&ladder, &ended(StopCause::LeaseExpired, true), Proof::NoChildLeft);
}

#[test]
fn woken_after_the_stop_time_it_gets_what_is_left_of_the_grace() {
    let mut ladder = running();
    assert_eq!(ladder.tick(at(13_000)), Some(Action::Terminate));
    assert_eq!(ladder.kill_at(), at(14_600));
}

#[test]
fn a_kill_by_the_deadline_thread_is_the_leases_end_and_no_signal_of_its_own() {
    // The main thread was held up from before the stop to after the kill.
    let mut ladder = running();
    ladder.reaped(at(14_700), last(ProgramEnd::Signaled(9)));
    assert_over(&ladder, &ended(StopCause::LeaseExpired, true), Proof::NoChildLeft);
    // Held up during the grace.
    let mut ladder = running();
    ladder.no(at(1_000), SUPERSEDED);
    ladder.reaped(at(6_001), last(ProgramEnd::Signaled(9)));
    assert_over(&ladder, &ended(StopCause::Invalid(SUPERSEDED), true), Proof::NoChildLeft);
}

#[test]
fn who_ended_before_the_stop_was_not_ended_by_it() {
    // Reaped late, but with a code of its own: a success stays one.
    let mut ladder = running();
    ladder.reaped(at(20_000), last(ProgramEnd::Exited(0)));
    assert_over(&ladder, &Outcome::Exited { code: 0 }, Proof::NoChildLeft);
}

#[test]
fn the_first_cause_stands_and_the_shortest_grace_counts() {
    let mut ladder = running();
    ladder.no(at(1_000), SUPERSEDED);
    assert_eq!(ladder.told(at(1_100), CANCELED, 200), None, "SIGTERM comes once");
    assert_eq!(ladder.kill_at(), at(1_300));
    ladder.told(at(1_200), CANCELED, 60_000);
    assert_eq!(ladder.kill_at(), at(1_300));
    ladder.reaped(at(1_250), last(ProgramEnd::Exited(0)));
    assert_over(&ladder, &ended(StopCause::Invalid(SUPERSEDED), false), Proof::NoChildLeft);
}

#[test]
fn a_descendant_that_had_to_be_killed_counts_as_killed_when_the_ladder_ended_it() {
    let mut ladder = running();
    ladder.told(at(1_000), CANCELED, 500);
    assert_eq!(ladder.reaped(at(1_100), program(ProgramEnd::Exited(0))), Some(Action::Terminate));
    assert_eq!(ladder.tick(at(1_500)), Some(Action::Kill));
    ladder.reaped(at(1_501), NOTHING_LEFT);
    assert_over(&ladder, &ended(StopCause::Told(CANCELED), true), Proof::NoChildLeft);
}

#[test]
fn the_agents_death_alone_ends_nothing_that_runs() {
    let mut ladder = running();
    assert_eq!(ladder.agent_gone(), None);
    assert_eq!(ladder.interrupted(15), None, "a signal goes to the program instead");
    assert!(ladder.wants_verdicts());
    assert_eq!(ladder.over(), None);
}

#[test]
fn disabled_it_asks_nobody_and_knows_no_lease() {
    let mut ladder = Ladder::new(at(0), TERMS, false);
    assert_eq!(ladder.tick(at(0)), Some(Action::Start));
    assert!(!ladder.wants_verdicts());
    assert_eq!(ladder.tick(at(1_000_000_000)), None);
    assert_eq!((ladder.next_deadline(), ladder.kill_at()), (BootTime::NEVER, BootTime::NEVER));
    assert_eq!(ladder.told(at(2_000_000_000), CANCELED, 100), Some(Action::Terminate));
    assert_eq!(ladder.kill_at(), at(2_000_000_100));
}

#[test]
fn a_status_that_somebody_else_took_is_no_success() {
    let mut ladder = running();
    ladder.reaped(at(10), NOTHING_LEFT);
    assert_over(&ladder, &Outcome::Exited { code: 255 }, Proof::NoChildLeft);
}

#[test]
fn whom_the_enclosures_deadline_killed_was_killed() {
    let killed_first = Reaped { rest_killed: true, ..NOTHING_LEFT };
    let mut ladder = running();
    ladder.no(at(1_000), SUPERSEDED);
    assert_eq!(ladder.reaped(at(1_100), program(ProgramEnd::Exited(0))), Some(Action::Terminate));
    // At the same instant as the ladder's own deadline, and before anybody looked at that.
    assert_eq!(ladder.reaped(at(6_000), killed_first), None);
    assert_over(&ladder, &ended(StopCause::Invalid(SUPERSEDED), true), Proof::NoChildLeft);
    // Who ended by itself ended so, whatever became of what it left behind.
    let mut ladder = running();
    ladder.reaped(at(1_000), program(ProgramEnd::Exited(4)));
    ladder.reaped(at(6_000), killed_first);
    assert_over(&ladder, &Outcome::Exited { code: 4 }, Proof::NoChildLeft);
}
