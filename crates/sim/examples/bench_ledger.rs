//! What tracking costs when a member is lost: from the engine's input until every incident is durable on
//! the embedded store. One JSON object a line, for `cargo xtask bench`.
//!
//! What is timed is what the coordinator does between the two: the engine's step, its ops, the commit of
//! all of them as one transaction. What follows in the engine (restores, deployments, starts) brings the
//! same jobs back to running; it is written too, but not timed.
//!
//! What is compared lives side by side in a process of its own and takes turns, with tracking and without: a
//! machine or a disk that is slow for a moment is slow for all of them. What is not compared is kept away: in
//! the heap of eighteen clusters, of which some free what ten thousand jobs wrote, a step of a hundred jobs
//! took ten times as long, and who had to tidy up was chance.

use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use steadfast_sim::RunningJobs;
use steadfast_store::conformance::samples;
use steadfast_store::{Embedded, Op, Store, Term, ops_of};

/// As the product has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// So many running jobs, of which so many are affected.
type Kind = (u64, Affected);
/// What is measured in one process. The numbers of jobs are those that the first proposal asks for, and one
/// more.
const GROUPS: [&[Kind]; 4] = [&of(100), &of(1_000), &of(10_000), &AMONG];
/// A hundred jobs alone, and a hundred among many.
const AMONG: [Kind; 2] = [(100, Affected::All), (10_000, Affected::OnePercent)];

const fn of(jobs: u64) -> [Kind; 3] {
    [(jobs, Affected::All), (jobs, Affected::OnePercent), (jobs, Affected::None)]
}

/// Losses before those that are measured. The history of a job's ledger is full then.
const WARM_UP: u32 = 12;
/// At least. The fewer are affected, the more an fsync weighs, which takes now one time and now another.
const ROUNDS: u64 = 40;
const MOST_ROUNDS: u64 = 400;
/// A cluster that loses so many containers at once takes part in fewer rounds.
const LARGE: u64 = 10_000;
/// In every second.
const LARGE_EVERY: usize = 2;
/// Steps of a cluster's beginning that are committed together.
const STEPS_AT_ONCE: usize = 64;
/// What tracking may cost, compared with the same loss without it.
const TRACKING: f64 = 1.3;
/// What the same number of affected jobs may cost among a hundred times as many.
const AMONG_MANY: f64 = 2.0;

/// How many of the jobs have a container on the lost member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Affected {
    All,
    OnePercent,
    None,
}

impl Affected {
    fn of(self, jobs: u64) -> u64 {
        match self {
            Self::All => jobs,
            Self::OnePercent => jobs / 100,
            Self::None => 0,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::OnePercent => "1 %",
            Self::None => "none",
        }
    }
}

/// One place of the matrix: a cluster, its store, and how long its losses took.
struct Place {
    jobs: u64,
    affected: Affected,
    tracked: bool,
    cluster: RunningJobs,
    term: Box<dyn Term>,
    times: Vec<Duration>,
    /// The engine's part of each.
    step_times: Vec<Duration>,
    /// What an affected job's record and ledger took in the store at the last loss.
    bytes: [usize; 2],
}

impl Place {
    async fn new(directory: &Path, jobs: u64, affected: Affected, tracked: bool) -> Result<Self> {
        let name = format!("{jobs}-{}-{tracked}", affected.of(jobs));
        let store = Embedded::open(directory.join(name))?;
        let term = store.lead(samples::leader(1)).await?;
        let (cluster, steps) = RunningJobs::new(jobs, affected.of(jobs), tracked);
        let (times, step_times, bytes) = (Vec::new(), Vec::new(), [0, 0]);
        let mut place = Self { jobs, affected, tracked, cluster, term, times, step_times, bytes };
        // Jobs come a few at a time, so records of different kinds lie among each other.
        for few in steps.chunks(STEPS_AT_ONCE) {
            place.term.commit(few.iter().flat_map(ops_of).collect()).await?;
        }
        for _ in 0..WARM_UP {
            place.lose().await?;
        }
        place.times.clear();
        place.step_times.clear();
        Ok(place)
    }

    async fn lose(&mut self) -> Result<()> {
        let began = Instant::now();
        let lost = self.cluster.lose();
        let stepped = began.elapsed();
        let ops: Vec<Op> = ops_of(&lost);
        // The coordinator keeps its ops as well, to try them again.
        self.term.commit(ops.clone()).await?;
        self.times.push(began.elapsed());
        self.step_times.push(stepped);
        self.weigh(&ops)?;
        let recovered = self.cluster.recover(&lost);
        self.term.commit(recovered.iter().flat_map(ops_of).collect()).await?;
        Ok(())
    }

    /// The first affected job stands for all: they are alike.
    fn weigh(&mut self, ops: &[Op]) -> Result<()> {
        let record = ops.iter().find_map(|op| match op {
            Op::PutJob(record) => Some(serde_json::to_vec(record.as_ref())),
            _ => None,
        });
        let ledger = ops.iter().find_map(|op| match op {
            Op::PutLedger { ledger, .. } => {
                Some(serde_json::to_vec(&ledger.without_closed_episodes()))
            }
            _ => None,
        });
        let bytes = |json: Option<serde_json::Result<Vec<u8>>>| {
            json.transpose().map(|json| json.map_or(0, |json| json.len()))
        };
        self.bytes = [bytes(record)?, bytes(ledger)?];
        Ok(())
    }

