//! Copying a store to an etcd, from one, and inside one; and whoever leads meanwhile.

use std::ops::ControlFlow;

use steadfast_model::Timestamp;
use steadfast_store::conformance::copying::{Pair, suite};
use steadfast_store::conformance::samples;
use steadfast_store::copy::{CopyError, Location, Progress, Request, copy};
use steadfast_store::{EtcdStore, Store, StoreError};

use crate::cluster::Cluster;
use crate::{LONG_TTL, SHORT_TTL, lead, marks, put_job};

fn etcd(cluster: &Cluster, prefix: &str, ttl_seconds: u32) -> Location {
    let text = format!("etcd:{}?prefix={prefix}&ttl={ttl_seconds}", cluster.urls().join(","));
    Location::Etcd(text.parse().expect("a location"))
}

fn request(from: &Location, to: &Location) -> Request {
    let (from, to, now) = (from.clone(), to.clone(), Timestamp::from_millis(1_793_000_000_000));
    Request { from, to, me: samples::leader(9), now, again: false, backup: false }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_store_is_copied_to_an_etcd() {
    let (cluster, folder) = (Cluster::one().await, tempfile::tempdir().expect("a folder"));
    let mut n = 0;
    suite(|| {
        n += 1;
        let from = Location::Embedded(folder.path().join(n.to_string()));
        Pair { from, to: etcd(&cluster, &format!("to-{n}"), LONG_TTL) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_on_etcd_is_copied_to_a_directory() {
    let (cluster, folder) = (Cluster::three().await, tempfile::tempdir().expect("a folder"));
    let mut n = 0;
    suite(|| {
        n += 1;
        let to = Location::Embedded(folder.path().join(n.to_string()));
        Pair { from: etcd(&cluster, &format!("from-{n}"), LONG_TTL), to }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_on_etcd_is_copied_to_another_prefix() {
    let cluster = Cluster::one().await;
    let mut n = 0;
    suite(|| {
        n += 1;
        let place = |name| etcd(&cluster, &format!("{name}-{n}"), LONG_TTL);
        Pair { from: place("from"), to: place("to") }
    })
    .await;
}

/// Who leads is named; whoever stands by while it is copied is told that it was moved.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_leads_is_named_and_whoever_waits_is_told() {
    let cluster = Cluster::one().await;
    let (from, to) = (etcd(&cluster, "led", SHORT_TTL), etcd(&cluster, "moved", SHORT_TTL));
    let store = cluster.store("led", SHORT_TTL).await;
    let mut term = lead(&store).await;
    term.commit(vec![put_job(1, "kept")]).await.expect("it commits");
    let refused = copy(&request(&from, &to), &mut |_| ControlFlow::Continue(())).await;
    let refused = refused.expect_err("it is led").to_string();
    assert!(refused.contains(&samples::leader(1).url), "{refused}");
    term.commit(vec![put_job(2, "still leads")]).await.expect("it leads on");
    term.resign().await;

    let waits = cluster.store("led", SHORT_TTL).await;
    let mut waiting = None;
    let mut progress = |step| {
        if step == Progress::Begin && waiting.is_none() {
            let waits: EtcdStore = waits.clone();
            let lead = async move { waits.lead(samples::leader(2)).await.err() };
            waiting = Some(tokio::spawn(lead));
        }
        ControlFlow::Continue(())
    };
    copy(&request(&from, &to), &mut progress).await.expect("it is copied");
    let told = waiting.expect("it began to wait").await.expect("it ended");
    assert!(matches!(told, Some(StoreError::Moved { .. })), "{told:?}");
    let both = [(1, "kept".to_owned()), (2, "still leads".to_owned())];
    assert_eq!(marks(&cluster.store("moved", SHORT_TTL).await).await, both);
}

/// A batch that has no room leaves a target that nobody starts on, and the source as it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_without_room_is_named_and_the_source_goes_on() {
    let cluster = Cluster::start(1, &["--quota-backend-bytes=2097152"]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let from = Location::Embedded(folder.path().join("from"));
    {
        let store = steadfast_store::Embedded::open(folder.path().join("from")).expect("it opens");
        let mut term = lead(&store).await;
        for n in 0..60 {
            let job = put_job(n, &"x".repeat(100_000));
            term.commit(vec![job]).await.expect("it commits");
        }
    }
    let to = etcd(&cluster, "full", LONG_TTL);
    let full = copy(&request(&from, &to), &mut |_| ControlFlow::Continue(())).await;
    let full = full.expect_err("it is full");
    assert!(
        matches!(&full, CopyError::Write { .. }) && full.to_string().contains("full"),
        "{full}"
    );
    let text = format!("etcd:{}?prefix=full", cluster.urls().join(","));
    let opened = EtcdStore::open(&text.parse().expect("a location")).expect("no file is read");
    let loaded = opened.load().await;
    assert!(matches!(loaded, Err(StoreError::Unfinished { .. })), "{loaded:?}");
    let store = steadfast_store::Embedded::open(folder.path().join("from")).expect("it opens");
    assert_eq!(marks(&store).await.len(), 60);
}

/// As many as a cluster comes to after years, through pages and batches of every size.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_records_are_copied_to_an_etcd_and_back() {
    let cluster = Cluster::one().await;
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| Location::Embedded(folder.path().join(name));
    {
        let store = steadfast_store::Embedded::open(folder.path().join("from")).expect("it opens");
        let mut term = lead(&store).await;
        let put = |n: u64| {
            let mut history = samples::history(n, Timestamp::from_millis(n));
            history.job.pipelines.clear();
            history.ledger = None;
            steadfast_store::Op::EndJob(std::sync::Arc::new(history))
        };
        // Three records of each.
        for first in (0..33_000).step_by(3_000) {
            term.commit((first..first + 3_000).map(put).collect()).await.expect("it commits");
        }
        let jobs = (0..1_000).map(|n| put_job(100_000 + n, "runs"));
        term.commit(jobs.collect()).await.expect("it commits");
    }
    let etcd = etcd(&cluster, "large", LONG_TTL);
    for (from, to) in [(place("from"), etcd.clone()), (etcd, place("back"))] {
        let copied = copy(&request(&from, &to), &mut |_| ControlFlow::Continue(())).await;
        let records = copied.expect("it is copied").records;
        let sum: u64 = records.iter().map(|(_, count)| count).sum();
        assert!(sum > 100_000, "{sum}");
    }
    let store = steadfast_store::Embedded::open(folder.path().join("back")).expect("it opens");
    assert_eq!(store.load().await.expect("it loads").snapshot.finished.len(), 33_000);
}
