//! `steadfast exec` alone, without the rest of the command line:
//! `steadfast-exec [--agent-on-stdin] [--log-dir DIR] -- CMD ARG…`. This crate's own tests start it,
//! because a wrapper must be a process.

use std::path::PathBuf;
use std::process::exit;

use steadfast_validator::wrapper::{ExecOptions, exec};

fn main() {
    let mut options = ExecOptions::default();
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--agent-on-stdin") => options.agent_on_stdin = true,
            Some("--log-dir") => options.log_dir = arguments.next().map(PathBuf::from),
            Some("--") => options.command = arguments.by_ref().collect(),
            // 64 is the usage error of sysexits(3).
            _ => exit(64),
        }
    }
    exit(exec(options).exit_code());
}
