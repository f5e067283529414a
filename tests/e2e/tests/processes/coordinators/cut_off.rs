//! The active coordinator is cut off from etcd and from nobody else: it lives in a network namespace, and
//! the way to the address at which etcd listens becomes a black hole. Containers and members still reach
//! it, and have to be sent away.

use std::time::{Duration, Instant};

use steadfast_e2e::{
    Asked, Cluster, Container, Detector, Etcd, Lease, Manner, Network, PATIENCE, Signal, Size,
    Standing, Told, Witness, wait_until,
};

use super::{assert_nobody_is_lost, assert_was_left_alone, uuids, wait_until_past};

/// Long enough for another one to lead, short enough to wait for its end.
const LEASE: Lease = Lease { lease_ms: 12_000, grace_ms: 1_000, schedule_ms: 500 };

#[test]
fn a_leader_that_is_cut_off_from_etcd_alone_says_nothing_and_containers_ask_the_others() {
    let Some(network) = Network::make() else { return };
    let etcd = Etcd::three_at(network.other_address());
    let size = Size { members: 2, slots: 4 };
    let mut cluster = Cluster::start_on_etcd_with_auth_at(network.address(), size, 1, &etcd);
    let (other, _) = cluster.leader();
    let (inside, _) = cluster.add_coordinator_in(&network, &etcd);
    cluster.wait_until_known(2);
    let (id, detector) = Detector::submit(&cluster, 4, Manner::Polite, LEASE);
    let before = cluster.wait_until_runs(&id, 1);
    let (containers, members) = (Container::all(&cluster, &before), uuids(&cluster));

    // `dev` would start its own again before the other one leads.
    cluster.dev().signal(Signal::STOP);
    cluster.coordinator().signal(Signal::KILL);
    wait_until(PATIENCE, "the one inside to lead", || {
        matches!(inside.standing(), Standing::Leads { .. }).then_some(())
    });
    cluster.dev().signal(Signal::CONT);
    wait_until(PATIENCE, "the other one to stand by", || {
        matches!(other.standing(), Standing::StandsBy { .. }).then_some(())
    });
    assert_nobody_is_lost(&cluster, &members);

    network.cut_from(network.other_address());
    let since = Instant::now();
    wait_until(PATIENCE, "the one inside to notice", || {
        (inside.standing() == Standing::NotReady).then_some(())
    });
    let witness = Witness::at(&inside, &containers);
    wait_until(PATIENCE, "the other one to lead", || {
        matches!(other.standing(), Standing::Leads { .. }).then_some(())
    });
    // Beyond what a "yes" of the one inside was worth: they live on what the other one says.
    wait_until_past(since, Duration::from_millis(LEASE.lease_ms));
    let tally = witness.tally();
    let verdict = tally.keys().find(|(_, told)| matches!(told, Told::Yes | Told::No));
    assert_eq!(verdict, None, "{tally:?}");
    assert!(tally.contains_key(&(Asked::Validity, Told::CannotKnow)), "still reachable: {tally:?}");
    for container in &containers {
        assert!(container.wrapper.is_alive() && container.program.is_alive(), "{container:?}");
    }

    network.heal_to(network.other_address());
    let stands_by = |standing| match standing {
        Standing::StandsBy { leader, .. } => (leader == other.url()).then_some(()),
        Standing::Leads { .. } => panic!("two lead"),
        _ => None,
    };
    wait_until(PATIENCE, "who was cut off to stand by", || stands_by(inside.standing()));
    assert_nobody_is_lost(&cluster, &members);
    let now = cluster.wait_until_runs(&id, 1);
    assert_eq!(now.containers(), before.containers(), "nothing is restarted");
    assert_was_left_alone(&detector.finish(&cluster, &id));
}
