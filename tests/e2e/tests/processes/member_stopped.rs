//! An agent is stopped, as by a machine that hangs: nobody hears of it, so its silence has to tell.

use steadfast_e2e::{Cluster, LossCause, MemberStatus, PATIENCE, Signal, wait_until};

const RATE: u32 = 25;

#[test]
fn a_stopped_agent_is_lost_by_silence_and_comes_back_as_another() {
    let cluster = Cluster::start(3, 4);
    let (id, output) = cluster.submit(RATE);
    let before = cluster.wait_until_runs(&id, 1);
    let stopped = cluster.host_of(&before);
    let agent = cluster.process(stopped.pid);
    let programs: Vec<_> = before
        .task_groups()
        .filter(|group| group.member_uuid.as_ref() == Some(&stopped.uuid))
        .map(|group| cluster.process(group.pid.expect("it runs")))
        .collect();
    assert!(!programs.is_empty());

    agent.signal(Signal::STOP);
    cluster.wait_until_lost(&stopped);
    let again = cluster.wait_until_runs(&id, 2);
    assert!(
        again.task_groups().all(|group| group.member_uuid.as_ref() != Some(&stopped.uuid)),
        "nothing runs on a lost member: {again:#?}"
    );
    assert!(agent.is_stopped(), "the replacement did not wait for the stopped agent");
    for program in &programs {
        assert!(!program.is_alive(), "the old copy of pid {} lives", program.pid);
    }

    agent.signal(Signal::CONT);
    let back = wait_until(PATIENCE, "the agent to come back", || {
        let members = cluster.rest().members_now()?;
        members
            .into_iter()
            .find(|member| member.pid == stopped.pid && member.status == MemberStatus::Alive)
    });
    assert_ne!(back.uuid, stopped.uuid, "a UUID that was lost is never valid again");
    let old = cluster.rest().members().into_iter().find(|member| member.uuid == stopped.uuid);
    assert_eq!(old.map(|member| member.status), Some(MemberStatus::Lost));
    let after = cluster.rest().job(&id);
    assert_eq!(after.containers(), again.containers(), "its return disturbs nobody");

    let finished = cluster.wait_until_finished(&id, &output);
    let label = finished.label();
    assert_eq!((label.member_loss_incident_count, label.recovery_attempt_count), (1, 1));
    assert_eq!((finished.counts.member_loss, finished.counts.program), (1, 0));
    let causes: Vec<LossCause> = cluster
        .rest()
        .episodes(&id)
        .iter()
        .flat_map(|episode| &episode.incidents)
        .map(|incident| incident.cause)
        .collect();
    assert_eq!(causes, [LossCause::Silence]);
}

/// The agent's containers are left with nobody who could be asked: the wrappers of a stopped agent are
/// stopped as well, so only the end of their lease makes room, and after waking they must not go on.
#[test]
fn what_was_stopped_past_its_lease_ends_on_waking() {
    let cluster = Cluster::start(2, 4);
    let (job_file, output) = crate::program_killed::short_lease_job(&cluster, RATE);
    let mut submit = cluster.steadfast(["submit", "--detach", "--json"]);
    let id = cluster.submitted(submit.arg(job_file));
    let before = cluster.wait_until_runs(&id, 1);
    let stopped = cluster.host_of(&before);
    let mut frozen = Vec::new();
    for group in before.task_groups().filter(|one| one.member_uuid.as_ref() == Some(&stopped.uuid))
    {
        frozen.push(cluster.process(group.pid.expect("it runs")));
        frozen.push(cluster.process(group.wrapper_pid.expect("it runs")));
    }
    let agent = cluster.process(stopped.pid);
    agent.signal(Signal::STOP);
    for process in &frozen {
        process.signal(Signal::STOP);
    }

    let again = cluster.wait_until_runs(&id, 2);
    assert!(frozen.iter().all(|process| process.is_stopped()), "nobody could end them");
    for process in frozen.iter().rev() {
        // The wrapper before its program, the agent last: each rung has to do without the next.
        process.signal(Signal::CONT);
    }
    agent.signal(Signal::CONT);
    wait_until(PATIENCE, "the end of what woke up too late", || {
        frozen.iter().all(|process| !process.is_alive()).then_some(())
    });
    assert_eq!(cluster.rest().job(&id).containers(), again.containers());
    // No look at the lock here: between their waking and their end the old copies hold theirs, which is
    // the limit that the lease cannot cover. What they commit is refused, and that shows in the sums.
    cluster.wait_until_sums_are_right(&id, &output);
}
