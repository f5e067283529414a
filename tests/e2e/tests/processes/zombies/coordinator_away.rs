//! The coordinator is killed and comes back in time, too late, or never.
//!
//! The design's 5 and 60 seconds, below and above its lease of 15 s, are here a third of the lease and
//! four times as much, with leases that do not make everybody wait.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use steadfast_e2e::{
    Asked, Cluster, Container, Detector, Lease, Manner, PATIENCE, Signal, Told, Witness, python,
    wait_until,
};

use super::{assert_story_says, wait_until_gone};

/// For what has to outlast four leases.
const SHORTER: Lease = Lease { lease_ms: 2_500, grace_ms: 500, schedule_ms: 250 };

struct Scene {
    cluster: Cluster,
    id: String,
    detector: Detector,
    containers: Vec<Container>,
}

fn scene(manner: Manner, lease: Lease) -> Scene {
    let cluster = Cluster::start(2, 4);
    let (id, detector) = Detector::submit(&cluster, 4, manner, lease);
    let before = cluster.wait_until_runs(&id, 1);
    let containers = Container::all(&cluster, &before);
    Scene { cluster, id, detector, containers }
}

/// Five seconds, the last of them loading, with the default lease: `L − G − m − one poll` are 8.6 s.
#[test]
fn a_coordinator_that_is_back_in_time_restarts_nothing_and_says_not_one_false_while_it_loads() {
    let Scene { cluster, id, detector, containers } = scene(Manner::Polite, Lease::DEFAULT);
    let before = cluster.rest().job(&id).containers();
    let witness = Witness::of(&cluster, &containers);
    witness.wait_for(Told::Yes);
    let old = cluster.coordinator();
    cluster.dev().signal(Signal::STOP);
    old.signal(Signal::KILL);
    let killed = Instant::now();
    witness.wait_for(Told::Nothing);
    let store = HeldStore::of(&cluster);
    wait_until(PATIENCE, "most of the five seconds", || {
        (killed.elapsed() > Duration::from_secs(4)).then_some(())
    });
    cluster.dev().signal(Signal::CONT);
    witness.wait_for(Told::CannotKnow);
    wait_until(PATIENCE, "the five seconds", || {
        (killed.elapsed() > Duration::from_secs(5)).then_some(())
    });
    store.let_go();
    cluster.wait_until_led_again(old);
    witness.wait_for(Told::Yes);

    let tally = witness.tally();
    for asked in [Asked::Validity, Asked::ValidityWithoutSecret, Asked::Heartbeat] {
        let told: Vec<Told> = tally.keys().filter(|one| one.0 == asked).map(|one| one.1).collect();
        assert_eq!(told, [Told::Yes, Told::CannotKnow, Told::Nothing], "{asked:?}: {tally:?}");
    }
    let after = cluster.wait_until_runs(&id, 1);
    assert_eq!(after.containers(), before, "adopted, not restarted");
    assert!(containers.iter().all(|one| one.wrapper.is_alive() && one.program.is_alive()));
    let finished = detector.finish(&cluster, &id);
    let counts = &finished.counts;
    assert_eq!((counts.member_loss, counts.program, counts.ladder), (0, 0, 0));
}

/// The store, held by somebody else, so that a coordinator on it loads for as long as that takes.
struct HeldStore(Child);

impl HeldStore {
    #[track_caller]
    fn of(cluster: &Cluster) -> Self {
        const HOLD: &str = "import sqlite3, sys\n\
            store = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
            store.execute('BEGIN IMMEDIATE')\n\
            print('held', flush=True)\n\
            sys.stdin.read()";
        let mut command = Command::new(python());
        command.args(["-c", HOLD]).arg(cluster.data().join("store/steadfast.db"));
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect(HOLD);
        let mut said = [0; 4];
        let stdout = holder.stdout.as_mut().expect("it is piped");
        stdout.read_exact(&mut said).expect("it holds the store, or has said why not");
        Self(holder)
    }

    fn let_go(mut self) {
        drop(self.0.stdin.take());
        // It ends for want of input; how, is of no interest.
        let _ = self.0.wait();
    }
}

#[test]
fn a_coordinator_that_is_back_after_the_leases_end_finds_that_every_container_ended_itself() {
    let Scene { cluster, id, detector, containers } = scene(Manner::Polite, SHORTER);
    let old = cluster.coordinator();
    // It would be started again at once.
    cluster.dev().signal(Signal::STOP);
    old.signal(Signal::KILL);
    let killed = Instant::now();
    for container in &containers {
        let said = wait_until_gone(&cluster, container).expect("its wrapper has lived").0;
        assert!(said.contains("LeaseExpired") && said.contains("killed: false"), "{said}");
    }
    wait_until(PATIENCE, "four times the lease to pass", || {
        (killed.elapsed() > Duration::from_millis(4 * SHORTER.lease_ms)).then_some(())
    });
    cluster.dev().signal(Signal::CONT);

    cluster.wait_until_led_again(old);
    let again = cluster.wait_until_runs(&id, 2);
    assert_eq!((again.counts.member_loss, again.counts.program, again.counts.ladder), (0, 0, 1));
    assert_story_says(&cluster, &id, "stopped by its validator: LeaseExpired");
    let finished = detector.finish(&cluster, &id);
    assert_eq!(finished.label().recovery_attempt_count, 0, "no member was lost");
    assert_eq!(cluster.present_members().len(), 2);
}

#[test]
fn without_a_coordinator_for_ever_every_container_ends_and_nothing_of_it_is_left() {
    for manner in [Manner::Catches, Manner::LeavesADescendant] {
        let Scene { cluster, detector, containers, .. } = scene(manner, SHORTER);
        let (old, end) = (
            cluster.coordinator(),
            match manner {
                Manner::Catches => "killed: true",
                _ => "killed: false",
            },
        );
        cluster.dev().signal(Signal::STOP);
        old.signal(Signal::KILL);
        for container in &containers {
            let said = wait_until_gone(&cluster, container).expect("its wrapper has lived").0;
            assert!(said.contains("LeaseExpired") && said.contains(end), "{manner:?}: {said}");
        }
        detector.assert_one_at_a_time();
        cluster.dev().signal(Signal::CONT);
    }
}
