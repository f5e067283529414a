//! The one gate. The steps stand in the order in which they are cheap, so that the common mistakes
//! are told in seconds; each later step may take for granted what the earlier ones have shown.
//!
//! Nothing here writes into the checkout: `--locked` everywhere, `--check` for the formatting, and
//! the variable that lets golden files be rewritten is taken away from every test.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use comfy_table::{Table, presets};

use crate::cargo::{cargo, run as run_command};
use crate::{e2e, fix, prerequisites, sim, tidy};

struct Step {
    name: &'static str,
    run: fn() -> Result<()>,
}

/// Every package, with the store on etcd: one build then serves the tests of all.
const WHOLE: &str = "--workspace --features steadfast/etcd,steadfast-coordinator/etcd";

const STEPS: &[Step] = &[
    Step { name: "prerequisites", run: prerequisites::ensure },
    Step { name: "fmt", run: || checked("fmt --all --check") },
    Step { name: "tidy", run: tidy::run },
    Step {
        name: "clippy",
        run: || checked(&format!("clippy {WHOLE} --all-targets --locked -- -D warnings")),
    },
    // What is built where nothing is asked for, in the two packages that differ.
    Step {
        name: "plain",
        run: || checked("clippy -p steadfast-store -p steadfast --locked -- -D warnings"),
    },
    // Documentation tests and the end-to-end tests are steps of their own below, the latter because
    // they need binaries that are built first.
    Step { name: "tests", run: tests },
    Step { name: "doctests", run: || checked(&format!("test {WHOLE} --doc --locked")) },
    Step { name: "docs", run: documentation },
    Step { name: "sim", run: || sim::run(&sim::Arguments::default()) },
    Step { name: "binaries", run: e2e::build_binaries },
    Step { name: "e2e", run: || e2e::run(&e2e::Arguments::default()) },
];

/// How a step ended, or that an earlier one kept it from running.
enum Outcome {
    Passed(Duration),
    Failed(Duration),
    NotRun,
}

/// Runs every step up to the first that fails, then prints what took how long.
///
/// # Errors
/// The first failing step's.
pub fn run() -> Result<()> {
    let (outcomes, result) = run_steps(STEPS);
    println!("\n{}", table(STEPS, &outcomes));
    if result.is_ok() {
        println!("verify: everything passed.");
    }
    result
}

fn run_steps(steps: &[Step]) -> (Vec<Outcome>, Result<()>) {
    let mut outcomes = Vec::new();
    let mut result = Ok(());
    for Step { name, run } in steps {
        if result.is_err() {
            outcomes.push(Outcome::NotRun);
            continue;
        }
        println!("\n== {name}");
        let start = Instant::now();
        result = run().with_context(|| format!("verify stopped at the step `{name}`"));
        let took = start.elapsed();
        println!("== {name}: {} in {}", word(result.is_ok()), seconds(took));
        outcomes.push(if result.is_ok() { Outcome::Passed(took) } else { Outcome::Failed(took) });
    }
    (outcomes, result)
}

fn table(steps: &[Step], outcomes: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["step", "result", "time"]);
    let mut total = Duration::ZERO;
    for (step, outcome) in steps.iter().zip(outcomes) {
        let (result, took) = match outcome {
            Outcome::Passed(took) => (word(true), Some(*took)),
            Outcome::Failed(took) => (word(false), Some(*took)),
            Outcome::NotRun => ("not run", None),
        };
        total += took.unwrap_or_default();
        table.add_row([step.name, result, &took.map(seconds).unwrap_or_default()]);
    }
    table.add_row(["all", "", &seconds(total)]);
    table
}

fn checked(line: &str) -> Result<()> {
    run_command(cargo(line).env_remove(fix::REWRITE))
}

/// Those on real processes and real etcd nodes mostly wait, so that two processors carry more than two.
const TESTS_AT_ONCE: &str = "4";

fn tests() -> Result<()> {
    let line = format!("test {WHOLE} --exclude steadfast-e2e --lib --bins --tests --locked");
    run_command(cargo(&line).env_remove(fix::REWRITE).env("RUST_TEST_THREADS", TESTS_AT_ONCE))
}

fn documentation() -> Result<()> {
    run_command(
        cargo(&format!("doc {WHOLE} --no-deps --locked")).env("RUSTDOCFLAGS", "-D warnings"),
    )
}

fn word(passed: bool) -> &'static str {
    if passed { "ok" } else { "FAILED" }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn the_first_failure_ends_the_run_and_is_named() {
        let steps = [
            Step { name: "good", run: || Ok(()) },
            Step { name: "bad", run: || bail!("it is broken") },
            Step { name: "later", run: || panic!("must not run") },
        ];
        let (outcomes, result) = run_steps(&steps);
        assert!(matches!(outcomes[..], [Outcome::Passed(_), Outcome::Failed(_), Outcome::NotRun]));
        let message = format!("{:#}", result.unwrap_err());
        assert_eq!(message, "verify stopped at the step `bad`: it is broken");
        let table = table(&steps, &outcomes).to_string();
        assert!(table.contains("not run"), "{table}");
    }
}
