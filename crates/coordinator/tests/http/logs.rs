//! What containers have written, asked of a real coordinator with a real agent. Its wrapper is a stand-in
//! that writes nothing: each test decides which bytes lie where.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use steadfast_client::{Client, ClientError, LogsQuery, Output, Token};
use steadfast_coordinator::Role;

use crate::agent::Agent;
use crate::server::{PATIENCE, Server, credentials, token};

const READER: Role = Role::Reader;

/// A job of one task group, and the agent that runs it.
struct Scene {
    server: Server,
    agent: Option<Agent>,
    job: String,
    runtime: tokio::runtime::Runtime,
}

impl Scene {
    /// `behaviour` is what the stand-in does.
    fn start(behaviour: &str) -> Self {
        let server = Server::start(Some(credentials()));
        let agent = Some(Agent::start(&server));
        let job = format!(
            r#"{{"env": {{"job.name": "j", "job.retry.times": 1}},
                "pipelines": [{{"name": "p", "tasks": [{{"name": "t", "command": ["{behaviour}"]}}]}}]}}"#
        );
        let answer = server.post("/submit-job", Some(&token(Role::Operator)), &job);
        assert_eq!(answer.status, 200, "{answer:?}");
        let job = answer.json()["jobId"].as_str().unwrap().to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { server, agent, job, runtime }
    }

    fn info(&self) -> Value {
        self.server.get(&format!("/job-info/{}", self.job), Some(&token(READER))).json()
    }

    /// The container of an attempt, once it runs.
    fn runs(&self, attempt: u64) -> String {
        let group = |info: &Value| info["pipelines"][0]["taskGroups"][0].clone();
        self.server.until("it runs", || {
            let group = group(&self.info());
            group["attempt"] == attempt && group["pid"].is_u64()
        });
        group(&self.info())["executionResourceId"].as_str().unwrap().to_owned()
    }

    fn file(&self, container: &str, name: &str) -> PathBuf {
        self.agent.as_ref().unwrap().file(container, name)
    }

    fn open(&self, query: LogsQuery) -> Result<Output, ClientError> {
        let shown = Token::new(&token(READER)).unwrap();
        let client = Client::new([self.server.url()]).unwrap().with_token(&shown);
        let (job, group) = (self.job.parse().unwrap(), "1".parse().unwrap());
        self.runtime.block_on(client.logs(job, group, query))
    }

    /// What comes until the end.
    fn rest(&self, mut output: Output) -> Result<Vec<u8>, ClientError> {
        self.runtime.block_on(async {
            let mut all = Vec::new();
            while let Some(bytes) = output.next().await? {
                all.extend_from_slice(&bytes);
            }
            Ok(all)
        })
    }

    fn read(&self, query: LogsQuery) -> Vec<u8> {
        let output = self.open(query).unwrap_or_else(|error| panic!("{error}"));
        self.rest(output).unwrap()
    }

    /// The next bytes of an output that is followed.
    fn next(&self, output: &mut Output) -> Vec<u8> {
        let next = async { tokio::time::timeout(PATIENCE, output.next()).await };
        self.runtime.block_on(next).expect("never: more output").unwrap().unwrap().to_vec()
    }

    /// The status and the sentence of a refusal; `of` stands behind the job's path.
    fn refused(&self, of: &str) -> (u16, String) {
        let path = format!("/job-info/{}/logs/{of}", self.job);
        let answer = self.server.get(&path, Some(&token(READER)));
        (answer.status, answer.message())
    }
}

fn plain() -> LogsQuery {
    LogsQuery::default()
}

