//! A database connection that its users take in turn, each on its own thread.
//!
//! SQLite blocks. A thread of its own would keep that away from the runtime, and would cost two wake-ups
//! and a move of every record to another processor's cache for each commit, which is half of what a small
//! commit costs (ADR 10). So the work is done where it was asked for, and the runtime is told to run its
//! other tasks elsewhere meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rusqlite::Connection;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Mutex;
use tokio::task::{block_in_place, spawn_blocking};

use super::directory::Directory;

/// The connection is gone: some work with it panicked.
#[derive(Debug)]
pub(super) enum Gone {
    /// Before this work began.
    Before,
    /// While it was done.
    During,
}

#[derive(Debug)]
pub(super) struct SharedConnection {
    /// The lock is fair: work is done in the order in which it was asked for. Empty while work is done,
    /// and for good after a panic: nobody knows what it left half-done.
    connection: Arc<Mutex<Opened>>,
}

/// In the order in which it is given up: only behind a closed connection the directory is free.
#[derive(Debug)]
struct Opened {
    connection: Option<Connection>,
    _directory: Arc<Directory>,
}

impl SharedConnection {
    pub(super) fn new(connection: Connection, directory: Arc<Directory>) -> Self {
        let opened = Opened { connection: Some(connection), _directory: directory };
        Self { connection: Arc::new(Mutex::new(opened)) }
    }

    /// Does `work` when its turn comes. Once it has begun it is done to its end, even if nobody waits.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> T + Send + 'static,
    ) -> Result<T, Gone> {
        let mut opened = Arc::clone(&self.connection).lock_owned().await;
        let mut connection = opened.connection.take().ok_or(Gone::Before)?;
        let work = move || {
            let done = catch_unwind(AssertUnwindSafe(|| work(&mut connection)));
            if done.is_ok() {
                opened.connection = Some(connection);
            }
            done
        };
        let done = match Handle::current().runtime_flavor() {
            // It has no other thread that could go on with the other tasks.
            RuntimeFlavor::CurrentThread => spawn_blocking(work).await.map_err(|_| Gone::During)?,
            _ => block_in_place(work),
        };
        done.map_err(|_| {
            tracing::error!("the store panicked: its connection is not used any more");
            Gone::During
        })
    }
}
