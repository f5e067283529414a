//! One member's loss, and one blow at one step of it: the coordinator that leads is killed or stopped right
//! there, and another one takes over.
//!
//! Nothing else goes wrong, so everything that is left in the end is known beforehand: what ran on the
//! lost member was deployed once more, nothing else was touched, and the label counts one recovery.

use std::collections::BTreeMap;

use steadfast_engine::{LeaveRequest, Settings};
use steadfast_model::{
    ContainerPolicy, JobMode, JobSpec, LeaseTerms, LossCause, PipelineSpec, RetryPolicy,
};

use crate::ambush::{Ambush, Blow};
use crate::invariants::{Broken, Invariant, has_ended, has_healed};
use crate::operators::Errand;
use crate::plan::{Etcd, Odds, Plan, PlannedJob};
use crate::running_jobs::task;
use crate::trace::Trace;
use crate::world::{Event, World};
use crate::{END_MS, Failure, SETTLE_MS, play_until_true};

const JOBS: u64 = 2;
const TTL_MS: u64 = 2_000;
/// Everything runs by then.
const RUNS_AT_MS: u64 = 15_300;
/// Longer than anybody is stopped for.
const AFTERMATH_MS: u64 = 60_000;

/// Who is struck where.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// How the member's loss is noticed.
    pub cause: LossCause,
    /// What befalls the coordinator.
    pub blow: Blow,
    /// Steps that it passes before, from the loss's decision on.
    pub passes: u64,
    /// The loss is committed in several transactions.
    pub splits: bool,
    /// How many coordinators there are.
    pub coordinators: usize,
    /// A silent member is lost after this.
    pub member_timeout_ms: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// The walk has so many steps.
    pub struck: bool,
    /// Pipelines that had a container on the lost member.
    pub affected: u64,
    /// Terms that there were.
    pub terms: u64,
}

impl Walk {
    /// Plays it.
    ///
    /// # Errors
    /// What does not hold.
    pub fn play(&self) -> Result<Walked, Box<Failure>> {
        let mut world = World::new(0, self.plan(), None, Trace::kept());
        self.tell(&mut world).map_err(|(invariant, what)| {
            let what = format!("{self:?}: {what}");
            Box::new(Failure { seed: 0, invariant, what, trace: world.trace.text() })
        })
    }

    fn tell(&self, world: &mut World) -> Result<Walked, Broken> {
        world.play_until(RUNS_AT_MS)?;
        has_healed(world).map_err(|what| (Invariant::Heals, what))?;
        let agent = world.machines.iter().find_map(|machine| machine.agent).unwrap_or_default();
        let member = world.agents.get(&agent).map(|agent| agent.member);
        let before = expected_attempts(world, |_| false);
        let expected = expected_attempts(world, |on| Some(on) == member);
        let affected = expected.values().filter(|attempt| **attempt > 1).count() as u64;
        let (passes, blow) = (self.passes, self.blow);
        world.ambush = Some(Ambush { passes, blow, from_loss: true });
        self.lose(world, agent);
        world.play_until(RUNS_AT_MS + AFTERMATH_MS)?;
        let struck = world.ambush.is_none();
        world.ambush = None;
        world.faulty = false;
        play_until_true(world, SETTLE_MS, has_healed)?;
        let found = expected_attempts(world, |_| false);
        let expected = if self.was_given_up(world) { before } else { expected };
        if found != expected {
            let what = format!("deployed were {found:?} instead of {expected:?}");
            return Err((Invariant::RestoresWithinLimit, what));
        }
        self.judge_counts(world)?;
        for job in world.durable.jobs.keys().copied().collect::<Vec<_>>() {
            world.at(world.now, Event::Stop(job));
        }
        play_until_true(world, END_MS, has_ended)?;
        Ok(Walked { struck, affected, terms: world.terms })
    }

