//! Many running jobs, and a member that is lost again and again: what the benches measure.
//!
//! It is the engine alone, with a shell around it that does only what the engine waits for: old copies are
//! gone, containers start. So the same jobs lose their member in every round, and every round is the
//! same work.

use std::collections::BTreeMap;

use steadfast_engine::records::{MemberRecord, Snapshot};
use steadfast_engine::{Connection, Engine, IndexChange, Input, Reporter, Settings, Step, Ticket};
use steadfast_model::{
    ContainerEvent, ContainerPolicy, FEATURE_LEVEL, JobMode, JobSpec, LeaseTerms, MemberUuid,
    PipelineSpec, RetryPolicy, TaskSpec, TermNonce, Timestamp, ValidatorKind,
};

/// A cluster whose one member holds a container of each of some jobs, and whose other holds the rest.
pub struct RunningJobs {
    engine: Engine,
    now: Timestamp,
    few: MemberUuid,
    members: u64,
    affected: u64,
}

impl RunningJobs {
    /// So many running jobs, of which `affected` have their container on the member that is going to be
    /// lost; and the steps that led there.
    pub fn new(jobs: u64, affected: u64, tracked: bool) -> (Self, Vec<Step>) {
        let now = Timestamp::from_millis(1_700_000_000_000);
        // Nobody asks for lost members here, and their number must not grow with the rounds.
        let settings = Settings { lost_listed_ms: 0, ..Settings::default() };
        let engine = Engine::load(Snapshot::default(), settings, TermNonce::new(1), now);
        let few = member(0, "few").uuid;
        let mut cluster = Self { engine, now, few, members: 0, affected };
        let mut steps = vec![cluster.step(Input::TookOver)];
        cluster.join("rest", &mut steps);
        cluster.join("few", &mut steps);
        for number in 0..jobs {
            let zone = if number < affected { "few" } else { "rest" };
            let spec = Box::new(job(number, zone, tracked));
            let deployed = cluster.step(Input::Submit { ticket: Ticket(number), spec });
            cluster.start(deployed, &mut steps);
        }
        (cluster, steps)
    }

    /// Loses the member: the one step that knows of every affected job, and of no other.
    pub fn lose(&mut self) -> Step {
        self.step(Input::Leaving { member: self.few, connection: Connection(self.members) })
    }

    /// Puts everything back as it was before `lost`; and the steps that led there.
    ///
    /// # Panics
    /// When the loss touched other jobs than the affected ones.
    pub fn recover(&mut self, lost: &Step) -> Vec<Step> {
        assert_eq!(lost.jobs.len() as u64, self.affected, "every affected job, and no other");
        // None had a "yes", so no lease has to run out.
        let answers = lost.freeze.iter().map(|execution| (*execution, None)).collect();
        let mut steps = vec![self.step(Input::LastAnswers(answers))];
        self.join("few", &mut steps);
        steps
    }

    fn step(&mut self, input: Input) -> Step {
        self.engine.step(self.now, input)
    }

    fn join(&mut self, zone: &str, steps: &mut Vec<Step>) {
        self.members += 1;
        let member = member(self.members, zone);
        self.few = member.uuid;
        let deployed = self.step(Input::Hello {
            connection: Connection(self.members),
            member: Box::new(member),
            welcomed: false,
            containers: Vec::new(),
        });
        self.start(deployed, steps);
    }

    /// Every container that was launched runs.
    fn start(&mut self, deployed: Step, steps: &mut Vec<Step>) {
        let at = steps.len();
        for change in deployed.jobs.iter().flat_map(|job| &job.index) {
            if let IndexChange::Live(execution, _) = change {
                steps.push(self.step(Input::Container {
                    execution: *execution,
                    event: ContainerEvent::Started { pid: 2, wrapper_pid: 1 },
                    reporter: Reporter::Wrapper(None),
                }));
            }
        }
        steps.insert(at, deployed);
    }
}

fn member(number: u64, zone: &str) -> MemberRecord {
    let uuid = format!("00000000-0000-4000-8000-{number:012x}");
    MemberRecord {
        uuid: uuid.parse().unwrap_or_else(|error| unreachable!("it is a UUID: {error}")),
        host: zone.to_owned(),
        address: format!("{zone}:5801"),
        pid: 1,
        slots: 100_000,
        tags: BTreeMap::from([("zone".to_owned(), zone.to_owned())]),
        version: "bench".to_owned(),
        feature_level: FEATURE_LEVEL,
        registered: Timestamp::default(),
        lost: None,
        draining: false,
    }
}

fn job(number: u64, zone: &str, tracked: bool) -> JobSpec {
    JobSpec {
        name: format!("job-{number}"),
        mode: JobMode::Streaming,
        retry: RetryPolicy {
            times: u32::MAX,
            count_member_loss: true,
            reset_after_minutes: 0,
            interval_seconds: 3,
        },
        dirty_threshold: if tracked { 2 } else { -1 },
        container: ContainerPolicy {
            validator_enabled: true,
            lease: LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 },
            samza: false,
        },
        pipelines: vec![PipelineSpec {
            name: "pipeline".to_owned(),
            member_tags: BTreeMap::from([("zone".to_owned(), zone.to_owned())]),
            tasks: vec![task()],
        }],
    }
}

/// One container of a program that says nothing of its progress.
pub fn task() -> TaskSpec {
    TaskSpec {
        name: "task".to_owned(),
        parallelism: 1,
        command: vec!["program".to_owned()],
        environment: BTreeMap::new(),
        validator: ValidatorKind::Wrapper,
        progress_timeout_ms: 0,
    }
}
