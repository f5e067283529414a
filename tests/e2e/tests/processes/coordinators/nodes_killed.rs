//! etcd nodes die (`kill -9`): the one that leads among them, one that follows, all at once. Somebody
//! writes all the while, and what was acknowledged has to be there.

use steadfast_e2e::{Cluster, Container, Detector, Etcd, Lease, Manner};

use super::acknowledged::Writer;
use super::{assert_nobody_is_lost, assert_was_left_alone, submit_sleeper, uuids};

/// Far above the pause that an election makes.
const LEASE: Lease = Lease { lease_ms: 60_000, grace_ms: 5_000, schedule_ms: 500 };

/// Red where a checkpoint is acknowledged and not written.
#[test]
fn whichever_etcd_nodes_die_nothing_acknowledged_is_lost_and_nothing_ends() {
    let mut etcd = Etcd::three();
    let cluster = Cluster::start_on_etcd(3, 4, 3, &etcd.urls());
    let (id, detector) = Detector::submit(&cluster, 4, Manner::Polite, LEASE);
    let before = cluster.wait_until_runs(&id, 1);
    let sleeper = submit_sleeper(&cluster);
    let sleeping = cluster.wait_until_runs(&sleeper, 1);
    let (members, own) = (uuids(&cluster), Container::all(&cluster, &sleeping).swap_remove(0));
    let writer = Writer::start(cluster.rest(), &own);
    writer.wait_for_more();

    // A change of the partition owner, in the first proposal's words.
    let leads = etcd.leader();
    etcd.kill(leads);
    writer.wait_for_more();
    assert_ne!(etcd.leader(), leads, "another node leads among the nodes");
    etcd.start_again();

    let follows = (etcd.leader() + 1) % etcd.count();
    etcd.kill(follows);
    writer.wait_for_more();
    etcd.start_again();

    etcd.kill_all();
    etcd.start_again();
    writer.wait_for_more();

    writer.finish().assert_is_there(cluster.rest(), &own);
    assert_nobody_is_lost(&cluster, &members);
    for (id, before) in [(&id, &before), (&sleeper, &sleeping)] {
        let now = cluster.wait_until_runs(id, 1);
        assert_eq!(now.containers(), before.containers(), "nothing is restarted");
        assert_was_left_alone(&now);
    }
    assert_was_left_alone(&detector.finish(&cluster, &id));
}
