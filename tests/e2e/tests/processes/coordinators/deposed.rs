//! The active coordinator is stopped (SIGSTOP) until another one leads and has counted a loss, for half a
//! minute in the long form, and then continued. What waits for it when it wakes: a pipeline whose pause is
//! over since, and that another one has started; and in its sockets a question of every container that it
//! takes for alive and of every one that it does not know, a checkpoint of one of its own, and a job. Each
//! is a thing to do, to answer or to write for somebody who still led.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use steadfast_e2e::{
    Asked, Cluster, Container, Detector, Etcd, Lease, Manner, PATIENCE, Process, Record, Rest,
    Signal, Standing, Told, Witness, is_long, wait_until,
};

use super::waiting_call::WaitingCall;
use super::{assert_nobody_else_is_lost, uuids, wait_until_past};

/// As long as promised.
const STOPPED_FOR: Duration = Duration::from_secs(30);
/// Seconds from a failure to the next start: long enough to be stopped in, and over when it wakes.
const PAUSE_SECONDS: u32 = 6;
/// Nothing is written for so long: more than a member beats and a coordinator lists.
const STILL_FOR: Duration = Duration::from_secs(2);

/// Red where a term that is over by the clock goes on while nobody has told it (a container gets a verdict from
/// who slept), and where commits compare nothing beside that (two lead).
#[test]
fn a_leader_that_slept_while_another_one_led_says_nothing_writes_nothing_and_stands_by() {
    let etcd = Etcd::three();
    let cluster = Cluster::start_on_etcd(3, 4, 3, &etcd.urls());
    let (id, detector) = Detector::submit(&cluster, 4, Manner::Polite, Lease::DEFAULT);
    let before = cluster.wait_until_runs(&id, 1);
    let (lost, olds) = (cluster.host_of(&before), Asker::all(&cluster, &before));
    let mut members = uuids(&cluster);
    let epoch = cluster.rest().overview().coordinator.epoch;
    let (sleeper, process) = cluster.leader();

    let paused = Paused::submit(&cluster);
    let since = Instant::now();
    stop(process);
    assert!(cluster.wait_until_another_leads(&sleeper) > epoch, "a new term");
    cluster.process(lost.pid).signal(Signal::KILL);
    cluster.wait_until_lost(&lost);
    members.remove(&lost.uuid);
    let again = cluster.wait_until_runs(&id, 2);
    let containers = Container::all(&cluster, &again);
    assert_nobody_else_is_lost(&cluster, &members);
    let started = cluster.wait_until_runs(&paused.id, 2);
    if is_long() {
        wait_until_past(since, STOPPED_FOR);
    }

    // The programs' checkpoints would be the only writes.
    containers.iter().for_each(|one| one.signal_programs(&cluster, Signal::STOP));
    let dump = dump_that_is_still(&etcd);
    let witness = Witness::at(&sleeper, &containers);
    let news = Asker::all(&cluster, &again);
    let asked: Vec<WaitingCall> = olds.iter().chain(&news).map(|one| one.asks(&sleeper)).collect();
    let writing = [olds[0].commits(&sleeper), submits(&sleeper)];
    assert!(process.is_stopped(), "it slept all the time");
    process.signal(Signal::CONT);

    let verdicts: Vec<(u16, String)> = asked.into_iter().map(WaitingCall::answer).collect();
    let taken: Vec<(u16, String)> = writing.into_iter().map(WaitingCall::answer).collect();
    let leader = cluster.leader().0;
    assert_ne!(leader.url(), sleeper.url());
    wait_until_stands_by(&sleeper, &leader);
    assert_eq!(dump_that_is_still(&etcd), dump, "it has changed no key");
    let gives_none = verdicts.iter().all(|(status, _)| *status == 503);
    assert!(gives_none, "whoever does not lead gives no verdict: {verdicts:#?}");
    let takes_none = taken.iter().all(|(status, _)| [307, 503].contains(status));
    assert!(takes_none, "whoever does not lead takes nothing: {taken:#?}");
    let tally = witness.tally();
    let verdict = tally.keys().find(|(_, told)| matches!(told, Told::Yes | Told::No));
    assert_eq!(verdict, None, "{tally:?}");
    assert!(tally.contains_key(&(Asked::Validity, Told::CannotKnow)), "{tally:?}");

    containers.iter().for_each(|one| one.signal_programs(&cluster, Signal::CONT));
    assert_eq!(cluster.rest().job(&id).containers(), again.containers(), "nothing is restarted");
    let now = cluster.rest().job(&paused.id);
    assert_eq!(now.containers(), started.containers(), "nothing is restarted");
    assert_eq!(paused.starts(), ["1", "2"], "no attempt is started twice");
    let finished = detector.finish(&cluster, &id);
    let (label, counts) = (finished.label(), &finished.counts);
    assert_eq!((counts.member_loss, counts.program, counts.ladder), (1, 0, 0));
    let counted = (label.member_loss_incident_count, label.recovery_episode_count);
    assert_eq!((counted, label.recovery_attempt_count), ((1, 1), 1), "{label:?}");
    assert_eq!(label.last_lost_member_uuid.as_ref(), Some(&lost.uuid), "{label:?}");
}

