//! What an operator sets is what the coordinator does.

use std::fs;

use steadfast_e2e::{Cluster, Signal};

/// Lines a second and task group: long enough for two losses.
const RATE: u32 = 20;

#[test]
fn the_history_is_as_long_as_the_operators_file_says_and_a_flag_outweighs_it() {
    let mut cluster = Cluster::launch(4, 3, |folder, dev| {
        let file = folder.join("engine.conf");
        let conf = "engine.dirty-task { event-history-size = 1, pending-incident-ttl = 1h }\n\
                    member.timeout.ms = 600000\n";
        fs::write(&file, conf).expect("the cluster's folder can be written");
        dev.arg("--conf").arg(file).args(["--option", "member.timeout.ms=4000"]);
    });
    cluster.wait_until_ready();
    let (id, _) = cluster.submit(RATE);
    let mut job = cluster.wait_until_runs(&id, 1);
    let killed = cluster.host_of(&job);
    cluster.process(killed.pid).signal(Signal::KILL);
    job = cluster.wait_until_runs(&id, 2);
    // Ten minutes by the file.
    let stopped = cluster.host_of(&job);
    let agent = cluster.process(stopped.pid);
    agent.signal(Signal::STOP);
    cluster.wait_until_runs(&id, 3);
    agent.signal(Signal::KILL);

    let episodes = cluster.rest().kept_episodes(&id);
    assert_eq!(episodes.dropped_episodes, 1, "{episodes:#?}");
    let [first] = &episodes.episodes[..] else { panic!("{episodes:#?}") };
    assert_eq!(first.incidents[0].member_uuid, killed.uuid, "the first one is kept");
}
