//! The commands, one module each.

mod agent;
mod coordinator;
mod dev;
mod exec;
mod explain;
mod job;
mod jobs;
mod leave;
mod logs;
mod members;
mod show;
mod stop;
mod submit;
mod token;

use steadfast_model::JobStatus;

use crate::arguments::{Arguments, Command};
use crate::connect::Coordinators;

/// The exit code of a command that could not do what it was asked. 0, 1 and 3 speak of a job.
pub const COULD_NOT: u8 = 2;

/// Runs the command; the answer is the process's exit code.
///
/// # Errors
/// Whatever stops it from doing what it was asked.
pub fn run(arguments: Arguments) -> anyhow::Result<u8> {
    let Arguments { coordinators, token_file, command } = arguments;
    let coordinators = Coordinators::named(coordinators, token_file);
    match command {
        Command::Dev(arguments) => dev::run(&arguments),
        Command::Coordinator(arguments) => coordinator::run(arguments),
        Command::Agent(arguments) => agent::run(arguments, coordinators),
        Command::Submit(arguments) => submit::run(&arguments, &coordinators),
        Command::Jobs(arguments) => jobs::run(&arguments, &coordinators),
        Command::Job(arguments) => job::run(&arguments, &coordinators),
        Command::Explain(arguments) => explain::run(&arguments, &coordinators),
        Command::Logs(arguments) => logs::run(&arguments, &coordinators),
        Command::Stop(arguments) => stop::run(&arguments, &coordinators),
        Command::Members(arguments) => members::run(&arguments, &coordinators),
        Command::Drain(arguments) => leave::drain(&arguments, &coordinators),
        Command::PlannedLeave(arguments) => leave::plan(&arguments, &coordinators),
        Command::Token(arguments) => token::run(&arguments),
        Command::Exec(arguments) => exec::run(arguments),
    }
}

/// The exit code that tells how a job ended.
pub fn exit_code(ended: JobStatus) -> u8 {
    match ended {
        JobStatus::Finished => 0,
        JobStatus::Canceled => 3,
        _ => 1,
    }
}
