//! What lists and details show of the label, over real HTTP: the subset and nothing more in lists, its
//! filter and its pages, and the same bytes for one job before and after its end.
//!
//! The jobs come from the store, as after a change of coordinator: one for each evaluation. There are no
//! members, so they wait; a stopped one ends at once.

use std::sync::Arc;

use serde_json::Value;
use steadfast_engine::records::JobRecord;
use steadfast_ledger::{JobLedger, Recovered};
use steadfast_model::{
    JobId, JobSpec, JobStatus, MemberEventSeq, PipelineId, PipelineStatus, TaskGroupStatus,
    Timestamp,
};
use steadfast_store::conformance::samples;
use steadfast_store::{MemoryStore, Op, Store};

use crate::coordinator::{Coordinator, until};

const CREATED: Timestamp = Timestamp::from_millis(1_793_000_000_000);
const DISABLED: u64 = 1;
const CLEAN: u64 = 2;
const DIRTY: u64 = 3;
const UNKNOWN: u64 = 4;
/// Oldest first.
const JOBS: [(u64, &str); 4] =
    [(DISABLED, "DISABLED"), (CLEAN, "CLEAN"), (DIRTY, "DIRTY"), (UNKNOWN, "UNKNOWN")];

/// One job for each evaluation, all waiting for members.
async fn filled() -> MemoryStore {
    let store = MemoryStore::new();
    let mut term = store.lead(samples::leader(1)).await.expect("it leads");
    let clean = JobLedger::new(2, MemberEventSeq::new(0), 10);
    let ops = vec![
        Op::PutMemberEvent(samples::event(1)),
        Op::PutMemberEvent(samples::event(2)),
        Op::PutJob(Arc::new(untracked(DISABLED))),
        Op::PutJob(Arc::new(waiting(CLEAN, Some(&clean)))),
        Op::PutLedger { job: JobId::new(CLEAN), ledger: Arc::new(clean) },
        Op::PutJob(Arc::new(waiting(DIRTY, Some(&dirty())))),
        Op::PutLedger { job: JobId::new(DIRTY), ledger: Arc::new(dirty()) },
        Op::PutEpisodes { job: JobId::new(DIRTY), episodes: dirty().history().clone() },
        // Its ledger is missing though it wants one.
        Op::PutJob(Arc::new(waiting(UNKNOWN, None))),
        Op::PutProcessed(MemberEventSeq::new(2)),
    ];
    term.commit(ops).await.expect("they are stored");
    store
}

/// Two losses, each deployed once and recovered.
fn dirty() -> JobLedger {
    let pipeline = PipelineId::new(1);
    let mut ledger = JobLedger::new(2, MemberEventSeq::new(0), 10);
    for event in 1..=2 {
        let _ = ledger.member_lost(&samples::event(event), &[pipeline], &[]);
        let attempt = ledger.prepare(pipeline).expect("it is under recovery");
        let _ = ledger.confirm(attempt, CREATED, CREATED + event);
        assert!(matches!(ledger.recovered(pipeline, CREATED + event), Recovered::Episode(_)));
    }
    ledger
}

/// The `number`-th job while it waits for members, without tracking.
pub fn untracked(number: u64) -> JobRecord {
    let mut record = waiting(number, None);
    let spec = JobSpec { dirty_threshold: -1, ..JobSpec::clone(&record.spec) };
    record.spec = spec.into();
    record
}

/// The `number`-th job while it waits for members.
fn waiting(number: u64, ledger: Option<&JobLedger>) -> JobRecord {
    let mut record = samples::job(number);
    record.created = CREATED + number;
    record.status = JobStatus::Pending;
    record.ledger_revision = ledger.map(JobLedger::revision);
    record.dirty_since = ledger.and_then(JobLedger::dirty_since);
    for pipeline in &mut record.pipelines {
        pipeline.status = PipelineStatus::Scheduled;
        pipeline.recovery = None;
        pipeline.running_since = None;
        for group in &mut pipeline.task_groups {
            group.status = TaskGroupStatus::Created;
            group.container = None;
            group.leftovers.clear();
        }
    }
    record
}

fn ids(list: &Value) -> Vec<String> {
    let jobs = list.as_array().expect("a list").iter();
    jobs.map(|job| job["jobId"].as_str().expect("a string").to_owned()).collect()
}

