//! Samza's own client, as strict as its release 1.8, against this server in each state of a coordinator.
//!
//! The Java client asks its coordinator's URL and takes for "dead" whatever is not a 200 with the one field
//! that it knows, after six tries with 1, 2, 4, 8 and 16 s between them. It follows 302 and 307, not 308.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use serde::Deserialize;
use steadfast_model::ExecutionId;

use super::stage::{FROZEN, INVALID, LIVE, PLAIN, Reply, Stage, UNKNOWN, call};

const TRIES: u32 = 6;
/// What `HttpURLConnection` follows at most.
const REDIRECTS: usize = 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Heartbeat {
    #[serde(default)]
    alive: bool,
}

/// Asks as the client does; `sleep` is told how long it would wait.
fn is_alive(url: SocketAddr, id: ExecutionId, sleep: &mut dyn FnMut(Duration)) -> bool {
    for tried in 0..TRIES {
        if tried > 0 {
            sleep(Duration::from_secs(1 << (tried - 1)));
        }
        let answer = follow(url, format!("/containerHeartbeat?executionContainerId={id}"));
        if answer.status == 200 {
            let read: Result<Heartbeat, _> = serde_json::from_str(&answer.body);
            return read.is_ok_and(|heartbeat| heartbeat.alive);
        }
    }
    false
}

fn follow(mut address: SocketAddr, mut target: String) -> Reply {
    for _ in 0..REDIRECTS {
        let answer = call(address, "GET", &target, None, "");
        match (answer.status, answer.header("location")) {
            (301 | 302 | 303 | 307, Some(location)) => {
                let (host, path) =
                    location.strip_prefix("http://").unwrap().split_once('/').unwrap();
                (address, target) = (host.parse().unwrap(), format!("/{path}"));
            }
            _ => return answer,
        }
    }
    panic!("it was sent in a circle");
}

/// What the client makes of it, and how long it waited between its tries, in seconds.
fn asked(stage: &Stage, id: ExecutionId) -> (bool, Vec<u64>) {
    let mut waits = Vec::new();
    let alive = is_alive(stage.address, id, &mut |wait| waits.push(wait.as_secs()));
    (alive, waits)
}

/// A server that answers every request with these bytes, for as long as the test runs.
fn answers(response: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4_096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(response.as_bytes());
        }
    });
    address
}

#[test]
fn a_leader_tells_the_live_and_the_dead_apart_at_the_first_try() {
    let stage = Stage::leading();
    assert_eq!(asked(&stage, LIVE), (true, vec![]));
    assert_eq!(asked(&stage, INVALID), (false, vec![]));
    assert_eq!(asked(&stage, UNKNOWN), (false, vec![]));
    for (id, body) in [(LIVE, r#"{"alive":true}"#), (INVALID, r#"{"alive":false}"#)] {
        let target = format!("/containerHeartbeat?executionContainerId={id}");
        let answer = stage.get(&target, None);
        assert_eq!((answer.status, answer.body.as_str()), (200, body), "not one byte more");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
}

#[test]
fn in_doubt_there_is_never_a_false() {
    let stage = Stage::loading();
    for id in [LIVE, FROZEN, INVALID, PLAIN, UNKNOWN] {
        let target = format!("/containerHeartbeat?executionContainerId={id}");
        let answer = stage.get(&target, None);
        assert_eq!(answer.status, 503, "a coordinator that loads: {answer:?}");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    stage.serve();
    let answer = stage.get(&format!("/containerHeartbeat?executionContainerId={FROZEN}"), None);
    assert_eq!(answer.status, 503, "a frozen entry: {answer:?}");
    stage.term.index.close();
    for id in [LIVE, INVALID, UNKNOWN] {
        let answer = stage.get(&format!("/containerHeartbeat?executionContainerId={id}"), None);
        assert_eq!(answer.status, 503, "its term is over: {answer:?}");
    }
}

#[test]
fn a_coordinator_that_is_loaded_within_its_six_tries_costs_nobody_anything() {
    let stage = Stage::loading();
    let mut waits = Vec::new();
    let alive = is_alive(stage.address, LIVE, &mut |wait| {
        waits.push(wait.as_secs());
        if waits.len() == 5 {
            stage.serve();
        }
    });
    assert_eq!((alive, waits), (true, vec![1, 2, 4, 8, 16]));
    assert_eq!(asked(&stage, FROZEN), (false, vec![1, 2, 4, 8, 16]), "then it gives up");
}

#[test]
fn it_extends_nothing() {
    let stage = Stage::leading();
    assert_eq!(asked(&stage, LIVE), (true, vec![]));
    assert_eq!(stage.term.index.standing(LIVE).lease_ends, None);
}

#[test]
fn a_job_that_does_not_ask_for_it_is_told_which_key_does() {
    let stage = Stage::leading();
    let answer = stage.get(&format!("/containerHeartbeat?executionContainerId={PLAIN}"), None);
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("job.container.validator.samza"), "{answer:?}");
}

#[test]
fn the_client_is_as_strict_as_samzas() {
    let stage = Stage::leading();
    let redirect = |status: &str| {
        answers(format!(
            "HTTP/1.1 {status}\r\nlocation: http://{}/containerHeartbeat?executionContainerId={LIVE}\r\n\
             content-length: 0\r\nconnection: close\r\n\r\n",
            stage.address
        ))
    };
    let ask = |address| is_alive(address, LIVE, &mut |_| ());
    assert!(ask(redirect("307 Temporary Redirect")), "a standby sends it to the leader");
    assert!(!ask(redirect("308 Permanent Redirect")));
    let ok = |body: &str| {
        let length = body.len();
        answers(format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        ))
    };
    assert!(ask(ok(r#"{"alive":true}"#)));
    assert!(!ask(ok(r#"{"alive":true,"nonce":1}"#)), "any other field is dead");
    assert!(!ask(ok("<html>")));
}

#[test]
fn calls_are_counted_by_what_was_answered() {
    let stage = Stage::leading();
    for id in [LIVE, INVALID, INVALID, UNKNOWN, PLAIN] {
        let _ = stage.get(&format!("/containerHeartbeat?executionContainerId={id}"), None);
    }
    let _ = stage.get(&format!("/containerHeartbeat?executionContainerId={FROZEN}"), None);
    for (verdict, calls) in [("valid", 1.0), ("invalid", 3.0), ("unknown", 1.0), ("refused", 1.0)] {
        let line =
            format!(r#"steadfast_container_calls_total{{endpoint="samza",verdict="{verdict}"}}"#);
        assert_eq!(stage.metric(&line), calls, "{verdict}");
    }
    assert_eq!(stage.metric("steadfast_invalid_containers_that_called_total"), 1.0);
    let superseded = r#"steadfast_invalid_container_calls_total{reason="SUPERSEDED"}"#;
    assert_eq!(stage.metric(superseded), 2.0);
}
