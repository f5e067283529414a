//! `STALLED`, from a container's questions to what people read.

use steadfast_engine::records::JobRecord;
use steadfast_engine::{IndexChange, IndexEntry};
use steadfast_model::{ExecutionId, FencingToken, JobId, LeaseTerms, TaskGroupId, TaskSpec};
use steadfast_store::conformance::samples;

use super::stage::Stage;

/// The first sample job with a timeout, and the container of its first task group.
fn job(progress_timeout_ms: u64) -> (JobRecord, ExecutionId) {
    let mut job = samples::job(1);
    let mut spec = (*job.spec).clone();
    for task in spec.pipelines.iter_mut().flat_map(|pipeline| &mut pipeline.tasks) {
        *task = TaskSpec { progress_timeout_ms, ..task.clone() };
    }
    job.spec = spec.into();
    let execution = job.pipelines[0].task_groups[0].container.as_ref().unwrap().id;
    (job, execution)
}

fn stage(progress_timeout_ms: u64) -> (Stage, ExecutionId) {
    let (job, execution) = job(progress_timeout_ms);
    let stage = Stage::of_job(job);
    let entry = IndexEntry {
        job: JobId::new(1),
        task_group: TaskGroupId::new(1),
        token: FencingToken::new(2),
        lease: LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 },
        assumed_answer: None,
        started: true,
        samza: false,
    };
    stage.term.index.apply(&IndexChange::Live(execution, entry));
    stage.serve();
    (stage, execution)
}

fn poll(stage: &Stage, execution: ExecutionId, steps: u64) {
    let query = format!("execution_resource_id={execution}&nonce=1&progress={steps}");
    let answer = stage.get(&format!("/isContainerValid?{query}"), Some(&stage.secret(execution)));
    assert_eq!(answer.json()["isValid"], true, "{answer:?}");
}

fn is_stalled(stage: &Stage) -> bool {
    let info = stage.get("/job-info/1", None).json();
    let groups = info["pipelines"][0]["taskGroups"].as_array().unwrap().clone();
    assert!(groups[1..].iter().all(|group| group["stalled"] == false), "{info}");
    groups[0]["stalled"].as_bool().unwrap_or_else(|| panic!("{info}"))
}

#[test]
fn a_program_that_does_not_get_on_is_shown_until_it_does_and_nothing_is_ended() {
    let (mut stage, execution) = stage(1);
    poll(&stage, execution, 5);
    assert!(!is_stalled(&stage), "the first count is a beginning");
    // The clock shows milliseconds, so some question comes a millisecond after the one before it.
    while !is_stalled(&stage) {
        poll(&stage, execution, 5);
    }
    assert_eq!(stage.metric("steadfast_stalled_containers"), 1.0);
    let look = |stage: &Stage| crate::stalls::look(&stage.term, &stage.shared.metrics);
    look(&stage);
    look(&stage);
    assert_eq!(stage.metric("steadfast_stalls_total"), 1.0, "it began once");
    let story = stage.get("/job-info/1/explain", None).body;
    assert!(story.contains("task group 1 of pipeline 1 is STALLED"), "{story}");
    assert!(stage.inputs.try_recv().is_err(), "nobody is told, so nothing follows");
    let bare = format!("/isContainerValid?execution_resource_id={execution}&progress=6");
    assert_eq!(stage.get(&bare, None).status, 200);
    assert!(is_stalled(&stage), "whoever has not the secret takes no mark away");
    poll(&stage, execution, 6);
    assert!(!is_stalled(&stage));
    assert_eq!(stage.metric("steadfast_stalled_containers"), 0.0);
    assert!(!stage.get("/job-info/1/explain", None).body.contains("is STALLED"));
    look(&stage);
    let story = stage.get("/job-info/1/explain", None).body;
    assert!(
        story.contains("task group 1 of pipeline 1 gets on again after it was STALLED"),
        "{story}"
    );
}

#[test]
fn without_a_timeout_nobody_is_stalled() {
    let (stage, execution) = stage(0);
    let began = stage.term.clock.now();
    while stage.term.clock.now() <= began + 2 {
        poll(&stage, execution, 5);
    }
    assert!(!is_stalled(&stage));
}
