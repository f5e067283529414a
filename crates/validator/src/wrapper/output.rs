//! The program's output, in files that the wrapper owns: the agent may die and nobody's pipe breaks.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::program::Pipes;

/// A file is set aside at this size; one earlier part is kept.
const ROTATE_AT_BYTES: u64 = 8 * 1024 * 1024;
/// When nothing of the container is left its pipes have ended, unless the program handed one to a
/// stranger. Nobody waits for a stranger.
const STRANGERS_PIPE: Duration = Duration::from_secs(1);

/// `stdout.log` and `stderr.log`, opened before the program starts: where its output cannot be kept it
/// must not run unheard.
#[derive(Debug)]
pub(super) struct Logs {
    stdout: RotatingFile,
    stderr: RotatingFile,
}

impl Logs {
    pub(super) fn open(folder: &Path) -> Result<Self, String> {
        let open = |name| {
            let path = folder.join(name);
            let shown = path.display().to_string();
            RotatingFile::open(path, ROTATE_AT_BYTES)
                .map_err(|error| format!("cannot write {shown}: {error}"))
        };
        Ok(Self { stdout: open("stdout.log")?, stderr: open("stderr.log")? })
    }

    /// Copies until both pipes end, on threads of its own.
    pub(super) fn take(self, (stdout, stderr): Pipes) -> io::Result<Pumps> {
        // The channel carries nothing; it closes when both threads have ended.
        let (running, done) = mpsc::channel::<()>();
        if let Some(pipe) = stdout {
            pump("stdout", pipe, self.stdout, running.clone())?;
        }
        if let Some(pipe) = stderr {
            pump("stderr", pipe, self.stderr, running)?;
        }
        Ok(Pumps { done })
    }
}

/// The threads that copy.
#[derive(Debug)]
pub(super) struct Pumps {
    done: Receiver<()>,
}

impl Pumps {
    /// Waits until everything that was written is in the files.
    pub(super) fn finish(self) {
        if self.done.recv_timeout(STRANGERS_PIPE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("a process outside of the container holds its output open");
        }
    }
}

fn pump(
    name: &str,
    mut pipe: impl Read + Send + 'static,
    mut file: RotatingFile,
    running: mpsc::Sender<()>,
) -> io::Result<()> {
    let copy = move || {
        let _running = running;
        let mut buffer = vec![0; 64 * 1024];
        let mut told = false;
        loop {
            let read = match pipe.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            // A full disk loses output; it must not hold up the program as well.
            if let Err(error) = file.write(&buffer[..read])
                && !std::mem::replace(&mut told, true)
            {
                tracing::error!(%error, path = %file.path.display(), "output is lost");
            }
        }
    };
    thread::Builder::new().name(name.into()).spawn(copy).map(drop)
}

/// A file of bounded size beside its `.1`.
#[derive(Debug)]
struct RotatingFile {
    path: PathBuf,
    file: File,
    size: u64,
    rotate_at: u64,
}

impl RotatingFile {
    fn open(path: PathBuf, rotate_at: u64) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let size = file.metadata()?.len();
        Ok(Self { path, file, size, rotate_at })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.size > 0 && self.size + bytes.len() as u64 > self.rotate_at {
            let mut earlier = self.path.clone().into_os_string();
            earlier.push(".1");
            fs::rename(&self.path, earlier)?;
            *self = Self::open(std::mem::take(&mut self.path), self.rotate_at)?;
        }
        self.file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stays_small_and_keeps_one_earlier_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout.log");
        let mut file = RotatingFile::open(path.clone(), 10).unwrap();
        for part in ["12345", "67890", "abc", "defghijk", "a single write may be longer"] {
            file.write(part.as_bytes()).unwrap();
        }
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!(read(&path), "a single write may be longer");
        assert_eq!(read(&folder.path().join("stdout.log.1")), "defghijk");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let error = Logs::open(Path::new("/proc/nowhere")).unwrap_err();
        assert!(error.contains("/proc/nowhere/stdout.log"), "{error}");
    }
}
