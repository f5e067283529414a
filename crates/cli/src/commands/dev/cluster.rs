//! The processes of a `steadfast dev`: started, kept, and stopped.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use steadfast_client::Client;
use tokio::process::Command;
use tokio::sync::mpsc;

use super::folder::Folder;
use super::keys::Keys;
use super::leftovers::{Child, KILL_PATIENCE, PATIENCE, Record};
use super::process::{Process, boot_id};
use crate::out::Account;
use crate::runtime::EndRequests;

/// A cluster that has not started by then never will.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// From the coordinator's SIGTERM to its SIGKILL.
const COORDINATOR_PATIENCE: Duration = Duration::from_secs(5);
/// A coordinator that lived for less died of itself rather than of somebody's hand …
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// … and is then not started again at once, and not more often than this.
const PAUSE_AFTER_SHORT_LIFE: Duration = Duration::from_millis(500);
const SHORT_LIVES: u32 = 10;
/// Bytes of a log that an error repeats, at most.
const EXCERPT_BYTES: u64 = 2_000;

/// Which process. Members come first, because they are stopped first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// From 1.
    Member(u32),
    /// From 1; one of them decides.
    Coordinator(u32),
}

impl Role {
    fn is_coordinator(self) -> bool {
        matches!(self, Self::Coordinator(_))
    }

    /// As its log is called.
    fn name(self) -> String {
        match self {
            Self::Coordinator(1) => "coordinator".into(),
            Self::Coordinator(number) => format!("coordinator-{number}"),
            Self::Member(number) => format!("member-{number}"),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Coordinator(1) => f.write_str("the coordinator"),
            Self::Coordinator(number) => write!(f, "coordinator {number}"),
            Self::Member(number) => write!(f, "member {number}"),
        }
    }
}

struct Running {
    process: Process,
    start_time: u64,
    since: Instant,
    /// Where this run's part of the log begins.
    log_from: u64,
}

/// A process that has ended.
struct Exit {
    role: Role,
    status: ExitStatus,
}

/// What the processes of a cluster are started with.
pub struct Setup {
    /// Where each coordinator listens.
    pub listen: Vec<SocketAddr>,
    /// Where the coordinators keep their state, as their `--store` says it.
    pub store: String,
    /// Of each member.
    pub slots: u32,
    pub keys: Option<Keys>,
    /// As `--option` takes them, for every coordinator.
    pub options: Vec<String>,
}

/// The processes, and what is needed to start one more.
pub struct Cluster<'a> {
    folder: Folder,
    executable: PathBuf,
    boot_id: String,
    setup: Setup,
    account: &'a RefCell<Account>,
    running: BTreeMap<Role, Running>,
    exited: mpsc::UnboundedSender<Exit>,
    exits: mpsc::UnboundedReceiver<Exit>,
}

impl<'a> Cluster<'a> {
    /// No process yet.
    ///
    /// # Errors
    /// The system does not say what this program's file is.
    pub fn new(
        folder: Folder,
        setup: Setup,
        account: &'a RefCell<Account>,
    ) -> anyhow::Result<Self> {
        let (exited, exits) = mpsc::unbounded_channel();
        let executable = std::env::current_exe().context("cannot find this program's own file")?;
        let boot_id = boot_id().context("cannot tell this boot from another")?;
        let running = BTreeMap::new();
        Ok(Self { folder, executable, boot_id, setup, account, running, exited, exits })
    }

    /// Of every coordinator.
    pub fn urls(&self) -> Vec<String> {
        self.setup.listen.iter().map(|address| format!("http://{address}")).collect()
    }

    /// A client that the coordinators let in.
    ///
    /// # Errors
    /// An address that does not read as a URL's.
    pub fn client(&self) -> anyhow::Result<Client> {
        let client = Client::new(self.urls())?;
        Ok(match &self.setup.keys {
            Some(keys) => client.with_token(&keys.own),
            None => client,
        })
    }

    pub fn coordinator_pids(&self) -> BTreeSet<u32> {
        self.pids(Role::is_coordinator)
    }

    pub fn member_pids(&self) -> BTreeSet<u32> {
        self.pids(|role| !role.is_coordinator())
    }

