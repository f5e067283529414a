//! The lease protocol (design 05) in the small, exhaustively: there are never two running copies of one task
//! group, and a container without a "yes" ends. Within the bounds of each test nothing is left out.
//!
//! **Who is there.** Two terms of a coordinator, of which the first may be deposed at any point and still
//! act; a store that fences; one task group with its old container on one machine (agent, wrapper,
//! program) and its new one somewhere else.
//!
//! **What is real.** The wrapper's ladder and its lease (`crates/validator`), the agent's rung
//! (`crates/agent`), the validity index (`crates/coordinator`) and [`LeaseTerms`] are the product's own code, in
//! milliseconds. What stands between them is said again in `protocol/`, each rule with the place it comes
//! from: when a replacement may start, what a takeover assumes, the epochs, the order of freeze, commit and
//! swap, and when an agent kills.
//!
//! **Time** stands still at instants and jumps between them: every half of a lease, and every deadline of
//! anybody. A message, a commit or a process that is stopped takes any number of instants, or for ever,
//! which is how messages are lost and coordinators paused. Whoever is awake does what is due before time
//! goes on, so a kill takes no time of its own; `m` has 100 ms for that, which the model does not spend.
//! A clock is wrong by 2 % all the time, in either direction.
//!
//! **What is simpler, and why that hides no overlap.**
//! - A member may be taken for lost at any instant, so nothing here depends on when it is. That a healthy
//!   agent outranks a lease that is over, and that a stop is sent to it, only ends or holds back more.
//! - Leadership is one bit that is cleared before anybody else can lead; how the store keeps that promise is
//!   the store's (06). A commit that was sent before may land until the next term has begun.
//! - A program counts as running from its start until it is killed or obeys, also while it is stopped.
//! - The new container starts with its first "yes" and is then not followed: for what becomes of it there
//!   would be a third one.
//! - One question is under way. An answer to an older one has another nonce: on the container's side it
//!   changes nothing, on the coordinator's it only makes it wait longer.
//! - Both coordinators' clocks drift alike, since nobody compares them; their walls differ.
//!
//! **Limits.** Where wrapper and agent are both stopped or dead when the lease ends, nobody is left to end
//! the program. That is what 05 excuses, and [`LIMIT`] sees it happen.
//!
//! Each rule that is left out makes an overlap, or the other properties' violation: the last tests.

mod exhaustive;
mod protocol;

// What is driven here is private to its crates, and stays so: it is compiled into this test once more, its
// unit tests included.
#[allow(dead_code)]
#[path = "../../validator/src/clock.rs"]
mod clock;
#[allow(dead_code)]
#[path = "../../coordinator/src/index.rs"]
mod index;
#[allow(dead_code)]
#[path = "../../validator/src/wrapper/ladder.rs"]
mod ladder;
#[allow(dead_code)]
#[path = "../../validator/src/lease.rs"]
mod lease;
#[allow(dead_code)]
#[path = "../../coordinator/src/pace.rs"]
mod pace;
#[allow(dead_code)]
#[path = "../../coordinator/src/progress.rs"]
mod progress;
#[allow(dead_code)]
#[path = "../../agent/src/rung.rs"]
mod rung;

use stateright::{Checker, HasDiscoveries, Model, Property};
use steadfast_model::LeaseTerms;

use exhaustive::judge;
use protocol::coordinator::Life;
use protocol::machine::Process;
use protocol::{Action, Bounds, Clocks, Mistake, World};

impl Model for Bounds {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        self.clocks.iter().map(|clocks| World::new(self, *clocks)).collect()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.actions(self, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut world = world.clone();
        world.take(self, action);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_COPY, |_, world: &World| !world.overlaps() || world.excused),
            Property::always(ENDS, |bounds: &Self, world: &World| world.ends_in_time(bounds)),
            Property::always(NO_LATE_YES, |_, world: &World| !world.late_yes),
            Property::always(PROOF, |_, world: &World| {
                !world.machine.is_proven_gone() || !world.machine.alive
            }),
            Property::sometimes(REPLACED_AFTER_LEASE, |_, world: &World| {
                world.new_runs && world.machine.granted_until_ms.is_some() && !world.proof_used
            }),
            Property::sometimes(REPLACED_ON_PROOF, |_, world: &World| {
                world.new_runs && world.machine.granted_until_ms.is_some() && world.proof_used
            }),
            Property::sometimes(NEVER_ANSWERED, |_, world: &World| {
                world.new_runs && world.machine.granted_until_ms.is_none() && !world.proof_used
            }),
            Property::sometimes(EXTENDED, |_, world: &World| world.machine.yeses == 2),
            Property::sometimes(REPLACED_AFTER_TAKEOVER, |_, world: &World| {
                world.coordinators[1].life == Life::Leads
                    && world.new_by == Some(1)
                    && world.new_runs
                    && !world.proof_used
            }),
            Property::sometimes(ADOPTED, |_, world: &World| {
                world.machine.alive && world.machine.highest_epoch == 2
            }),
            Property::sometimes(RUNG, |_, world: &World| {
                world.rung_killed && world.machine.wrapper == Process::Stopped
            }),
            Property::sometimes(LIMIT, |_, world: &World| world.overlaps() && world.excused),
        ]
    }
}

const ONE_COPY: &str = "never two running copies, outside the limits of 05";
const ENDS: &str = "a container without a yes ends before its lease does";
const NO_LATE_YES: &str = "no term says yes to what it has durably revoked";
const PROOF: &str = "what is proven gone is gone";