#[test]
fn an_output_comes_as_it_was_written_whole_in_part_or_its_end() {
    let scene = Scene::start("runs");
    let container = scene.runs(1);
    assert_eq!(scene.read(plain()), b"", "it has written nothing yet");
    // No text, no end of a line in the first three parts, over two files.
    let earlier: Vec<u8> = (0..200_000_u32).map(|n| (n % 7 + 128) as u8).collect();
    fs::write(scene.file(&container, "stdout.log.50"), &earlier).unwrap();
    fs::write(scene.file(&container, "stdout.log"), b"\none\n\0two\n").unwrap();
    fs::write(scene.file(&container, "stderr.log"), b"wrong").unwrap();
    let all = [earlier, b"\none\n\0two\n".to_vec()].concat();

    let output = scene.open(plain()).unwrap();
    assert_eq!((output.attempt(), output.offset()), (Some(1), 50), "the first fifty are gone");
    assert_eq!(scene.rest(output).unwrap(), all);
    assert_eq!(scene.read(LogsQuery { tail: Some(1), ..plain() }), b"\0two\n");
    assert_eq!(scene.read(LogsQuery { offset: Some(100_050), ..plain() }), all[100_000..]);
    assert_eq!(scene.read(LogsQuery { stream: "stderr".parse().unwrap(), ..plain() }), b"wrong");
    assert_eq!(scene.read(LogsQuery { attempt: Some(1), ..plain() }), all);
}

