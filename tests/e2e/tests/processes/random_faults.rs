//! One job of three pipelines, random faults one after the other, and an oracle that stands outside: it
//! knows what this test has done to which process, and how often the programs themselves say that they
//! were started. After every round the ledger has to have counted exactly what the oracle has.
//!
//! The oracle's rules are the words of the proposal, not the product's code:
//!
//! - a member that is lost is one incident if it had containers of the job, and none otherwise;
//! - one continuous recovery is one episode, however many pipelines and task groups it moves. Faults come
//!   one at a time and each is waited out, so each incident is an episode of its own;
//! - an episode counts as many attempts as its most often deployed pipeline was deployed;
//! - a program that dies, or a coordinator, is no loss of a member and counts nothing.
//!
//! `STEADFAST_E2E_SEED` draws the same faults again (not the same timing), `STEADFAST_E2E_LONG=1` makes it
//! 100 rounds instead of 10.

#![expect(
    clippy::print_stderr,
    reason = "the seed and the rounds are what a failure has to be told with"
)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::json;
use steadfast_e2e::{
    Cluster, Evaluation, Job, JobStatus, Member, MemberStatus, Output, PATIENCE, Pipeline,
    PipelineStatus, Process, Signal, TaskGroup, TaskGroupStatus, binary, wait_until,
};

const MEMBERS: u32 = 5;
const SLOTS: u32 = 3;
/// From here on `MEMBERS_MIN` members are kept; one less holds the job just so.
const MEMBERS_MIN: usize = 3;
const PIPELINES: usize = 3;
const PARALLELISM: u32 = 2;
const THRESHOLD: u64 = 3;
/// What the pace of the job allows for a round on average, far above what one takes.
const ROUND_SECONDS: u32 = 45;

#[test]
fn after_every_random_fault_the_counts_equal_those_of_an_oracle_outside() {
    let long = std::env::var("STEADFAST_E2E_LONG").is_ok_and(|value| value == "1");
    let rounds = if long { 100 } else { 10 };
    let mut story = Story::begin(rounds);
    let mut draw = Draw(story.seed);
    let cluster = Cluster::start(MEMBERS, SLOTS);
    let scene = Scene::submit(&cluster, rounds);
    let mut agents = cluster.present_members();
    let mut oracle = Oracle::default();
    let mut undrawn = Vec::new();
    let mut before = scene.wait_until_settled(&agents, None);
    oracle.assert_agrees(&before.job);

    for round in 1..=rounds {
        let fault = draw.fault(&mut undrawn);
        story.tell(format!("round {round}: {fault:?}"));
        let hit = scene.strike(fault, &agents, &before, &mut draw);
        story.tell(format!("round {round}: {fault:?}, {}", hit.told()));
        agents.retain(|agent| hit.lost.as_ref().is_none_or(|lost| lost.uuid != agent.uuid));
        let after = scene.wait_until_settled(&agents, Some((&before, &hit)));
        oracle.note(&before, &hit, &after);
        oracle.assert_agrees(&after.job);

        if let Some(stopped) = hit.stopped {
            agents.push(scene.wake(stopped, hit.lost.as_ref()));
        }
        while agents.len() < MEMBERS_MIN {
            agents.push(cluster.add_member());
        }
        before = scene.wait_until_settled(&agents, None);
        assert_eq!(before.job.containers(), after.job.containers(), "newcomers disturb nobody");
        oracle.assert_agrees(&before.job);
    }
    scene.finish(&before.job, &oracle);
}

/// What is done to the cluster, and no more than one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    AgentKilled,
    /// Until it is lost; then it goes on, and comes back as another member.
    AgentStopped,
    AgentTerminated,
    ProgramKilled,
    CoordinatorKilled,
    /// It may have seen the loss, have written it down, have begun to restore, or nothing of it all.
    CoordinatorKilledAfterAgent,
}

impl Fault {
    const ALL: [Self; 6] = [
        Self::AgentKilled,
        Self::AgentStopped,
        Self::AgentTerminated,
        Self::ProgramKilled,
        Self::CoordinatorKilled,
        Self::CoordinatorKilledAfterAgent,
    ];
}

/// Whom a fault has hit.
#[derive(Debug, Default)]
struct Hit {
    lost: Option<Member>,
    /// The lost member's agent, where it will go on.
    stopped: Option<Process>,
    /// Positions of the pipelines that have to be restored.
    pipelines: BTreeSet<usize>,
}

