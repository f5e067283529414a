//! The product's programs, as a person starts them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::wait_until;

/// A program of the release build, in the target folder in which this test was built.
///
/// # Panics
/// When it was not built. Tests do not build what they run: they would measure the compiler.
#[track_caller]
pub fn binary(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("Linux tells a program where it lies");
    // target/<profile>/deps/<test> or target/<profile>/<scenes>
    let target = own.ancestors().skip(1).find(|folder| folder.join("CACHEDIR.TAG").is_file());
    let target = target.unwrap_or_else(|| panic!("{} is in no target folder", own.display()));
    let binary = target.join("release").join(name);
    assert!(
        binary.is_file(),
        "{} is missing: start the tests with `cargo xtask e2e`, which builds it first",
        binary.display()
    );
    binary
}

/// The job file of the example.
pub fn example_job() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/wordcount.conf")
}

/// A command that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// `None` where a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// A command that may still run; its output goes to files, so that nothing waits for a reader.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    /// Starts it with its output in `<name>.log` and `<name>.err.log`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command, folder: &Path, name: &str) -> Self {
        let stdout = folder.join(format!("{name}.log"));
        let stderr = folder.join(format!("{name}.err.log"));
        let file = |path: &Path| {
            File::create(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        command.stdin(Stdio::null()).stdout(file(&stdout)).stderr(file(&stderr));
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, stdout, stderr }
    }

    /// Its pid. Not reaped before it is waited for here, so it stays its own.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// How it ended; `None` while it runs.
    pub fn ended(&mut self) -> Option<Finished> {
        let status: ExitStatus = self.child.try_wait().expect("the child is our own")?;
        Some(Finished { code: status.code(), stdout: self.stdout(), stderr: self.stderr() })
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end in time.
    #[track_caller]
    pub fn finish(&mut self, limit: Duration) -> Finished {
        wait_until(limit, "the end of a command", || self.ended())
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}
