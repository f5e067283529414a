//! A coordinator in this process and a wrapper of a few lines of shell, so that a test decides what the
//! agent hears and when.

use std::collections::BTreeMap;
use std::future::Future;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use steadfast_agent::{AgentConfig, Timings};
use steadfast_api::{
    ContainerReport, FromAgent, Hello, LaunchOrder, LogPart, LogQuestion, LogRequest,
    TaskGroupAttempt, ToAgent,
};
use steadfast_model::{
    ContainerEvent, Epoch, ExecutionId, InvalidReason, JobId, LeaseTerms, TaskGroupId, TermNonce,
    ValidatorKind,
};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// Only a broken agent needs this long.
const PATIENCE: Duration = Duration::from_secs(30);

pub async fn soon<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("never: {what}"))
}

/// Waits until something that nobody announces has become true.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    let poll = async {
        while !condition() {
            // The one loop that polls: nobody announces what it waits for.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(what, poll).await;
}

/// Whether a process runs; a zombie does not.
pub fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

pub struct Coordinator {
    listener: TcpListener,
}

impl Coordinator {
    pub async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }

    pub async fn socket(&self) -> TcpStream {
        soon("a connection", self.listener.accept()).await.unwrap().0
    }

    /// The next connection, and the hello on it.
    pub async fn accept(&self) -> (Connection, Hello) {
        let socket = tokio_tungstenite::accept_async(self.socket().await).await.unwrap();
        let mut connection = Connection { socket };
        match connection.hear().await {
            FromAgent::Hello(hello) => (connection, hello),
            other => panic!("{other:?}"),
        }
    }

    /// The next connection, welcomed.
    pub async fn welcome(&self, epoch: u64) -> (Connection, Hello) {
        let (mut connection, hello) = self.accept().await;
        let (epoch, coordinators) = (Epoch::new(epoch), vec![self.url()]);
        connection.say(ToAgent::Welcome { epoch, coordinators, cluster: None }).await;
        (connection, hello)
    }
}

pub struct Connection {
    socket: WebSocketStream<TcpStream>,
}

impl Connection {
    pub async fn say(&mut self, message: ToAgent) {
        let text = serde_json::to_string(&message).unwrap();
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// The next message that is no beat.
    pub async fn hear(&mut self) -> FromAgent {
        loop {
            let frame = soon("a message", self.socket.next()).await.expect("closed").unwrap();
            let Message::Text(text) = frame else { panic!("{frame:?}") };
            match serde_json::from_str(&text).unwrap() {
                FromAgent::Beat => {}
                message => return message,
            }
        }
    }

    /// Asks about output, and waits for the part that answers it.
    pub async fn read_part(&mut self, request: u64, question: LogQuestion) -> LogPart {
        self.say(ToAgent::Log(LogRequest { request, question })).await;
        loop {
            let frame = soon("a part", self.socket.next()).await.expect("closed").unwrap();
            if let Message::Binary(frame) = frame {
                return LogPart::from_frame(&frame).unwrap();
            }
        }
    }

    pub async fn hear_report(&mut self) -> (ExecutionId, ContainerEvent) {
        match self.hear().await {
            FromAgent::Report(ContainerReport { execution_resource_id, event }) => {
                (execution_resource_id, event)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Launches a container and hears of its start; returns the pids of program and wrapper.
    pub async fn start(&mut self, order: LaunchOrder) -> (u32, u32) {
        let id = order.execution_resource_id;
        self.say(ToAgent::Launch(order)).await;
        match self.hear_report().await {
            (of, ContainerEvent::Started { pid, wrapper_pid }) if of == id => (pid, wrapper_pid),
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the agent closes; it may say something before.
    pub async fn closed(mut self) {
        let all = async { while let Some(Ok(_)) = self.socket.next().await {} };
        soon("the end of the connection", all).await;
    }
}

static TESTS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// A term for each test (each has its thread), of each run: an agent finds and ends processes by their
    /// execution id, so two tests with one id would end each other's containers.
    static TERM: TermNonce = TermNonce::new(
        u64::from(std::process::id()) << 32 | TESTS.fetch_add(1, Ordering::Relaxed),
    );
}

pub fn id(seq: u64) -> ExecutionId {
    ExecutionId::of_term(TERM.with(|term| *term), seq)
}

pub fn order(epoch: u64, seq: u64, behaviour: &str) -> LaunchOrder {
    let environment = [("EXECUTION_RESOURCE_ID".into(), id(seq).to_string())];
    LaunchOrder {
        epoch: Epoch::new(epoch),
        execution_resource_id: id(seq),
        runs: Some(attempt_of(seq)),
        command: vec![behaviour.into()],
        environment: BTreeMap::from(environment),
        lease: LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 },
        validator: ValidatorKind::Wrapper,
        validator_enabled: true,
    }
}

/// What a container runs: a job and a task group of its number, its first attempt.
pub fn attempt_of(seq: u64) -> TaskGroupAttempt {
    let task_group_id = TaskGroupId::new(u32::try_from(seq).unwrap());
    TaskGroupAttempt { job_id: JobId::new(seq), task_group_id, attempt: 1 }
}

pub fn stop(epoch: u64, seq: u64) -> ToAgent {
    ToAgent::Stop {
        epoch: Epoch::new(epoch),
        execution_resource_id: id(seq),
        reason: InvalidReason::Canceled,
        grace_ms: 5_000,
    }
}

pub fn acknowledge(seq: u64) -> ToAgent {
    ToAgent::Acknowledge { execution_resource_id: id(seq) }
}

/// An agent in this process. Its containers end with it.
pub struct Agent {
    pub data: TempDir,
    pub shutdown: oneshot::Sender<()>,
    pub task: JoinHandle<anyhow::Result<()>>,
}

/// Times that no test waits for, unless it is about them.
pub const PATIENT: Timings =
    Timings { beat: Duration::from_millis(50), silence: PATIENCE, leave_wait: PATIENCE };

impl Agent {
    pub fn start(coordinators: Vec<String>) -> Self {
        Self::start_with(coordinators, PATIENT, wrapper())
    }

    pub fn start_with(coordinators: Vec<String>, timings: Timings, executable: PathBuf) -> Self {
        Self::make(tempfile::tempdir().unwrap(), coordinators, timings, executable)
    }

    /// One more on the folder of one that has ended.
    pub fn on(data: TempDir, coordinators: Vec<String>) -> Self {
        Self::make(data, coordinators, PATIENT, wrapper())
    }

    fn make(
        data: TempDir,
        coordinators: Vec<String>,
        timings: Timings,
        executable: PathBuf,
    ) -> Self {
        let (shutdown, asked) = oneshot::channel::<()>();
        let config = AgentConfig {
            coordinators,
            token: None,
            data_dir: data.path().into(),
            slots: 4,
            tags: BTreeMap::from([("zone".into(), "a".into())]),
            executable,
            timings,
        };
        // A test that drops the sender wants the agent to live on.
        let asked = async move {
            if asked.await.is_err() {
                std::future::pending().await
            }
        };
        let task = tokio::spawn(steadfast_agent::run(config, asked));
        Self { data, shutdown, task }
    }

    pub fn folder(&self, seq: u64) -> PathBuf {
        self.data.path().join("containers").join(id(seq).to_string())
    }
}

/// The fake wrapper; it has to be executable, whatever the checkout made of it.
fn wrapper() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fake/wrapper.sh");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert!(mode & 0o111 != 0, "{} has to be executable", path.display());
    path
}
