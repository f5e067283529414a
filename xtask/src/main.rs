//! The gate and the measurements, as ordinary Rust instead of shell scripts, so that they run the
//! same on every machine that can build the product, and so that the rules of the house have tests.
//!
//! `verify` is the only definition of "good": the README, the continuous integration and a
//! contributor all call it, and it never writes into the checkout. `fix` is the one that writes.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program; its output is its product"
)]

mod bench;
mod cargo;
mod e2e;
mod fix;
mod prerequisites;
mod sim;
mod source;
mod tidy;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The gate and the measurements of steadfast")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check everything and write nothing: the one gate.
    Verify,
    /// Write what can be written by machine: formatting, clippy's suggestions, golden files.
    Fix,
    /// Check the rules of the house: arrows between crates, purity, sizes, words, acceptance tests.
    Tidy,
    /// Run the simulator on its fixed seeds, or on those asked for.
    Sim(sim::Arguments),
    /// Run real binaries and real processes.
    E2e(e2e::Arguments),
    /// Measure, each figure beside its yardstick, and print one table.
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Verify => verify::run(),
        Task::Fix => fix::run(),
        Task::Tidy => tidy::run(),
        Task::Sim(arguments) => sim::run(&arguments),
        Task::E2e(arguments) => e2e::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line and no backtrace: what failed has said the rest above.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
