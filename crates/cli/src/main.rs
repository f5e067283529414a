//! The one binary, `steadfast`.
//!
//! One process, one command: every process of a cluster is this program under another command, so that
//! there is one thing to install and one version to run. `main` is plain, and each command that needs an
//! async runtime builds its own: `exec` must not have one, because a lease has to end in a process in
//! which everything else hangs.
//!
//! Exit codes: what a command says of a job is 0, 1 or 3 (finished, failed, cancelled); 2 means that the
//! command could not do what it was asked. `exec` alone ends with the codes of its ladder.

mod arguments;
mod commands;
mod connect;
#[cfg(test)]
mod documented;
mod follow;
mod job_document;
mod logging;
mod options;
mod out;
mod progress;
mod random;
mod runtime;
mod tables;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::Arguments;

/// A member's loss makes and drops some pieces for each job that it affects (ADR 11).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match commands::run(Arguments::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            out::error(&error);
            ExitCode::from(commands::COULD_NOT)
        }
    }
}
