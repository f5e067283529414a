//! A wrapper is killed: what it left behind ends, by the kernel's hand or its agent's. Where the end of a pid
//! namespace proves that, the replacement starts at once; else it waits until the lease is over.

use steadfast_e2e::{Cluster, PATIENCE, Signal, wait_until};

use crate::short_lease;

const RATE: u32 = 25;

#[test]
fn the_program_of_a_killed_wrapper_ends_before_its_replacement_starts() {
    let cluster = Cluster::start(2, 4);
    let (id, output) = short_lease::submit_count(&cluster, RATE);
    let before = cluster.wait_until_runs(&id, 1);
    let group = before.task_groups().next().expect("it has task groups");
    let program = cluster.process(group.pid.expect("it runs"));
    let wrapper = cluster.process(group.wrapper_pid.expect("it runs"));

    wrapper.signal(Signal::KILL);
    wait_until(PATIENCE, "the agent to end the program", || (!program.is_alive()).then_some(()));
    let again = cluster.wait_until_runs(&id, 2);
    assert_eq!((again.counts.program + again.counts.ladder, again.counts.member_loss), (1, 0));

    let finished = cluster.wait_until_finished(&id, &output);
    assert_eq!(finished.label().recovery_attempt_count, 0, "no member was lost");
}
