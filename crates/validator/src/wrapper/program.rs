//! The program's processes: started, signalled, reaped.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{ChildStderr, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait};

use steadfast_api::WrapperMessage;

use super::descendants;
use super::enclosure::Enclosure;
use super::ladder::{ProgramEnd, Reaped};
use crate::clock::BootTime;

/// Everything below the wrapper. Clones share one state: the deadline thread holds one.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    /// The program's pid until it is reaped, else 0. It also is its group's id, which can only be given
    /// to somebody else after the program was reaped.
    pid: Arc<AtomicI32>,
    enclosure: Arc<Enclosure>,
}

/// The program's ends of the pipes, where it has some.
pub(super) type Pipes = (Option<ChildStdout>, Option<ChildStderr>);

/// What a program is given.
#[derive(Debug)]
pub(super) struct Streams {
    /// The wrapper's own standard input; else an empty one.
    pub(super) inherit_stdin: bool,
    /// Pipes for standard output and error; else the wrapper's own.
    pub(super) pipe_output: bool,
    /// Where it reports its progress.
    pub(super) progress: Option<OwnedFd>,
}

impl Program {
    /// One that is not started, in its enclosure.
    pub(super) fn new(enclosure: Enclosure) -> Self {
        Self { pid: Arc::default(), enclosure: Arc::new(enclosure) }
    }

    /// Starts it. To be called on the main thread only: the program dies with the thread that forked it.
    ///
    /// # Errors
    /// Names the command and what the system said.
    pub(super) fn start(
        &self,
        command: &[OsString],
        streams: Streams,
    ) -> Result<(u32, Pipes), String> {
        let Streams { inherit_stdin, pipe_output, progress } = streams;
        let (name, arguments) = command.split_first().ok_or("there is no command")?;
        let mut program = Command::new(name);
        program.args(arguments);
        if !inherit_stdin {
            program.stdin(Stdio::null());
        }
        if pipe_output {
            program.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        if let Some(progress) = &progress {
            program.env("STEADFAST_PROGRESS_FD", progress.as_raw_fd().to_string());
        }
        let mut child = self
            .enclosure
            .spawn(&mut program, progress)
            .map_err(|error| format!("cannot start {}: {error}", name.display()))?;
        let pipes = (child.stdout.take(), child.stderr.take());
        let pid = child.id();
        // A pid fits: the kernel's own type for it is this one.
        self.pid.store(pid.cast_signed(), Ordering::SeqCst);
        Ok((pid, pipes))
    }

    /// What an agent should know of its enclosure; to be asked before it is reaped.
    pub(super) fn enclosed(&self, pid: u32) -> Option<WrapperMessage> {
        self.enclosure.around(pid)
    }

    /// By then all of it has ended, whether or not this process can see to it.
    pub(super) fn ends_at(&self, at: BootTime) {
        self.enclosure.ends_at(at);
    }

    /// Nothing is left of it, or nothing was started.
    pub(super) fn clear(&self) {
        self.enclosure.take_down();
    }

    /// Whether its own process is there.
    pub(super) fn runs(&self) -> bool {
        self.group().is_some()
    }

    /// Passes a signal on to the program's group, if the program still runs.
    pub(super) fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.group() {
            // The group may be gone already; reaping will tell.
            let _ = kill_process_group(group, signal);
        }
    }

    /// SIGTERM to the program's group, or to whatever the program left behind. Never SIGCONT: a
    /// stopped program must not do one more step.
    pub(super) fn terminate(&self) {
        match self.group() {
            Some(_) => self.signal_group(Signal::TERM),
            None => {
                descendants::signal_all(Signal::TERM);
                self.enclosure.ends_when_empty();
            }
        }
    }

    /// SIGKILL to all of it: to whom the enclosure holds and to the group, each in one stroke, and to
    /// every descendant that left both.
    pub(super) fn kill(&self) {
        self.enclosure.kill();
        self.signal_group(Signal::KILL);
        descendants::signal_all(Signal::KILL);
    }

    /// Takes the status of every child that has ended, adopted ones included. Never blocks.
    pub(super) fn reap(&self) -> Reaped {
        let mut reaped = Reaped::default();
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Some(pid) == self.group() => {
                    self.pid.store(0, Ordering::SeqCst);
                    reaped.program = Some(end_of(status));
                }
                Ok(Some((pid, status))) => reaped.rest_killed |= self.enclosure.reaped(pid, status),
                Err(Errno::INTR) => {}
                Ok(None) => return reaped,
                Err(error) => {
                    reaped.no_child_left = error == Errno::CHILD;
                    return reaped;
                }
            }
        }
    }

    fn group(&self) -> Option<Pid> {
        Pid::from_raw(self.pid.load(Ordering::SeqCst))
    }
}

/// Makes this process the parent of every descendant that loses its own.
pub(super) fn become_subreaper() -> io::Result<()> {
    // Any pid switches it on; the kernel only asks whether the argument is zero.
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

fn end_of(status: WaitStatus) -> ProgramEnd {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ProgramEnd::Exited(code),
        (None, Some(signal)) => ProgramEnd::Signaled(signal),
        // Stops are not asked for, so there is no third kind.
        (None, None) => ProgramEnd::Exited(255),
    }
}
