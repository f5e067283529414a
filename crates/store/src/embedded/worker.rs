//! A thread that owns one database connection. SQLite blocks, so it must not run on the threads of an
//! async runtime; and one owner needs no lock.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;

type Work = Box<dyn FnOnce(&mut Connection) + Send>;

/// The thread has ended: it panicked.
#[derive(Debug)]
pub(super) enum Gone {
    /// Before it took the work.
    Before,
    /// While it did the work.
    During,
}

#[derive(Debug)]
pub(super) struct Worker {
    queue: Option<mpsc::Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(super) fn start(name: &str, mut connection: Connection) -> std::io::Result<Self> {
        let (queue, work) = mpsc::channel::<Work>();
        let run = move || work.iter().for_each(|work| work(&mut connection));
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Does `work` on the thread, after all that was queued before. It is done even if nobody waits.
    /// What it has captured is freed after the answer, which nobody has to wait for.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Connection) -> T + Send + 'static,
    ) -> Result<T, Gone> {
        let (answer, answered) = oneshot::channel();
        let work: Work = Box::new(move |connection| {
            // Whoever asked may have stopped waiting; the work is done all the same.
            let _ = answer.send(work(connection));
        });
        let queue = self.queue.as_ref().ok_or(Gone::Before)?;
        queue.send(work).map_err(|_| Gone::Before)?;
        answered.await.map_err(|_| Gone::During)
    }
}

impl Drop for Worker {
    /// Waits for the work in hand, so that the connection is closed before the directory's lock goes.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a thread of the store had panicked");
        }
    }
}
