//! One wrapper process, watched.
//!
//! The agent and the wrapper share a socket pair: the wrapper's end is its standard input, and each
//! side sees the other's death as its closing. A task per container reads it, passes stops on, reaps the
//! wrapper, and is the second rung of the ladder (05): where the wrapper is stopped or hangs, the agent
//! kills what it should have ended, first all but the wrapper (which can then still prove the end),
//! and a moment later the wrapper too. Where a wrapper was killed, its container is over for the agent
//! only when nothing of it is to be found any more, and proved over only by what it was locked into.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::RecvFlags;
use steadfast_api::{AgentMessage, LaunchOrder, WrapperMessage};
use steadfast_model::{ContainerEvent, ExecutionId, Outcome, Proof};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::enclosure::Enclosure;
use crate::folders::DataDir;
use crate::process::{Belonging, Process};
use crate::rung::{Rung, Step};

/// A line that is longer is no message of a wrapper.
const LONGEST_LINE_BYTES: usize = 1 << 20;
/// How long a rung may be overslept when the machine was suspended, which stops timers but not leases.
const LONGEST_SLEEP_MS: u64 = 1_000;
/// How often what a killed wrapper left behind is killed again and looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Looks after which what is still there is stuck in the kernel, and somebody should know.
const LOOKS_BEFORE_ALARM: u32 = 250;

/// Where wrappers come from and where they live.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The `steadfast` binary, absolute.
    pub executable: PathBuf,
    pub data: DataDir,
}

/// What becomes known about containers.
pub(crate) type Observed = mpsc::UnboundedSender<(ExecutionId, ContainerEvent)>;

/// Runs a container to its end. Each event is observed once; `Ended` always comes.
pub(crate) async fn run(
    order: LaunchOrder,
    setup: Arc<Setup>,
    orders: mpsc::UnboundedReceiver<AgentMessage>,
    observed: Observed,
) {
    let id = order.execution_resource_id;
    match spawn(&order, &setup) {
        Ok((child, socket)) => {
            let rung = Rung::new(boottime_ms(), order.lease, order.validator_enabled);
            let watch = Watch {
                id,
                setup,
                child,
                socket,
                open: true,
                unread: Vec::new(),
                program: None,
                enclosure: Arc::default(),
                rung,
                ended: false,
                observed,
            };
            watch.run(orders).await;
        }
        Err(error) => {
            // A folder that exists was made by an agent before this one: it may have started the program.
            let proof =
                (error.kind() != io::ErrorKind::AlreadyExists).then_some(Proof::NeverStarted);
            let error = format!("cannot start the wrapper of {id}: {error}");
            tracing::error!("{error}");
            let outcome = Some(Outcome::NotStarted { error });
            let _ = observed.send((id, ContainerEvent::Ended { outcome, proof }));
        }
    }
}

fn spawn(order: &LaunchOrder, setup: &Setup) -> io::Result<(Child, UnixStream)> {
    let Setup { executable, data } = setup;
    let id = order.execution_resource_id;
    data.create(id)?;
    if let Some(runs) = &order.runs
        && let Err(error) = data.label(id, runs)
    {
        tracing::warn!(%id, %error, "its output will be found by its id only");
    }
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let ours = UnixStream::from_std(ours)?;
    // What the wrapper itself has to say must not depend on a pipe of the agent's.
    let log = std::fs::File::create(data.logs(id).join("wrapper.log"))?;
    let child = Command::new(executable)
        .args(["exec", "--agent-on-stdin", "--log-dir"])
        .arg(data.logs(id))
        .arg("--")
        .args(command(&order.command, executable))
        .env_clear()
        .envs(environment(std::env::vars_os(), &order.environment))
        .env("STEADFAST_VALIDATOR", order.validator.as_str())
        .current_dir(data.work(id))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .kill_on_drop(false)
        .spawn()?;
    // The command, and with it the agent's copy of the wrapper's end, is gone here; else its closing
    // would never be seen.
    Ok((child, ours))
}

/// The agent's environment without what is the agent's own, under what the container is told.
fn environment(
    own: impl Iterator<Item = (OsString, OsString)>,
    told: &BTreeMap<String, String>,
) -> BTreeMap<OsString, OsString> {
    let is_inherited =
        |(name, _): &(OsString, OsString)| !name.as_encoded_bytes().starts_with(b"STEADFAST_");
    let told = told.iter().map(|(name, value)| (name.into(), value.into()));
    own.filter(is_inherited).chain(told).collect()
}

