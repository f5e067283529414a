//! A coordinator that knows one task group's checkpoint and nothing else, and misbehaves on order.
//!
//! It speaks just enough HTTP/1.1 for the test to be about real sockets. It refuses what the real
//! one refuses (a wrong secret, an id that is not the newest), so that a client that forgets them is
//! found out by every test.

// Compiled into two test programs, of which neither uses all of it.
#![allow(dead_code)]

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

pub const SECRET: &str = "s3cret";

/// What to do with one request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// What a coordinator does.
    AsUsual,
    /// An answer made up by the test: status line, header lines, body.
    Say(&'static str, &'static str, &'static str),
    /// No answer until [`FakeCoordinator::let_go`], and then a closed connection.
    Hold,
}

pub const BUSY: Reply = Reply::Say("503 Service Unavailable", "Retry-After: 0\r\n", "{}");
pub const TOO_FAST: Reply = Reply::Say("429 Too Many Requests", "Retry-After: 0\r\n", "{}");

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub method: String,
    pub body: Vec<u8>,
    /// 0 if there was no answer.
    pub status: u16,
}

#[derive(Debug)]
struct State {
    checkpoint: Option<Vec<u8>>,
    newest_id: String,
    script: VecDeque<Reply>,
    afterwards: Reply,
    seen: Vec<Seen>,
    let_go: bool,
}

#[derive(Debug)]
pub struct FakeCoordinator {
    pub url: String,
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl FakeCoordinator {
    /// Follows `script`, one reply a request, and then does as usual.
    pub fn start(newest_id: &str, script: &[Reply]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = State {
            checkpoint: None,
            newest_id: newest_id.to_owned(),
            script: script.iter().cloned().collect(),
            afterwards: Reply::AsUsual,
            seen: Vec::new(),
            let_go: false,
        };
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let served = Arc::clone(&served);
                std::thread::spawn(move || serve(connection.unwrap(), &served));
            }
        });
        Self { url, shared }
    }

    /// Answers everything that the script leaves over with `reply`.
    pub fn always(&self, reply: Reply) {
        self.shared.0.lock().unwrap().afterwards = reply;
    }

    /// A newer container was minted: only it is answered now.
    pub fn newest_is(&self, id: &str) {
        self.shared.0.lock().unwrap().newest_id = id.to_owned();
    }

    pub fn let_go(&self) {
        self.shared.0.lock().unwrap().let_go = true;
        self.shared.1.notify_all();
    }

    pub fn checkpoint(&self) -> Option<Vec<u8>> {
        self.shared.0.lock().unwrap().checkpoint.clone()
    }

    pub fn set_checkpoint(&self, bytes: &[u8]) {
        self.shared.0.lock().unwrap().checkpoint = Some(bytes.to_vec());
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.shared.0.lock().unwrap().seen.clone()
    }

    pub fn puts(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method == "PUT").collect()
    }

    pub fn statuses(&self) -> Vec<u16> {
        self.seen().iter().map(|seen| seen.status).collect()
    }

    /// Returns when so many PUTs have come, answered or not.
    pub fn wait_for_puts(&self, count: usize) {
        self.wait_until(|seen| seen.iter().filter(|seen| seen.method == "PUT").count() >= count);
    }

    /// Returns when so many requests have come, answered or not.
    pub fn wait_for(&self, count: usize) {
        self.wait_until(|seen| seen.len() >= count);
    }

    fn wait_until(&self, done: impl Fn(&[Seen]) -> bool) {
        let state = self.shared.0.lock().unwrap();
        // The limit only keeps a broken program from hanging the test for ever.
        let limit = Duration::from_secs(60);
        let waited = self.shared.1.wait_timeout_while(state, limit, |state| !done(&state.seen));
        assert!(!waited.unwrap().1.timed_out(), "the program did not ask");
    }
}

struct Asked {
    method: String,
    target: String,
    authorization: String,
    body: Vec<u8>,
}

fn serve(mut connection: TcpStream, shared: &(Mutex<State>, Condvar)) {
    let mut input = BufReader::new(connection.try_clone().unwrap());
    while let Some(asked) = read(&mut input) {
        let Some(answer) = answer(&asked, shared) else { return };
        if connection.write_all(&answer).is_err() {
            return;
        }
    }
}

fn read(input: &mut impl BufRead) -> Option<Asked> {
    let mut line = String::new();
    input.read_line(&mut line).ok()?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let (mut authorization, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => value.clone_into(&mut authorization),
            "content-length" => length = value.parse().unwrap(),
            "transfer-encoding" => panic!("the checkpoint must come with its length"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some(Asked { method, target, authorization, body })
}

fn answer(asked: &Asked, shared: &(Mutex<State>, Condvar)) -> Option<Vec<u8>> {
    let mut state = shared.0.lock().unwrap();
    let reply = state.script.pop_front().unwrap_or_else(|| state.afterwards.clone());
    let (status, headers, body) = match reply {
        Reply::AsUsual => as_usual(asked, &mut state),
        Reply::Say(status, headers, body) => (status, headers, body.as_bytes().to_vec()),
        Reply::Hold => ("0", "", Vec::new()),
    };
    let code = status[..status.len().min(3)].parse().unwrap();
    let seen = Seen { method: asked.method.clone(), body: asked.body.clone(), status: code };
    state.seen.push(seen);
    shared.1.notify_all();
    if code == 0 {
        drop(shared.1.wait_while(state, |state| !state.let_go).unwrap());
        return None;
    }
    let length = match code {
        204 => String::new(),
        _ => format!("Content-Length: {}\r\n", body.len()),
    };
    let mut bytes = format!("HTTP/1.1 {status}\r\n{headers}{length}\r\n").into_bytes();
    bytes.extend(body);
    Some(bytes)
}

fn as_usual(asked: &Asked, state: &mut State) -> (&'static str, &'static str, Vec<u8>) {
    if asked.authorization != format!("Bearer {SECRET}") {
        let body = br#"{"status":"fail","message":"wrong secret"}"#;
        return ("401 Unauthorized", "", body.to_vec());
    }
    if asked.target != format!("/checkpoint?execution_resource_id={}", state.newest_id) {
        let body = br#"{"status":"fail","message":"a newer container exists","currentToken":7}"#;
        return ("409 Conflict", "", body.to_vec());
    }
    if asked.method == "PUT" {
        state.checkpoint = Some(asked.body.clone());
        return ("204 No Content", "", Vec::new());
    }
    match &state.checkpoint {
        Some(bytes) => ("200 OK", "", bytes.clone()),
        None => ("204 No Content", "", Vec::new()),
    }
}
