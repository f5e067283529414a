//! Versions that do not know the same things, in one cluster: a member of before the recovery ledger, and
//! a store that a newer coordinator has written to.

use std::fs;
use std::path::Path;

use steadfast_e2e::{
    Cluster, Detector, Etcd, Evaluation, Finished, Lease, Manner, Member, MemberStatus, PATIENCE,
    Signal, Standing, python, wait_until,
};

/// No container ends while nobody may lead.
const LEASE: Lease = Lease { lease_ms: 60_000, grace_ms: 1_000, schedule_ms: 500 };
/// Of a format that there is not yet, by a version that there is not yet.
const NEWER: &str = r#"{"format":4000000000,"version":"9.9.9","record":{}}"#;

/// Also by the next coordinator, to which the member may not have spoken yet: its level is on record. Red
/// where nobody looks at the members' levels.
#[test]
fn tracking_is_refused_while_a_member_of_an_earlier_version_is_there_and_it_is_named() {
    let etcd = Etcd::three();
    let cluster = Cluster::start_on_etcd(2, 4, 3, &etcd.urls());
    let old = add_old_member(&cluster);
    let refused = |after: &str| {
        let answer = submit(&cluster, 2);
        assert_eq!(answer.code, Some(2), "{after}: {answer:?}");
        let names_it = answer.stdout.contains(&old.uuid) || answer.stderr.contains(&old.uuid);
        assert!(names_it && (answer.stdout + &answer.stderr).contains("0.0.1"), "{after}");
    };
    refused("it is there");
    let (_, leader) = cluster.leader();
    leader.signal(Signal::KILL);
    cluster.wait_until_led_again(leader);
    refused("another one leads");
    assert_eq!(submit(&cluster, -1).code, Some(0), "without tracking");

    cluster.process(old.pid).signal(Signal::KILL);
    cluster.wait_until_lost(&old);
    assert_eq!(submit(&cluster, 2).code, Some(0), "every member has it");
    let labels = cluster.rest().running_jobs();
    let has = |wanted| labels.iter().any(|job| job.dirty_task.evaluation_status == wanted);
    assert!(has(Evaluation::Disabled) && has(Evaluation::Clean), "{labels:#?}");
}

/// What a newer coordinator has committed is no damage: nobody of this version leads, and says which
/// version it takes. Containers live on what they hold.
#[test]
fn a_store_of_a_newer_version_is_left_as_it_is_and_nobody_leads() {
    let etcd = Etcd::three();
    let cluster = Cluster::start_on_etcd(2, 4, 2, &etcd.urls());
    let (id, detector) = Detector::submit(&cluster, 2, Manner::Polite, LEASE);
    let before = cluster.wait_until_runs(&id, 1);
    let coordinators = cluster.coordinators();

    cluster.dev().signal(Signal::STOP); // it would give up a coordinator that does not stay
    let older = etcd.dump()["head"].value.clone();
    etcd.put("head", NEWER);
    cluster.leader().1.signal(Signal::KILL);
    wait_until(PATIENCE, "the other one to say which version it takes", || {
        assert!(!coordinators.iter().any(|one| matches!(one.standing(), Standing::Leads { .. })));
        says(&cluster.data().join("log"), "9.9.9").then_some(())
    });
    assert_eq!(etcd.dump()["head"].value, NEWER);

    etcd.put("head", &older);
    cluster.dev().signal(Signal::CONT);
    let again = cluster.wait_until_runs(&id, 1);
    assert_eq!(again.containers(), before.containers(), "nothing is restarted");
    detector.finish(&cluster, &id);
}

#[track_caller]
fn add_old_member(cluster: &Cluster) -> Member {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/old_member.py");
    let urls = cluster.rest().urls().join(",");
    let program = program.to_str().expect("it has a plain name");
    let process = cluster.spawn(&mut cluster.command(python().as_ref(), [program, &urls]));
    wait_until(PATIENCE, "a member of an earlier version", || {
        let members = cluster.rest().members_now()?;
        let is_it = |one: &Member| one.pid == process.pid() && one.status == MemberStatus::Alive;
        members.into_iter().find(is_it)
    })
}

#[track_caller]
fn submit(cluster: &Cluster, threshold: i64) -> Finished {
    let text = format!(
        r#"env {{ job.name = "mixed", job.mode = "STREAMING", job.dirty-task.threshold = {threshold} }}
        pipelines = [{{ name = "p", tasks = [{{ name = "t", command = ["sleep", "600"] }}] }}]"#
    );
    let file = cluster.new_folder("mixed").join("mixed.conf");
    fs::write(&file, text).expect("the cluster's folder can be written");
    cluster.run(cluster.steadfast(["submit", "--detach", "--json"]).arg(file))
}

/// Whether one of the logs in a folder has this.
fn says(folder: &Path, text: &str) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_to_string(file.path()).ok()).any(|log| log.contains(text))
}