fn named(jobs: &[u64]) -> Vec<String> {
    jobs.iter().map(|job| JobId::new(*job).to_string()).collect()
}

/// Judges both lists in turn: first everything runs, then everything has ended.
async fn in_both_lists(judge: impl AsyncFn(&Coordinator, &str)) {
    let coordinator = Coordinator::start(filled().await).await;
    judge(&coordinator, "/running-jobs").await;
    // The newest end is listed first, as the newest submission is.
    for (job, _) in JOBS {
        coordinator.stop_job(job).await;
        let ended = || async {
            let list = coordinator.get("/finished-jobs").await;
            ids(&list).contains(&JobId::new(job).to_string()).then_some(())
        };
        until("the job's end", ended).await;
        // Ends of one millisecond have no order of their own.
        let then = Timestamp::from_millis(now_ms());
        until("the next millisecond", || async { (now_ms() > then.as_millis() + 1).then_some(()) })
            .await;
    }
    assert_eq!(ids(&coordinator.get("/running-jobs").await), named(&[]));
    judge(&coordinator, "/finished-jobs").await;
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("it is later than 1970");
    u64::try_from(since.as_millis()).expect("and not very much later")
}

#[tokio::test]
async fn a_list_carries_exactly_three_fields_of_the_label() {
    in_both_lists(async |coordinator, list| {
        let jobs = coordinator.get(list).await;
        let jobs = jobs.as_array().expect("a list");
        assert_eq!(jobs.len(), JOBS.len());
        for (job, (number, evaluation)) in jobs.iter().rev().zip(JOBS) {
            let label = job["dirtyTask"].as_object().expect("the nested subset");
            let fields: Vec<&str> = label.keys().map(String::as_str).collect();
            assert_eq!(fields, ["dirty", "evaluationStatus", "recoveryAttemptCount"], "{list}");
            assert_eq!(label["evaluationStatus"], evaluation);
            assert_eq!(label["dirty"], number == DIRTY);
            assert_eq!(label["recoveryAttemptCount"], if number == DIRTY { 2 } else { 0 });
        }
    })
    .await;
}

#[tokio::test]
async fn a_list_is_filtered_by_evaluation() {
    in_both_lists(async |coordinator, list| {
        for (job, evaluation) in JOBS {
            let found = coordinator.get(&format!("{list}?evaluationStatus={evaluation}")).await;
            assert_eq!(ids(&found), named(&[job]), "{list} {evaluation}");
        }
        for wrong in ["evaluationStatus=SPOTLESS", "evaluation=DIRTY"] {
            let answer = coordinator.call("GET", &format!("{list}?{wrong}"), "").await;
            let answer = answer.expect("it listens");
            assert!(answer.body("400").is_some(), "{wrong} is no filter: {answer:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_list_comes_in_pages_the_newest_first() {
    in_both_lists(async |coordinator, list| {
        let page = async |query: &str| ids(&coordinator.get(&format!("{list}?{query}")).await);
        assert_eq!(page("").await, named(&[4, 3, 2, 1]), "{list}");
        assert_eq!(page("rows=3").await, named(&[4, 3, 2]), "{list}");
        assert_eq!(page("rows=3&page=1").await, named(&[4, 3, 2]), "{list}");
        assert_eq!(page("rows=3&page=2").await, named(&[1]), "{list}");
        assert_eq!(page("rows=3&page=3").await, named(&[]), "{list}");
        // The filter comes first: a page of what is wanted is full.
        assert_eq!(page("rows=1&page=1&evaluationStatus=CLEAN").await, named(&[2]), "{list}");
        assert_eq!(page("rows=1&page=2&evaluationStatus=CLEAN").await, named(&[]), "{list}");
    })
    .await;
}

#[tokio::test]
async fn the_label_of_a_job_is_the_same_bytes_before_and_after_its_end() {
    let coordinator = Coordinator::start(filled().await).await;
    for (job, evaluation) in JOBS {
        let running = coordinator.label(job).await;
        assert!(running.contains(&format!("\"evaluationStatus\":\"{evaluation}\"")), "{running}");
        coordinator.stop_job(job).await;
        let path = format!("/job-info/{}", JobId::new(job));
        let status = async || coordinator.get(&path).await["jobStatus"].clone();
        until("the job's end", || async { (status().await == "CANCELED").then_some(()) }).await;
        assert_eq!(coordinator.label(job).await, running, "{evaluation}");
    }
}
