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
