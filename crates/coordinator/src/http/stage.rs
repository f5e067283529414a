//! The real server on a real port, in front of a term whose every state the test decides on: who is live,
//! frozen, invalid, and whether anybody leads at all.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use serde_json::Value;
use steadfast_engine::records::JobRecord;
use steadfast_engine::{Engine, IndexChange, IndexEntry, Input};
use steadfast_model::{
    ExecutionId, FencingToken, InvalidReason, JobId, LeaseTerms, TaskGroupId, TermNonce,
};
use steadfast_store::conformance::samples;
use steadfast_store::{MemoryStore, Op, Store, Term as StoreTerm};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use crate::clock::Clock;
use crate::leader::first_view;
use crate::secrets::Secrets;
use crate::shared::{Shared, Term};
use crate::view::{Finished, View};

/// Only a broken server needs this long.
const PATIENCE: Duration = Duration::from_secs(60);
/// What the task group's checkpoint holds before anything happens.
pub const CHECKPOINT: &str = "position 7";

pub const LIVE: ExecutionId = ExecutionId::of_term(TermNonce::new(0xab), 1);
pub const FROZEN: ExecutionId = ExecutionId::of_term(TermNonce::new(0xab), 2);
pub const INVALID: ExecutionId = ExecutionId::of_term(TermNonce::new(0xab), 3);
/// Its job does not ask for Samza's heartbeat.
pub const PLAIN: ExecutionId = ExecutionId::of_term(TermNonce::new(0xab), 4);
pub const UNKNOWN: ExecutionId = ExecutionId::of_term(TermNonce::new(0xab), 5);

/// The task group that [`LIVE`] runs, of the first sample job.
const JOB: JobId = JobId::new(1);
const TASK_GROUP: TaskGroupId = TaskGroupId::new(1);
const TOKEN: FencingToken = FencingToken::new(7);

pub struct Stage {
    pub address: SocketAddr,
    pub shared: Arc<Shared>,
    pub term: Arc<Term>,
    /// What reached the loop.
    pub inputs: mpsc::Receiver<Input>,
    store: MemoryStore,
    _leads: Box<dyn StoreTerm>,
    _stop: watch::Sender<bool>,
    _view: watch::Sender<View>,
    runtime: Runtime,
}

/// An answer as it came over the wire.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Stage {
    /// A server that loads: nothing is served until [`Stage::serve`].
    pub fn loading() -> Self {
        Self::of_job(samples::job(1))
    }

    /// A server that leads.
    pub fn leading() -> Self {
        let stage = Self::loading();
        stage.serve();
        stage
    }

    /// The same with a job of the test's own, which has to be the first.
    pub fn of_job(job: JobRecord) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let store = MemoryStore::new();
        let leads = runtime.block_on(filled(&store, job));
        let loaded = store.snapshot().unwrap();
        let clock = Clock::start();
        let engine =
            Engine::load(loaded.snapshot, Default::default(), TermNonce::new(0xab), clock.now());
        let view = first_view(&engine, leads.epoch(), clock.now(), Finished::new());
        let (view, viewed) = watch::channel(view);
        let (inbox, inputs) = mpsc::channel(16);
        let secrets = Secrets::new(&loaded.secret_key);
        let me = samples::leader(1);
        let term =
            Arc::new(Term::new(leads.epoch(), leads.tenure(), clock, me, secrets, viewed, inbox));
        register(&term);
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let urls = vec![format!("http://{address}")];
        let shared = Arc::new(Shared::new(Arc::new(store.clone()), urls, None));
        let (stop, stopped) = watch::channel(false);
        runtime.spawn(super::serve(listener, Arc::clone(&shared), stopped));
        Self {
            address,
            shared,
            term,
            inputs,
            store,
            _leads: leads,
            _stop: stop,
            _view: view,
            runtime,
        }
    }

    /// The term is reconciled.
    pub fn serve(&self) {
        self.term.index.open();
        self.shared.serve(Arc::clone(&self.term));
    }

    pub fn secret(&self, execution: ExecutionId) -> String {
        self.term.secrets.of(execution)
    }

    /// What the task group's checkpoint holds now.
    pub fn checkpoint(&self) -> Option<Bytes> {
        let read = self.store.read_checkpoint(self.term.epoch, JOB, TASK_GROUP);
        self.runtime.block_on(read).unwrap()
    }

    pub fn get(&self, target: &str, secret: Option<&str>) -> Reply {
        self.call("GET", target, secret, "")
    }

    pub fn call(&self, method: &str, target: &str, secret: Option<&str>, body: &str) -> Reply {
        call(self.address, method, target, secret, body)
    }

    /// The value of one line of `/metrics`.
    pub fn metric(&self, line: &str) -> f64 {
        let told = self.get("/metrics", None);
        assert_eq!(told.status, 200, "{told:?}");
        let value = told.body.lines().find_map(|one| one.strip_prefix(line)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{line}\n{told:?}"))
    }
}

/// Leads, with the job, the newest token of its first task group, and a checkpoint there.
async fn filled(store: &MemoryStore, job: JobRecord) -> Box<dyn StoreTerm> {
    let mut leads = store.lead(samples::leader(1)).await.unwrap();
    let token = Op::PutToken { job: JOB, task_group: TASK_GROUP, token: TOKEN };
    leads.commit(vec![Op::PutJob(Arc::new(job)), token]).await.unwrap();
    let guard = steadfast_store::CheckpointGuard {
        epoch: leads.epoch(),
        job: JOB,
        task_group: TASK_GROUP,
        token: TOKEN,
    };
    store.write_checkpoint(guard, Bytes::from_static(CHECKPOINT.as_bytes())).await.unwrap();
    leads
}

fn register(term: &Term) {
    let entry = IndexEntry {
        job: JOB,
        task_group: TASK_GROUP,
        token: TOKEN,
        lease: LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 },
        assumed_answer: None,
        started: false,
        samza: true,
    };
    for id in [LIVE, FROZEN, INVALID] {
        term.index.apply(&IndexChange::Live(id, entry));
    }
    term.index.apply(&IndexChange::Live(PLAIN, IndexEntry { samza: false, ..entry }));
    term.index.freeze(FROZEN);
    let older = IndexEntry { token: FencingToken::new(6), ..entry };
    term.index.apply(&IndexChange::Live(INVALID, older));
    term.index.apply(&IndexChange::Invalid(INVALID, InvalidReason::Superseded, older));
    term.index.note_revoked(INVALID, term.clock.now());
}

/// One call on a connection of its own, its target as it is.
pub fn call(
    address: SocketAddr,
    method: &str,
    target: &str,
    secret: Option<&str>,
    body: &str,
) -> Reply {
    let secret = secret.map(|secret| format!("authorization: Bearer {secret}\r\n"));
    let (secret, length) = (secret.unwrap_or_default(), body.len());
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // In one piece: a server that refuses the first bytes need not read any others.
    let request = format!(
        "{method} {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{secret}content-type: \
         application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A server that hung up on what it could not read has said all it had to.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}
