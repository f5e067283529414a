//! A real coordinator on a real port of this process, with its state in memory, and calls to it as bytes on
//! a socket: what is tested is what goes over the wire.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use steadfast_coordinator::{Config, Credentials, Entry, Role};
use steadfast_store::MemoryStore;
use tokio::sync::oneshot;

/// Only a broken coordinator needs this long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The token of each role in these tests.
pub fn token(role: Role) -> String {
    format!("the-{role}-token")
}

/// One token for each role; the operator's is called `on-call`.
pub fn credentials() -> Credentials {
    let entry = |name: &str, role| Entry::of(name, role, &token(role)).unwrap();
    let entries = [
        entry("on-call", Role::Operator),
        entry("dashboard", Role::Reader),
        entry("members", Role::Member),
    ];
    let lines: Vec<String> = entries.iter().map(Entry::to_string).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.conf");
    std::fs::write(&file, format!("tokens = [\n{}\n]", lines.join("\n"))).unwrap();
    Credentials::load([file]).unwrap()
}

/// The coordinator; it ends with the test.
pub struct Server {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What it answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The one sentence of a refusal.
    pub fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }

    pub fn has_header(&self, line: &str) -> bool {
        self.head.lines().any(|one| one.eq_ignore_ascii_case(line))
    }
}

impl Server {
    /// Starts it and waits until it leads.
    pub fn start(credentials: Option<Credentials>) -> Self {
        Self::on(MemoryStore::new(), credentials)
    }

    /// The same on this store.
    pub fn on(store: MemoryStore, credentials: Option<Credentials>) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let urls = vec![format!("http://{address}")];
        let config = Config { listen: address, urls, credentials, settings: Default::default() };
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            let shutdown = async move { drop(stopped.await) };
            let store = Arc::new(store);
            runtime.block_on(steadfast_coordinator::run(store, config, shutdown)).unwrap();
        });
        let server = Self { address, stop: Some(stop), thread: Some(thread) };
        server.until("it leads", || {
            server.try_call("GET", "/health/ready", None, "").is_some_and(|it| it.status == 200)
        });
        server
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn get(&self, path: &str, token: Option<&str>) -> Answer {
        self.call("GET", path, token, "")
    }

    pub fn post(&self, path: &str, token: Option<&str>, body: &str) -> Answer {
        self.call("POST", path, token, body)
    }

    /// One call on a connection of its own.
    pub fn call(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> Answer {
        self.try_call(method, path, token, body)
            .unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    fn try_call(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &str,
    ) -> Option<Answer> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        if let Some(token) = token {
            head += &format!("authorization: Bearer {token}\r\n");
        }
        // What an agent asks for.
        if path == "/agent" {
            head += "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n";
            head += "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        } else {
            head += "connection: close\r\ncontent-type: application/json\r\n";
        }
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let length = body.len();
        write!(stream, "{head}content-length: {length}\r\n\r\n{body}").ok()?;
        answer(&mut BufReader::new(stream))
    }

    pub fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !condition() {
            assert!(Instant::now() < deadline, "never: {what}");
            std::thread::sleep(Duration::from_millis(10)); // polls
        }
    }
}

fn answer(stream: &mut impl BufRead) -> Option<Answer> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head += &line;
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, head, body: String::from_utf8(body).ok()? })
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(ended.is_some_and(|ended| ended.is_ok()), "the coordinator failed");
        }
    }
}
