//! The shapes that outside programs rely on, written down from the interface's own text: each document
//! below is what a reader was promised. It must read into our types and print back as it was.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steadfast_api::{
    DirtyTask, ErrorBody, Event, Explanation, FromAgent, JobInfo, JobSummary, MemberInfo, Overview,
    PlannedLeave, PlannedLeaveRequest, Readiness, RecoveryEpisodes, StopJobRequest, SubmitAnswer,
    ToAgent, ValidityAnswer,
};
use steadfast_model::LossCause;

#[track_caller]
fn holds<T: DeserializeOwned + Serialize>(promised: Value) {
    let read: T = serde_json::from_value(promised.clone()).expect("the promised document reads");
    assert_eq!(serde_json::to_value(read).expect("it prints"), promised);
}

const EXECUTION: &str = "container_00000000000000ab_7";
const MEMBER: &str = "23cc7ea6-6374-4f2b-8a33-df75b5e58f52";

/// The first seed's example, "REST and history contract", word for word.
fn seeds_dirty_task() -> Value {
    json!({
        "dirty": true,
        "evaluationStatus": "DIRTY",
        "trackingComplete": true,
        "threshold": 2,
        "recoveryAttemptCount": 2,
        "recoveryEpisodeCount": 1,
        "memberLossIncidentCount": 1,
        "activeEpisodeId": null,
        "lastLeaveClassification": "UNCLASSIFIED",
        "lastLostMemberUuid": MEMBER,
        "lastLostAddress": "10.0.0.12:5801",
        "lastCountedTime": 1_786_500_000_000_u64
    })
}

#[test]
fn dirty_task_has_the_seeds_twelve_fields() {
    holds::<DirtyTask>(seeds_dirty_task());
    assert_eq!(seeds_dirty_task().as_object().unwrap().len(), 12);
}

#[test]
fn dirty_task_of_a_job_without_tracking() {
    holds::<DirtyTask>(json!({
        "dirty": false, "evaluationStatus": "DISABLED", "trackingComplete": false, "threshold": -1,
        "recoveryAttemptCount": 0, "recoveryEpisodeCount": 0, "memberLossIncidentCount": 0,
        "activeEpisodeId": null, "lastLeaveClassification": null, "lastLostMemberUuid": null,
        "lastLostAddress": null, "lastCountedTime": null
    }));
}

#[test]
fn lists_carry_the_nested_subset() {
    holds::<JobSummary>(json!({
        "jobId": "733584788375666689", "jobName": "wordcount", "jobStatus": "RUNNING",
        "createTime": "2026-11-30T09:31:02.123Z", "finishTime": null,
        "dirtyTask": {"dirty": false, "evaluationStatus": "CLEAN", "recoveryAttemptCount": 1}
    }));
}

#[test]
fn a_record_from_before_the_feature_shows_no_dirty_task_at_all() {
    holds::<JobSummary>(json!({
        "jobId": "7", "jobName": "old", "jobStatus": "FINISHED",
        "createTime": "2026-11-30T09:31:02.123Z", "finishTime": "2026-11-30T09:31:03.000Z"
    }));
}

/// The first seed's first version will not "diagnose whether a member left because of OOM, machine failure,
/// network partition, or Kubernetes policy": nobody here can prove any of them.
#[test]
fn a_cause_is_what_was_seen_and_no_diagnosis() {
    let reads = |word: &str| serde_json::from_value::<LossCause>(word.into()).is_ok();
    assert!(["CONNECTION_CLOSED", "SILENCE", "LEAVING"].into_iter().all(reads));
    let diagnoses =
        ["OOM", "OOM_KILLED", "MACHINE_FAILURE", "NETWORK_PARTITION", "EVICTED", "PREEMPTED"];
    assert!(!diagnoses.into_iter().any(reads));
}

