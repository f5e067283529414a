//! A container is cut off from every coordinator, and its agent is not: it lives in a network namespace of
//! its own, whose one way out becomes a black hole. The member is never lost, so only the lease ends it.

use steadfast_e2e::{
    Cluster, Container, Detector, Lease, Manner, MemberStatus, Network, PATIENCE, wait_until,
};

use super::assert_story_says;

#[test]
fn a_container_that_is_cut_off_alone_ends_itself_and_is_replaced_though_its_member_is_healthy() {
    let Some(network) = Network::make() else { return };
    let cluster = Cluster::start_with_auth_at(1, 4, network.address());
    let member = cluster.add_member_whose_containers_are_in(&network);
    let (id, detector) = Detector::submit(&cluster, 2, Manner::LeavesADescendant, Lease::SHORT);
    let before = cluster.wait_until_runs(&id, 1);
    let containers = Container::all(&cluster, &before);
    let cut = containers.iter().find(|one| one.member_uuid == member.uuid).expect("it has room");
    assert_ne!(network.of(cut.wrapper), network.of(cluster.process(member.pid)));

    network.cut();
    wait_until(PATIENCE, "the container to end itself", || {
        let now = cluster.rest().members_now()?;
        let status = now.iter().find(|one| one.uuid == member.uuid).map(|one| one.status);
        assert_eq!(status, Some(MemberStatus::Alive), "its agent is not cut off");
        cut.is_gone(&cluster).then_some(())
    });
    let said = cut.last_words(&cluster).expect("its wrapper has lived").0;
    assert!(said.contains("LeaseExpired") && said.contains("killed: false"), "{said}");
    network.heal();

    // Its replacement may have waited on the same member for its first "yes", in vain.
    let again = cluster.rest().wait_for_job(&id, "it runs again", |job| {
        let attempt = job.pipelines[0].attempt;
        attempt > 1 && job.runs(attempt)
    });
    assert_eq!(again.counts.member_loss, 0);
    assert!(again.counts.ladder > 0, "{again:#?}");
    assert_story_says(&cluster, &id, "stopped by its validator: LeaseExpired");
    detector.finish(&cluster, &id);
}