impl Hit {
    fn told(&self) -> String {
        let lost =
            self.lost.as_ref().map(|lost| format!("member {} (pid {}), ", lost.uuid, lost.pid));
        format!("{}pipelines {:?}", lost.unwrap_or_default(), self.pipelines)
    }
}

/// What is seen between two rounds.
struct Seen {
    job: Job,
    /// How often the program of each pipeline's task groups says that it was started.
    starts: Vec<Vec<usize>>,
}

impl Seen {
    /// How often a pipeline was deployed since then, by its programs' own logs.
    fn deployments_since(&self, before: &Self, pipeline: usize) -> usize {
        let counts = self.starts[pipeline].iter().zip(&before.starts[pipeline]);
        counts.map(|(now, then)| now - then).max().expect("a pipeline has task groups")
    }
}

/// The counts as they have to be.
#[derive(Debug, Default)]
struct Oracle {
    incidents: u64,
    episodes: u64,
    attempts: u64,
    last_lost: Option<String>,
}

impl Oracle {
    #[track_caller]
    fn note(&mut self, before: &Seen, hit: &Hit, after: &Seen) {
        for position in 0..PIPELINES {
            let deployments = after.deployments_since(before, position);
            let caused = usize::from(hit.pipelines.contains(&position));
            let job = &after.job;
            assert_eq!(
                deployments, caused,
                "deployments of pipeline {position}, {hit:?}: {job:#?}"
            );
        }
        let Some(lost) = hit.lost.as_ref().filter(|_| !hit.pipelines.is_empty()) else { return };
        self.incidents += 1;
        self.episodes += 1;
        let deployments = hit.pipelines.iter().map(|one| after.deployments_since(before, *one));
        self.attempts += deployments.max().map_or(0, |most| most as u64);
        self.last_lost = Some(lost.uuid.clone());
    }

    fn evaluation(&self) -> Evaluation {
        if self.attempts >= THRESHOLD { Evaluation::Dirty } else { Evaluation::Clean }
    }

    #[track_caller]
    fn assert_agrees(&self, job: &Job) {
        let label = job.label();
        assert_eq!(label.member_loss_incident_count, self.incidents, "{self:?}: {label:#?}");
        assert_eq!(label.recovery_episode_count, self.episodes, "{self:?}: {label:#?}");
        assert_eq!(label.recovery_attempt_count, self.attempts, "{self:?}: {label:#?}");
        assert_eq!(label.evaluation_status, self.evaluation(), "{self:?}: {label:#?}");
        assert_eq!(label.dirty, self.attempts >= THRESHOLD, "{self:?}: {label:#?}");
        assert!(label.tracking_complete, "{self:?}: {label:#?}");
        assert_eq!(label.active_episode_id, None, "it has recovered: {label:#?}");
        assert_eq!(label.last_lost_member_uuid, self.last_lost, "{label:#?}");
    }
}

/// The cluster with its job.
struct Scene<'a> {
    cluster: &'a Cluster,
    id: String,
    /// Of each pipeline, in the job file's order.
    outputs: Vec<Output>,
    /// While this file is missing, programs that start take their time.
    hurry: PathBuf,
}

impl<'a> Scene<'a> {
    #[track_caller]
    fn submit(cluster: &'a Cluster, rounds: u32) -> Self {
        let folder = cluster.folder();
        let hurry = folder.join("hurry");
        let output = |position| Output::new(folder.join(format!("random-{position}")));
        let outputs: Vec<Output> = (0..PIPELINES).map(output).collect();
        let lines = u32::try_from(cluster.expected().lines).expect("a short file");
        let rate = f64::from(lines) / f64::from(PARALLELISM * rounds * ROUND_SECONDS);
        let file = folder.join("random.json");
        let text = job_file(cluster, &outputs, &hurry, rate).to_string();
        fs::write(&file, text).expect("the cluster's folder can be written");
        let mut submit = cluster.steadfast(["submit", "--detach", "--json"]);
        let id = cluster.submitted(submit.arg(file));
        Self { cluster, id, outputs, hurry }
    }