/// A job whose program fails at its first start, and is then paused for.
struct Paused {
    id: String,
    /// A line for each start of its program.
    starts: PathBuf,
}

impl Paused {
    /// Waits until it has failed.
    #[track_caller]
    fn submit(cluster: &Cluster) -> Self {
        const PROGRAM: &str = r#"echo "$STEADFAST_ATTEMPT" >> "$0"; [ "$STEADFAST_ATTEMPT" = 1 ] || exec sleep 3600; exit 1"#;
        let folder = cluster.new_folder("paused");
        let starts = folder.join("starts");
        let task = json!({ "name": "t", "command": ["sh", "-c", PROGRAM, &starts] });
        let job = json!({
            "env": {
                "job.name": "paused",
                "job.mode": "STREAMING",
                "job.retry.times": 3,
                "job.retry.interval.seconds": PAUSE_SECONDS,
            },
            "pipelines": [{ "name": "p", "tasks": [task] }],
        });
        let id = cluster.submit_text("paused.json", &job.to_string());
        cluster.rest().wait_for_job(&id, "it fails", |job| job.counts.program == 1);
        Self { id, starts }
    }

    #[track_caller]
    fn starts(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.starts).expect("it was started");
        text.lines().map(str::to_owned).collect()
    }
}

/// A container's id and secret, which outlive it.
struct Asker {
    id: String,
    secret: String,
}

impl Asker {
    #[track_caller]
    fn all(cluster: &Cluster, job: &steadfast_e2e::Job) -> Vec<Self> {
        let containers = Container::all(cluster, job);
        containers.into_iter().map(|one| Self { secret: one.secret(), id: one.id }).collect()
    }

    #[track_caller]
    fn asks(&self, rest: &Rest) -> WaitingCall {
        let request = format!("GET /isContainerValid?execution_resource_id={}", self.id);
        WaitingCall::send(rest, &request, &self.secret, "")
    }

    #[track_caller]
    fn commits(&self, rest: &Rest) -> WaitingCall {
        let request = format!("PUT /checkpoint?execution_resource_id={}", self.id);
        WaitingCall::send(rest, &request, &self.secret, "by a container of before")
    }
}

#[track_caller]
fn submits(rest: &Rest) -> WaitingCall {
    let task = json!({ "name": "t", "command": ["true"] });
    let job = json!({
        "env": { "job.name": "too-late", "job.mode": "BATCH" },
        "pipelines": [{ "name": "p", "tasks": [task] }],
    });
    WaitingCall::send(rest, "POST /submit-job", "nobody's", &job.to_string())
}

#[track_caller]
fn stop(process: Process) {
    process.signal(Signal::STOP);
    wait_until(PATIENCE, "the coordinator to be stopped", || process.is_stopped().then_some(()));
}

/// Waits until it follows what the leader has committed.
#[track_caller]
fn wait_until_stands_by(coordinator: &Rest, leader: &Rest) {
    wait_until(PATIENCE, "who slept to stand by", || match coordinator.standing() {
        Standing::StandsBy { leader: followed, .. } => (followed == leader.url()).then_some(()),
        Standing::Leads { .. } => panic!("two lead"),
        _ => None,
    });
}

/// Everything that lies in the store, once nothing has been written for a while. Who is there to be asked
/// is no part of it: that changes with who sleeps.
#[track_caller]
fn dump_that_is_still(etcd: &Etcd) -> BTreeMap<String, Record> {
    let decided = || {
        let mut dump = etcd.dump();
        dump.retain(|key, _| !key.starts_with("announced/"));
        dump
    };
    let (mut dump, mut since) = (decided(), Instant::now());
    wait_until(PATIENCE, "nothing to be written", || {
        let now = decided();
        if now != dump {
            (dump, since) = (now, Instant::now());
        }
        (since.elapsed() >= STILL_FOR).then_some(())
    });
    dump
}