    fn typical_ms(&self) -> f64 {
        typical_ms(&self.times)
    }
}

/// Another order in each round. A place with tracking and the same without follow each other, now one first
/// and now the other, also among the rounds in which the large ones take part: neither is always the one
/// that finds caches and disk as others left them.
fn order(round: usize, places: usize) -> impl Iterator<Item = usize> {
    let first = (round + round / LARGE_EVERY) % 2;
    (0..places / 2).flat_map(move |turn| {
        let pair = (turn + round) % (places / 2) * 2;
        [pair + first, pair + 1 - first]
    })
}

/// The mean without the fastest and the slowest tenth. A disk may take its fsyncs in steps of some
/// milliseconds, and a median jumps from one step to the next.
fn typical_ms(times: &[Duration]) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    let tenth = times.len() / 10;
    let middle = &times[tenth..times.len() - tenth];
    middle.iter().map(Duration::as_secs_f64).sum::<f64>() / middle.len() as f64 * 1e3
}

#[tokio::main]
async fn main() -> Result<()> {
    let Some(group) = std::env::args().nth(1) else {
        for group in 0..GROUPS.len() {
            let mut alone = Command::new(std::env::current_exe()?);
            ensure!(alone.arg(group.to_string()).status()?.success(), "group {group} failed");
        }
        return Ok(());
    };
    let group = GROUPS.get(group.parse::<usize>()?).context("there is no such group")?;
    // Beside the build, not in /tmp, which may be memory and would make every fsync free.
    let beside = std::env::current_exe()?;
    let directory = tempfile::tempdir_in(beside.parent().unwrap_or(Path::new(".")))?;
    let mut places = Vec::new();
    for (jobs, affected) in group.iter().copied() {
        for tracked in [true, false] {
            places.push(Place::new(directory.path(), jobs, affected, tracked).await?);
        }
    }
    let affected = places.iter().map(|place| place.affected.of(place.jobs)).max().unwrap_or(1);
    let rounds = (ROUNDS * 1_000 / affected).clamp(ROUNDS, MOST_ROUNDS);
    for round in 0..rounds as usize {
        for turn in order(round, places.len()) {
            let place = &mut places[turn];
            let is_large = place.affected.of(place.jobs) >= LARGE;
            if !is_large || round % LARGE_EVERY == 0 {
                place.lose().await?;
            }
        }
    }
    if *group == AMONG { tell_among(&places) } else { tell_tracking(&places) }
}

fn ms_of(places: &[Place], jobs: u64, affected: Affected, tracked: bool) -> f64 {
    let such =
        |place: &&Place| (place.jobs, place.affected, place.tracked) == (jobs, affected, tracked);
    places.iter().find(such).map_or(f64::NAN, Place::typical_ms)
}

fn tell_tracking(places: &[Place]) -> Result<()> {
    for place in places {
        let (jobs, affected) = (place.jobs, place.affected);
        let tracking = if place.tracked { "on" } else { "off" };
        let figure =
            format!("member loss, {jobs} jobs, {} affected, tracking {tracking}", affected.words());
        let without = ms_of(places, jobs, affected, false);
        let bound = (affected == Affected::All).then_some(TRACKING);
        let compared = place.tracked.then_some(("the same with tracking off", without, bound));
        print(&figure, place.typical_ms(), compared)?;
        if affected == Affected::All {
            // Where the time goes: to the engine, and to the store by what it has to write.
            let step = typical_ms(&place.step_times);
            print(&format!("{figure}, the engine's step"), step, None)?;
            let [record, ledger] = place.bytes;
            writeln!(io::stdout(), "each job's record has {record} bytes, its ledger {ledger}")?;
        }
    }
    Ok(())
}

fn tell_among(places: &[Place]) -> Result<()> {
    let [(few, all), (many, some)] = AMONG;
    for tracked in [true, false] {
        let tracking = if tracked { "on" } else { "off" };
        let figure = format!("member loss, {few} affected of {many} jobs, tracking {tracking}");
        let alone = ms_of(places, few, all, tracked);
        let compared = Some(("as many jobs alone", alone, Some(AMONG_MANY)));
        print(&figure, ms_of(places, many, some, tracked), compared)?;
    }
    Ok(())
}

/// A figure, with its yardstick, what that took, and the bound on the ratio.
fn print(figure: &str, ms: f64, compared: Option<(&str, f64, Option<f64>)>) -> Result<()> {
    let line = serde_json::json!({
        "bench": "ledger",
        "figure": figure,
        "value": (ms * 1e3).round() / 1e3,
        "unit": "ms",
        "yardstick": compared.map(|(yardstick, _, _)| yardstick),
        "ratio": compared.map(|(_, yardstick_ms, _)| (ms / yardstick_ms * 1e3).round() / 1e3),
        "bound": compared.and_then(|(_, _, bound)| bound),
    });
    writeln!(io::stdout(), "{line}")?;
    Ok(())
}
