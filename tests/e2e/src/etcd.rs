//! Three real etcd nodes as one store, hurt one at a time or all at once, and looked into from outside.
//!
//! What lies in it is read through etcd's own HTTP gateway: a linearizable range over every key, with no
//! line of the product in between.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{EtcdNode, PATIENCE, wait_until};

/// What the product puts before each of its keys.
const PREFIX: &str = "steadfast/";
const CALL: Duration = Duration::from_secs(5);

/// Nodes of one cluster.
#[derive(Debug)]
pub struct Etcd {
    nodes: Vec<EtcdNode>,
    agent: ureq::Agent,
}

/// What lies under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The value, where it is no text made one.
    pub value: String,
    /// The store's revision at which it was written.
    pub revision: u64,
}

impl Etcd {
    /// Three nodes, which answer.
    ///
    /// # Panics
    /// When they do not come to that.
    #[track_caller]
    pub fn three() -> Self {
        Self::three_at(Ipv4Addr::LOCALHOST)
    }

    /// Three nodes whose clients find them at this address.
    ///
    /// # Panics
    /// When they do not come to that.
    #[track_caller]
    pub fn three_at(address: Ipv4Addr) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(CALL))
            .max_idle_connections(0)
            .build();
        // A port that was free may be taken by another test before the node has it.
        for _ in 0..5 {
            let nodes = EtcdNode::spawn_at(address, 3, &[], "http");
            let mut etcd = Self { nodes, agent: config.clone().into() };
            let is_there = wait_until(PATIENCE, "three etcd nodes", || {
                let has_ended = etcd.nodes.iter_mut().any(EtcdNode::has_ended);
                let are_healthy = etcd.nodes.iter().all(EtcdNode::says_that_it_is_healthy);
                (has_ended || are_healthy).then_some(are_healthy)
            });
            if is_there {
                return etcd;
            }
        }
        panic!("etcd does not start")
    }

    /// Where clients reach them, as `--etcd` takes it.
    pub fn urls(&self) -> String {
        let urls: Vec<&str> = self.nodes.iter().map(|node| node.url.as_str()).collect();
        urls.join(",")
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Which node leads among the nodes.
    ///
    /// # Panics
    /// When none does.
    #[track_caller]
    pub fn leader(&self) -> usize {
        wait_until(PATIENCE, "an etcd node to lead", || {
            self.nodes.iter().position(|node| {
                self.post(node, "maintenance/status", &json!({}))
                    .is_some_and(|status| status["header"]["member_id"] == status["leader"])
            })
        })
    }

    /// `kill -9` of one.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// `kill -9` of all at once.
    pub fn kill_all(&mut self) {
        self.signal_all(Signal::STOP); // so that none sees another one go
        self.nodes.iter_mut().for_each(EtcdNode::kill);
    }

    /// Stops all of them where they are, with their sockets open.
    pub fn stop_all(&self) {
        self.signal_all(Signal::STOP);
    }

    /// Lets them go on.
    pub fn continue_all(&self) {
        self.signal_all(Signal::CONT);
    }

    /// Starts those again that were killed, on what they had, and waits until all answer.
    ///
    /// # Panics
    /// When they do not.
    #[track_caller]
    pub fn start_again(&mut self) {
        for node in &mut self.nodes {
            if node.has_ended() {
                node.start_again();
            }
        }
        wait_until(PATIENCE, "the etcd nodes to answer again", || {
            self.nodes.iter().all(EtcdNode::says_that_it_is_healthy).then_some(())
        });
    }

    /// Everything that the product has put there, by key, as of one moment.
    ///
    /// # Panics
    /// When it cannot be read.
    #[track_caller]
    pub fn dump(&self) -> BTreeMap<String, Record> {
        // From the prefix up to, not including, what lies behind it.
        let behind = PREFIX.replace('/', "0");
        let range = json!({ "key": to_base64(PREFIX), "range_end": to_base64(&behind) });
        let answer = wait_until(PATIENCE, "a dump of etcd", || {
            self.nodes.iter().find_map(|node| self.post(node, "kv/range", &range))
        });
        let records = answer["kvs"].as_array().cloned().unwrap_or_default();
        let text = |record: &Value, field: &str| from_base64(record[field].as_str().unwrap_or(""));
        let record = |record: Value| {
            let key = text(&record, "key");
            let revision = record["mod_revision"].as_str().and_then(|text| text.parse().ok());
            let value = text(&record, "value");
            let revision = revision.expect("every record of etcd has a revision");
            (key.trim_start_matches(PREFIX).to_owned(), Record { value, revision })
        };
        records.into_iter().map(record).collect()
    }

    /// Puts something there, behind the product's back.
    ///
    /// # Panics
    /// When it cannot be written.
    #[track_caller]
    pub fn put(&self, key: &str, value: &str) {
        let key = format!("{PREFIX}{key}");
        let put = json!({ "key": to_base64(&key), "value": to_base64(value) });
        wait_until(PATIENCE, "etcd to take a value", || self.post(&self.nodes[0], "kv/put", &put));
    }

    fn post(&self, node: &EtcdNode, what: &str, body: &Value) -> Option<Value> {
        let request = self.agent.post(format!("{}/v3/{what}", node.url));
        request.send_json(body).ok()?.body_mut().read_json().ok()
    }

    fn signal_all(&self, signal: Signal) {
        for node in &self.nodes {
            let pid = i32::try_from(node.pid()).ok().and_then(Pid::from_raw);
            // Its own child, not waited for: the pid is nobody else's, even if it has ended.
            let _ = kill_process(pid.expect("a process id"), signal);
        }
    }
}

/// As etcd's gateway wants keys and values.
fn to_base64(text: &str) -> String {
    BASE64.encode(text)
}

fn from_base64(text: &str) -> String {
    let bytes = BASE64.decode(text).expect("the gateway's values are base64");
    String::from_utf8_lossy(&bytes).into_owned()
}
