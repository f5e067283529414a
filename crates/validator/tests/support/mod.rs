//! A coordinator that says what a test wants, and the one way in which tests wait.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod wrapped;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Waits until `condition` gives something, for at most 30 s: longer than everything here takes on a
/// machine that is busy with other tests, and no bound of the product.
pub fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain: {what}");
        // The only sleep of these tests: it polls the condition.
        thread::sleep(Duration::from_millis(5));
    }
}

/// What the coordinator answers to `GET /isContainerValid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    /// Valid, for this long, ask again after that.
    Yes { lease_ms: u64, next_poll_ms: u64, epoch: u64 },
    /// Invalid.
    No { epoch: u64 },
    /// This status and body, as they stand.
    Page(u16, String),
    /// A yes with another nonce.
    YesToSomebodyElse,
    /// A no with another nonce.
    NoToSomebodyElse,
    /// Closes the connection without an answer.
    Nothing,
    /// Keeps the connection open and never answers.
    Hangs,
}

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub authorization: String,
    pub body: String,
    /// What was answered.
    pub answered: Says,
}

/// A coordinator on a port of its own; it lives as long as the test process.
#[derive(Clone)]
pub struct FakeCoordinator {
    pub url: String,
    /// The container that asks this one first. Each has its own: cgroups are named after it.
    pub id: String,
    says: Arc<Mutex<Says>>,
    good_byes_acknowledged: Arc<Mutex<bool>>,
    requests: Arc<Mutex<Vec<Request>>>,
    checkpoints: Arc<Mutex<BTreeMap<String, String>>>,
    kept_open: Arc<Mutex<Vec<TcpStream>>>,
}

static STARTED: AtomicU64 = AtomicU64::new(0);