    fn pids(&self, which: impl Fn(Role) -> bool) -> BTreeSet<u32> {
        let running = self.running.iter().filter(|(role, _)| which(**role));
        running.map(|(_, running)| running.process.pid).collect()
    }

    /// Starts a process, in a group of its own: a terminal's Ctrl-C is for this program, which then stops
    /// the others in their order.
    ///
    /// # Errors
    /// The system refuses, or the process cannot be noted in the record.
    pub fn start(&mut self, role: Role) -> anyhow::Result<()> {
        let log = self.folder.log(&role.name());
        let cannot = || format!("cannot start {role}");
        let output = File::options().create(true).append(true).open(&log);
        let output = output.with_context(|| format!("cannot write {}", log.display()))?;
        let log_from = output.metadata().with_context(cannot)?.len();
        let mut child = Command::new(&self.executable)
            .args(self.arguments(role)?)
            .stdin(Stdio::null())
            .stdout(output.try_clone().with_context(cannot)?)
            .stderr(output)
            // Whatever the person who started this shows elsewhere is not for these.
            .env_remove("STEADFAST_TOKEN_FILE")
            .process_group(0)
            .spawn()
            .with_context(cannot)?;
        // Not waited for yet, so the pid is its own even if it has ended already.
        let pid = child.id().with_context(cannot)?;
        let process = Process::with_pid(pid).with_context(cannot)?.with_context(cannot)?;
        let start_time = process.start_time().with_context(cannot)?;
        self.running.insert(role, Running { process, start_time, since: Instant::now(), log_from });
        let exited = self.exited.clone();
        tokio::spawn(async move {
            // Waiting for one's own child does not fail, and whoever listened may have gone.
            if let Ok(status) = child.wait().await {
                let _ = exited.send(Exit { role, status });
            }
        });
        self.write_record()
    }

