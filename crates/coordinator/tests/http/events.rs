//! `/events` of a real coordinator with a real agent: what is told, to whom, and when it ends.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::Value;
use steadfast_coordinator::Role;
use steadfast_store::{Fault, MemoryStore};

use crate::agent::Agent;
use crate::server::{PATIENCE, Server, credentials, token};

const JOB: &str = r#"{"env": {"job.name": "j", "job.dirty-task.threshold": 1, "job.retry.times": 1},
    "pipelines": [{"name": "p", "tasks": [{"name": "t", "command": ["runs"]}]}]}"#;

/// A stream of events, as it comes over the wire.
struct Stream {
    lines: std::io::Lines<BufReader<TcpStream>>,
}

impl Stream {
    /// The status, and the stream where that is 200.
    fn open(server: &Server, token: Option<&str>) -> Result<Self, u16> {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let shown = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        // HTTP/1.0 has no chunks: what follows the head is the stream itself.
        let head = format!("GET /events HTTP/1.0\r\n{}\r\n", shown.unwrap_or_default());
        stream.write_all(head.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream).lines();
        let head: Vec<String> =
            lines.by_ref().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        let status = head[0].split(' ').nth(1).unwrap().parse().unwrap();
        if status != 200 {
            return Err(status);
        }
        assert!(head.iter().any(|line| line == "content-type: text/event-stream"), "{head:?}");
        Ok(Self { lines })
    }

    /// The next event; `None` behind the last one.
    fn next(&mut self) -> Option<Value> {
        let mut name = String::new();
        for line in self.lines.by_ref() {
            let line = line.expect("an event in time");
            if let Some(told) = line.strip_prefix("event: ") {
                name = told.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                let data: Value = serde_json::from_str(data).unwrap();
                assert_eq!(data["event"], name, "{data}");
                assert!(data["time"].is_string(), "{data}");
                return Some(data);
            }
        }
        None
    }

    /// Everything up to the first event of this kind that has this value there.
    fn until(&mut self, event: &str, pointer: &str, value: &str) -> Vec<Value> {
        let mut seen = Vec::new();
        while let Some(next) = self.next() {
            let found = next["event"] == event
                && next.pointer(pointer).is_some_and(|it| it.as_str() == Some(value));
            seen.push(next);
            if found {
                return seen;
            }
        }
        panic!("no {event} with {value} at {pointer}, only {seen:#?}");
    }
}

/// The values there of all events of one kind.
fn values<'a>(events: &'a [Value], event: &str, pointer: &str) -> Vec<&'a str> {
    let of_kind = events.iter().filter(|it| it["event"] == event);
    of_kind.filter_map(|it| it.pointer(pointer)?.as_str()).collect()
}

fn open(server: &Server) -> Stream {
    Stream::open(server, Some(&token(Role::Reader))).unwrap()
}

fn submit_in_vain(server: &Server) {
    let answer = server.post("/submit-job", Some(&token(Role::Operator)), JOB);
    assert_eq!(answer.status, 408, "{answer:?}");
}

fn submit(server: &Server) -> String {
    let submitted = server.post("/submit-job", Some(&token(Role::Operator)), JOB);
    submitted.json()["jobId"].as_str().unwrap_or_else(|| panic!("{submitted:?}")).to_owned()
}