#[test]
fn job_info() {
    holds::<JobInfo>(json!({
        "jobId": "733584788375666689", "jobName": "wordcount", "jobStatus": "RUNNING",
        "createTime": "2026-11-30T09:31:02.123Z", "finishTime": null,
        "envOptions": {"job.mode": "BATCH"}, "errorMsg": null,
        "counts": {"memberLoss": 1, "program": 0, "ladder": 0, "planned": 0},
        "pipelines": [{
            "pipelineId": 1, "name": "count", "pipelineStatus": "RUNNING", "restores": 1,
            "attempt": 2, "waitsFor": null,
            "taskGroups": [{
                "taskGroupId": 1, "task": "reader", "index": 0, "status": "RUNNING", "attempt": 2,
                "executionResourceId": EXECUTION, "memberUuid": MEMBER, "pid": 4812,
                "wrapperPid": 4811, "fencingToken": 2, "leaseEnds": "2026-11-30T09:31:17.123Z",
                "stalled": false, "lastError": null
            }]
        }],
        "dirtyTask": seeds_dirty_task()
    }));
}

#[test]
fn recovery_episodes_and_explain() {
    holds::<RecoveryEpisodes>(json!({
        "episodes": [{
            "episodeId": "7-1", "status": "ACTIVE", "generation": 1,
            "startTime": "2026-11-30T09:31:02.123Z", "endTime": null,
            "incidents": [{
                "memberUuid": MEMBER, "address": "127.0.0.1:40312", "sequence": 7,
                "classification": "UNCLASSIFIED", "cause": "CONNECTION_CLOSED", "evidence": "seen",
                "time": "2026-11-30T09:31:02.123Z"
            }],
            "incidentCount": 1,
            "attempts": [{
                "attemptId": "7-1/1/1", "pipelineId": 1,
                "confirmedTime": "2026-11-30T09:31:02.900Z", "outcome": "RECOVERED", "cause": null
            }],
            "latencyMs": {"detected": 12, "fenced": 640, "deployed": 655, "recovered": 1210}
        }],
        "droppedEpisodes": 0
    }));
    holds::<Explanation>(json!({
        "sentences": [{"time": "2026-11-30T09:31:02.123Z", "text": "…", "episodeId": "7-1"}]
    }));
}

#[test]
fn members_and_overview() {
    holds::<MemberInfo>(json!({
        "uuid": MEMBER, "host": "h", "address": "127.0.0.1:40312", "pid": 4711, "status": "ALIVE",
        "slots": 4, "usedSlots": 2, "lastSeen": "2026-11-30T09:31:02.123Z", "version": "0.1.0",
        "featureLevel": 1, "tags": {}
    }));
    holds::<Overview>(json!({
        "version": "0.1.0",
        "coordinator": {
            "url": "http://127.0.0.1:8080", "pid": 4700, "featureLevel": 1, "epoch": 3,
            "since": "2026-11-30T09:31:02.123Z"
        },
        "coordinators": ["http://127.0.0.1:8080", "http://127.0.0.1:8081"],
        "standbys": [
            {"url": "http://127.0.0.1:8081", "commitsBehind": 0},
            {"url": "http://127.0.0.1:8082", "commitsBehind": null, "error": "no answer"}
        ],
        "members": {"alive": 3, "suspected": 0, "lost": 0}, "slots": {"total": 12, "used": 4},
        "jobs": {"RUNNING": 1, "FINISHED": 2},
        "evaluations": {"CLEAN": 1, "DIRTY": 0, "UNKNOWN": 0, "DISABLED": 0},
        "selfSuspicion": null,
        "storeTrouble": {
            "status": "FULL", "since": "2026-11-30T09:31:02.123Z", "message": "make room"
        }
    }));
}

#[test]
fn events_carry_their_name_and_their_time() {
    let event = |mut promised: Value| {
        promised["time"] = json!("2026-11-30T09:31:02.123Z");
        let name = promised["event"].clone();
        holds::<Event>(promised.clone());
        let read: Event = serde_json::from_value(promised).expect("it reads");
        assert_eq!(read.change.name(), name);
    };
    event(json!({"event": "leadership", "epoch": 3, "leader": null}));
    event(json!({"event": "snapshot", "members": [], "jobs": []}));
    event(json!({"event": "resync"}));
    event(json!({
        "event": "pipelineStatus", "jobId": "7", "pipelineId": 1, "status": "DEPLOYING", "attempt": 2
    }));
    event(json!({
        "event": "taskGroupStatus", "jobId": "7", "pipelineId": 1, "taskGroupId": 1,
        "status": "RUNNING", "executionResourceId": EXECUTION, "memberUuid": MEMBER
    }));
    event(json!({
        "event": "evaluation", "jobId": "7", "before": "CLEAN", "dirtyTask": seeds_dirty_task()
    }));
}

