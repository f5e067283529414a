//! How far the program says that it is (05): it writes to the descriptor that `STEADFAST_PROGRESS_FD`
//! names, one byte for each step of its work, and the wrapper counts. What the bytes are does not matter.

use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// The program's end of the pipe, and what came through it.
#[derive(Debug)]
pub(super) struct Progress {
    programs_end: Option<OwnedFd>,
    steps: Arc<AtomicU64>,
}

impl Progress {
    /// Made before anything else opens a descriptor: a shell can only write to a number of one digit.
    pub(super) fn open() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let steps = Arc::new(AtomicU64::new(0));
        thread::Builder::new().name("progress".into()).spawn({
            let steps = Arc::clone(&steps);
            move || count(reader, &steps)
        })?;
        Ok(Self { programs_end: Some(writer.into()), steps })
    }

    /// The descriptor for the program, once. Its number is free again in the wrapper afterwards.
    pub(super) fn take_programs_end(&mut self) -> Option<OwnedFd> {
        self.programs_end.take()
    }

    /// Steps so far; `None` while there is no program to make any.
    pub(super) fn steps(&self) -> Option<u64> {
        self.programs_end.is_none().then(|| self.steps.load(Ordering::Relaxed))
    }
}

/// Reads as fast as it can, so that the program never waits for long.
fn count(mut reader: PipeReader, steps: &AtomicU64) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => {
                steps.fetch_add(read as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
