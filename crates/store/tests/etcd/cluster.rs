//! Real etcd nodes on loopback ports, with their data in folders of their own. A node ends with its value,
//! by its own process handle; no other process is touched.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use etcd_client::Client;
use rustix::process::{Pid, Signal, kill_process};
use steadfast_store::{EtcdLocation, EtcdStore};
use tempfile::TempDir;

use crate::wait::until;

/// Nodes of one cluster.
pub struct Cluster {
    pub nodes: Vec<Node>,
}

/// One etcd process and where it lies.
pub struct Node {
    pub url: String,
    pub address: SocketAddr,
    arguments: Vec<String>,
    process: Child,
    folder: TempDir,
}

impl Cluster {
    /// One node.
    pub async fn one() -> Self {
        Self::start(1, &[]).await
    }

    pub async fn three() -> Self {
        Self::start(3, &[]).await
    }

    /// Starts them with these arguments beside their own and waits until each of them answers.
    pub async fn start(count: usize, extra: &[&str]) -> Self {
        // A port that was free may be taken by another test before the node has it.
        for _ in 0..5 {
            let mut cluster = Self::spawn(count, extra, "http");
            let ready = until("the nodes answer, or one has ended", async || {
                let ended = cluster.nodes.iter_mut().any(Node::has_ended);
                let mut healthy = 0;
                for node in &cluster.nodes {
                    healthy += usize::from(node.is_healthy().await);
                }
                (ended || healthy == count).then_some(healthy == count)
            });
            if ready.await {
                return cluster;
            }
        }
        panic!("etcd does not start: {}", Self::spawn(1, extra, "http").nodes[0].log());
    }

    /// Starts them and waits for nothing.
    pub fn spawn(count: usize, extra: &[&str], scheme: &str) -> Self {
        let ports: Vec<(u16, u16)> = (0..count).map(|_| (free_port(), free_port())).collect();
        let peers =
            ports.iter().enumerate().map(|(n, (_, peer))| format!("n{n}=http://127.0.0.1:{peer}"));
        let peers = peers.collect::<Vec<_>>().join(",");
        let nodes = ports.iter().enumerate().map(|(n, (client, peer))| {
            let url = format!("{scheme}://127.0.0.1:{client}");
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
            let address = SocketAddr::from(([127, 0, 0, 1], *client));
            Node::start(url, address, arguments)
        });
        Self { nodes: nodes.collect() }
    }

    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.url.clone()).collect()
    }

    /// A client of the test's own, at the first node.
    pub async fn client(&self) -> Client {
        Client::connect([&self.nodes[0].url], None).await.expect("a client")
    }

    /// A store with these keys, at all nodes.
    pub async fn store(&self, prefix: &str, ttl_seconds: u32) -> EtcdStore {
        store(&self.urls(), prefix, ttl_seconds).await
    }

    /// The node that leads among the nodes.
    pub async fn leader(&self) -> usize {
        until("a node leads", async || {
            for (index, node) in self.nodes.iter().enumerate() {
                let client = Client::connect([&node.url], None).await.ok()?;
                let mut maintenance = client.maintenance_client();
                let status = tokio::time::timeout(Duration::from_secs(1), maintenance.status());
                if let Ok(Ok(status)) = status.await
                    && status.header().is_some_and(|header| header.member_id() == status.leader())
                {
                    return Some(index);
                }
            }
            None
        })
        .await
    }
}

/// A store at these URLs.
pub async fn store(urls: &[String], prefix: &str, ttl_seconds: u32) -> EtcdStore {
    let text = format!("etcd:{}?prefix={prefix}&ttl={ttl_seconds}", urls.join(","));
    let location: EtcdLocation = text.parse().expect("a location");
    EtcdStore::open(&location).await.expect("the store opens")
}

impl Node {
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

    /// Starts it again, with the data that it had, and waits until it answers.
    pub async fn restart(&mut self) {
        self.kill();
        self.process = run(&self.arguments, self.folder.path());
        let node = &*self;
        until("the node answers again", async || node.is_healthy().await.then_some(())).await;
    }

    /// Stops it where it is, with its sockets open.
    pub fn pause(&self) {
        kill_process(self.pid(), Signal::STOP).expect("the node lives");
    }

    pub fn resume(&self) {
        kill_process(self.pid(), Signal::CONT).expect("the node lives");
    }

    fn pid(&self) -> Pid {
        let pid = i32::try_from(self.process.id()).expect("a process id");
        Pid::from_raw(pid).expect("a process id is not 0")
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// Whether it answers a read that the whole cluster has agreed on.
    pub async fn is_healthy(&self) -> bool {
        let read = async {
            let mut client = Client::connect([&self.url], None).await.ok()?;
            client.get("health", None).await.ok()
        };
        matches!(tokio::time::timeout(Duration::from_secs(1), read).await, Ok(Some(_)))
    }

    /// How many transactions it has answered, whatever it has answered.
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

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
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