#[test]
fn coordinators_that_lead_and_that_stand_by() {
    holds::<Readiness>(json!({
        "status": "ready", "role": "leader", "url": "http://127.0.0.1:8080", "version": "0.1.0",
        "revision": 812, "leader": "http://127.0.0.1:8080", "since": "2026-11-30T09:31:02.123Z",
        "epoch": 3, "coordinators": ["http://127.0.0.1:8080"]
    }));
    holds::<Readiness>(json!({
        "status": "ready", "role": "standby", "url": "http://127.0.0.1:8081", "version": "0.1.0",
        "revision": 811, "leader": "http://127.0.0.1:8080", "since": "2026-11-30T09:31:02.123Z",
        "coordinators": ["http://127.0.0.1:8080", "http://127.0.0.1:8081"]
    }));
    holds::<Readiness>(json!({
        "status": "fail", "message": "the store is full", "role": "leader",
        "url": "http://127.0.0.1:8080", "version": "0.1.0", "revision": 812,
        "leader": "http://127.0.0.1:8080", "since": "2026-11-30T09:31:02.123Z", "epoch": 3,
        "coordinators": ["http://127.0.0.1:8080"]
    }));
    holds::<ErrorBody>(json!({
        "status": "fail", "message": "it stands by", "details": [],
        "coordinators": ["http://127.0.0.1:8080"]
    }));
}

#[test]
fn submitting_and_stopping() {
    holds::<SubmitAnswer>(json!({"jobId": "733584788375666689", "jobName": "wordcount"}));
    holds::<StopJobRequest>(json!({"jobId": "733584788375666689"}));
    holds::<ErrorBody>(json!({
        "status": "fail", "message": "the job file was refused",
        "details": [{"file": null, "line": 3, "column": 5, "key": "env.job.name", "message": "…"}]
    }));
}

#[test]
fn verdicts() {
    holds::<ValidityAnswer>(json!({
        "isValid": true, "leaseMs": 15000, "nextPollMs": 1000, "fencingToken": 7,
        "coordinatorEpoch": 3, "coordinators": ["http://127.0.0.1:8080"], "nonce": 9
    }));
    holds::<ValidityAnswer>(json!({
        "isValid": false, "reason": "SUPERSEDED", "coordinatorEpoch": 3, "nonce": 9
    }));
}

#[test]
fn an_agents_conversation() {
    holds::<FromAgent>(json!({"type": "beat"}));
    holds::<FromAgent>(json!({
        "type": "hello", "uuid": MEMBER, "host": "h", "pid": 4711, "slots": 4, "tags": {},
        "version": "0.1.0", "featureLevel": 1, "welcomed": true, "highestEpoch": 3,
        "containers": [{
            "executionResourceId": EXECUTION,
            "lastEvent": {"event": "started", "pid": 4812, "wrapperPid": 4811}
        }]
    }));
    holds::<FromAgent>(json!({
        "type": "report", "executionResourceId": EXECUTION,
        "event": {
            "event": "ended", "outcome": {"outcome": "exited", "code": 0}, "proof": "NO_CHILD_LEFT"
        }
    }));
    holds::<ToAgent>(json!({
        "type": "stop", "epoch": 3, "executionResourceId": EXECUTION, "reason": "SUPERSEDED",
        "graceMs": 5000
    }));
}

#[test]
fn a_planned_leave_is_asked_for_and_answered() {
    holds::<PlannedLeaveRequest>(json!({
        "requestId": "kernel-update-7", "reason": "new kernel", "validSeconds": 600
    }));
    holds::<PlannedLeaveRequest>(json!({"requestId": "kernel-update-7", "reason": "new kernel"}));
    holds::<PlannedLeave>(json!({
        "memberUuid": MEMBER, "requestId": "kernel-update-7", "actor": "on-call",
        "reason": "new kernel", "registered": "2026-11-30T09:31:02.123Z",
        "expires": "2026-11-30T09:41:02.123Z", "draining": true
    }));
    let mistyped = json!({"requestId": "a", "reason": "b", "validSecond": 1});
    serde_json::from_value::<PlannedLeaveRequest>(mistyped).expect_err("10 minutes were not meant");
}
