//! Every etcd node is away at once, for a minute in the long form: stopped, so that nobody hears anything,
//! or killed, so that everybody hears at once. Whether a member lives is none of the store's business, and
//! containers live on what they hold: their lease is longer than that. What nobody can do meanwhile is
//! prove that it leads, so nobody says "valid", and nothing can be made durable.

use std::time::{Duration, Instant};

use steadfast_e2e::{
    Asked, Cluster, Container, Detector, Etcd, Lease, Manner, PATIENCE, Standing, Told, Witness,
    is_long, wait_until,
};

use super::{assert_nobody_is_lost, assert_was_left_alone, submit_sleeper, uuids, wait_until_past};

/// Well above the leader's lease (2 s), and above what a member may be silent for (5 s); in the long form
/// as promised.
fn outage() -> Duration {
    Duration::from_secs(if is_long() { 60 } else { 10 })
}

/// Longer than the outage, as the promise wants it.
const LEASE: Lease = Lease { lease_ms: 120_000, grace_ms: 5_000, schedule_ms: 500 };

/// Red where the next leader gives members no time to find it, and where it does not know the containers
/// of before.
#[test]
fn with_every_etcd_node_stopped_nobody_is_lost_and_nothing_ends() {
    ride_out(|etcd| etcd.stop_all(), |etcd| etcd.continue_all());
}

/// Red where the one before is.
#[test]
fn with_every_etcd_node_killed_nobody_is_lost_and_nothing_ends() {
    ride_out(Etcd::kill_all, Etcd::start_again);
}

#[track_caller]
fn ride_out(leave: impl FnOnce(&mut Etcd), come_back: impl FnOnce(&mut Etcd)) {
    let mut etcd = Etcd::three();
    let cluster = Cluster::start_on_etcd(3, 4, 3, &etcd.urls());
    let (id, detector) = Detector::submit(&cluster, 4, Manner::Polite, LEASE);
    let before = cluster.wait_until_runs(&id, 1);
    let sleeper = submit_sleeper(&cluster);
    let sleeping = cluster.wait_until_runs(&sleeper, 1);
    let (containers, members) = (Container::all(&cluster, &before), uuids(&cluster));
    let own = Container::all(&cluster, &sleeping).swap_remove(0);
    let (secret, epoch) = (own.secret(), cluster.rest().overview().coordinator.epoch);
    let (leader, _) = cluster.leader();
    assert_eq!(leader.put_checkpoint(&own.id, &secret, b"before").status, 204);

    leave(&mut etcd);
    let since = Instant::now();
    let coordinators = cluster.coordinators();
    wait_until(PATIENCE, "nobody to say that it leads", || {
        let leads = |one: &steadfast_e2e::Rest| matches!(one.standing(), Standing::Leads { .. });
        (!coordinators.iter().any(leads)).then_some(())
    });
    let witnesses: Vec<Witness> =
        coordinators.iter().map(|one| Witness::at(one, &containers)).collect();
    for coordinator in &coordinators {
        assert_eq!(coordinator.is_container_valid(&own.id, &secret).status, 503);
        assert_eq!(coordinator.put_checkpoint(&own.id, &secret, b"meanwhile").status, 503);
    }
    wait_until_past(since, outage());
    for coordinator in &coordinators {
        assert_eq!(coordinator.standing(), Standing::NotReady, "and its health says so");
        let ready = coordinator.get("/health/ready").expect("it answers");
        assert!(!ready.body.contains("\"leader\""), "nobody knows who leads: {}", ready.body);
    }
    for witness in witnesses {
        let tally = witness.tally();
        let validity: Vec<Told> =
            tally.keys().filter(|(asked, _)| *asked != Asked::Heartbeat).map(|it| it.1).collect();
        assert!(validity.iter().all(|told| *told == Told::CannotKnow), "{tally:?}");
        let heartbeat = tally.keys().filter(|(asked, _)| *asked == Asked::Heartbeat);
        let has_verdict = heartbeat.map(|it| it.1).any(|it| matches!(it, Told::Yes | Told::No));
        assert!(!has_verdict, "{tally:?}");
    }
    for container in containers.iter().chain([&own]) {
        assert!(container.wrapper.is_alive() && container.program.is_alive(), "{container:?}");
    }

    come_back(&mut etcd);
    let again = wait_until(PATIENCE, "somebody to lead again", || cluster.rest().overview_now());
    assert!(again.coordinator.epoch > epoch, "a new term");
    assert_nobody_is_lost(&cluster, &members);
    for (id, before) in [(&id, &before), (&sleeper, &sleeping)] {
        let now = cluster.wait_until_runs(id, 1);
        assert_eq!(now.containers(), before.containers(), "nothing is restarted");
        assert_was_left_alone(&now);
    }
    assert_eq!(cluster.rest().checkpoint(&own.id, &secret).as_deref(), Some("before"));
    assert_eq!(cluster.rest().put_checkpoint(&own.id, &secret, b"after").status, 204);
    assert_was_left_alone(&detector.finish(&cluster, &id));
}
