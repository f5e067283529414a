//! Real etcd nodes, and the clients and stores of tests at them.

use std::time::Duration;

use etcd_client::Client;
use rustix::process::{Pid, Signal, kill_process};
use steadfast_store::{EtcdLocation, EtcdStore};

pub use crate::node::Node;
use crate::wait::until;

/// Nodes of one cluster.
pub struct Cluster {
    pub nodes: Vec<Node>,
}

impl Cluster {
    /// One node.
    pub async fn one() -> Self {
        Self { nodes: vec![Node::one()] }
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
        Self { nodes: Node::spawn(count, extra, scheme) }
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
    EtcdStore::open(&location).expect("its files can be read")
}

impl Node {
    /// Starts it again, with the data that it had, and waits until it answers.
    pub async fn restart(&mut self) {
        self.start_again();
        let node = &*self;
        until("the node answers again", async || node.is_healthy().await.then_some(())).await;
    }

    /// Stops it where it is, with its sockets open.
    pub fn pause(&self) {
        kill_process(pid(self), Signal::STOP).expect("the node lives");
    }

    pub fn resume(&self) {
        kill_process(pid(self), Signal::CONT).expect("the node lives");
    }

    /// Whether it answers a read that the whole cluster has agreed on.
    pub async fn is_healthy(&self) -> bool {
        let read = async {
            let mut client = Client::connect([&self.url], None).await.ok()?;
            client.get("health", None).await.ok()
        };
        matches!(tokio::time::timeout(Duration::from_secs(1), read).await, Ok(Some(_)))
    }
}

fn pid(node: &Node) -> Pid {
    let pid = i32::try_from(node.pid()).expect("a process id");
    Pid::from_raw(pid).expect("a process id is not 0")
}
