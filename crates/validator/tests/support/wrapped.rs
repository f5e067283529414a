//! A wrapper process around a script, and its agent's end of the socket.

use std::io::{BufRead, BufReader, Write};
use std::ops::Not;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use steadfast_api::{AgentMessage, ContainerEnded, WrapperMessage};
use steadfast_model::{Outcome, Proof, StopCause};

use super::{FakeCoordinator, SECRET, environment, eventually, runs};

/// A program that notes its pid and goes on until SIGTERM.
pub const GOES_ON: &str = "echo $$ > pid; exec sleep 1000";
/// The same, deaf to SIGTERM.
pub const DEAF: &str = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done";

/// A wrapper around `sh -c SCRIPT`, in a folder of its own.
pub struct Wrapped {
    pub child: Child,
    pub id: String,
    folder: tempfile::TempDir,
    agent: Option<Agent>,
}

/// The agent's end of the socket.
pub struct Agent {
    socket: UnixStream,
    pub heard: Arc<Mutex<Vec<WrapperMessage>>>,
}

pub struct Start<'a> {
    coordinators: &'a [&'a FakeCoordinator],
    agent: bool,
    logs: bool,
    unprivileged: bool,
    stdin: Stdio,
    full_disk: Option<&'static str>,
    variables: Vec<(&'static str, &'static str)>,
}

impl<'a> Start<'a> {
    pub fn alone(coordinators: &'a [&'a FakeCoordinator]) -> Self {
        Self {
            coordinators,
            agent: false,
            logs: false,
            unprivileged: false,
            stdin: Stdio::null(),
            full_disk: None,
            variables: Vec::new(),
        }
    }

    pub fn with_agent(coordinators: &'a [&'a FakeCoordinator]) -> Self {
        Self { agent: true, logs: true, ..Self::alone(coordinators) }
    }

    pub fn with(mut self, variable: (&'static str, &'static str)) -> Self {
        self.variables.push(variable);
        self
    }

    pub fn with_stdin(mut self, stdin: Stdio) -> Self {
        self.stdin = stdin;
        self
    }

    /// What is written to this file of the log folder finds no room.
    pub fn with_full_disk(mut self, name: &'static str) -> Self {
        self.full_disk = Some(name);
        self
    }

    /// As a user who may make neither a namespace nor a cgroup. Without root every test runs so.
    pub fn unprivileged(mut self) -> Self {
        self.unprivileged = geteuid().is_root();
        self
    }

    pub fn sh(self, script: &str) -> Wrapped {
        self.command(&["sh", "-c", script])
    }

    pub fn command(self, program: &[&str]) -> Wrapped {
        let folder = tempfile::tempdir().unwrap();
        let mut command = if self.unprivileged {
            let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
            let mut command = Command::new("setpriv");
            command.args(nobody).arg(EVERYBODYS.path().join("steadfast-exec"));
            std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
            command
        } else {
            Command::new(env!("CARGO_BIN_EXE_steadfast-exec"))
        };
        command
            .current_dir(folder.path())
            .envs(environment(self.coordinators))
            .envs(self.variables)
            .stdin(self.stdin)
            .stdout(Stdio::piped())
            .process_group(0);
        if let Some(name) = self.full_disk {
            std::os::unix::fs::symlink("/dev/full", folder.path().join(name)).unwrap();
        }
        if self.logs {
            command.arg("--log-dir").arg(folder.path());
        }
        let mut agent = None;
        if self.agent {
            let (ours, theirs) = UnixStream::pair().unwrap();
            command.arg("--agent-on-stdin").stdin(OwnedFd::from(theirs));
            agent = Some(Agent::listen(ours));
        }
        let child = command.arg("--").args(program).spawn().unwrap();
        Wrapped { child, id: self.coordinators[0].id.clone(), folder, agent }
    }
}

