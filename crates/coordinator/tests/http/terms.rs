//! Terms end, and the coordinator goes on: one error never ends its loop, and of two that lead one store
//! only the newer one writes.

use std::sync::Arc;

use steadfast_model::JobId;
use steadfast_store::conformance::samples;
use steadfast_store::{CommitError, Fault, MemoryStore, Op, Refusal, Store};

use crate::coordinator::{Answer, Coordinator, until};
use crate::lists::untracked;

const JOB: &str = r#"{"env": {"job.name": "one"}, "pipelines": [
    {"name": "p", "tasks": [{"name": "t", "command": ["sleep", "1"]}]}]}"#;

async fn epoch(coordinator: &Coordinator) -> Option<u64> {
    let overview = coordinator.call("GET", "/overview", "").await?.body("200")?;
    let overview: serde_json::Value = serde_json::from_str(&overview).ok()?;
    overview["coordinator"]["epoch"].as_u64()
}

async fn submit(coordinator: &Coordinator) -> Answer {
    coordinator.call("POST", "/submit-job", JOB).await.expect("it listens")
}

/// Somebody who submits is told neither "done" nor "ask again" when nobody knows, and the next one is
/// served as if nothing had happened. Red where the answer is 503: clients ask again then, for a second job.
#[tokio::test]
async fn one_error_of_the_store_ends_a_term_and_never_the_coordinator() {
    let store = MemoryStore::new();
    let coordinator = Coordinator::start(store.clone()).await;
    let faults = [
        Fault::Unknown { applied: false },
        Fault::Unknown { applied: true },
        Fault::Refuse(Refusal::TooLarge),
    ];
    for fault in faults {
        let before = epoch(&coordinator).await.expect("it leads");
        store.inject(fault, u32::MAX);
        let told = submit(&coordinator).await;
        assert!(told.body("408").is_some(), "nobody knows whether it is done: {told:?}");
        store.clear_faults();
        let again = || async { epoch(&coordinator).await.filter(|now| *now > before) };
        until("the next term", again).await;
        let told = submit(&coordinator).await;
        assert!(told.body("200").is_some(), "it goes on: {told:?}");
    }
}

/// As after a network was cut in two: the other one leads, writes, and is deposed in its turn.
#[tokio::test]
async fn of_two_coordinators_the_deposed_one_writes_nothing_and_loads_anew() {
    let store = MemoryStore::new();
    let coordinator = Coordinator::start(store.clone()).await;
    let mut other = store.lead(samples::leader(2)).await.expect("it leads");
    let written = other.commit(vec![Op::PutJob(Arc::new(untracked(7)))]).await;
    assert!(written.is_ok(), "the newer one writes: {written:?}");
    let deposed = other.epoch().get();
    let again = || async { epoch(&coordinator).await.filter(|now| *now > deposed) };
    until("the first one to lead anew", again).await;
    let jobs = coordinator.get("/running-jobs").await;
    assert_eq!(jobs[0]["jobId"], JobId::new(7).to_string(), "what the other wrote is kept");
    let fenced = other.commit(vec![Op::RemoveMember(samples::member_uuid(1))]).await;
    assert_eq!(fenced.map(drop), Err(CommitError::Fenced), "and now the other one is deposed");
}
