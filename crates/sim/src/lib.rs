//! A whole cluster in one process, played from a seed: the real engine, and around it a store, a
//! network, machines, agents, containers and users that do their worst.
//!
//! Nothing here reads a clock or a random source, so a seed is a whole story and a failure comes back
//! by its number. What must hold is judged from outside, by one file for each invariant under
//! `invariants`, and each of them has been seen to fail on a mistake made on purpose ([`Mutation`]).
//!
//! In half of the seeds there is one coordinator with the store embedded in it. In the others up to three
//! share a store of several nodes: one leads, for as long as its lease is renewed; it is stopped, killed or
//! cut off at any step, and wakes with a term that is over; commits land late, and nobody says so.
//!
//! The story of a seed: a plan is drawn (cluster, jobs, which faults), the faults come until a time,
//! then they stop and everything must settle, then every job is cancelled and nothing may be left.

mod agents;
mod ambush;
mod checkpoints;
mod commit;
mod containers;
mod coordinator;
mod durable;
mod etcd;
mod faults;
mod index;
mod invariants;
mod lead;
mod leader;
mod leaves;
mod mutation;
mod network;
mod operators;
mod plan;
mod recording;
mod rng;
mod running_jobs;
mod sights;
mod story;
mod trace;
mod users;
mod walk;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use ambush::Blow;
use invariants::Broken;
pub use invariants::{Invariant, JobTrace};
pub use mutation::Mutation;
use plan::Plan;
pub use recording::Recording;
pub use running_jobs::{RunningJobs, task};
pub use sights::{Sight, Sights};
use steadfast_model::LossCause;
use trace::Trace;
pub use walk::{Walk, Walked};
use world::{Event, World};

/// After the last fault, jobs may take this long to settle: leases, pauses and work add up.
const SETTLE_MS: u64 = 240_000;
/// How often somebody looks whether they have.
const LOOK_EVERY_MS: u64 = 2_000;
/// After that, cancelled jobs may take this long to end.
const END_MS: u64 = 90_000;

/// How to play a seed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A mistake to make.
    pub mutation: Option<Mutation>,
    /// The one thing to judge; all of them if none is named.
    pub only: Option<Invariant>,
    /// No job has its recovery tracked.
    pub untracked: bool,
    /// Nothing is judged.
    pub unchecked: bool,
    /// What happens to the jobs is kept for a comparison.
    pub job_trace: bool,
    /// What the engine is told is kept, to be told again.
    pub record: bool,
}

/// What a seed amounted to.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// Steps of the engine.
    pub steps: u64,
    /// Events of the world.
    pub events: u64,
    /// Simulated time.
    pub simulated_ms: u64,
    /// Losses that were planned, by how they were noticed.
    pub planned: BTreeMap<LossCause, u64>,
    /// What was seen around changes of leader.
    pub sights: Sights,
    /// What happened to the jobs, if it was kept.
    pub jobs: JobTrace,
    /// What the engine was told, if it was kept.
    pub recording: Recording,
}

/// A seed that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which seed.
    pub seed: u64,
    /// What does not hold.
    pub invariant: Invariant,
    /// How that showed.
    pub what: String,
    /// What happened last.
    pub trace: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, invariant, what, trace } = self;
        write!(
            f,
            "seed {seed} failed: {invariant}: {what}\n{trace}play it again: cargo xtask sim --seed {seed}"
        )
    }
}

/// Plays a seed.
///
/// # Errors
/// The first thing that is wrong. The seed is played a second time then, to tell what led to it.
pub fn play(seed: u64, options: &Options) -> Result<Played, Box<Failure>> {
    let failed = match attempt(seed, options, Trace::default()) {
        Ok(played) => return Ok(played),
        Err(failed) => failed,
    };
    // The second time it must fail in the same way: a seed is a whole story.
    let ((invariant, what), trace) = match attempt(seed, options, Trace::kept()) {
        Ok(_) => (failed.0, String::new()),
        Err(again) => again,
    };
    Err(Box::new(Failure { seed, invariant, what, trace }))
}

/// Plays a seed with tracking on and with tracking off: the jobs must fare the same.
///
/// # Errors
/// Where they do not, or what is wrong with one of them.
pub fn play_twins(seed: u64, options: &Options) -> Result<Played, Box<Failure>> {
    let on = Options { job_trace: true, ..options.clone() };
    let off = Options { untracked: true, ..on.clone() };
    let played = play(seed, &on)?;
    let twin = play(seed, &off)?;
    let invariant = Invariant::Twin;
    invariants::compare(&played.jobs, &twin.jobs)
        .map_err(|what| Box::new(Failure { seed, invariant, what, trace: String::new() }))?;
    Ok(played)
}

fn attempt(seed: u64, options: &Options, trace: Trace) -> Result<Played, (Broken, String)> {
    let mut plan = Plan::draw(seed);
    if options.untracked {
        for job in &mut plan.jobs {
            job.spec.dirty_threshold = -1;
        }
    }
    let mut world = World::new(seed, plan, options.mutation, trace);
    world.checks.off = options.unchecked;
    world.checks.only = options.only;
    world.checks.jobs.kept = options.job_trace;
    world.recording = options.record.then(Recording::default);
    // The engine stops on a state that cannot be; that is a failure of the seed like any other.
    let verdict = catch_unwind(AssertUnwindSafe(|| tell(&mut world)));
    let verdict = verdict.unwrap_or_else(|panic| Err((Invariant::Transitions, said(&*panic))));
    match verdict {
        Ok(()) => Ok(Played {
            steps: world.steps,
            events: world.events,
            simulated_ms: world.now,
            planned: world.checks.planned,
            sights: world.sights,
            jobs: world.checks.jobs,
            recording: world.recording.unwrap_or_default(),
        }),
        Err(what) => Err((what, world.trace.text())),
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn tell(world: &mut World) -> Result<(), Broken> {
    world.play_until(world.plan.faults_end_ms)?;
    world.faults_end();
    play_until_true(world, SETTLE_MS, invariants::has_healed)?;
    for job in world.durable.jobs.keys().copied().collect::<Vec<_>>() {
        world.at(world.now, Event::Stop(job));
    }
    play_until_true(world, END_MS, invariants::has_ended)
}

fn play_until_true(
    world: &mut World,
    within_ms: u64,
    is_true: fn(&World) -> Result<(), String>,
) -> Result<(), Broken> {
    let end = world.now + within_ms;
    loop {
        world.play_until(world.now + LOOK_EVERY_MS)?;
        match is_true(world) {
            Ok(()) => return Ok(()),
            Err(what) if world.now >= end => return Err((Invariant::Heals, what)),
            Err(_) => {}
        }
    }
}
