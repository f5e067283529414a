//! A store that has no room: the term goes on, what runs goes on, and nothing is lost or done twice when there
//! is room again.

use serde_json::Value;
use steadfast_coordinator::Role;
use steadfast_store::{Fault, MemoryStore, Refusal};

use crate::agent::Agent;
use crate::server::{Answer, Server, credentials, token};

/// A cluster whose one container runs.
struct Scene {
    store: MemoryStore,
    server: Server,
    _agent: Agent,
    job: String,
    container: String,
    epoch: Value,
}

impl Scene {
    fn start() -> Self {
        let store = MemoryStore::new();
        let server = Server::on(store.clone(), Some(credentials()));
        let agent = Agent::start(&server);
        let submitted = submit(&server, "runs");
        assert_eq!(submitted.status, 200, "{submitted:?}");
        let job = submitted.json()["jobId"].as_str().unwrap().to_owned();
        let group = || {
            let info = get(&server, &format!("/job-info/{job}")).json();
            info["pipelines"][0]["taskGroups"][0].clone()
        };
        server.until("it runs", || group()["pid"].is_u64());
        let container = group()["executionResourceId"].as_str().unwrap().to_owned();
        let epoch = get(&server, "/overview").json()["coordinator"]["epoch"].clone();
        Self { store, server, _agent: agent, job, container, epoch }
    }

    fn fill_up(&self) {
        self.store.inject(Fault::Refuse(Refusal::Full), u32::MAX);
    }

    fn make_room(&self) {
        self.store.clear_faults();
        self.server.until("it is ready again", || get(&self.server, "/health/ready").status == 200);
    }

    fn is_valid(&self) -> Answer {
        let question = format!("/isContainerValid?execution_resource_id={}", self.container);
        self.server.get(&question, None)
    }

    fn running(&self) -> Vec<String> {
        let jobs = get(&self.server, "/running-jobs").json();
        let names = jobs.as_array().unwrap().iter().map(|job| job["jobName"].as_str().unwrap());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_unstable();
        names
    }
}

fn get(server: &Server, path: &str) -> Answer {
    server.get(path, Some(&token(Role::Reader)))
}

/// A job whose one task does this.
fn submit(server: &Server, name: &str) -> Answer {
    let job = format!(
        r#"{{"env": {{"job.name": "{name}", "job.dirty-task.threshold": 2}},
            "pipelines": [{{"name": "p", "tasks": [{{"name": "t", "command": ["runs"]}}]}}]}}"#
    );
    server.post("/submit-job", Some(&token(Role::Operator)), &job)
}

/// Red where a commit that is refused as full ends the term, or is given up: the job that was submitted first
/// is then lost, or the epoch another. Red where those who come later are not refused: they wait.
#[test]
fn a_full_store_ends_no_term_and_what_waits_is_done_once_there_is_room() {
    let scene = Scene::start();
    let server = &scene.server;
    scene.fill_up();
    let first = submit(server, "first");
    assert_eq!(first.status, 408, "it is not to be asked again: it will be done: {first:?}");
    assert!(first.message().contains("the store is full"), "{first:?}");
    assert!(first.message().contains("is done then"), "{first:?}");

    let later = submit(server, "later");
    assert_eq!(later.status, 503, "nothing of it happens: {later:?}");
    assert!(later.message().contains("the store is full"), "{later:?}");
    let agent = server.get("/agent", Some(&token(Role::Member)));
    assert_eq!(agent.status, 503, "nobody can be welcomed: {agent:?}");
    let ready = get(server, "/health/ready");
    assert_eq!((ready.status, &ready.json()["role"]), (503, &"leader".into()), "{ready:?}");
    assert!(ready.message().contains("the store is full"), "{ready:?}");
    let overview = get(server, "/overview");
    assert_eq!(overview.json()["storeTrouble"]["status"], "FULL", "{overview:?}");
    let full = |value| format!("steadfast_store_trouble{{kind=\"full\"}} {value}\n");
    let metrics = get(server, "/metrics").body;
    assert!(metrics.contains(&full(1)), "{metrics}");
    assert_eq!(scene.is_valid().json()["isValid"], true, "what runs goes on");
    assert_eq!(scene.running(), ["runs"], "readers see what is durable");

    scene.make_room();
    server.until("what waited is done", || scene.running() == ["first", "runs"]);
    assert_eq!(submit(server, "last").status, 200);
    assert_eq!(scene.running(), ["first", "last", "runs"]);
    let overview = get(server, "/overview").json();
    assert_eq!(overview["coordinator"]["epoch"], scene.epoch, "it is the same term");
    assert_eq!(overview["storeTrouble"], Value::Null);
    assert_eq!(overview["members"]["lost"], 0, "nobody is lost for it");
    assert!(get(server, "/metrics").body.contains(&full(0)));
}

/// Red where a label goes on as if every loss could be written down.
#[test]
fn no_count_is_called_complete_while_a_loss_could_not_be_written() {
    let scene = Scene::start();
    let server = &scene.server;
    let label = || get(server, &format!("/job-info/{}", scene.job)).json()["dirtyTask"].clone();
    let of = |evaluation: &str, complete: bool| {
        let label = label();
        label["evaluationStatus"] == evaluation && label["trackingComplete"] == complete
    };
    assert!(of("CLEAN", true), "{}", label());
    scene.fill_up();
    assert_eq!(submit(server, "first").status, 408);
    assert!(of("UNKNOWN", false), "{}", label());
    let evaluations = get(server, "/overview").json()["evaluations"].clone();
    assert_eq!((&evaluations["CLEAN"], &evaluations["UNKNOWN"]), (&0.into(), &1.into()));
    scene.make_room();
    server.until("it is known again", || of("CLEAN", true));
}

/// Red where the index is changed, or thawed, before what was decided is durable.
#[test]
fn what_is_being_revoked_stays_frozen_until_there_is_room() {
    let scene = Scene::start();
    scene.fill_up();
    let wish = format!(r#"{{"jobId":"{}"}}"#, scene.job);
    let stop = || scene.server.post("/stop-job", Some(&token(Role::Operator)), &wish);
    assert_eq!(stop().status, 408);
    for _ in 0..3 {
        assert_eq!(scene.is_valid().status, 503, "neither yes nor no");
        assert_eq!(stop().status, 503);
    }
    let info = get(&scene.server, &format!("/job-info/{}", scene.job)).json();
    assert_eq!(info["jobStatus"], "RUNNING", "{info}");
    scene.make_room();
    scene.server.until("it is invalid", || {
        let answer = scene.is_valid();
        answer.status == 200 && answer.json()["isValid"] == false
    });
    scene.server.until("the job has ended", || scene.running().is_empty());
}

#[test]
fn a_coordinator_whose_store_is_full_goes_when_it_is_asked_to() {
    let scene = Scene::start();
    scene.fill_up();
    assert_eq!(submit(&scene.server, "waits").status, 408);
    let before = scene.store.dump();
    let Scene { store, server, .. } = scene;
    drop(server);
    let rows = |dump: std::collections::BTreeMap<String, Vec<u8>>| {
        dump.into_iter().filter(|(key, _)| key.starts_with("job/")).collect::<Vec<_>>()
    };
    assert_eq!(rows(store.dump()), rows(before), "nothing of what waited is done");
}
