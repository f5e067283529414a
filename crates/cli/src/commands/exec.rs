//! `steadfast exec -- CMD …`: the validator's wrapper around any program. No async runtime comes near it.

use steadfast_validator::wrapper::{self, ExecOptions};

use crate::arguments::ExecArguments;
use crate::logging;

/// # Errors
/// Only before the wrapper takes over; from then on the process ends with the wrapper's own code.
pub fn run(arguments: ExecArguments) -> anyhow::Result<u8> {
    logging::start()?;
    let ExecArguments { agent_on_stdin, log_dir, command } = arguments;
    let outcome = wrapper::exec(ExecOptions { command, agent_on_stdin, log_dir });
    // Not a return: the wrapper's threads wait for ever, and its codes are not this program's.
    std::process::exit(outcome.exit_code())
}
