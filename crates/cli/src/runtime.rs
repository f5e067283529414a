//! The async runtime of those commands that need one, and how a process is asked to go.

use std::io;

use anyhow::Context;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Runs a command that only asks and waits.
///
/// # Errors
/// The command's own; or the system refuses a runtime.
pub fn light<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the async runtime")?.block_on(command)
}

/// Runs a server, on all cores.
///
/// # Errors
/// The server's own; or the system refuses a runtime.
pub fn server<T>(server: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the async runtime")?.block_on(server)
}

/// SIGTERM and Ctrl-C. From its making on, neither ends the process by itself.
pub struct EndRequests {
    terminate: Signal,
    interrupt: Signal,
}

impl EndRequests {
    /// # Errors
    /// The system refuses a handler.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The exit code of a command that stopped waiting because it was asked to: a shell's, for Ctrl-C.
pub const DETACHED: u8 = 130;

/// What `work` comes to, or `None` where somebody asks this process to end first. What it waits for goes on
/// all the same, also where no handler can be had and Ctrl-C simply ends this process.
pub async fn unless_asked_to_end<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut end = EndRequests::listen().ok();
    let asked_to_end = async {
        match &mut end {
            Some(end) => end.next().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        done = work => Some(done),
        () = asked_to_end => None,
    }
}
