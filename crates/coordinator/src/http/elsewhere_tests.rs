//! What each call is answered by a coordinator that leads no longer, not yet, or never did.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use steadfast_store::LeaderInfo;
use steadfast_store::conformance::samples;

use super::stage::{CHECKPOINT, LIVE, Stage};

/// Whoever leads here knows an answer to the first kind only.
const ANSWERED: [&str; 3] = ["/health/live", "/health/ready", "/metrics"];
const LEADER: &str = "http://127.0.0.1:9";

/// Calls that show a container's secret.
fn with_secret() -> [(&'static str, String, String); 4] {
    let query = format!("execution_resource_id={LIVE}");
    let ended = format!(
        r#"{{"executionResourceId":"{LIVE}","outcome":{{"outcome":"exited","code":0}},"proof":null}}"#
    );
    let checkpoint = format!("/checkpoint?{query}");
    [
        ("GET", format!("/isContainerValid?{query}&nonce=7"), String::new()),
        ("GET", checkpoint.clone(), String::new()),
        ("PUT", checkpoint, "late".to_owned()),
        ("POST", "/containerEnded".to_owned(), ended),
    ]
}

/// Everything else.
fn of_the_leader() -> Vec<(&'static str, String)> {
    let gets = [
        "/overview",
        "/members",
        "/running-jobs?page=2&rows=7",
        "/finished-jobs",
        "/finished-jobs/FAILED",
        "/job-info/1",
        "/job-info/1/recovery-episodes",
        "/job-info/1/explain",
        "/job-info/1/logs/1",
        "/events",
    ];
    let posts = [
        "/submit-job?jobName=a%20b",
        "/stop-job",
        "/members/00000000-0000-0000-0000-000000000001/planned-leave",
        "/members/00000000-0000-0000-0000-000000000001/drain",
    ];
    let heartbeat = ("GET", format!("/containerHeartbeat?executionContainerId={LIVE}"));
    let gets = gets.map(|path| ("GET", path.to_owned()));
    let posts = posts.map(|path| ("POST", path.to_owned()));
    gets.into_iter().chain(posts).chain([heartbeat]).collect()
}

/// The head of what an agent that connects gets. It stays connected: to one that has gone nobody answers.
fn connect(stage: &Stage) -> String {
    let mut stream = TcpStream::connect(stage.address).unwrap();
    let head = "GET /agent HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines.take_while(|line| !line.is_empty()).map(|line| line + "\r\n").collect()
}

fn leads(stage: &Stage, url: &str) {
    let leader = LeaderInfo { url: url.to_owned(), ..samples::leader(2) };
    stage.shared.coordinators.note_leader(Some(leader));
}

/// 503 with whom else to ask, and nothing of it done.
fn cannot_know(stage: &mut Stage, method: &str, target: &str, body: &str, known: &[&str]) {
    let answer = stage.call(method, target, Some(&stage.secret(LIVE)), body);
    assert_eq!(answer.status, 503, "{method} {target}: {answer:?}");
    assert_eq!(answer.header("retry-after"), Some("1"), "{method} {target}");
    assert_eq!(answer.json()["coordinators"], serde_json::json!(known), "{method} {target}");
    assert!(stage.inputs.try_recv().is_err(), "the loop was told: {method} {target}");
    assert_eq!(stage.checkpoint().as_deref(), Some(CHECKPOINT.as_bytes()), "{method} {target}");
}

#[test]
fn a_standby_sends_everybody_to_the_leader_but_no_secret() {
    let mut stage = Stage::loading();
    leads(&stage, LEADER);
    let own = format!("http://{}", stage.address);
    for path in ANSWERED {
        assert_eq!(stage.get(path, None).status, 200, "{path}");
    }
    let ready = stage.get("/health/ready", None).json();
    assert_eq!((&ready["role"], &ready["leader"]), (&"standby".into(), &LEADER.into()), "{ready}");
    for (method, target, body) in with_secret() {
        cannot_know(&mut stage, method, &target, &body, &[LEADER, &own]);
    }
    for (method, target) in of_the_leader() {
        let answer = stage.call(method, &target, None, "{}");
        assert_eq!(answer.status, 307, "{method} {target}: {answer:?}");
        assert_eq!(answer.header("location"), Some(format!("{LEADER}{target}").as_str()));
        assert_eq!(answer.json()["coordinators"], serde_json::json!([LEADER, own]));
    }
    let agent = connect(&stage);
    assert!(agent.starts_with("HTTP/1.1 307 "), "{agent}");
    assert!(agent.contains(&format!("location: {LEADER}/agent\r\n")), "{agent}");
    assert_eq!(stage.get("/nothing", None).status, 404, "of that the leader knows no more");
}

#[test]
fn where_nobody_is_known_to_lead_everybody_asks_again() {
    let mut stage = Stage::loading();
    let own = format!("http://{}", stage.address);
    // A record of its own last life is nobody to go to.
    for leader in [None, Some(own.clone())] {
        leader.iter().for_each(|leader| leads(&stage, leader));
        nobody_leads(&mut stage, &own);
    }
}

/// Red where anything is answered from what was loaded before: nobody has told the loop, or closed the
/// index, and the loop does not run at all.
#[test]
fn a_leader_that_was_stopped_past_its_tenure_answers_as_if_it_never_led() {
    let mut stage = Stage::leading();
    let secret = stage.secret(LIVE);
    let question = format!("/isContainerValid?execution_resource_id={LIVE}&nonce=7");
    assert_eq!(stage.get(&question, Some(&secret)).status, 200);
    let lease_ends = stage.term.index.standing(LIVE).lease_ends;
    stage.term.tenure.end();
    let own = format!("http://{}", stage.address);
    nobody_leads(&mut stage, &own);
    assert_eq!(stage.term.index.standing(LIVE).lease_ends, lease_ends, "nothing was extended");
}

fn nobody_leads(stage: &mut Stage, own: &str) {
    for (path, status) in ANSWERED.iter().zip([200, 503, 200]) {
        assert_eq!(stage.get(path, None).status, status, "{path}");
    }
    for (method, target, body) in with_secret() {
        cannot_know(stage, method, &target, &body, &[own]);
    }
    // Without credentials nobody can answer for a leave, whoever leads.
    let leaves = |target: &str| target.starts_with("/members/");
    for (method, target) in of_the_leader().into_iter().filter(|(_, target)| !leaves(target)) {
        let body = if target == "/stop-job" { r#"{"jobId":"1"}"# } else { "{}" };
        cannot_know(stage, method, &target, body, &[own]);
    }
    let agent = connect(stage);
    assert!(agent.starts_with("HTTP/1.1 503 "), "{agent}");
}