    /// Does it, and gives whom it has hit by what was seen just before.
    #[track_caller]
    fn strike(&self, fault: Fault, agents: &[Member], seen: &Seen, draw: &mut Draw) -> Hit {
        let job = self.cluster.rest().job(&self.id);
        assert_eq!(job.containers(), seen.job.containers(), "nothing moves between the rounds");
        match fault {
            Fault::ProgramKilled => {
                let position = *draw.one_of(&[0, 1, 2]);
                let pid = draw.one_of(&job.pipelines[position].task_groups).pid;
                self.cluster.process(pid.expect("it runs")).signal(Signal::KILL);
                return Hit { pipelines: BTreeSet::from([position]), ..Hit::default() };
            }
            Fault::CoordinatorKilled => {
                self.kill_coordinator(self.cluster.coordinator());
                return Hit::default();
            }
            _ => {}
        }
        let lost = draw.one_of(agents).clone();
        let hosts = |one: &Pipeline| {
            one.task_groups.iter().any(|group| group.member_uuid.as_ref() == Some(&lost.uuid))
        };
        let hosted = job.pipelines.iter().enumerate().filter(|(_, one)| hosts(one));
        let pipelines = hosted.map(|(position, _)| position).collect();
        let (agent, coordinator) = (self.cluster.process(lost.pid), self.cluster.coordinator());
        let signal = match fault {
            Fault::AgentStopped => Signal::STOP,
            Fault::AgentTerminated => Signal::TERM,
            _ => Signal::KILL,
        };
        agent.signal(signal);
        if fault == Fault::CoordinatorKilledAfterAgent {
            self.kill_coordinator(coordinator);
        }
        self.cluster.wait_until_lost(&lost);
        let stopped = (fault == Fault::AgentStopped).then_some(agent);
        Hit { lost: Some(lost), stopped, pipelines }
    }

    #[track_caller]
    fn kill_coordinator(&self, coordinator: Process) {
        coordinator.signal(Signal::KILL);
        self.cluster.wait_until_led_again(coordinator);
    }

    /// Lets a stopped agent go on, and waits until it is a member again, under another UUID.
    #[track_caller]
    fn wake(&self, agent: Process, lost: Option<&Member>) -> Member {
        agent.signal(Signal::CONT);
        wait_until(PATIENCE, "the stopped agent to come back", || {
            let members = self.cluster.rest().members_now()?;
            members.into_iter().find(|one| {
                one.pid == agent.pid
                    && one.status == MemberStatus::Alive
                    && lost.is_none_or(|lost| lost.uuid != one.uuid)
            })
        })
    }

    /// Waits until exactly these members are there, every pipeline runs, the hit ones anew, and every
    /// program has said that it was started.
    #[track_caller]
    fn wait_until_settled(&self, agents: &[Member], since: Option<(&Seen, &Hit)>) -> Seen {
        let expected: BTreeSet<&str> = agents.iter().map(|agent| agent.uuid.as_str()).collect();
        wait_until(PATIENCE, "every member to be there and every pipeline to run", || {
            let members = self.cluster.rest().members_now()?;
            let is_there = |one: &&Member| one.status == MemberStatus::Alive;
            let there = members.iter().filter(is_there).map(|one| one.uuid.as_str());
            let job = self.cluster.rest().job_now(&self.id)?;
            let is_running = job.job_status == JobStatus::Running;
            assert!(is_running || since.is_none(), "while pipelines are restored: {job:#?}");
            let is_new = |position: usize| {
                since.is_none_or(|(before, hit)| {
                    !hit.pipelines.contains(&position)
                        || job.pipelines[position].attempt > before.job.pipelines[position].attempt
                })
            };
            let settled = is_running
                && there.collect::<BTreeSet<_>>() == expected
                && (0..PIPELINES).all(|position| {
                    is_new(position) && runs(&job.pipelines[position], &self.outputs[position])
                });
            let starts = settled.then(|| self.outputs.iter().map(starts).collect())?;
            Some(Seen { job, starts })
        })
    }

