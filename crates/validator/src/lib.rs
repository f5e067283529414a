//! The container's side of validity: a program goes on only while a coordinator says that it may, and it
//! ends before a replacement of it can start.
//!
//! A "yes" is a lease. It runs from the moment in which the *question* was sent, on a clock that goes on
//! while the machine sleeps, and it always ends before the coordinator's own count of the same answer.
//! Only a coordinator that leads and knows can say "no"; an error, a time-out or a strange answer is
//! neither, and the lease runs on.
//!
//! There are two ways to have it:
//!
//! - **In a Rust program**, with three lines: [`Validator::from_env`], [`Validator::watch`],
//!   [`Watch::finish`].
//! - **Around any program**: [`wrapper::exec`], which is `steadfast exec -- CMD ARG…`. An agent puts it
//!   around every container.
//!
//! Validator's core has no async runtime below it: leases must end in programs that have none, and a
//! runtime's stalled worker must not be able to hold up a deadline. Both ways stand on the same two
//! values without I/O, `lease` and `poll`.
//!
//! The contract between a container and its coordinator, for programs in other languages, is in
//! `docs/http-api.md`; `examples/validator.py` and `examples/validator.sh` keep it in some fifty lines each.
//!
//! # A complete program
//!
//! The three lines are those of `main` that name a `watch`. Everything else is what the program has in
//! any case.
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering};
//!
//! use steadfast_validator::{FencingToken, Killable, Progress, Validator};
//!
//! #[derive(Default)]
//! struct RunLoop {
//!     stopping: AtomicBool,
//! }
//!
//! impl RunLoop {
//!     fn run(&self, token: Option<FencingToken>, progress: &Progress) {
//!         while !self.stopping.load(Ordering::SeqCst) {
//!             // Take the next message and process it. Hand `token` to whatever the program writes to,
//!             // so that it can refuse an older copy.
//! #           let _ = token;
//!             progress.step();
//!         }
//!         // Flush, commit, close: the grace is for this.
//!     }
//! }
//!
//! impl Killable for RunLoop {
//!     fn shutdown(&self) {
//!         self.stopping.store(true, Ordering::SeqCst);
//!     }
//! }
//!
//! fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
//!     let run_loop = Arc::new(RunLoop::default());
//!     let watch = match Validator::from_env()?.watch(Arc::clone(&run_loop)) {
//!         Ok(watch) => watch,
//!         Err(error) => return Ok(error.exit_code().into()),
//!     };
//!     run_loop.run(watch.fencing_token(), &watch.progress());
//!     Ok(watch.finish().into())
//! }
//! ```
//!
//! The outcome is set before `shutdown` is called, so a loop that ends at once cannot exit with 0. A loop
//! that does not end within its grace is ended with the process, exit code 72. Under an agent there is a
//! wrapper around it all the same, as the last rung; a task says so with `validator = "library"`, and then
//! the wrapper does not send the SIGTERM that would cut `shutdown` short.

mod clock;
mod complaint;
mod deadline;
mod http;
mod lease;
mod poll;
mod settings;
mod watch;

pub mod wrapper;

pub use steadfast_model::{ExecutionId, FencingToken, InvalidReason, LeaseTerms, ValidatorKind};

pub use settings::{Settings, SettingsError};
pub use watch::{Killable, Outcome, Progress, Validator, Watch, WatchError};