#[test]
fn a_jobs_life_and_a_members_loss_are_told_in_order() {
    let store = MemoryStore::new();
    let server = Server::on(store.clone(), Some(credentials()));
    let mut stream = open(&server);
    let [leads, snapshot] = [(); 2].map(|()| stream.next().unwrap());
    assert_eq!((&leads["event"], &leads["leader"]), (&"leadership".into(), &server.url().into()));
    assert_eq!(snapshot["event"], "snapshot");
    let nothing = Value::Array(Vec::new());
    assert_eq!((&snapshot["members"], &snapshot["jobs"]), (&nothing, &nothing));

    let agent = Agent::start(&server);
    let joined = stream.until("memberStatus", "/member/status", "ALIVE");
    assert_eq!(joined.last().unwrap()["before"], Value::Null, "a new one: {joined:?}");
    let job = submit(&server);
    let runs = stream.until("jobStatus", "/job/jobStatus", "RUNNING");
    assert_eq!(values(&runs, "evaluation", "/dirtyTask/evaluationStatus"), ["CLEAN"]);
    let runs = [runs, stream.until("taskGroupStatus", "/status", "RUNNING")].concat();
    let pipeline = values(&runs, "pipelineStatus", "/status");
    assert_eq!(pipeline.last(), Some(&"RUNNING"), "{runs:#?}");
    assert!(pipeline.contains(&"DEPLOYING"), "{pipeline:?}");
    assert!(runs.iter().all(|it| it.get("jobId").is_none_or(|id| *id == job)), "{runs:#?}");

    // Whoever begins now finds in the snapshot what the other one was told.
    let mut late = open(&server);
    late.next().unwrap();
    let snapshot = late.next().unwrap();
    assert_eq!(snapshot["jobs"][0]["jobStatus"], "RUNNING", "{snapshot}");
    assert_eq!(snapshot["members"][0]["status"], "ALIVE", "{snapshot}");

    drop(agent);
    let lost = stream.until("incident", "/jobId", &job);
    assert_eq!(values(&lost, "memberStatus", "/member/status").last(), Some(&"LOST"), "{lost:#?}");
    let incident = lost.last().unwrap();
    let uuid = incident["incident"]["memberUuid"].as_str();
    assert_eq!(uuid, snapshot["members"][0]["uuid"].as_str(), "{incident}");
    let _other = Agent::start(&server);
    let again = stream.until("evaluation", "/dirtyTask/evaluationStatus", "DIRTY");
    assert_eq!(again.last().unwrap()["before"], "CLEAN");
    assert!(!values(&again, "attempt", "/attempt/attemptId").is_empty(), "{again:#?}");
    let both = late.until("evaluation", "/dirtyTask/evaluationStatus", "DIRTY");
    let kinds = |events: &[Value]| {
        let mut kinds = BTreeMap::<String, usize>::new();
        for event in events.iter().filter(|it| it["jobId"] == job) {
            *kinds.entry(event["event"].to_string()).or_default() += 1;
        }
        kinds
    };
    assert_eq!(kinds(&both), kinds(&[lost, again].concat()), "both are told the same");

    let info = server.get(&format!("/job-info/{job}"), Some(&token(Role::Reader))).json();
    assert_eq!(info["dirtyTask"]["evaluationStatus"], "DIRTY", "{info}");

    // The term ends, and the next one begins.
    store.inject(Fault::Unknown { applied: false }, u32::MAX);
    submit_in_vain(&server);
    store.clear_faults();
    let mut last = Value::Null;
    while let Some(event) = stream.next() {
        last = event;
    }
    assert_eq!((&last["event"], &last["leader"]), (&"leadership".into(), &Value::Null), "{last}");
    server.until("the next term", || {
        Stream::open(&server, Some(&token(Role::Reader))).is_ok_and(|mut stream| {
            stream.next().unwrap()["epoch"].as_u64() > last["epoch"].as_u64()
        })
    });
}

#[test]
fn a_jobs_end_is_told_with_its_final_status() {
    let server = Server::start(Some(credentials()));
    let mut stream = open(&server);
    let job = submit(&server);
    let wish = format!(r#"{{"jobId":"{job}"}}"#);
    assert_eq!(server.post("/stop-job", Some(&token(Role::Operator)), &wish).status, 202);
    // The job comes before what it is made of.
    let ended = stream.until("pipelineStatus", "/status", "CANCELED");
    assert_eq!(
        values(&ended, "jobStatus", "/job/jobStatus").last(),
        Some(&"CANCELED"),
        "{ended:#?}"
    );
    assert_eq!(values(&ended, "jobStatus", "/job/jobId").last(), Some(&job.as_str()), "{ended:#?}");
}

#[test]
fn events_take_a_readers_token_and_a_place() {
    let server = Server::start(Some(credentials()));
    let refused = |token: Option<&str>| Stream::open(&server, token).err();
    assert_eq!(refused(None), Some(401));
    assert_eq!(refused(Some(&token(Role::Member))), Some(403));
    let mut streams: Vec<Stream> = (0..64).map(|_| open(&server)).collect();
    assert_eq!(refused(Some(&token(Role::Operator))), Some(429));
    streams.pop();
    server.until("a place to be free again", || refused(Some(&token(Role::Operator))).is_none());
}