/// A bare name is looked up beside the running executable first (03); `PATH` is the wrapper's business.
fn command(words: &[String], executable: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
    if let Some(program) = words.first_mut().filter(|program| is_bare(program)) {
        let beside = executable.with_file_name(&program);
        if beside.is_file() {
            *program = beside.into();
        }
    }
    words
}

fn is_bare(program: &OsStr) -> bool {
    !program.is_empty() && !program.as_encoded_bytes().contains(&b'/')
}

struct Watch {
    id: ExecutionId,
    setup: Arc<Setup>,
    child: Child,
    socket: UnixStream,
    /// The wrapper has not closed its end.
    open: bool,
    /// The beginning of a line whose end has not come.
    unread: Vec<u8>,
    program: Option<Process>,
    enclosure: Arc<Enclosure>,
    rung: Rung,
    /// `Ended` was observed.
    ended: bool,
    observed: Observed,
}

impl Watch {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<AgentMessage>) {
        let mut told = true;
        loop {
            let sleep_ms = self.rung.wait_ms(boottime_ms()).min(LONGEST_SLEEP_MS);
            tokio::select! {
                readable = self.socket.readable(), if self.open => match readable {
                    Ok(()) => self.read(|socket, buffer| socket.try_read(buffer)),
                    Err(_) => self.open = false,
                },
                order = orders.recv(), if told => match order {
                    Some(order) => self.tell(&order),
                    None => told = false,
                },
                status = self.child.wait() => {
                    tracing::debug!(id = %self.id, ?status, "wrapper ended");
                    break;
                }
                () = tokio::time::sleep(Duration::from_millis(sleep_ms)) => self.judge().await,
            }
        }
        self.read_directly();
        if !self.ended {
            tracing::warn!(id = %self.id, "the wrapper ended without a word");
            let proof = self.end_what_is_left().await;
            self.observe(ContainerEvent::Ended { outcome: None, proof });
        }
    }

    /// Ends what a killed wrapper left behind, and waits as long as any of it is there, whatever the
    /// lease says (03). Without an enclosure a look finds nobody where somebody hides; that is no proof,
    /// and the lease runs out.
    async fn end_what_is_left(&self) -> Option<Proof> {
        for look in 1_u32.. {
            self.kill(None).await;
            if let Some(proof) = self.enclosure.proof() {
                self.enclosure.remove();
                return Some(proof);
            }
            if !self.enclosure.is_there() && !self.lives().await {
                return None;
            }
            if look == LOOKS_BEFORE_ALARM {
                tracing::error!(id = %self.id, "killed, and still there: stuck in the kernel");
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        None
    }

    async fn lives(&self) -> bool {
        let belonging = Belonging { id: self.id, program: self.program, spare: None };
        // A look that cannot be taken has found nobody.
        tokio::task::spawn_blocking(move || belonging.lives()).await.unwrap_or_default()
    }

    /// Looks whether the agent has to act, after hearing everything that the wrapper has said: an agent
    /// that was itself stopped finds the extensions of the lease in the socket.
    async fn judge(&mut self) {
        self.read_directly();
        if self.ended {
            return;
        }
        let wrapper = self.child.id();
        let (spare, rung) = match self.rung.step(boottime_ms()) {
            None => return,
            Some(Step::KillProgram) => (wrapper, "program"),
            Some(Step::KillWrapper) => (None, "wrapper"),
        };
        let hit = self.kill(spare).await;
        tracing::warn!(id = %self.id, hit, rung, "the wrapper did not end its container in time");
        if spare.is_none() {
            // Not reaped yet, so the pid is still its own. It fails only if the wrapper has just ended.
            let _ = self.child.start_kill();
        }
    }

    async fn kill(&self, spare: Option<u32>) -> usize {
        let belonging = Belonging { id: self.id, program: self.program, spare };
        let enclosure = Arc::clone(&self.enclosure);
        let kill = move || {
            // The wrapper is outside.
            enclosure.kill();
            belonging.kill()
        };
        tokio::task::spawn_blocking(kill).await.unwrap_or_default()
    }

    fn tell(&mut self, order: &AgentMessage) {
        if let AgentMessage::Stop { grace_ms, .. } = order {
            self.rung.stopping(boottime_ms(), *grace_ms);
        }
        // Both variants are plain data; they always serialise.
        let Ok(mut line) = serde_json::to_vec(order) else { return };
        line.push(b'\n');
        // A handful of short lines fits into the socket's buffer whether or not anybody reads them, so a
        // failure means that the wrapper is gone, which its exit tells better.
        if let Err(error) = self.socket.try_write(&line) {
            tracing::debug!(id = %self.id, %error, "the wrapper was not told");
        }
    }

    /// Reads past the runtime's idea of readiness, which may lag behind after a stop.
    fn read_directly(&mut self) {
        self.read(|socket, buffer| {
            Ok(rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT).map(|(bytes, _)| bytes)?)
        });
    }

    fn read(&mut self, receive: impl Fn(&UnixStream, &mut [u8]) -> io::Result<usize>) {
        let mut buffer = [0; 4_096];
        while self.open {
            match receive(&self.socket, &mut buffer) {
                Ok(0) => self.open = false,
                Ok(bytes) => self.take_lines(&buffer[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.open = false,
            }
        }
    }

    fn take_lines(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.unread.extend_from_slice(piece);
            if self.unread.ends_with(b"\n") {
                let line = std::mem::take(&mut self.unread);
                match serde_json::from_slice(&line) {
                    Ok(message) => self.heard(message),
                    Err(error) => tracing::warn!(id = %self.id, %error, "not understood"),
                }
            } else if self.unread.len() > LONGEST_LINE_BYTES {
                self.unread.clear();
            }
        }
    }

    fn heard(&mut self, message: WrapperMessage) {
        match message {
            WrapperMessage::Started { pid, wrapper_pid } => {
                self.program = Process::of_container(pid, self.id, self.child.id());
                self.observe(ContainerEvent::Started { pid, wrapper_pid });
            }
            WrapperMessage::Enclosed { cgroup, init_pid } => {
                let enclosure = Enclosure::told(self.id, cgroup, init_pid);
                if let Some(cgroup) = enclosure.cgroup() {
                    self.setup.data.remember_cgroup(self.id, cgroup);
                }
                self.enclosure = Arc::new(enclosure);
            }
            WrapperMessage::Lease { until_ms } => self.rung.extended(until_ms),
            WrapperMessage::Ended { outcome, proof } => {
                self.observe(ContainerEvent::Ended { outcome: Some(outcome), proof: Some(proof) });
                self.tell(&AgentMessage::EndSeen);
            }
        }
    }

    fn observe(&mut self, event: ContainerEvent) {
        if self.ended {
            return;
        }
        self.ended = matches!(event, ContainerEvent::Ended { .. });
        // Nobody listens only when the agent is going.
        let _ = self.observed.send((self.id, event));
    }
}

/// Milliseconds of `CLOCK_BOOTTIME`, the clock of all leases.
fn boottime_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // It counts from boot, so neither part is ever negative.
    now.tv_sec.unsigned_abs() * 1_000 + now.tv_nsec.unsigned_abs() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_inherits_everything_but_what_is_the_agents_own() {
        let own = [("PATH", "/bin"), ("STEADFAST_TOKEN", "secret"), ("LANG", "C")];
        let own = own.map(|(name, value)| (name.into(), value.into()));
        let told = [("LANG", "de"), ("STEADFAST_JOB_ID", "7")];
        let told = BTreeMap::from(told.map(|(name, value)| (name.into(), value.into())));
        let expected = [("LANG", "de"), ("PATH", "/bin"), ("STEADFAST_JOB_ID", "7")];
        let expected = expected.map(|(name, value)| (name.into(), value.into()));
        assert_eq!(environment(own.into_iter(), &told), BTreeMap::from(expected));
    }

    #[test]
    fn a_bare_name_is_looked_up_beside_the_executable() {
        let folder = tempfile::tempdir().unwrap();
        let (executable, reader) = (folder.path().join("steadfast"), folder.path().join("reader"));
        std::fs::write(&reader, "").unwrap();
        let words = |program: &str| [program.to_owned(), "reader".into()];
        let found = command(&words("reader"), &executable);
        assert_eq!(found, [reader.as_os_str(), OsStr::new("reader")], "arguments are left alone");
        assert_eq!(command(&words("sh"), &executable)[0], "sh");
        assert_eq!(command(&words("./reader"), &executable)[0], "./reader");
    }
}
