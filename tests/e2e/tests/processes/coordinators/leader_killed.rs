//! Several coordinators on one etcd: whichever leads is killed, and another one goes on.

use steadfast_e2e::{Cluster, EtcdNode, MemberStatus, PATIENCE, Signal, wait_until};

use crate::coordinator_killed::kill_twice_whoever_leads;

const RATE: u32 = 12;

/// Red where the next leader does not know the containers of before.
#[test]
fn another_one_leads_no_container_is_restarted_and_the_sums_are_right() {
    let etcd = EtcdNode::one();
    let cluster = Cluster::start_on_etcd(2, 4, 3, &etcd.url);
    let (id, output) = cluster.submit(RATE);
    let before = cluster.wait_until_runs(&id, 1);
    wait_until(PATIENCE, "the overview to say how far both others are", || {
        let standbys = cluster.rest().overview_now()?.standbys;
        let far: Vec<u64> = standbys.iter().filter_map(|standby| standby.commits_behind).collect();
        (far.len() == 2 && far.iter().all(|behind| *behind < 10)).then_some(())
    });
    kill_twice_whoever_leads(&cluster, &id, &before);
    wait_until(PATIENCE, "both members to have found the leader", || {
        let members = cluster.rest().members_now()?;
        let alive = members.iter().filter(|member| member.status == MemberStatus::Alive);
        (alive.count() == 2).then_some(())
    });
    let lost = cluster.host_of(&before);
    cluster.process(lost.pid).signal(Signal::KILL);
    cluster.wait_until_lost(&lost);

    let finished = cluster.wait_until_finished(&id, &output);
    let (label, counts) = (finished.label(), &finished.counts);
    assert_eq!((counts.member_loss, counts.program, counts.ladder), (1, 0, 0));
    assert_eq!(label.member_loss_incident_count, 1, "{label:?}");
    assert_eq!(label.recovery_attempt_count, 1, "the next leaders go on counting: {label:?}");
    assert_eq!(label.last_lost_member_uuid.as_deref(), Some(lost.uuid.as_str()), "{label:?}");
}