impl Agent {
    fn listen(socket: UnixStream) -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (reader, hearing) = (BufReader::new(socket.try_clone().unwrap()), heard.clone());
        thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                hearing.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        Self { socket, heard }
    }

    pub fn tell(&self, message: &AgentMessage) {
        writeln!(&self.socket, "{}", serde_json::to_string(message).unwrap()).unwrap();
    }

    pub fn waits_for<T>(&self, what: &str, pick: impl Fn(&WrapperMessage) -> Option<T>) -> T {
        eventually(what, || self.heard.lock().unwrap().iter().find_map(&pick))
    }

    pub fn waits_for_the_end(&self) -> (Outcome, Proof) {
        self.waits_for("the end", |message| match message {
            WrapperMessage::Ended { outcome, proof } => Some((outcome.clone(), *proof)),
            _ => None,
        })
    }

    /// Its socket closes, as when it is killed.
    pub fn dies(&self) {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
    }
}

impl Wrapped {
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn agent(&self) -> &Agent {
        self.agent.as_ref().unwrap()
    }

    /// The process that wrote its own pid into a file, in this test's numbering: its own may be that of
    /// a namespace.
    pub fn pid(&self, name: &str) -> u32 {
        let inner = pid_in(&self.path(name));
        eventually("a living process of that pid", || {
            self.living().into_iter().find(|pid| innermost_pid(*pid) == Some(inner))
        })
    }

    /// Every living process of the container, the wrapper not among them.
    pub fn living(&self) -> Vec<u32> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| *pid != self.child.id() && runs(*pid) && carries(*pid, &self.id))
            .collect()
    }

    pub fn signal(&self, signal: Signal) {
        signal_to(self.child.id(), signal);
    }

    pub fn code(&mut self) -> i32 {
        self.status().code().expect("the wrapper exits, whatever ended the program")
    }

    pub fn status(&mut self) -> ExitStatus {
        eventually("the wrapper's end", || self.child.try_wait().unwrap())
    }
}

/// What a failed test leaves behind must not outlive it, and neither must a killed wrapper's cgroup.
impl Drop for Wrapped {
    fn drop(&mut self) {
        let name = format!("steadfast-{}", self.id);
        let memberships = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok();
        let memberships: Vec<String> = self.living().iter().filter_map(memberships).collect();
        let _ = self.child.kill();
        let _ = self.child.wait();
        let paths = memberships.iter().flat_map(|all| all.lines());
        let own =
            paths.filter_map(|line| line.strip_prefix("0::/")).find(|path| path.ends_with(&name));
        for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
            let folder = Path::new(root).join(own.unwrap_or(&name));
            let _ = std::fs::write(folder.join("cgroup.kill"), "1");
            eventually("an empty cgroup", || {
                // Not there, or gone, or not empty yet.
                let removed = std::fs::remove_dir(&folder);
                removed.is_err_and(|error| error.raw_os_error() == Some(16)).not().then_some(())
            });
        }
    }
}

/// The binary where every user may execute it.
static EVERYBODYS: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("steadfast-exec");
    std::fs::copy(env!("CARGO_BIN_EXE_steadfast-exec"), &copy).unwrap();
    for path in [folder.path(), &copy] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    folder
});

fn carries(pid: u32, id: &str) -> bool {
    let wanted = format!("EXECUTION_RESOURCE_ID={id}");
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}

/// What a process takes its own pid for.
fn innermost_pid(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    pids.split_ascii_whitespace().last()?.parse().ok()
}

fn pid_in(path: &Path) -> u32 {
    eventually("a pid in a file", || {
        std::fs::read_to_string(path).ok()?.strip_suffix('\n')?.parse().ok()
    })
}

pub fn signal_to(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// The one good-bye that was sent.
pub fn good_bye(coordinator: &FakeCoordinator) -> ContainerEnded {
    let good_byes = coordinator.good_byes();
    let [good_bye] = &good_byes[..] else { panic!("{good_byes:?}") };
    assert_eq!(good_bye.target, "/containerEnded");
    assert_eq!(good_bye.authorization, format!("Bearer {SECRET}"));
    let end: ContainerEnded = serde_json::from_str(&good_bye.body).unwrap();
    assert_eq!(end.execution_resource_id.to_string(), coordinator.id);
    end
}

pub fn assert_ended(coordinator: &FakeCoordinator, outcome: Outcome) {
    let end = good_bye(coordinator);
    assert_eq!((end.outcome, end.proof), (outcome, Some(Proof::NoChildLeft)));
}

pub fn ended(why: StopCause, killed: bool) -> Outcome {
    Outcome::Ended { why, killed }
}
