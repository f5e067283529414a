//! What a seed decides before anything happens: the cluster, its jobs, and which troubles come how
//! often. A seed draws some troubles and leaves others out, since a trouble that always comes hides
//! what happens without it.

use std::collections::BTreeMap;

use steadfast_engine::Settings;
use steadfast_model::{
    ContainerPolicy, JobMode, JobSpec, LeaseTerms, PipelineSpec, RetryPolicy, TaskSpec,
    ValidatorKind,
};

use crate::rng::Rng;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An agent is killed; its wrappers and programs live on.
    AgentKilled,
    /// An agent is stopped and later continued.
    AgentStopped,
    /// An agent is told to leave.
    AgentLeaves,
    /// Agent, wrappers and programs die at once; nobody says so.
    MachineLost,
    /// A machine is cut off from the coordinator and later is not.
    CutOff,
    /// An agent's connection breaks; what was under way on it is lost.
    ConnectionLost,
    /// A program dies of a signal.
    ProgramKilled,
    /// A wrapper is killed, and its program with it.
    WrapperKilled,
    /// The coordinator dies and is started again.
    CoordinatorKilled,
    /// The coordinator is stopped and later continued.
    CoordinatorStopped,
    /// Somebody cancels a job.
    Cancel,
    /// A coordinator is cut off from the store and later is not.
    CoordinatorCutOff,
    /// Every node of the store is stopped and later continued.
    EtcdStopped,
}

/// Every fault that comes with any store.
const FAULTS: [Fault; 11] = [
    Fault::AgentKilled,
    Fault::AgentStopped,
    Fault::AgentLeaves,
    Fault::MachineLost,
    Fault::CutOff,
    Fault::ConnectionLost,
    Fault::ProgramKilled,
    Fault::WrapperKilled,
    Fault::CoordinatorKilled,
    Fault::CoordinatorStopped,
    Fault::Cancel,
];

/// What goes wrong in passing, in thousandths.
#[derive(Clone, Debug)]
pub struct Odds {
    /// A message takes seconds.
    pub slow: u64,
    /// A request or its answer is lost.
    pub lost: u64,
    /// A message comes a second time.
    pub twice: u64,
    /// A commit takes up to seconds.
    pub stalled: u64,
    /// A commit is refused, and tried again.
    pub not_applied: u64,
    /// The coordinator dies among the transactions of a member's loss.
    pub torn_loss: u64,
    /// The ledger's part of a job's commit is refused.
    pub ledger_refused: u64,
    /// Nobody knows whether a commit was applied.
    pub unknown: u64,
    /// The coordinator dies with a commit applied and only some of its effects carried out.
    pub dies_after_commit: u64,
    /// A program fails by itself before its work is done.
    pub program_fails: u64,
}

/// A store of several nodes, and several coordinators on it.
#[derive(Clone, Debug)]
pub struct Etcd {
    /// How many.
    pub coordinators: usize,
    /// How long the leader's lease lives without a renewal.
    pub ttl_ms: u64,
    /// A commit lies in a node that is paused, and lands late, in thousandths.
    pub held: u64,
    /// A commit's answer is lost, in thousandths.
    pub unanswered: u64,
    /// A member's loss is always committed in several transactions.
    pub always_splits: bool,
}

/// What a seed decides beforehand.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Slots of each machine.
    pub slots: Vec<u32>,
    /// Jobs, with the time of their submission and each task group's work; `None` is never done.
    pub jobs: Vec<PlannedJob>,
    /// Faults that come, drawn with equal chance.
    pub faults: Vec<Fault>,
    /// Mean time between two faults.
    pub fault_every_ms: u64,
    /// When they stop.
    pub faults_end_ms: u64,
    /// Mean time between two leaves that operators plan, if they plan any.
    pub leave_every_ms: Option<u64>,
    /// Faults in passing.
    pub odds: Odds,
    /// The store and the coordinators where one machine is not enough; else there is one coordinator, with
    /// the store embedded in it.
    pub etcd: Option<Etcd>,
    /// The engine's settings.
    pub settings: Settings,
}

