//! What the engine costs, as figures that `cargo xtask bench` reads: one JSON object a line.
//!
//! A member's loss must cost what the jobs on that member cost, not what all jobs cost; so the yardstick
//! of ten affected jobs among ten thousand is ten among a hundred, in the same run. And the simulator's
//! worth is its speed: with all checks, beside the same steps of the engine with nothing around it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::Result;
use steadfast_engine::records::{MemberRecord, Snapshot};
use steadfast_engine::{Connection, Engine, IndexChange, Input, Reporter, Settings, Step, Ticket};
use steadfast_model::{
    ContainerEvent, ContainerPolicy, FEATURE_LEVEL, JobMode, JobSpec, LeaseTerms, MemberUuid,
    PipelineSpec, RetryPolicy, TaskSpec, TermNonce, Timestamp, ValidatorKind,
};
use steadfast_sim::{Options, play};

/// Job counts that the first proposal asks to measure, and one more.
const JOBS: [u64; 3] = [100, 1_000, 10_000];
/// Affected jobs where they do not grow with all jobs.
const FEW: u64 = 10;
/// What 10 affected jobs may cost among 10,000, compared with among 100: the trees are deeper;
/// anything that looks at every job would be a hundred times dearer.
const BOUND: f64 = 2.0;
const SEEDS: u64 = 400;

fn main() -> Result<()> {
    let mut out = io::stdout().lock();
    for jobs in JOBS {
        let us = loss_us(jobs, jobs);
        let per_job = us / jobs as f64;
        let figure = format!("member loss, {jobs} jobs, all affected");
        print(&mut out, &figure, 1e6 / us, "steps/s", None)?;
        print(&mut out, &format!("{figure}, per job"), per_job, "µs", None)?;
    }
    let few: Vec<f64> = JOBS.iter().map(|jobs| loss_us(*jobs, FEW)).collect();
    for (jobs, us) in JOBS.iter().zip(&few) {
        let figure = format!("member loss, {jobs} jobs, {FEW} affected");
        let compared = (*jobs == JOBS[2])
            .then(|| (format!("the same among {} jobs", JOBS[0]), us / few[0], Some(BOUND)));
        print(&mut out, &figure, 1e6 / us, "steps/s", None)?;
        print(&mut out, &format!("{figure}, each"), *us, "µs", compared)?;
    }
    simulator(&mut out)
}

