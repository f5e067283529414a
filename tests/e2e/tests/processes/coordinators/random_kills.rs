//! Random kills of the active coordinator and of etcd nodes, one at a time, while members come and go:
//! three coordinators, three etcd nodes, a job of three pipelines. The oracle is that of the faults on
//! one machine (`random_faults`): counts equal, nobody restarted who was alive, no overlap, and sums right
//! to the byte.

use steadfast_e2e::{Cluster, Etcd};

use crate::random_faults::{Fault, MEMBERS, SLOTS, play};

/// Above what it takes until another one leads (up to 2.5 s, and twice that where the store has to find a
/// leader first), so that no container ends for want of a "yes".
const LEASE_MS: u64 = 12_000;

/// Red where the next leader does not know the containers of before (deployments that no fault explains),
/// and where it gives members no time to find it.
#[test]
fn whoever_is_killed_the_counts_equal_those_of_an_oracle_outside() {
    let faults = [
        Fault::CoordinatorKilled,
        Fault::CoordinatorKilledAfterAgent,
        Fault::EtcdNodeKilled,
        Fault::EtcdNodeKilledAfterAgent,
        Fault::AgentStopped,
    ];
    let etcd = Etcd::three();
    let cluster = Cluster::start_on_etcd(MEMBERS, SLOTS, 3, &etcd.urls());
    play("random kills", &cluster, Some(etcd), LEASE_MS, &faults);
}
