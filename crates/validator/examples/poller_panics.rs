//! A program that keeps its own lease, by the library's three lines, around a command that does the work;
//! and whose thread that asks panics as soon as a coordinator gives it no verdict.
//!
//! For the end-to-end tests. The library has no hook to make that thread fail, and needs none: its complaint
//! about a useless answer is the one place where somebody else's code runs on it.

#[path = "../tests/support/trap.rs"]
mod trap;

use std::error::Error;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{Pid, Signal, kill_process_group};
use steadfast_validator::{Killable, Outcome, Validator};
use trap::Trap;

/// The run loop: a command in a group of its own, by the group's id; 0 before it runs.
#[derive(Default)]
struct Work(AtomicI32);

impl Work {
    fn start(&self) -> Result<Child, Box<dyn Error>> {
        let mut words = std::env::args_os().skip(1);
        let mut command =
            Command::new(words.next().ok_or("usage: poller_panics COMMAND [ARGUMENT…]")?);
        let child = command.args(words).process_group(0).spawn()?;
        self.0.store(child.id().cast_signed(), Ordering::SeqCst);
        Ok(child)
    }
}

impl Killable for Work {
    fn shutdown(&self) {
        if let Some(group) = Pid::from_raw(self.0.load(Ordering::SeqCst)) {
            // Who is gone already needs no signal.
            let _ = kill_process_group(group, Signal::TERM);
        }
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    tracing::subscriber::set_global_default(Trap)?;
    let work = Arc::new(Work::default());
    let watch = match Validator::from_env()?.watch(Arc::clone(&work)) {
        Ok(watch) => watch,
        Err(error) => return Ok(error.exit_code().into()),
    };
    let status = work.start()?.wait()?;
    Ok(match watch.finish() {
        Outcome::Finished if status.success() => ExitCode::SUCCESS,
        Outcome::Finished => ExitCode::FAILURE,
        outcome => outcome.into(),
    })
}
