//! Counts the lines, words and bytes of a file with several containers, each counting every byte
//! of its share exactly once, however often containers are killed and started again.
//!
//! It is the example to copy for a plain program with exactly-once effects. The recipe:
//!
//! 1. **State is position and result together.** [`count::Progress`] says how far the program has
//!    read *and* what it has counted up to there, so one value moves both or neither.
//! 2. **The value goes through the coordinator** ([`checkpoint`]), which refuses it as soon as a
//!    newer container of the same task group exists. A copy that was thought dead cannot move it.
//! 3. **A start is a resume** ([`task`]): read the checkpoint, go on behind it.
//! 4. **The output is a function of the last accepted checkpoint**, and is replaced as a whole, so
//!    writing it twice is the same as writing it once.
//!
//! The rest is what a good guest does: end soon after SIGTERM ([`stop`]), wait when told to wait,
//! and say in plain words what is wrong.

mod checkpoint;
mod container;
mod count;
mod pace;
mod runs;
mod share;
mod stop;
mod task;

#[cfg(test)]
#[path = "../tests/fake_coordinator/mod.rs"]
mod fake_coordinator;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use crate::container::Container;
use crate::runs::Run;
use crate::stop::{Stop, Terminated};

/// 128 + 15, what a shell reports for a program that SIGTERM ended. Not zero: steadfast takes exit
/// code 0 for "this task group is finished".
const EXIT_TERMINATED: u8 = 143;

/// Counts the lines, words and bytes of one share of a file. Started by steadfast, once per task
/// group.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The file to count; an absolute path to a regular file that does not change meanwhile.
    #[arg(long, value_name = "PATH", value_parser = absolute)]
    input: PathBuf,

    /// The folder for the results, made if it is missing; an absolute path, one folder per job.
    #[arg(long, value_name = "DIR", value_parser = absolute)]
    output: PathBuf,

    /// Lines to count in a second; 0 for as fast as possible.
    #[arg(
        long,
        env = "RATE",
        value_name = "LINES",
        default_value = "0",
        value_parser = rate,
        allow_negative_numbers = true
    )]
    rate: f64,
}

/// A container runs in a fresh folder on whichever member has room, so a relative path would mean
/// another file at each start.
fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() {
        return Ok(path);
    }
    Err(format!(
        "a container runs in a fresh folder of its own, where a relative path leads nowhere: give \
         an absolute one, for example \"$PWD/{text}\""
    ))
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
        _ => Err("expected a number of lines a second, 0 or more (0: no pacing)".to_owned()),
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    match Container::from_env().and_then(|container| run(&args, &container)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{error:#}"));
            let terminated = error.is::<Terminated>();
            if terminated { ExitCode::from(EXIT_TERMINATED) } else { ExitCode::FAILURE }
        }
    }
}

fn run(args: &Args, container: &Container) -> Result<()> {
    // First of all, so that no SIGTERM from here on goes without a last checkpoint.
    let stop = Stop::on_sigterm().context("cannot listen for SIGTERM")?;
    let run = Run::begin(&args.output, container)?;
    let counted = task::count_share(args, container, &stop);
    let noted = run.end();
    counted.and(noted)
}

/// One line for people, on standard error, which steadfast keeps as the container's log. A log that
/// cannot be written is no reason to stop counting.
fn say(message: &str) {
    let _ = writeln!(std::io::stderr(), "wordcount: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_refused_with_what_to_do_instead() {
        let error = |args: &[&str]| {
            let program = ["wordcount"].iter().chain(args);
            Args::try_parse_from(program).unwrap_err().to_string()
        };
        assert!(error(&["--output", "/o"]).contains("--input <PATH>"));
        assert!(error(&["--input", "/i"]).contains("--output <DIR>"));
        let relative = error(&["--input", "logs/a", "--output", "/o"]);
        assert!(relative.contains("$PWD/logs/a"), "{relative}");
        let relative = error(&["--input", "/i", "--output", "out"]);
        assert!(relative.contains("$PWD/out"), "{relative}");
        for bad in ["-1", "-0.5", "ten", "NaN", "inf", ""] {
            let refused = error(&["--input", "/i", "--output", "/o", "--rate", bad]);
            assert!(refused.contains("0 or more"), "{bad}: {refused}");
        }
    }

    #[test]
    fn the_rate_is_not_paced_unless_asked_for() {
        let args = |rate: &[&str]| {
            let given = ["wordcount", "--input", "/i", "--output", "/o"];
            Args::try_parse_from(given.iter().chain(rate)).unwrap().rate
        };
        assert_eq!(args(&[]), 0.0);
        assert_eq!(args(&["--rate", "10"]), 10.0);
        assert_eq!(args(&["--rate", "0.5"]), 0.5);
    }
}