impl FakeCoordinator {
    pub fn start(says: Says) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let coordinator = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            id: format!("container_{:016x}_{}", std::process::id(), STARTED.fetch_add(1, Relaxed)),
            says: Arc::new(Mutex::new(says)),
            good_byes_acknowledged: Arc::new(Mutex::new(true)),
            requests: Arc::default(),
            checkpoints: Arc::default(),
            kept_open: Arc::default(),
        };
        let serving = coordinator.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                thread::spawn(move || serving.serve(stream));
            }
        });
        coordinator
    }

    pub fn says(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    pub fn acknowledges_good_byes(&self, yes: bool) {
        *self.good_byes_acknowledged.lock().unwrap() = yes;
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub fn polls(&self) -> Vec<Request> {
        let is_poll = |request: &Request| request.target.starts_with("/isContainerValid?");
        self.requests().into_iter().filter(is_poll).collect()
    }

    pub fn good_byes(&self) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.method == "POST").collect()
    }

    /// Keeps one value for each execution id that asks, whatever the verdict.
    fn checkpoint(&self, method: &str, target: &str, body: &str) -> Option<(u16, String)> {
        let id = target.strip_prefix("/checkpoint?execution_resource_id=")?;
        let mut checkpoints = self.checkpoints.lock().unwrap();
        if method == "PUT" {
            checkpoints.insert(id.into(), body.into());
            return Some((204, String::new()));
        }
        let value = checkpoints.get(id).cloned();
        Some(value.map_or((204, String::new()), |value| (200, value)))
    }

    /// What the container of this id has put.
    pub fn checkpoint_of(&self, id: &str) -> Option<String> {
        self.checkpoints.lock().unwrap().get(id).cloned()
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some((method, target, authorization, body)) = read_request(&mut reader) {
            // Recorded and answered under one lock: a test that changes the answer and then counts
            // requests counts only those that got the new one.
            let says = self.says.lock().unwrap();
            let answered = says.clone();
            let checkpoint = self.checkpoint(&method, &target, &body);
            let request = Request { method, target, authorization, body, answered };
            let is_good_bye = request.method == "POST";
            let nonce = nonce_of(&request.target);
            self.requests.lock().unwrap().push(request);
            let (status, body) = match &*says {
                _ if is_good_bye => (
                    if *self.good_byes_acknowledged.lock().unwrap() { 200 } else { 503 },
                    "".into(),
                ),
                _ if checkpoint.is_some() => checkpoint.unwrap_or_default(),
                Says::Nothing => return,
                Says::Hangs => return self.kept_open.lock().unwrap().push(stream),
                Says::Page(status, body) => (*status, body.clone()),
                says => (200, verdict(says, nonce)),
            };
            let answer = format!(
                "HTTP/1.1 {status} .\r\ncontent-length: {}\r\ncontent-type: application/json\r\n\r\n{body}",
                body.len()
            );
            if (&stream).write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn verdict(says: &Says, nonce: u64) -> String {
    match says {
        Says::Yes { lease_ms, next_poll_ms, epoch } => format!(
            r#"{{"isValid":true,"leaseMs":{lease_ms},"nextPollMs":{next_poll_ms},"fencingToken":7,"coordinatorEpoch":{epoch},"nonce":{nonce}}}"#
        ),
        Says::YesToSomebodyElse => format!(
            r#"{{"isValid":true,"leaseMs":30000,"nextPollMs":100,"fencingToken":7,"coordinatorEpoch":3,"nonce":{}}}"#,
            nonce ^ 1
        ),
        Says::No { epoch } => format!(
            r#"{{"isValid":false,"reason":"SUPERSEDED","coordinatorEpoch":{epoch},"nonce":{nonce}}}"#
        ),
        Says::NoToSomebodyElse => format!(
            r#"{{"isValid":false,"reason":"SUPERSEDED","coordinatorEpoch":3,"nonce":{}}}"#,
            nonce ^ 1
        ),
        Says::Page(..) | Says::Nothing | Says::Hangs => unreachable!("answered before"),
    }
}

fn nonce_of(target: &str) -> u64 {
    let nonce = target.split(['?', '&']).find_map(|pair| pair.strip_prefix("nonce="));
    nonce.map_or(0, |nonce| nonce.parse().unwrap())
}

fn read_request(reader: &mut impl BufRead) -> Option<(String, String, String, String)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let (mut authorization, mut length) = (String::new(), 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => authorization = value.to_owned(),
            "content-length" => length = value.parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((method, target, authorization, String::from_utf8(body).ok()?))
}

/// A lease that does not run out in a test, and a grace that is enough for a shell on a busy machine.
pub const LEASE_MS: u64 = 30_000;
pub const GRACE_MS: u64 = 5_000;
pub const SCHEDULE_MS: u64 = 100;
/// For tests that wait for their ends. With both: m = 100 + 2 % of 1,500 = 130, stop after 1,070, kill
/// after 1,370.
pub const SHORT_LEASE: (&str, &str) = ("STEADFAST_LEASE_MS", "1500");
pub const SHORT_GRACE: (&str, &str) = ("STEADFAST_GRACE_MS", "300");
pub const SECRET: &str = "not-a-real-secret";

/// A yes to the whole lease, long or short.
pub fn yes() -> Says {
    Says::Yes { lease_ms: LEASE_MS, next_poll_ms: SCHEDULE_MS, epoch: 3 }
}

/// What an agent tells a container.
pub fn environment(coordinators: &[&FakeCoordinator]) -> Vec<(&'static str, String)> {
    let urls: Vec<&str> = coordinators.iter().map(|coordinator| coordinator.url.as_str()).collect();
    vec![
        ("EXECUTION_RESOURCE_ID", coordinators[0].id.clone()),
        ("STEADFAST_CONTAINER_SECRET", SECRET.into()),
        ("STEADFAST_COORDINATORS", urls.join(",")),
        ("STEADFAST_LEASE_MS", LEASE_MS.to_string()),
        ("STEADFAST_GRACE_MS", GRACE_MS.to_string()),
        ("STEADFAST_SCHEDULE_MS", SCHEDULE_MS.to_string()),
    ]
}

/// Whether a process of that pid runs; a zombie has ended.
pub fn runs(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}
