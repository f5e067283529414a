//! Plays seeds until one fails: `cargo run --release -p steadfast-sim -- --seeds N [--seed S] [--long]`.
//!
//! Without words it plays the fixed seeds of the gate. The number of a seed that fails is all that it
//! takes to see the failure again.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use steadfast_sim::{Options, play, play_twins};

/// Seeds of a run that names none.
const FIXED_SEEDS: u64 = 2_000;
/// The long run ends after this.
const LONG: Duration = Duration::from_secs(20 * 60);
/// Every so many seeds the label's twin is played too.
const TWIN_EVERY: u64 = 4;

#[derive(Default)]
struct Arguments {
    seeds: Option<u64>,
    seed: Option<u64>,
    long: bool,
}

fn main() -> Result<ExitCode> {
    let arguments = read(std::env::args().skip(1))?;
    let (first, last, until) = match arguments {
        Arguments { seed: Some(seed), seeds, .. } => (seed, seed + seeds.unwrap_or(1), None),
        Arguments { long: true, seeds, .. } => {
            // A long run is worth most where nobody has been yet.
            let first = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() << 20;
            let last = seeds.map_or(u64::MAX, |seeds| first + seeds);
            (first, last, Some(Instant::now() + LONG))
        }
        Arguments { seeds, .. } => (0, seeds.unwrap_or(FIXED_SEEDS), None),
    };
    run(first, last, until)
}

fn read(mut words: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut arguments = Arguments::default();
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64> {
            let Some(number) = words.next() else { bail!("{word} needs a number") };
            Ok(number.parse()?)
        };
        match word.as_str() {
            "--seeds" => arguments.seeds = Some(number()?),
            "--seed" => arguments.seed = Some(number()?),
            "--long" => arguments.long = true,
            _ => bail!("{word} is none of --seeds N, --seed S, --long"),
        }
    }
    Ok(arguments)
}

fn run(first: u64, last: u64, until: Option<Instant>) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    // The engine's panics are told with their seed; the hook's own words would only come before them.
    std::panic::set_hook(Box::new(|_| {}));
    let (mut seeds, mut steps, mut simulated_ms) = (0_u64, 0_u64, 0_u64);
    let began = Instant::now();
    let mut told = began;
    for seed in first..last {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        let twins = seed % TWIN_EVERY == 0;
        let options = Options::default();
        let played = if twins { play_twins(seed, &options) } else { play(seed, &options) };
        match played {
            Ok(played) => {
                seeds += 1;
                steps += played.steps;
                simulated_ms += played.simulated_ms;
            }
            Err(failure) => {
                writeln!(out, "{failure}")?;
                return Ok(ExitCode::FAILURE);
            }
        }
        if told.elapsed() > Duration::from_secs(5) {
            told = Instant::now();
            writeln!(out, "{seeds} seeds, the last one {seed}, {steps} steps")?;
        }
    }
    let hours = simulated_ms / 3_600_000;
    let seconds = began.elapsed().as_secs_f64();
    writeln!(
        out,
        "{seeds} seeds, {steps} steps, {hours} simulated hours in {seconds:.1} s: all hold"
    )?;
    Ok(ExitCode::SUCCESS)
}
