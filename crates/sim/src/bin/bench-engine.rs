//! What the engine costs, as figures that `cargo xtask bench` reads: one JSON object a line.
//!
//! A member's loss must cost what the jobs on that member cost, not what all jobs cost; so the yardstick
//! of ten affected jobs among ten thousand is ten among a hundred, in the same run. And the simulator's
//! worth is its speed: with all checks, beside the same steps of the engine with nothing around it.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::Result;
use steadfast_sim::{Options, RunningJobs, play};

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
    let (mut cluster, _) = RunningJobs::new(jobs, affected, true);
    let rounds = (200_000 / affected.max(100)).clamp(20, 400);
    let round = || {
        let began = Instant::now();
        let lost = cluster.lose();
        let took = began.elapsed();
        drop(cluster.recover(&lost));
        took
    };
    let mut times: Vec<Duration> = std::iter::repeat_with(round).take(rounds as usize).collect();
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
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
