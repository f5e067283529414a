//! The coordinator that leads is killed, stopped for a moment, or stopped until another one leads and then
//! continued, at **each step** of a member's loss: between the decision and each of its transactions, while
//! each is under way, when it has landed, and before each effect of it and of what follows, until the job
//! runs again. In each case the count is exact, what still ran was not restarted, and all invariants hold.

use steadfast_model::LossCause;
use steadfast_sim::{Blow, Walk};

/// Within the lease, and far beyond it.
const BLOWS: [Blow; 3] = [Blow::Killed, Blow::Stopped(400), Blow::Stopped(15_000)];

/// Whether the loss is split, how many coordinators there are, and how long a member may be silent: as by
/// default, and somewhat less.
const PLANS: [(bool, usize, u64); 4] =
    [(false, 2, 5_000), (true, 2, 5_000), (false, 3, 4_000), (true, 3, 4_000)];

fn holds_at_each_step(cause: LossCause, blow: Blow) {
    for (splits, coordinators, member_timeout_ms) in PLANS {
        let mut steps = 0;
        loop {
            let passes = steps;
            let walk = Walk { cause, blow, passes, splits, coordinators, member_timeout_ms };
            let walked = walk.play().unwrap_or_else(|failure| panic!("{failure}"));
            assert!(walked.affected >= 2, "something of both jobs ran there: {walked:?}");
            if !walked.struck {
                break;
            }
            if blow != BLOWS[1] {
                assert!(walked.terms > 1, "another one took over: {walk:?}");
            }
            steps += 1;
        }
        // Decided, under way, landed; then the stops, the launches, the acknowledgements.
        assert!(steps > 10, "{cause} has {steps} steps");
    }
}

#[test]
fn a_leader_killed_at_any_step_of_a_loss_loses_and_doubles_nothing() {
    for cause in LossCause::ALL {
        holds_at_each_step(*cause, BLOWS[0]);
    }
}

#[test]
fn a_leader_stopped_for_a_moment_at_any_step_of_a_loss_goes_on() {
    for cause in LossCause::ALL {
        holds_at_each_step(*cause, BLOWS[1]);
    }
}

#[test]
fn a_leader_that_wakes_when_another_leads_does_nothing_more_of_a_loss() {
    for cause in LossCause::ALL {
        holds_at_each_step(*cause, BLOWS[2]);
    }
}