    fn lose(&self, world: &mut World, agent: u64) {
        match self.cause {
            LossCause::Silence => world.lose_machine_of(agent, 8_000),
            LossCause::ConnectionClosed => world.agent_ends(agent),
            LossCause::Leaving => world.leave(agent),
            LossCause::ToldByOperator => {
                let Some(member) = world.agents.get(&agent).map(|agent| agent.member) else {
                    return;
                };
                let request = LeaveRequest {
                    id: "request-1".parse().unwrap_or_else(|error| unreachable!("{error}")),
                    member,
                    actor: "on-call".to_owned(),
                    reason: "a new kernel".to_owned(),
                    valid_ms: 600_000,
                    drain: true,
                };
                world.errands.push(Errand::new(request, agent));
                world.ask_for_leave(0);
            }
        }
    }

    /// An operator gives up who is not answered a few times, or is told that the member is away.
    fn was_given_up(&self, world: &World) -> bool {
        self.cause == LossCause::ToldByOperator && world.durable.requests.is_empty()
    }

    /// Every job had a part on the lost member: one recovery each, which counts unless it was planned.
    ///
    /// A leaving agent waits a second for an answer, then ends its containers and goes. Where nobody leads
    /// meanwhile, that they have ended is all that is seen, and no loss of theirs.
    fn judge_counts(&self, world: &World) -> Result<(), Broken> {
        let attempts = u64::from(self.cause != LossCause::ToldByOperator);
        let unseen = self.cause == LossCause::Leaving && world.terms > 1;
        let unseen = unseen || self.was_given_up(world);
        for (id, ledger) in &world.durable.ledgers {
            let found =
                (ledger.recovery_attempt_count(), ledger.episode_count(), ledger.incident_count());
            if found != (attempts, 1, 1) && !(unseen && found == (0, 0, 0)) {
                let what = format!("job {id} has {found:?} attempts, episodes and incidents");
                return Err((Invariant::CountEqualsOracle, what));
            }
        }
        Ok(())
    }

    fn plan(&self) -> Plan {
        let never = Odds {
            slow: 0,
            lost: 0,
            twice: 0,
            stalled: 0,
            not_applied: 0,
            torn_loss: 0,
            ledger_refused: 0,
            unknown: 0,
            dies_after_commit: 0,
            program_fails: 0,
        };
        Plan {
            slots: vec![4; 3],
            jobs: (0..JOBS).map(job).collect(),
            faults: Vec::new(),
            fault_every_ms: 1_000,
            faults_end_ms: 0,
            leave_every_ms: None,
            odds: never,
            etcd: Some(Etcd {
                coordinators: self.coordinators,
                ttl_ms: TTL_MS,
                held: 0,
                unanswered: 0,
                always_splits: self.splits,
            }),
            settings: Settings { member_timeout_ms: self.member_timeout_ms, ..Settings::default() },
        }
    }
}

/// The attempt at which each pipeline is, and one more where it has a container on such a member.
fn expected_attempts(
    world: &World,
    is_lost: impl Fn(steadfast_model::MemberUuid) -> bool,
) -> BTreeMap<String, u32> {
    let pipelines = world.durable.jobs.values().flat_map(|job| {
        job.pipelines.iter().map(move |pipeline| (format!("{}/{}", job.id, pipeline.id), pipeline))
    });
    let attempts = pipelines.map(|(name, pipeline)| {
        let mut containers = pipeline.task_groups.iter().flat_map(|group| &group.container);
        let more = containers.any(|container| is_lost(container.member));
        (name, pipeline.attempt + u32::from(more))
    });
    attempts.collect()
}

fn job(number: u64) -> PlannedJob {
    let pipeline = |number: u64| PipelineSpec {
        name: format!("pipeline-{number}"),
        member_tags: BTreeMap::new(),
        tasks: vec![task()],
    };
    let spec = JobSpec {
        name: format!("job-{number}"),
        mode: JobMode::Streaming,
        retry: RetryPolicy {
            times: 10,
            count_member_loss: true,
            reset_after_minutes: 0,
            interval_seconds: 1,
        },
        dirty_threshold: 2,
        container: ContainerPolicy {
            validator_enabled: true,
            lease: LeaseTerms { lease_ms: 8_000, grace_ms: 900, schedule_ms: 500 },
            samza: false,
        },
        pipelines: (0..3).map(pipeline).collect(),
    };
    PlannedJob { at_ms: 2_000, spec, work_ms: None }
}
