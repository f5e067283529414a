//! One real etcd process on loopback ports, with its data in a folder of its own. It ends with its value, by
//! its own process handle; no other process is touched.
//!
//! Nothing of etcd's client is needed here: the end-to-end tests, which know programs only from outside, use
//! this file too.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// One etcd process and where it lies.
#[derive(Debug)]
pub struct Node {
    /// Where clients reach it.
    pub url: String,
    /// The same, without its scheme.
    pub address: SocketAddr,
    arguments: Vec<String>,
    process: Child,
    folder: TempDir,
}

impl Node {
    /// Starts so many that form one cluster, with these arguments beside their own, and waits for nothing.
    ///
    /// # Panics
    /// Where there is no etcd.
    pub fn spawn(count: usize, extra: &[&str], scheme: &str) -> Vec<Self> {
        Self::spawn_at(Ipv4Addr::LOCALHOST, count, extra, scheme)
    }

    /// The same, with clients at another address of this machine than the usual one.
    ///
    /// # Panics
    /// Where there is no etcd, or no such address.
    pub fn spawn_at(ip: Ipv4Addr, count: usize, extra: &[&str], scheme: &str) -> Vec<Self> {
        let ports: Vec<(u16, u16)> =
            (0..count).map(|_| (free_port(ip), free_port(Ipv4Addr::LOCALHOST))).collect();
        let peers =
            ports.iter().enumerate().map(|(n, (_, peer))| format!("n{n}=http://127.0.0.1:{peer}"));
        let peers = peers.collect::<Vec<_>>().join(",");
        let nodes = ports.iter().enumerate().map(|(n, (client, peer))| {
            let url = format!("{scheme}://{ip}:{client}");
            let peer = format!("http://127.0.0.1:{peer}");
            let mut arguments: Vec<String> = [
                ("name", format!("n{n}")),
                ("listen-client-urls", url.clone()),
                ("advertise-client-urls", url.clone()),
                ("listen-peer-urls", peer.clone()),
                ("initial-advertise-peer-urls", peer),
                ("initial-cluster", peers.clone()),
                ("initial-cluster-token", format!("of-{}", ports[0].0)),
            ]
            .iter()
            .map(|(name, value)| format!("--{name}={value}"))
            .collect();
            arguments.extend(extra.iter().map(|argument| (*argument).to_owned()));
            let address = SocketAddr::from((ip, *client));
            Self::start(url, address, arguments)
        });
        nodes.collect()
    }

    /// Starts a cluster of one and waits until it answers.
    ///
    /// # Panics
    /// Where it does not.
    pub fn one() -> Self {
        // A port that was free may be taken by another test before the node has it.
        for _ in 0..5 {
            let Some(mut node) = Self::spawn(1, &[], "http").pop() else { break };
            for _ in 0..3_000 {
                if node.says_that_it_is_healthy() {
                    return node;
                }
                if node.has_ended() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20)); // polls
            }
        }
        panic!("etcd does not start")
    }

    fn start(url: String, address: SocketAddr, arguments: Vec<String>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let process = run(&arguments, folder.path());
        Self { url, address, arguments, process, folder }
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        // Both fail only when it has ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it again, with the data that it had, and waits for nothing.
    pub fn start_again(&mut self) {
        self.kill();
        self.process = run(&self.arguments, self.folder.path());
    }

    /// Its pid, which stays its own as long as this value lives.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// Whether it answers, and the nodes have a leader. Only over `http`.
    pub fn says_that_it_is_healthy(&self) -> bool {
        http_get(self.address, "/health").is_ok_and(|answer| answer.contains("\"true\""))
    }

    /// How many transactions it has answered, whatever it has answered.
    ///
    /// # Panics
    /// Where it does not answer.
    pub fn transactions_handled(&self) -> f64 {
        let metrics = http_get(self.address, "/metrics").expect("the node has metrics");
        let handled = metrics.lines().filter(|line| {
            line.starts_with("grpc_server_handled_total") && line.contains("grpc_method=\"Txn\"")
        });
        handled.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// What it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(5).collect();
            let _ = writeln!(std::io::stderr(), "{}: {}", self.url, tail.join("\n"));
        }
        self.kill();
    }
}

fn run(arguments: &[String], folder: &Path) -> Child {
    let log = File::options().create(true).append(true).open(folder.join("log")).expect("a log");
    Command::new("etcd")
        .arg(format!("--data-dir={}", folder.join("data").display()))
        .args(arguments)
        // Variables of the same names would be taken for arguments.
        .env_clear()
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .spawn()
        .expect("etcd is needed here: `apt-get install etcd-server`")
}

fn free_port(ip: Ipv4Addr) -> u16 {
    let listener = TcpListener::bind((ip, 0)).expect("a free port");
    listener.local_addr().expect("an address").port()
}

fn http_get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