#[test]
fn who_follows_gets_what_comes_until_the_container_ends_and_later_all_of_it() {
    let scene = Scene::start("runs");
    let container = scene.runs(1);
    let path = scene.file(&container, "stdout.log");
    fs::write(&path, b"one\n").unwrap();
    let mut output = scene.open(LogsQuery { follow: true, ..plain() }).unwrap();
    assert_eq!(scene.next(&mut output), b"one\n");
    // Set aside, as a wrapper does: the reader keeps its place.
    fs::rename(&path, scene.file(&container, "stdout.log.0")).unwrap();
    fs::write(&path, b"two\n").unwrap();
    assert_eq!(scene.next(&mut output), b"two\n");

    let body = format!(r#"{{"jobId": "{}"}}"#, scene.job);
    assert_eq!(scene.server.post("/stop-job", Some(&token(Role::Operator)), &body).status, 202);
    assert_eq!(scene.rest(output).unwrap(), b"", "nothing more, and an end");
    scene.server.until("the job has ended", || scene.info()["jobStatus"] == "CANCELED");
    assert_eq!(
        scene.read(plain()),
        b"one\ntwo\n",
        "it is kept, and found without its job's record"
    );
}

#[test]
fn what_was_set_aside_before_it_was_read_breaks_off_and_is_gone_on_with() {
    let scene = Scene::start("runs");
    let container = scene.runs(1);
    fs::write(scene.file(&container, "stdout.log"), b"one\n").unwrap();
    let mut output = scene.open(LogsQuery { follow: true, ..plain() }).unwrap();
    assert_eq!(scene.next(&mut output), b"one\n");
    // The file that was read is gone with what was written behind it.
    fs::rename(scene.file(&container, "stdout.log"), scene.file(&container, "gone")).unwrap();
    fs::write(scene.file(&container, "stdout.log.40"), b"set aside\n").unwrap();
    fs::write(scene.file(&container, "stdout.log"), b"now\n").unwrap();
    let stopped_at = output.offset();
    let broken = scene.rest(output).unwrap_err();
    assert!(matches!(broken, ClientError::BrokenOff { .. }), "{broken}");
    let again = scene.open(LogsQuery { offset: Some(stopped_at), ..plain() }).unwrap();
    assert_eq!((stopped_at, again.offset()), (4, 40), "36 bytes are missing, and it is told");
    assert_eq!(scene.rest(again).unwrap(), b"set aside\nnow\n");
}

#[test]
fn earlier_attempts_are_found_where_they_ran() {
    // It ends without a word each time, so it is restored once and then fails.
    let scene = Scene::start("vanishes");
    scene.server.until("the job has failed", || scene.info()["jobStatus"] == "FAILED");
    let mut containers: Vec<String> = fs::read_dir(scene.file("", ""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    containers.sort();
    for (container, text) in containers.iter().zip(["the first", "the second"]) {
        fs::write(scene.file(container, "stdout.log"), text).unwrap();
    }
    assert_eq!(scene.read(LogsQuery { attempt: Some(1), ..plain() }), b"the first");
    assert_eq!(scene.read(LogsQuery { attempt: Some(2), ..plain() }), b"the second");
    assert_eq!(scene.read(plain()), b"the second", "the newest");
    // What follows has ended.
    let ended = LogsQuery { follow: true, tail: Some(1), ..plain() };
    assert_eq!(scene.read(ended), b"the second");
    fs::remove_dir_all(scene.file(&containers[0], "")).unwrap();
    let (status, message) = scene.refused("1?attempt=1");
    assert_eq!(status, 404, "{message}");
    assert!(
        message.contains("attempt 1 of task group 1") && message.contains("keep: 2"),
        "{message}"
    );
}

#[test]
fn a_lost_members_output_is_named_and_read_once_an_agent_is_on_its_folder_again() {
    let mut scene = Scene::start("runs");
    let container = scene.runs(1);
    fs::write(scene.file(&container, "stdout.log"), b"last words").unwrap();
    let member = scene.info()["pipelines"][0]["taskGroups"][0]["memberUuid"].clone();
    let member = member.as_str().unwrap();
    let data = scene.agent.take().unwrap().end();
    scene.server.until("the member is lost", || {
        let members = scene.server.get("/members", Some(&token(READER))).json();
        members[0]["status"] == "LOST"
    });
    let (status, message) = scene.refused("1?attempt=1");
    assert!(status == 409 || status == 404, "{status} {message}");
    assert!(message.contains(member) && message.contains("LOST"), "{message}");

    // It comes back as another member, with another container or none.
    scene.agent = Some(Agent::on(data, &scene.server));
    let query = LogsQuery { attempt: Some(1), ..plain() };
    scene.server.until("it keeps what it had", || scene.open(query).is_ok());
    assert_eq!(scene.read(query), b"last words");
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    let scene = Scene::start("runs");
    let container = scene.runs(1);
    fs::write(scene.file(&container, "stdout.log"), b"four").unwrap();
    for (of, status, complaint) in [
        ("x", 400, "task group id"),
        ("1%00", 400, "task group id"),
        ("2", 404, "has no task group 2: it has 1 to 1"),
        ("1?attempt=0", 400, "counts from 1"),
        ("1?attempt=x", 400, "attempt"),
        ("1?attempt=-1", 400, "attempt"),
        ("1?attempt=2", 404, "the newest is 1"),
        ("1?stream=stdlog", 400, "stdout"),
        ("1?tail=1&offset=1", 400, "not both"),
        ("1?tail=x", 400, "tail"),
        ("1?tail=1&tail=2", 400, "tail"),
        ("1?follow=perhaps", 400, "follow"),
        ("1?lines=3", 400, "lines"),
        ("1?offset=5", 400, "behind the output's end at 4"),
    ] {
        let (answered, message) = scene.refused(of);
        assert_eq!(answered, status, "{of}: {message}");
        assert!(message.contains(complaint), "{of}: {message}");
    }
    let path = format!("/job-info/{}/logs/1", scene.job);
    assert_eq!(scene.server.get(&path, None).status, 401);
    assert_eq!(scene.server.get(&path, Some(&token(Role::Member))).status, 403);
    assert_eq!(scene.server.get("/job-info/9/logs/1", Some(&token(READER))).status, 404);
    assert_eq!(scene.server.get("/job-info/x/logs/1", Some(&token(READER))).status, 400);
}

#[test]
fn what_waits_for_a_slot_has_no_output() {
    let server = Server::start(Some(credentials()));
    let job = r#"{"env": {"job.name": "j"},
        "pipelines": [{"name": "p", "tasks": [{"name": "t", "command": ["true"]}]}]}"#;
    let answer = server.post("/submit-job", Some(&token(Role::Operator)), job);
    let job = answer.json()["jobId"].as_str().unwrap().to_owned();
    let refused = server.get(&format!("/job-info/{job}/logs/1"), Some(&token(READER)));
    assert_eq!((refused.status, refused.message().contains("not been started")), (409, true));
}
