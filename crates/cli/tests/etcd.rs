//! A coordinator process whose etcd is not there yet, goes, has no room, or does not let it in.

#![cfg(feature = "etcd")]

#[allow(dead_code, reason = "the other tests that share it use the rest")]
#[path = "../../store/tests/etcd/node.rs"]
mod node;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::node::Node;

/// Far more than anything here takes; only a failing test ever waits so long.
const PATIENCE: Duration = Duration::from_secs(60);
const JOB: &str = r#"{"env": {"job.name": "first"}, "pipelines": [
    {"name": "p", "tasks": [{"name": "t", "command": ["true"]}]}]}"#;

struct Coordinator {
    process: Child,
    address: SocketAddr,
}

impl Coordinator {
    fn start(store: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
        command.args(["coordinator", "--store", store, "--http", &address.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Self { process: command.spawn().unwrap(), address }
    }

    fn get(&self, path: &str) -> Option<(u16, Value)> {
        http(self.address, "GET", path, "")
    }

    /// Until its health is this status, and the body.
    fn until_ready_says(&mut self, status: u16, part: &str) -> Value {
        let mut seen = None;
        until(&format!("{status} with {part:?}"), || {
            assert!(self.process.try_wait().unwrap().is_none(), "it has ended");
            seen = self.get("/health/ready").filter(|(told, _)| *told == status);
            let body = seen.take()?.1;
            body.to_string().contains(part).then_some(body)
        })
    }

    fn epoch(&self) -> Value {
        self.get("/overview").expect("it answers").1["coordinator"]["epoch"].clone()
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        // Both fail only where it has ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One call on a connection of its own; of HTTP/1.0, whose answers are in one piece.
fn http(address: SocketAddr, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: \
         application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).unwrap_or_default()))
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(20)); // polls
    }
}

/// A call of etcd's own gateway.
fn etcd(node: &Node, path: &str, body: &Value) -> (u16, Value) {
    http(node.address, "POST", path, &body.to_string()).expect("the node answers")
}

/// A node that answers.
fn started(arguments: &[&str]) -> Node {
    // A port that was free may be taken by another test before the node has it.
    for _ in 0..5 {
        let mut node = Node::spawn(1, arguments, "http").pop().expect("one was asked for");
        let healthy = until("the node answers, or has ended", || match node.has_ended() {
            true => Some(false),
            false => node.says_that_it_is_healthy().then_some(true),
        });
        if healthy {
            return node;
        }
    }
    panic!("etcd does not start");
}

/// Red where the store is asked before anybody is told of it: the process then ends.
#[test]
fn a_coordinator_waits_for_its_etcd_at_the_start_and_between_two_terms() {
    let mut node = started(&[]);
    node.kill();
    let mut coordinator = Coordinator::start(&format!("etcd:{}", node.url));
    coordinator.until_ready_says(503, "the store is not available");
    assert_eq!(coordinator.get("/health/live").expect("it answers").0, 200);
    node.start_again();
    coordinator.until_ready_says(200, "leader");
    let first = coordinator.epoch();

    node.kill();
    coordinator.until_ready_says(503, "the store is not available");
    node.start_again();
    coordinator.until_ready_says(200, "leader");
    assert!(coordinator.epoch().as_u64() > first.as_u64());
}

/// What waiting does not mend ends it, with a sentence.
#[test]
fn a_coordinator_that_its_etcd_does_not_let_in_says_so_and_ends() {
    let node = started(&[]);
    for (path, body) in [
        ("/v3/auth/user/add", json!({"name": "root", "password": "secret"})),
        ("/v3/auth/role/add", json!({"name": "root"})),
        ("/v3/auth/user/grant", json!({"user": "root", "role": "root"})),
        ("/v3/auth/enable", json!({})),
    ] {
        let answer = etcd(&node, path, &body);
        assert_eq!(answer.0, 200, "{path}: {answer:?}");
    }
    let mut coordinator = Coordinator::start(&format!("etcd:{}", node.url));
    let ended = until("it ends", || coordinator.process.try_wait().unwrap());
    assert!(!ended.success());
    let mut said = String::new();
    coordinator.process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("the store refuses this coordinator"), "{said}");
    assert!(said.contains("user name is empty"), "{said}");
}

/// Red where "full" ends the term: the epoch is then another, and the job lost.
#[test]
fn a_full_etcd_ends_no_term_and_what_waits_is_done_once_there_is_room() {
    let node = started(&["--quota-backend-bytes=2097152"]);
    let mut coordinator = Coordinator::start(&format!("etcd:{}", node.url));
    coordinator.until_ready_says(200, "leader");
    let epoch = coordinator.epoch();
    // Base64 of zeros; the key is "zz".
    let filler = json!({"key": "eno=", "value": "AAAA".repeat(60_000)});
    let full = (0..200).any(|_| {
        let (status, body) = etcd(&node, "/v3/kv/put", &filler);
        status != 200 && body.to_string().contains("database space exceeded")
    });
    assert!(full, "it takes no more");

    let (status, body) = http(coordinator.address, "POST", "/submit-job", JOB).unwrap();
    assert_eq!(status, 408, "{body}");
    let ready = coordinator.until_ready_says(503, "the store is full");
    assert_eq!(ready["role"], "leader", "{ready}");
    let (status, body) = http(coordinator.address, "POST", "/submit-job", JOB).unwrap();
    assert_eq!(status, 503, "{body}");

    make_room(&node);
    coordinator.until_ready_says(200, "leader");
    let (_, jobs) = coordinator.get("/running-jobs").unwrap();
    assert_eq!(jobs.as_array().map(Vec::len), Some(1), "once: {jobs}");
    assert_eq!(coordinator.epoch(), epoch, "it is the same term");
}

/// As an operator does it.
fn make_room(node: &Node) {
    let (_, deleted) = etcd(node, "/v3/kv/deleterange", &json!({"key": "eno="}));
    let revision = &deleted["header"]["revision"];
    let steps = [
        ("/v3/kv/compaction", json!({"revision": revision, "physical": true})),
        ("/v3/maintenance/defragment", json!({})),
        ("/v3/maintenance/alarm", json!({"action": "DEACTIVATE", "alarm": "NOSPACE"})),
    ];
    for (path, body) in steps {
        let answer = etcd(node, path, &body);
        assert_eq!(answer.0, 200, "{path}: {answer:?}");
    }
    // Without a member's number it stands where it was raised.
    let (_, alarms) = etcd(node, "/v3/maintenance/alarm", &json!({"action": "GET"}));
    for alarm in alarms["alarms"].as_array().into_iter().flatten() {
        let mut body = json!({"action": "DEACTIVATE", "alarm": "NOSPACE"});
        body["memberID"] = alarm["memberID"].clone();
        etcd(node, "/v3/maintenance/alarm", &body);
    }
}