    /// Starts a program of each pipeline a last time, to count the rest as fast as possible, and judges
    /// what is left in the end.
    #[track_caller]
    fn finish(&self, last: &Job, oracle: &Oracle) {
        File::create(&self.hurry).expect("the cluster's folder can be written");
        for pipeline in &last.pipelines {
            let pid = pipeline.task_groups[0].pid.expect("it runs");
            self.cluster.process(pid).signal(Signal::KILL);
        }
        for output in &self.outputs {
            let finished = self.cluster.wait_until_finished(&self.id, output);
            oracle.assert_agrees(&finished);
            assert_eq!(finished.dirty_task.get(), last.dirty_task.get(), "the label of the end");
        }
        let listed = self.cluster.rest().finished_jobs();
        let listed = listed.iter().find(|job| job.job_id == self.id).expect("it has ended");
        assert_eq!(listed.job_status, JobStatus::Finished);
        let label = &listed.dirty_task;
        assert_eq!(label.recovery_attempt_count, oracle.attempts, "{label:?}");
        assert_eq!(label.evaluation_status, oracle.evaluation(), "{label:?}");
        assert_eq!(label.dirty, oracle.attempts >= THRESHOLD, "{label:?}");
    }
}

/// Three times the example's program, each at so many lines a second and task group, until `hurry`
/// exists.
///
/// Leases are short, so that nobody waits long for what a killed agent has left behind; and shorter than a
/// new coordinator takes to declare a member lost that it never heard of (5 s): the container's own end
/// comes first then, and must not be taken for an ordinary failure.
fn job_file(
    cluster: &Cluster,
    outputs: &[Output],
    hurry: &PathBuf,
    rate: f64,
) -> serde_json::Value {
    const START: &str = r#"if [ -e "$0" ]; then RATE=0; export RATE; fi; exec "$@""#;
    let pipeline = |(position, output): (usize, &Output)| {
        json!({
            "name": format!("count-{position}"),
            "tasks": [{
                "name": "counter",
                "parallelism": PARALLELISM,
                "command": ["sh", "-c", START, hurry, binary("wordcount"),
                    "--input", cluster.input(), "--output", output.path()],
                "environment": { "RATE": rate.to_string() },
            }],
        })
    };
    json!({
        "env": {
            "job.name": "random-faults",
            "job.mode": "BATCH",
            "job.retry.times": 1000,
            "job.retry.count-member-loss": false,
            "job.retry.interval.seconds": 1,
            "job.dirty-task.threshold": THRESHOLD,
            "job.container.validator.schedule.ms": 300,
            "job.container.lease.ms": 4000,
            "job.container.shutdown.grace.ms": 800,
        },
        "pipelines": outputs.iter().enumerate().map(pipeline).collect::<Vec<_>>(),
    })
}

/// Whether every task group of a pipeline runs, and its program has said so too.
fn runs(pipeline: &Pipeline, output: &Output) -> bool {
    let has_started = |group: &TaskGroup| {
        let newest = output.starts(group.index).pop().map(|run| run.execution_resource_id);
        newest.is_some() && newest == group.execution_resource_id
    };
    pipeline.pipeline_status == PipelineStatus::Running
        && pipeline.task_groups.iter().all(|group| {
            group.status == TaskGroupStatus::Running
                && group.attempt == pipeline.attempt
                && group.pid.is_some()
                && has_started(group)
        })
}

fn starts(output: &Output) -> Vec<usize> {
    (0..PARALLELISM).map(|index| output.starts(index).len()).collect()
}

/// The same numbers for the same seed (an additive sequence, mixed well).
struct Draw(u64);

impl Draw {
    /// A fault of those that are left; each comes once before any comes again, so that a few rounds see
    /// them all.
    fn fault(&mut self, undrawn: &mut Vec<Fault>) -> Fault {
        if undrawn.is_empty() {
            undrawn.extend(Fault::ALL);
        }
        undrawn.swap_remove(self.below(undrawn.len()))
    }

    fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % end as u64).expect("less than a length")
    }
}

/// Says what was done, and at a failure how to do it again.
struct Story {
    seed: u64,
    rounds: Vec<String>,
}

impl Story {
    #[track_caller]
    fn begin(rounds: u32) -> Self {
        let seed = match std::env::var("STEADFAST_E2E_SEED") {
            Ok(text) => text.parse().expect("STEADFAST_E2E_SEED is a number"),
            Err(_) => SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()),
        };
        eprintln!("random faults: {rounds} rounds, STEADFAST_E2E_SEED={seed}");
        Self { seed, rounds: Vec::new() }
    }

    fn tell(&mut self, round: String) {
        eprintln!("{round}");
        self.rounds.push(round);
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let last = self.rounds.last().map_or("before the first round", String::as_str);
            eprintln!("random faults FAILED with STEADFAST_E2E_SEED={}; {last}", self.seed);
        }
    }
}
