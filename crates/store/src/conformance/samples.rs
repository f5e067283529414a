//! Records as a cluster at work has them: for the suite, the golden files and the benchmark.

use std::collections::BTreeMap;
use std::sync::Arc;

use steadfast_engine::records::{
    ContainerRecord, Failure, FailureKind, HistoryRecord, JobRecord, MemberEvent, MemberRecord,
    OperatorRequest, Pids, PipelineRecord, RestoreCounts, TaskGroupRecord,
};
use steadfast_ledger::{JobLedger, Redo, SharedLoss, Watermarks, evaluate};
use steadfast_model::{
    AttemptId, Cause, ContainerPolicy, EpisodeNumber, ExecutionId, FencingToken, InvalidReason,
    JobId, JobMode, JobSpec, JobStatus, LeaseTerms, LeaveClassification, LossCause, MemberEventSeq,
    MemberUuid, PipelineId, PipelineSpec, PipelineStatus, RetryPolicy, TaskGroupId,
    TaskGroupStatus, TaskSpec, TermNonce, Timestamp, ValidatorKind,
};

use crate::{LeaderInfo, Op};

const STARTED: Timestamp = Timestamp::from_millis(1_793_000_000_000);
const PARALLELISM: u32 = 4;

/// One record of every kind that a running job has or a cluster needs: of job 1, its first task group with
/// this token, of member 2 and of event 3, which that job's ledger was told and does not say itself.
pub fn of_every_kind(token: FencingToken) -> Vec<Op> {
    let (job_id, ledger) = (JobId::new(1), ledger_with_history());
    vec![
        Op::PutMemberEvent(event(3)),
        Op::PutMember(member(2)),
        Op::PutRequest(request(2)),
        Op::PutJob(Arc::new(told().0)),
        Op::PutEpisodes { job: job_id, episodes: ledger.history().clone() },
        Op::PutLedger { job: job_id, ledger: Arc::new(ledger) },
        Op::PutToken { job: job_id, task_group: TaskGroupId::new(1), token },
        Op::PutProcessed(MemberEventSeq::new(3)),
    ]
}

/// The `n`-th job: one pipeline with four task groups, restored once after a member's loss.
pub fn job(n: u64) -> JobRecord {
    let pipeline = PipelineRecord {
        id: PipelineId::new(1),
        status: PipelineStatus::Running,
        attempt: 2,
        restores: 1,
        budget_used: 1,
        not_before: None,
        recovery: Some(AttemptId {
            episode: EpisodeNumber::new(1),
            pipeline: PipelineId::new(1),
            prepare_seq: 1,
        }),
        losses: Vec::new(),
        fenced: Some(STARTED + 640),
        running_since: Some(STARTED + 1_210),
        failures: vec![Failure {
            attempt: 1,
            at: STARTED + 12,
            kind: FailureKind::MemberLoss,
            cause: Cause::Seen(format!(
                "member {} was lost: its connection closed",
                member_uuid(1)
            )),
            recovery: None,
            waits_for: None,
        }],
        task_groups: (0..PARALLELISM).map(|index| task_group(n, index)).collect(),
    };
    JobRecord {
        id: JobId::new(n),
        spec: spec(n).into(),
        status: JobStatus::Running,
        created: STARTED,
        finished: None,
        cancel_requested: None,
        error: None,
        counts: RestoreCounts { member_loss: 1, ..RestoreCounts::default() },
        dirty_since: None,
        ledger_revision: Some(ledger().revision()),
        redo: Redo::default(),
        owed_since: None,
        restored: false,
        pipelines: vec![pipeline],
    }
}

fn spec(n: u64) -> JobSpec {
    let lease = LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 };
    let environment = [("INPUT", "/data/input.log"), ("OUTPUT", "/data/output"), ("RATE", "10")];
    let environment = environment.map(|(key, value)| (key.to_owned(), value.to_owned()));
    JobSpec {
        name: format!("wordcount-{n}"),
        mode: JobMode::Batch,
        retry: RetryPolicy {
            times: 3,
            count_member_loss: true,
            reset_after_minutes: 0,
            interval_seconds: 3,
        },
        dirty_threshold: 2,
        container: ContainerPolicy { validator_enabled: true, lease, samza: false },
        pipelines: vec![PipelineSpec {
            name: "count".to_owned(),
            member_tags: BTreeMap::new(),
            tasks: vec![TaskSpec {
                name: "reader".to_owned(),
                parallelism: PARALLELISM,
                command: vec!["./wordcount".to_owned()],
                environment: environment.into(),
                validator: ValidatorKind::Wrapper,
                progress_timeout_ms: 0,
            }],
        }],
    }
}