const REPLACED_AFTER_LEASE: &str = "a replacement runs, since the lease is over";
const REPLACED_ON_PROOF: &str = "a replacement runs, since the end is proven";
const NEVER_ANSWERED: &str = "a replacement runs, since there never was a yes";
const EXTENDED: &str = "a lease is extended";
const REPLACED_AFTER_TAKEOVER: &str = "the second leader replaces after the takeover rest";
const ADOPTED: &str = "the second leader says yes to what it took over";
const RUNG: &str = "the agent kills what a stopped wrapper did not";
const LIMIT: &str = "two copies, with nobody left to end the old one";

/// `m` is 160 ms.
const TERMS: LeaseTerms = LeaseTerms { lease_ms: 3_000, grace_ms: 500, schedule_ms: 500 };

/// The default, where `m` is 400 ms.
const DEFAULT: LeaseTerms = LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 };

const TWO_LEADERS: Bounds = Bounds {
    terms: TERMS,
    clocks: Clocks::FOUR_PERCENT_APART,
    half_leases: 4,
    questions: 2,
    faults: 0,
    takeover: true,
    holds: false,
    mistake: None,
};

const ONE_LEADER: Bounds = Bounds { takeover: false, ..TWO_LEADERS };

/// Looks at every state.
#[track_caller]
fn holds(bounds: Bounds, at_least: usize, reached: &[&'static str]) {
    let checker = bounds.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    judge(&checker, &[ONE_COPY, ENDS, NO_LATE_YES, PROOF], reached, at_least);
}

#[test]
fn one_copy_wherever_the_leader_changes() {
    let reached = [
        REPLACED_AFTER_LEASE,
        REPLACED_ON_PROOF,
        NEVER_ANSWERED,
        EXTENDED,
        REPLACED_AFTER_TAKEOVER,
        ADOPTED,
    ];
    holds(TWO_LEADERS, 408_000, &reached);
}

#[test]
fn what_is_left_of_a_lease_is_no_new_one() {
    let held = Bounds { holds: true, ..ONE_LEADER };
    holds(held, 62_000, &[REPLACED_AFTER_LEASE, EXTENDED]);
    let taken_over = Bounds { holds: true, questions: 1, ..TWO_LEADERS };
    holds(taken_over, 241_000, &[REPLACED_AFTER_TAKEOVER, ADOPTED]);
}

#[test]
fn one_copy_whoever_is_stopped_or_killed() {
    holds(Bounds { faults: 2, ..ONE_LEADER }, 725_000, &[EXTENDED, RUNG, LIMIT]);
}

#[test]
fn one_copy_whoever_is_stopped_while_the_leader_changes() {
    let bounds = Bounds { faults: 1, questions: 1, ..TWO_LEADERS };
    holds(bounds, 453_000, &[REPLACED_AFTER_TAKEOVER, RUNG]);
}

/// With the default lease every rung has room for 2 % at each clock.
#[test]
fn the_default_lease_has_room_for_two_percent_at_every_rung() {
    holds(Bounds { terms: DEFAULT, faults: 1, questions: 1, ..ONE_LEADER }, 34_900, &[RUNG]);
}

/// A rule that is left out must be found, or what holds above holds of nothing.
#[track_caller]
fn finds(property: &'static str, bounds: Bounds) {
    let wanted = HasDiscoveries::AnyOf([property].into());
    let checker = bounds.checker().finish_when(wanted).spawn_bfs().join();
    let states = checker.unique_state_count();
    assert!(checker.discovery(property).is_some(), "{states} unique states, all of them right");
}

fn without(mistake: Mistake, bounds: Bounds) -> Bounds {
    Bounds { mistake: Some(mistake), questions: 1, ..bounds }
}

#[test]
fn a_program_that_starts_without_a_yes_is_found() {
    finds(ONE_COPY, without(Mistake::StartsWithoutYes, ONE_LEADER));
}

/// The last answer is read when the revocation is decided, and the entry answers until it is durable.
#[test]
fn a_last_answer_that_is_not_the_last_is_found() {
    finds(ONE_COPY, without(Mistake::ReadBeforeTheCommit, ONE_LEADER));
}

/// The swap after the commit alone keeps copies apart. The freeze is why nobody is told "valid" who
/// durably is not.
#[test]
fn an_entry_that_is_not_frozen_is_found() {
    finds(NO_LATE_YES, without(Mistake::NotFrozen, ONE_LEADER));
}

#[test]
fn a_yes_of_who_no_longer_leads_is_found() {
    finds(ONE_COPY, without(Mistake::NoLeadershipCheck, TWO_LEADERS));
}

#[test]
fn a_takeover_without_its_rest_is_found() {
    finds(ONE_COPY, without(Mistake::NoTakeoverRest, TWO_LEADERS));
}

#[test]
fn a_lease_without_its_margin_is_found() {
    finds(ONE_COPY, without(Mistake::NoMargin, ONE_LEADER));
}

#[test]
fn a_lease_that_runs_from_its_answer_is_found() {
    finds(ONE_COPY, without(Mistake::RunsFromTheAnswer, ONE_LEADER));
}

/// A wrapper that is stopped between starting its program and telling the agent of the first lease leaves
/// a second rung that never comes.
#[test]
fn a_rung_that_waits_to_be_told_is_found() {
    let bounds = Bounds { faults: 1, ..without(Mistake::RungWaitsToBeTold, ONE_LEADER) };
    finds(ONE_COPY, bounds);
}