/// A job to come.
#[derive(Clone, Debug)]
pub struct PlannedJob {
    /// When it is submitted.
    pub at_ms: u64,
    /// What.
    pub spec: JobSpec,
    /// How long each of its task groups has to run in all; `None`: until it is cancelled.
    pub work_ms: Option<u64>,
}

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let rng = &mut Rng::new(seed, 1);
        let machines = rng.between(2, 5);
        let calm = rng.chance(50);
        let mut sometimes = |odds: u64, most: u64| {
            if !calm && rng.chance(odds) { rng.between(1, most) } else { 0 }
        };
        let odds = Odds {
            slow: sometimes(500, 60),
            lost: sometimes(500, 150),
            twice: sometimes(500, 100),
            stalled: sometimes(500, 100),
            not_applied: sometimes(400, 150),
            torn_loss: sometimes(500, 150),
            ledger_refused: sometimes(250, 60),
            unknown: sometimes(300, 20),
            dies_after_commit: sometimes(300, 30),
            program_fails: sometimes(500, 500),
        };
        let mut faults: Vec<Fault> =
            FAULTS.into_iter().filter(|_| !calm && rng.chance(450)).collect();
        let etcd = Etcd::draw(seed, calm, &mut faults);
        let job_count = rng.between(1, 4);
        let mut operators = Rng::new(seed, 7);
        let leaves = !calm && operators.chance(500);
        Self {
            leave_every_ms: leaves.then(|| operators.between(1_000, 12_000)),
            slots: (0..machines).map(|_| small(rng, 1, 5)).collect(),
            jobs: (0..job_count).map(|number| job(rng, number)).collect(),
            faults,
            etcd,
            fault_every_ms: rng.between(500, 9_000),
            faults_end_ms: rng.between(15_000, 60_000),
            odds,
            settings: Settings {
                member_timeout_ms: rng.between(2, 6) * 1_000,
                reconnect_grace_ms: rng.between(0, 4) * 150,
                suspect_self: rng.chance(500),
                pending_incident_ttl_ms: if rng.chance(500) {
                    600_000
                } else {
                    rng.between(1, 8) * 1_000
                },
                redo: Rng::new(seed, 10).chance(500),
                event_history_size: 1 + usize::from(rng.chance(500)),
                lost_listed_ms: rng.between(1, 60) * 1_000,
                finished_jobs: 100,
            },
        }
    }
}

impl Etcd {
    /// Half of the seeds have one.
    fn draw(seed: u64, calm: bool, faults: &mut Vec<Fault>) -> Option<Self> {
        let rng = &mut Rng::new(seed, 8);
        if rng.chance(500) {
            return None;
        }
        let own = [
            Fault::CoordinatorKilled,
            Fault::CoordinatorStopped,
            Fault::CoordinatorCutOff,
            Fault::EtcdStopped,
        ];
        let drawn =
            own.into_iter().filter(|fault| !calm && rng.chance(450) && !faults.contains(fault));
        let drawn: Vec<Fault> = drawn.collect();
        faults.extend(drawn);
        let mut sometimes = |most: u64| {
            if !calm && rng.chance(500) { rng.between(1, most) } else { 0 }
        };
        let (held, unanswered) = (sometimes(80), sometimes(80));
        let coordinators = [1, 2, 2, 3].get(usize::try_from(rng.between(0, 3)).unwrap_or(0));
        Some(Self {
            coordinators: coordinators.copied().unwrap_or(2),
            ttl_ms: rng.between(2, 5) * 1_000,
            held,
            unanswered,
            always_splits: false,
        })
    }
}

fn small(rng: &mut Rng, low: u64, high: u64) -> u32 {
    u32::try_from(rng.between(low, high)).unwrap_or(u32::MAX)
}

fn job(rng: &mut Rng, number: u64) -> PlannedJob {
    let lease = lease(rng);
    let work_ms = rng.chance(600).then(|| rng.between(200, 25_000));
    let threshold = rng.between(1, 4);
    let spec = JobSpec {
        name: format!("job-{number}"),
        mode: if work_ms.is_some() { JobMode::Batch } else { JobMode::Streaming },
        retry: RetryPolicy {
            times: if rng.chance(400) { 1_000 } else { small(rng, 0, 5) },
            count_member_loss: rng.chance(700),
            reset_after_minutes: 0,
            interval_seconds: rng.between(0, 3),
        },
        dirty_threshold: if rng.chance(800) { i64::try_from(threshold).unwrap_or(1) } else { -1 },
        container: ContainerPolicy { validator_enabled: !rng.chance(100), lease, samza: false },
        pipelines: (0..rng.between(1, 3)).map(|number| pipeline(rng, number)).collect(),
    };
    PlannedJob { at_ms: rng.between(0, 8_000), spec, work_ms }
}

/// Leases that hold three polls, short ones more often, since a short wait shows more in less time.
fn lease(rng: &mut Rng) -> LeaseTerms {
    loop {
        let terms = LeaseTerms {
            lease_ms: rng.between(3, 15) * 1_000,
            grace_ms: rng.between(1, 10) * 300,
            schedule_ms: rng.between(3, 10) * 100,
        };
        if terms.holds_three_polls() {
            return terms;
        }
    }
}

fn pipeline(rng: &mut Rng, number: u64) -> PipelineSpec {
    let task = |rng: &mut Rng, number: u64| TaskSpec {
        name: format!("task-{number}"),
        parallelism: small(rng, 1, 2),
        command: vec!["program".to_owned()],
        environment: BTreeMap::new(),
        validator: ValidatorKind::Wrapper,
        progress_timeout_ms: 0,
    };
    PipelineSpec {
        name: format!("pipeline-{number}"),
        member_tags: BTreeMap::new(),
        tasks: (0..rng.between(1, 2)).map(|number| task(rng, number)).collect(),
    }
}
