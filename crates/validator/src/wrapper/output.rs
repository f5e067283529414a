//! The program's output, in files that the wrapper owns: the agent may die and nobody's pipe breaks.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use steadfast_api::LogStream;

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
        let open = |stream| {
            RotatingFile::open(folder, stream, ROTATE_AT_BYTES).map_err(|error| {
                let path = folder.join(LogStream::file_name(stream));
                format!("cannot write {}: {error}", path.display())
            })
        };
        Ok(Self { stdout: open(LogStream::Stdout)?, stderr: open(LogStream::Stderr)? })
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
                tracing::error!(%error, path = %file.path().display(), "output is lost");
            }
        }
    };
    thread::Builder::new().name(name.into()).spawn(copy).map(drop)
}

/// A file of bounded size, and one that was set aside before it. Together they are the newest part of the
/// output without a gap, and their names and lengths say which part ([`LogStream::earlier_file_name`]).
#[derive(Debug)]
struct RotatingFile {
    folder: PathBuf,
    stream: LogStream,
    file: File,
    /// Where in the output the file begins.
    begins: u64,
    size: u64,
    rotate_at: u64,
}

impl RotatingFile {
    fn open(folder: &Path, stream: LogStream, rotate_at: u64) -> io::Result<Self> {
        let newest = earlier(folder, stream)?.into_iter().max();
        let begins = newest.map_or(Ok(0), |begins| {
            let earlier = fs::metadata(folder.join(stream.earlier_file_name(begins)))?;
            Ok::<_, io::Error>(begins + earlier.len())
        })?;
        let file = append_to(&folder.join(stream.file_name()))?;
        let size = file.metadata()?.len();
        Ok(Self { folder: folder.into(), stream, file, begins, size, rotate_at })
    }

    fn path(&self) -> PathBuf {
        self.folder.join(self.stream.file_name())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.size > 0 && self.size + bytes.len() as u64 > self.rotate_at {
            self.rotate()?;
        }
        self.file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Sets the file aside and begins the next one. The one before it goes last, so that whatever fails on
    /// the way, nothing is missing between two files.
    fn rotate(&mut self) -> io::Result<()> {
        let aside = self.folder.join(self.stream.earlier_file_name(self.begins));
        // A full disk may have cut a write short: the file knows how long it is.
        let size = self.file.metadata()?.len();
        fs::rename(self.path(), aside)?;
        self.file = append_to(&self.path())?;
        let set_aside = self.begins;
        self.begins += size;
        self.size = 0;
        for begins in earlier(&self.folder, self.stream)? {
            if begins != set_aside {
                fs::remove_file(self.folder.join(self.stream.earlier_file_name(begins)))?;
            }
        }
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Where the files begin that were set aside.
fn earlier(folder: &Path, stream: LogStream) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        found.extend(entry?.file_name().to_str().and_then(|name| stream.begins(name)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stays_small_and_keeps_one_earlier_part_whose_name_says_where_it_begins() {
        let folder = tempfile::tempdir().unwrap();
        let open = || RotatingFile::open(folder.path(), LogStream::Stdout, 10).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let mut file = open();
        for part in ["12345", "67890", "abc"] {
            file.write(part.as_bytes()).unwrap();
        }
        assert_eq!((read("stdout.log.0"), read("stdout.log")), ("1234567890".into(), "abc".into()));
        // Who opens it again goes on where the other one ended.
        let mut file = open();
        for part in ["defghijk", "a single write may be longer"] {
            file.write(part.as_bytes()).unwrap();
        }
        assert_eq!(read("stdout.log"), "a single write may be longer");
        assert_eq!(read("stdout.log.13"), "defghijk");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let error = Logs::open(Path::new("/proc/nowhere")).unwrap_err();
        assert!(error.contains("/proc/nowhere/stdout.log"), "{error}");
    }
}
