//! The cluster with its job of three pipelines: how it is hurt, and when it has recovered.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::json;
use steadfast_e2e::{
    Cluster, Etcd, Job, JobStatus, Member, MemberStatus, Output, PATIENCE, Pipeline,
    PipelineStatus, Process, Signal, TaskGroup, TaskGroupStatus, binary, wait_until,
};

use super::draw::Draw;
use super::oracle::{Hit, Oracle, Seen};
use super::{Fault, PARALLELISM, PIPELINES, ROUND_SECONDS, THRESHOLD};

/// The cluster with its job.
pub struct Scene<'a> {
    cluster: &'a Cluster,
    /// Where the cluster keeps its state, if its nodes are to be hurt.
    etcd: Option<RefCell<Etcd>>,
    id: String,
    /// Of each pipeline, in the job file's order.
    outputs: Vec<Output>,
    /// While this file is missing, programs that start take their time.
    hurry: PathBuf,
}

impl<'a> Scene<'a> {
    #[track_caller]
    pub fn submit(cluster: &'a Cluster, etcd: Option<Etcd>, lease_ms: u64, rounds: u32) -> Self {
        let folder = cluster.folder();
        let hurry = folder.join("hurry");
        let output = |position| Output::new(folder.join(format!("random-{position}")));
        let outputs: Vec<Output> = (0..PIPELINES).map(output).collect();
        let lines = u32::try_from(cluster.expected().lines).expect("a short file");
        let rate = f64::from(lines) / f64::from(PARALLELISM * rounds * ROUND_SECONDS);
        let text = job_file(cluster, &outputs, &hurry, rate, lease_ms).to_string();
        let id = cluster.submit_text("random.json", &text);
        Self { cluster, etcd: etcd.map(RefCell::new), id, outputs, hurry }
    }

    /// Does it, and gives whom it has hit by what was seen just before.
    #[track_caller]
    pub fn strike(&self, fault: Fault, agents: &[Member], seen: &Seen, draw: &mut Draw) -> Hit {
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
            Fault::EtcdNodeKilled => {
                self.kill_a_node(draw);
                return Hit::default();
            }
            _ => {}
        }
        let lost = draw.one_of(agents).clone();
        let hosts = |one: &Pipeline| {
            one.task_groups.iter().any(|group| group.member_uuid.as_ref() == Some(&lost.uuid))
        };
        let hosted = job.pipelines.iter().enumerate().filter(|(_, one)| hosts(one));
        let pipelines: BTreeSet<usize> = hosted.map(|(position, _)| position).collect();
        if fault == Fault::PeerAndAgentKilled {
            let groups = pipelines.iter().flat_map(|hit| &job.pipelines[*hit].task_groups);
            let mut peers = groups.filter(|group| group.member_uuid.as_ref() != Some(&lost.uuid));
            if let Some(peer) = peers.next() {
                self.cluster.process(peer.pid.expect("it runs")).signal(Signal::KILL);
            }
        }
        let (agent, coordinator) = (self.cluster.process(lost.pid), self.cluster.coordinator());
        let signal = match fault {
            Fault::AgentStopped => Signal::STOP,
            Fault::AgentTerminated => Signal::TERM,
            _ => Signal::KILL,
        };
        agent.signal(signal);
        match fault {
            Fault::CoordinatorKilledAfterAgent => self.kill_coordinator(coordinator),
            Fault::EtcdNodeKilledAfterAgent => self.kill_a_node(draw),
            _ => {}
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

    /// Whichever it is, the one that leads among them or not; it stays away until the round is over.
    #[track_caller]
    fn kill_a_node(&self, draw: &mut Draw) {
        let mut etcd = self.etcd.as_ref().expect("there are nodes to be hurt").borrow_mut();
        let node = draw.below(etcd.count());
        etcd.kill(node);
    }

    /// Starts the node again that was killed in this round.
    #[track_caller]
    pub fn mend(&self) {
        if let Some(etcd) = &self.etcd {
            etcd.borrow_mut().start_again();
        }
    }

    /// Lets a stopped agent go on, and waits until it is a member again, under another UUID.
    #[track_caller]
    pub fn wake(&self, agent: Process, lost: Option<&Member>) -> Member {
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
    pub fn wait_until_settled(&self, agents: &[Member], since: Option<(&Seen, &Hit)>) -> Seen {
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
    pub fn finish(&self, last: &Job, oracle: &Oracle) {
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
/// Leases are short, so that nobody waits long for what a killed agent has left behind.
fn job_file(
    cluster: &Cluster,
    outputs: &[Output],
    hurry: &Path,
    rate: f64,
    lease_ms: u64,
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
            "job.container.lease.ms": lease_ms,
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
