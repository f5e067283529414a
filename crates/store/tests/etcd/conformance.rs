//! The suite that every engine's tests run.

use std::sync::Arc;

use async_trait::async_trait;
use steadfast_store::conformance::{Place, suite};
use steadfast_store::{EtcdStore, Fault, Store};
use tokio::sync::OnceCell;

use crate::LONG_TTL;
use crate::cluster::{Cluster, store};

/// A prefix in an etcd that all cases share.
struct Prefix {
    urls: Vec<String>,
    prefix: String,
    /// The one that leads: its next term ends its last, where another's would wait for the lease.
    first: OnceCell<EtcdStore>,
}

impl Prefix {
    async fn client(&self) -> etcd_client::Client {
        etcd_client::Client::connect([&self.urls[0]], None).await.expect("a client")
    }
}

#[async_trait]
impl Place for Prefix {
    /// A store at a distance is not changed by being opened, and keeps nothing of what it has read.
    async fn open(&self) -> Arc<dyn Store> {
        let opened = store(&self.urls, &self.prefix, LONG_TTL).await;
        let first = self.first.get_or_init(|| async { opened }).await;
        Arc::new(first.clone())
    }

    async fn plant(&self, key: &str, value: &[u8]) {
        let key = format!("{}{key}", self.prefix);
        self.client().await.put(key, value, None).await.expect("a write");
    }

    fn inject(&self, _: Fault) -> bool {
        false
    }
}

async fn conforms(cluster: &Cluster) {
    let mut case = 0;
    suite(|| {
        case += 1;
        Arc::new(Prefix {
            urls: cluster.urls(),
            prefix: format!("case-{case}/"),
            first: OnceCell::new(),
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_on_one_node_conforms() {
    conforms(&Cluster::one().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_on_three_nodes_conforms() {
    conforms(&Cluster::three().await).await;
}