/// The median time of the step that declares a member lost, of `affected` jobs among `jobs`. The same
/// jobs lose their member again and again, so that their memory is as near in a large cluster as in a
/// small one: what is compared is the work.
fn loss_us(jobs: u64, affected: u64) -> f64 {
    let mut cluster = Cluster::new(jobs, affected);
    let rounds = (200_000 / affected.max(100)).clamp(20, 400);
    let mut times: Vec<Duration> = (0..rounds).map(|_| cluster.lose(affected)).collect();
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

/// A cluster whose one member holds a container of each of some jobs, and whose other holds the rest.
struct Cluster {
    engine: Engine,
    now: Timestamp,
    few: MemberUuid,
    members: u64,
}

impl Cluster {
    fn new(jobs: u64, affected: u64) -> Self {
        let now = Timestamp::from_millis(1_700_000_000_000);
        // Nobody asks for lost members here, and their number must not grow with the rounds.
        let settings = Settings { lost_listed_ms: 0, ..Settings::default() };
        let engine = Engine::load(Snapshot::default(), settings, TermNonce::new(1), now);
        let mut cluster = Self { engine, now, few: member(0, "few").uuid, members: 0 };
        let _ = cluster.step(Input::TookOver);
        cluster.join("rest");
        cluster.join("few");
        for number in 0..jobs {
            let zone = if number < affected { "few" } else { "rest" };
            let spec = Box::new(job(number, zone));
            let deployed = cluster.step(Input::Submit { ticket: Ticket(number), spec });
            cluster.start(&deployed);
        }
        cluster
    }

    fn step(&mut self, input: Input) -> Step {
        self.engine.step(self.now, input)
    }

    fn join(&mut self, zone: &str) {
        self.members += 1;
        let member = member(self.members, zone);
        self.few = member.uuid;
        let deployed = self.step(Input::Hello {
            connection: Connection(self.members),
            member: Box::new(member),
            welcomed: false,
            containers: Vec::new(),
        });
        self.start(&deployed);
    }

    /// Every container that was launched runs.
    fn start(&mut self, deployed: &Step) {
        for change in deployed.jobs.iter().flat_map(|job| &job.index) {
            if let IndexChange::Live(execution, _) = change {
                let _ = self.step(Input::Container {
                    execution: *execution,
                    event: ContainerEvent::Started { pid: 2, wrapper_pid: 1 },
                    reporter: Reporter::Wrapper(None),
                });
            }
        }
    }

    /// Loses the member, and puts everything back as it was.
    fn lose(&mut self, affected: u64) -> Duration {
        let input = Input::Leaving { member: self.few, connection: Connection(self.members) };
        let began = Instant::now();
        let lost = self.step(input);
        let took = began.elapsed();
        assert_eq!(lost.jobs.len() as u64, affected, "every affected job, and no other");
        // None had a "yes", so no lease has to run out.
        let answers = lost.freeze.iter().map(|execution| (*execution, None)).collect();
        let _ = self.step(Input::LastAnswers(answers));
        self.join("few");
        took
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

fn job(number: u64, zone: &str) -> JobSpec {
    JobSpec {
        name: format!("job-{number}"),
        mode: JobMode::Streaming,
        retry: RetryPolicy {
            times: u32::MAX,
            count_member_loss: true,
            reset_after_minutes: 0,
            interval_seconds: 3,
        },
        dirty_threshold: 2,
        container: ContainerPolicy {
            validator_enabled: true,
            lease: LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 },
            samza: false,
        },
        pipelines: vec![PipelineSpec {
            name: "pipeline".to_owned(),
            member_tags: BTreeMap::from([("zone".to_owned(), zone.to_owned())]),
            tasks: vec![TaskSpec {
                name: "task".to_owned(),
                parallelism: 1,
                command: vec!["program".to_owned()],
                environment: BTreeMap::new(),
                validator: ValidatorKind::Wrapper,
                progress_timeout_ms: 0,
            }],
        }],
    }
}

fn simulator(out: &mut impl Write) -> Result<()> {
    let record = Options { record: true, ..Options::default() };
    let mut recordings = Vec::new();
    for seed in 0..SEEDS {
        recordings
            .push(play(seed, &record).map_err(|failure| anyhow::anyhow!("{failure}"))?.recording);
    }
    let began = Instant::now();
    let steps: u64 = recordings.into_iter().map(|recording| recording.replay()).sum();
    let alone = steps as f64 / began.elapsed().as_secs_f64();
    print(out, "simulated steps, engine alone", alone, "steps/s", None)?;
    for (figure, unchecked) in
        [("simulated steps, whole cluster", true), ("simulated steps, with all checks", false)]
    {
        let options = Options { unchecked, ..Options::default() };
        let began = Instant::now();
        let mut steps = 0;
        for seed in 0..SEEDS {
            steps += play(seed, &options).map_err(|failure| anyhow::anyhow!("{failure}"))?.steps;
        }
        let speed = steps as f64 / began.elapsed().as_secs_f64();
        // Smaller is better, so the ratio is that of the times.
        let compared = ("the engine alone".to_owned(), alone / speed, None);
        print(out, figure, speed, "steps/s", Some(compared))?;
    }
    Ok(())
}

fn print(
    out: &mut impl Write,
    figure: &str,
    value: f64,
    unit: &str,
    compared: Option<(String, f64, Option<f64>)>,
) -> io::Result<()> {
    let null = || "null".to_owned();
    let (yardstick, ratio, bound) = match compared {
        Some((yardstick, ratio, bound)) => (
            format!("\"{yardstick}\""),
            format!("{ratio:.3}"),
            bound.map_or_else(null, |bound| bound.to_string()),
        ),
        None => (null(), null(), null()),
    };
    writeln!(
        out,
        "{{\"bench\":\"engine\",\"figure\":\"{figure}\",\"value\":{value:.3},\"unit\":\"{unit}\",\
         \"yardstick\":{yardstick},\"ratio\":{ratio},\"bound\":{bound}}}"
    )
}
