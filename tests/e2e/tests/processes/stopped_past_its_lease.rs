//! An agent and every process of a container are stopped together, the first one of its pid namespace
//! with them, as on a machine that is paused: nobody is left who could end the old copy, so the end of
//! its lease makes room for the next one. This is the limit that the lease cannot cover; here the fencing
//! token has to.
//!
//! The program is not the example: its lock would be held by a process that is merely stopped.

use steadfast_e2e::{Cluster, MemberStatus, PATIENCE, Process, Signal, wait_until};

use crate::short_lease;

#[test]
fn what_wakes_too_late_may_neither_commit_nor_go_on() {
    let cluster = Cluster::start(2, 2);
    let id = short_lease::submit(&cluster, &["sleep", "600"], 2);
    let before = cluster.wait_until_runs(&id, 1);
    let group = before.task_groups().next().expect("it has task groups");
    let program = cluster.process(group.pid.expect("it runs"));
    let wrapper = cluster.process(group.wrapper_pid.expect("it runs"));
    let member = cluster
        .present_members()
        .into_iter()
        .find(|one| Some(&one.uuid) == group.member_uuid.as_ref());
    let agent = cluster.process(member.expect("it runs somewhere").pid);
    let container = program.variable("EXECUTION_RESOURCE_ID");
    let secret = program.variable("STEADFAST_CONTAINER_SECRET");
    let valid = cluster.rest().is_container_valid(&container, &secret);
    assert_eq!(valid.json()["isValid"], true, "{valid:?}");
    assert!(cluster.rest().put_checkpoint(&container, &secret, b"before").status < 300);

    let is_of_it = |one: &Process| {
        one.try_variable("EXECUTION_RESOURCE_ID").as_deref() == Some(container.as_str())
    };
    for process in [agent].into_iter().chain(cluster.processes().into_iter().filter(is_of_it)) {
        process.signal(Signal::STOP);
    }
    let again = cluster.wait_until_runs(&id, 2);
    assert!(program.is_stopped() && wrapper.is_stopped(), "nobody could end them");
    let invalid = cluster.rest().is_container_valid(&container, &secret);
    assert_eq!((invalid.status, &invalid.json()["isValid"]), (200, &false.into()), "{invalid:?}");
    let refused = cluster.rest().put_checkpoint(&container, &secret, b"too late");
    assert_eq!(refused.status, 409, "its token is out of date: {refused:?}");

    // The wrapper wakes first: what is still stopped and past its lease is killed, not continued.
    wrapper.signal(Signal::CONT);
    wait_until(PATIENCE, "the wrapper to end its program", || (!program.is_alive()).then_some(()));
    agent.signal(Signal::CONT);
    wait_until(PATIENCE, "the agent to come back", || {
        let members = cluster.rest().members_now()?;
        members.into_iter().find(|one| one.pid == agent.pid && one.status == MemberStatus::Alive)
    });
    wait_until(PATIENCE, "the wrapper's end", || (!wrapper.is_alive()).then_some(()));
    assert_eq!(cluster.rest().job(&id).containers(), again.containers(), "nobody was disturbed");
}
