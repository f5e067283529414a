//! Three etcd nodes on loopback, and a client of the bench's own at the first.

use std::time::Duration;

use etcd_client::Client;
use steadfast_store::{EtcdLocation, EtcdStore};
use tokio::time::{Instant, sleep};

use crate::Failure;
use crate::node::Node;

const START: Duration = Duration::from_secs(30);

/// Nodes that form one cluster; they end with this value.
pub struct Cluster {
    nodes: Vec<Node>,
    prefix: &'static str,
}

impl Cluster {
    /// Starts three and waits until each of them answers. `prefix` is that of the store's keys.
    pub async fn three(prefix: &'static str) -> Result<Self, Failure> {
        let nodes = Node::spawn(3, &[], "http");
        let began = Instant::now();
        while !nodes.iter().all(Node::says_that_it_is_healthy) {
            if began.elapsed() > START {
                return Err(format!("etcd does not start: {}", nodes[0].log()).into());
            }
            sleep(Duration::from_millis(50)).await; // polls
        }
        Ok(Self { nodes, prefix })
    }

    /// How the store is named on a coordinator's command line.
    pub fn location(&self) -> String {
        let urls: Vec<&str> = self.nodes.iter().map(|node| node.url.as_str()).collect();
        format!("etcd:{}?prefix={}", urls.join(","), self.prefix)
    }

    pub fn store(&self) -> Result<EtcdStore, Failure> {
        let location: EtcdLocation = self.location().parse()?;
        Ok(EtcdStore::open(&location)?)
    }

    /// A client at the node that a store asks first.
    pub async fn client(&self) -> Result<Client, Failure> {
        Ok(Client::connect([&self.nodes[0].url], None).await?)
    }

    /// How often anything was written, read by agreement of the nodes.
    pub async fn revision(&self) -> Result<i64, Failure> {
        let answer = self.client().await?.get("revision", None).await?;
        Ok(answer.header().ok_or("an answer without a header")?.revision())
    }
}