fn task_group(job: u64, index: u32) -> TaskGroupRecord {
    let seq = job * 100 + u64::from(index) * 2;
    let container = |seq, attempt: u32, member, started| ContainerRecord {
        id: ExecutionId::of_term(TermNonce::new(0x5ead_fa57), seq),
        member: member_uuid(member),
        attempt,
        token: FencingToken::new(attempt.into()),
        started,
        revoked: None,
        ended_unproven: false,
        gone: false,
    };
    let pids = Pids { program: 4_812 + index, wrapper: 4_811 };
    let old = ContainerRecord {
        revoked: Some(InvalidReason::MemberLost),
        ..container(seq, 1, 1, Some(pids))
    };
    TaskGroupRecord {
        id: TaskGroupId::new(index + 1),
        task: 0,
        index,
        status: TaskGroupStatus::Running,
        token: FencingToken::new(2),
        container: Some(container(seq + 1, 2, 2, Some(pids))),
        // Those of the lost member, whose leases run.
        leftovers: if index.is_multiple_of(2) { vec![old] } else { Vec::new() },
        last_error: None,
    }
}

/// The ledger of such a job while it is being recovered: one incident, one attempt, confirmed.
pub fn ledger() -> JobLedger {
    let pipeline = PipelineId::new(1);
    let mut ledger = JobLedger::new(2, MemberEventSeq::new(0), 10);
    let groups = [TaskGroupId::new(1), TaskGroupId::new(3)];
    let _ = ledger.member_lost(&event(1), &[pipeline], &groups);
    if let Some(attempt) = ledger.prepare(pipeline) {
        let _ = ledger.confirm(attempt, STARTED + 640, STARTED + 655);
    }
    ledger
}

/// The same after it had recovered and another member was lost: one episode is closed, one open.
pub fn ledger_with_history() -> JobLedger {
    let pipeline = PipelineId::new(1);
    let mut ledger = ledger();
    let _ = ledger.recovered(pipeline, STARTED + 900);
    let _ = ledger.member_lost(&event(2), &[pipeline], &[TaskGroupId::new(2)]);
    let _ = ledger.prepare(pipeline);
    ledger
}

/// Job 1 after a third loss, and the ledger that [`ledger_with_history`] has become by it.
pub fn told() -> (JobRecord, JobLedger) {
    let (mut ledger, mut redo) = (ledger_with_history(), Redo::default());
    let (stored, loss) = (Some(ledger.revision()), SharedLoss::from(&event(3)));
    let groups = [TaskGroupId::new(1), TaskGroupId::new(4)];
    let _ = redo.member_lost(&mut ledger, stored, &loss, &[PipelineId::new(1)], &groups);
    (JobRecord { ledger_revision: Some(ledger.revision()), redo, ..job(1) }, ledger)
}

/// The `n`-th job after its end at this time.
pub fn history(n: u64, finished: Timestamp) -> HistoryRecord {
    let mut job = job(n);
    job.status = JobStatus::Finished;
    job.finished = Some(finished);
    let seq = MemberEventSeq::new(1);
    let watermarks = Watermarks { cluster: seq, processed: seq, owes: false };
    let evaluation = Some(evaluate(Some(2), false, Some(&ledger()), watermarks));
    HistoryRecord { job, ledger: Some(ledger()), evaluation }
}

/// The `n`-th member.
pub fn member(n: u64) -> MemberRecord {
    MemberRecord {
        uuid: member_uuid(n),
        host: format!("worker-{n}"),
        address: "127.0.0.1:40312".to_owned(),
        pid: 4_711,
        slots: 4,
        tags: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
        version: "0.1.0".to_owned(),
        feature_level: 1,
        registered: STARTED,
        lost: None,
        draining: false,
    }
}

/// The request that the `n`-th member leaves.
pub fn request(n: u64) -> OperatorRequest {
    OperatorRequest {
        id: format!("request-{n}").parse().expect("letters, a hyphen and digits are an id"),
        member: member_uuid(n),
        actor: "on-call".to_owned(),
        reason: "its host gets a new kernel".to_owned(),
        registered: STARTED,
        expires: STARTED + 600_000,
        drain: false,
    }
}

/// The `n`-th member's UUID.
pub fn member_uuid(n: u64) -> MemberUuid {
    let text = format!("00000000-0000-4000-8000-{:012x}", n & 0xffff_ffff_ffff);
    text.parse().expect("groups of 8, 4, 4, 4 and 12 hexadecimal digits are a UUID")
}

/// The loss of the `n`-th member, number `n` in the journal.
pub fn event(n: u64) -> MemberEvent {
    MemberEvent {
        seq: MemberEventSeq::new(n),
        member: member_uuid(n),
        address: "127.0.0.1:40312".to_owned(),
        classification: LeaveClassification::Unclassified,
        cause: LossCause::ConnectionClosed,
        evidence: "its connection closed and it did not come back within 300 ms".to_owned(),
        last_seen: STARTED,
        declared: STARTED + 12,
    }
}

/// A coordinator that would lead.
pub fn leader(pid: u32) -> LeaderInfo {
    LeaderInfo {
        url: format!("http://127.0.0.1:{}", 8_000 + pid),
        host: "coordinator-1".to_owned(),
        pid,
        version: "0.1.0".to_owned(),
        feature_level: steadfast_model::FEATURE_LEVEL,
        since: STARTED,
    }
}
