//! The commands, one module each.

mod agent;
mod config;
mod coordinator;
mod coordinators;
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
mod store;
mod submit;
mod token;

use steadfast_model::JobStatus;

use crate::arguments::{Arguments, Command};
use crate::connect::Coordinators;

/// The exit code of a command that could not do what it was asked. 0, 1 and 3 speak of a job.
pub const COULD_NOT: u8 = 2;
/// More of them make nothing safer.
const MOST_COORDINATORS: u32 = 9;

/// Runs the command; the answer is the process's exit code.
///
/// # Errors
/// Whatever stops it from doing what it was asked.
pub fn run(arguments: Arguments) -> anyhow::Result<u8> {
    let Arguments { coordinators, token_file, command } = arguments;
    let how_many = how_many(&coordinators);
    let coordinators = Coordinators::named(coordinators, token_file);
    match command {
        Command::Dev(arguments) => dev::run(&arguments, how_many?),
        Command::Coordinator(arguments) => coordinator::run(arguments),
        Command::Agent(arguments) => agent::run(arguments, coordinators),
        Command::Submit(arguments) => submit::run(&arguments, &coordinators),
        Command::Jobs(arguments) => jobs::run(&arguments, &coordinators),
        Command::Job(arguments) => job::run(&arguments, &coordinators),
        Command::Explain(arguments) => explain::run(&arguments, &coordinators),
        Command::Logs(arguments) => logs::run(&arguments, &coordinators),
        Command::Stop(arguments) => stop::run(&arguments, &coordinators),
        Command::Members(arguments) => members::run(&arguments, &coordinators),
        Command::Coordinators(arguments) => coordinators::run(&arguments, &coordinators),
        Command::Drain(arguments) => leave::drain(&arguments, &coordinators),
        Command::PlannedLeave(arguments) => leave::plan(&arguments, &coordinators),
        Command::Store(arguments) => store::run(arguments),
        Command::Token(arguments) => token::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Exec(arguments) => exec::run(arguments),
    }
}

/// What `--coordinators` means to `dev`, which finds the URLs itself: a number. URLs, from the environment
/// mostly, are those of another cluster.
fn how_many(coordinators: &[String]) -> anyhow::Result<u32> {
    let [number] = coordinators else { return Ok(1) };
    let Ok(number) = number.parse() else { return Ok(1) };
    anyhow::ensure!(
        (1..=MOST_COORDINATORS).contains(&number),
        "--coordinators {number}: expected 1 to {MOST_COORDINATORS}"
    );
    Ok(number)
}

/// The exit code that tells how a job ended.
pub fn exit_code(ended: JobStatus) -> u8 {
    match ended {
        JobStatus::Finished => 0,
        JobStatus::Canceled => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dev_takes_a_number_and_leaves_urls_to_others() {
        let how_many = |named: &[&str]| {
            how_many(&named.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(how_many(&["3"]).unwrap(), 3);
        for named in [&[][..], &["http://a:1"], &["http://a:1", "http://b:1"]] {
            assert_eq!(how_many(named).unwrap(), 1, "{named:?}");
        }
        for number in ["0", "10"] {
            assert!(how_many(&[number]).unwrap_err().to_string().contains("expected 1 to 9"));
        }
    }
}
