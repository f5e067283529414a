//! An agent is told to go (`kill -TERM`, a Pod that restarts): it says so before it stops anything.

use steadfast_e2e::{Cluster, LossCause, PATIENCE, Signal, wait_until};

const RATE: u32 = 25;

#[test]
fn a_terminated_agent_is_one_loss_and_no_failure() {
    let cluster = Cluster::start(3, 4);
    let (id, output) = cluster.submit(RATE);
    let before = cluster.wait_until_runs(&id, 1);
    let leaving = cluster.host_of(&before);
    let agent = cluster.process(leaving.pid);

    agent.signal(Signal::TERM);
    cluster.wait_until_lost(&leaving);
    wait_until(PATIENCE, "the agent to end", || (!agent.is_alive()).then_some(()));
    let again = cluster.wait_until_runs(&id, 2);
    assert!(again.task_groups().all(|group| group.member_uuid.as_ref() != Some(&leaving.uuid)));

    let finished = cluster.wait_until_finished(&id, &output);
    let counts = &finished.counts;
    assert_eq!((counts.member_loss, counts.program, counts.ladder), (1, 0, 0));
    let label = finished.label();
    assert_eq!(label.member_loss_incident_count, 1, "{label:?}");
    assert_eq!(label.recovery_attempt_count, 1, "{label:?}");
    let episodes = cluster.rest().episodes(&id);
    let [episode] = &episodes[..] else { panic!("{episodes:#?}") };
    let [incident] = &episode.incidents[..] else { panic!("{episode:#?}") };
    assert_eq!((&incident.member_uuid, incident.cause), (&leaving.uuid, LossCause::Leaving));
}
