//! Several coordinators on one store: one leads, the others follow and send everybody to it.

use steadfast_client::{Client, ListQuery};
use steadfast_store::MemoryStore;

use crate::coordinator::{Coordinator, until};

const JOB: &str = r#"{"env": {"job.name": "one"}, "pipelines": [
    {"name": "p", "tasks": [{"name": "t", "command": ["sleep", "1"]}]}]}"#;

async fn role(coordinator: &Coordinator) -> String {
    coordinator.get("/health/ready").await["role"].as_str().expect("it has a role").to_owned()
}

async fn led_by(coordinator: &Coordinator) -> Option<String> {
    let ready = coordinator.call("GET", "/health/ready", "").await?.body("200")?;
    let ready: serde_json::Value = serde_json::from_str(&ready).ok()?;
    Some(ready["leader"].as_str()?.to_owned())
}

#[tokio::test]
async fn a_standby_takes_over_with_everything_that_was_committed() {
    let store = MemoryStore::new().where_candidates_wait();
    let [first, second, third] = [(); 3].map(|()| Coordinator::start(store.clone()));
    let (first, second, third) = (first.await, second.await, third.await);
    assert_eq!(role(&first).await, "leader");
    assert_eq!((role(&second).await, role(&third).await), ("standby".into(), "standby".into()));
    assert_eq!(led_by(&second).await, Some(first.url()));

    // Whoever knows only a standby finds the leader by itself.
    let client = Client::new(&[second.url()]).expect("a client");
    let submitted = first.call("POST", "/submit-job", JOB).await.expect("it listens");
    assert!(submitted.body("200").is_some(), "{submitted:?}");
    let jobs = client.running_jobs(ListQuery::default()).await.expect("it is sent to the leader");
    assert_eq!(jobs.len(), 1);
    let overview = client.overview().await.expect("it is sent to the leader");
    assert_eq!(overview.coordinator.url, first.url());

    // A standby holds what was committed, so that it has little to read when it leads.
    let committed = first.get("/health/ready").await["revision"].clone();
    let level =
        || async { (second.get("/health/ready").await["revision"] == committed).then_some(()) };
    until("the standby to hold every commit", level).await;

    let first_url = first.url();
    first.stop().await;
    let next =
        || async { led_by(&second).await.filter(|url| [second.url(), third.url()].contains(url)) };
    let now = until("another leads", next).await;
    let (leads, stands_by) =
        if now == second.url() { (&second, &third) } else { (&third, &second) };
    let told = || async { (led_by(stands_by).await.as_ref() == Some(&now)).then_some(()) };
    until("the other one knows", told).await;
    let after = leads.get("/overview").await;
    assert!(after["coordinator"]["epoch"].as_u64() > Some(overview.coordinator.epoch.get()));
    assert!(
        after["coordinator"]["since"].as_str() > Some(&overview.coordinator.since.to_string()),
        "it leads since it leads, not since it stands by: {after}"
    );
    let ready = leads.get("/health/ready").await;
    assert!(ready["since"].as_str() > Some(&overview.coordinator.since.to_string()), "{ready}");
    let others = after["coordinators"].as_array().expect("a list");
    assert!(!others.contains(&first_url.clone().into()), "who leads no longer leads here: {after}");
    let list = leads.get("/running-jobs").await;
    assert_eq!(list[0]["jobId"], serde_json::json!(jobs[0].job_id), "{list}");
}

#[tokio::test]
async fn a_standby_that_is_asked_to_go_goes_at_once() {
    let store = MemoryStore::new().where_candidates_wait();
    let leads = Coordinator::start(store.clone()).await;
    let stands_by = Coordinator::start(store.clone()).await;
    let before = store.dump();
    stands_by.stop().await;
    assert_eq!(store.dump(), before, "it has changed nothing");
    assert_eq!(role(&leads).await, "leader");
}

/// The lease of a process that was stopped has run out, and nobody has told it.
#[tokio::test]
async fn a_leader_whose_tenure_is_over_steps_down_by_itself() {
    let store = MemoryStore::new().where_candidates_wait();
    let first = Coordinator::start(store.clone()).await;
    let second = Coordinator::start(store.clone()).await;
    store.end_tenure();
    let asked = first.call("GET", "/overview", "").await.expect("it listens");
    assert!(asked.body("503").is_some(), "no stale answer: {asked:?}");
    let next = || async { led_by(&first).await.filter(|url| *url == second.url()) };
    until("the other one to lead, and the first to stand by", next).await;
}