    fn arguments(&self, role: Role) -> anyhow::Result<Vec<String>> {
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.with_context(|| format!("the path {} has a name that is no text", path.display()))
        };
        let owned = |words: &[&str]| -> Vec<String> {
            words.iter().map(|word| (*word).to_owned()).collect()
        };
        let mut arguments: Vec<String> = match role {
            Role::Coordinator(number) => {
                let listen = self.setup.listen[number as usize - 1].to_string();
                let mut words =
                    owned(&["coordinator", "--store", &self.setup.store, "--http", &listen]);
                words.extend(self.setup.options.iter().map(|option| format!("--option={option}")));
                words
            }
            Role::Member(number) => {
                let data = text(&self.folder.member(number))?;
                let (urls, slots) = (self.urls().join(","), self.setup.slots.to_string());
                owned(&["agent", "--coordinators", &urls, "--data", &data, "--slots", &slots])
            }
        };
        match (&self.setup.keys, role) {
            (None, _) => {}
            (Some(keys), Role::Coordinator(_)) => {
                for file in &keys.token_files {
                    arguments.extend(["--auth".to_owned(), text(file)?]);
                }
            }
            (Some(keys), Role::Member(_)) => {
                arguments.extend(["--token-file".to_owned(), text(&keys.member_token_file)?]);
            }
        }
        Ok(arguments)
    }

    fn write_record(&self) -> anyhow::Result<()> {
        let children = self.running.iter().map(|(role, running)| Child {
            name: role.name(),
            pid: running.process.pid,
            start_time: running.start_time,
        });
        let record = Record { boot_id: self.boot_id.clone(), children: children.collect() };
        record.write(&self.folder.record())
    }

    /// Waits until something has come about that starting the cluster needs.
    ///
    /// # Errors
    /// A process ended instead, or it takes too long; names the log to read.
    pub async fn until(&mut self, what: &str, it: impl Future<Output = ()>) -> anyhow::Result<()> {
        tokio::select! {
            () = it => Ok(()),
            (exit, running) = self.next_exit() => {
                let log = self.folder.log(&exit.role.name());
                anyhow::bail!(
                    "{} {} before {what}; its log is {}{}",
                    exit.role,
                    told(exit.status),
                    log.display(),
                    excerpt(&log, running.log_from)
                )
            }
            () = tokio::time::sleep(START_PATIENCE) => anyhow::bail!(
                "after {} s it is still not so that {what}; the logs are in {}",
                START_PATIENCE.as_secs(),
                self.folder.path().join("log").display()
            ),
        }
    }

    /// Keeps the coordinators alive and says which members have gone, for ever.
    ///
    /// Returns only with the reason why a coordinator cannot be kept.
    pub async fn tend(&mut self) -> anyhow::Error {
        let mut short_lives = 0;
        loop {
            let (Exit { role, status }, running) = self.next_exit().await;
            let pid = running.process.pid;
            if !role.is_coordinator() {
                self.say(&format!("{role} (pid {pid}) {}; it is not replaced", told(status)));
                continue;
            }
            self.say(&format!("{role} (pid {pid}) {}; starting it again", told(status)));
            if running.since.elapsed() < SHORT_LIFE {
                short_lives += 1;
                tokio::time::sleep(PAUSE_AFTER_SHORT_LIFE).await;
            } else {
                short_lives = 0;
            }
            if short_lives > SHORT_LIVES {
                let log = self.folder.log(&role.name());
                return anyhow::anyhow!(
                    "{role} does not stay alive; its log is {}{}",
                    log.display(),
                    excerpt(&log, running.log_from)
                );
            }
            if let Err(error) = self.start(role) {
                return error;
            }
        }
    }

    /// Stops everything: the members first, so that a coordinator still hears of it; whoever takes too
    /// long, or is in the way of a second request, is killed.
    pub async fn stop(&mut self, end: &mut EndRequests) {
        let members = |role: &Role| !role.is_coordinator();
        self.stop_all(members, PATIENCE, end).await;
        self.stop_all(|_| true, COORDINATOR_PATIENCE, end).await;
    }

    async fn stop_all(
        &mut self,
        which: impl Fn(&Role) -> bool,
        patience: Duration,
        end: &mut EndRequests,
    ) {
        let running = |cluster: &Self, say: &str, signal: fn(&Process)| {
            for (role, running) in cluster.running.iter().filter(|(role, _)| which(role)) {
                if !say.is_empty() {
                    cluster.say(&format!("{role} (pid {}) {say}", running.process.pid));
                }
                signal(&running.process);
            }
        };
        running(self, "", Process::terminate);
        if self.are_gone(&which, patience, end).await {
            return;
        }
        running(self, "does not end by itself: killing it", Process::kill);
        if !self.are_gone(&which, KILL_PATIENCE, end).await {
            running(self, "does not even end by SIGKILL: leaving it", |_| {});
        }
    }

    /// Waits for the end of these processes, at most for so long, or until somebody asks again.
    async fn are_gone(
        &mut self,
        which: impl Fn(&Role) -> bool,
        patience: Duration,
        end: &mut EndRequests,
    ) -> bool {
        let gone = async {
            while self.running.keys().any(&which) {
                self.next_exit().await;
            }
        };
        tokio::select! {
            () = gone => true,
            () = tokio::time::sleep(patience) => false,
            () = end.next() => false,
        }
    }

    async fn next_exit(&mut self) -> (Exit, Running) {
        loop {
            // This cluster holds a sender, so the channel never closes.
            let Some(exit) = self.exits.recv().await else { return std::future::pending().await };
            if let Some(running) = self.running.remove(&exit.role) {
                if let Err(error) = self.write_record() {
                    self.say(&format!("{error:#}"));
                }
                return (exit, running);
            }
        }
    }

    fn say(&self, text: &str) {
        self.account.borrow_mut().lasting(&format!("steadfast: {text}"));
    }
}

fn told(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// The end of what a process said in this run.
fn excerpt(log: &Path, from: u64) -> String {
    let read = || {
        let mut file = File::open(log)?;
        let length = fs::metadata(log)?.len();
        file.seek(SeekFrom::Start(from.max(length.saturating_sub(EXCERPT_BYTES))))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    match read() {
        Ok(text) if !text.is_empty() => format!(", and ends:\n{text}"),
        _ => String::new(),
    }
}
