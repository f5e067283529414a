//! A real agent of a coordinator that wants tokens.

use std::collections::BTreeMap;
use std::path::PathBuf;

use steadfast_agent::{AgentConfig, Timings};
use steadfast_client::Token;
use steadfast_coordinator::Role;
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::server::{Server, token};

/// An agent on a thread of its own; it leaves when it is dropped.
pub struct Agent {
    data: Option<TempDir>,
    leave: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Agent {
    /// One that starts no containers.
    pub fn start(server: &Server) -> Self {
        Self::on(tempfile::tempdir().unwrap(), server)
    }

    /// One on this folder. What it takes for the product's wrapper is the stand-in of the agent's tests.
    pub fn on(data: TempDir, server: &Server) -> Self {
        let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let config = AgentConfig {
            coordinators: vec![server.url()],
            token: Token::new(&token(Role::Member)),
            data_dir: data.path().to_owned(),
            slots: 1,
            tags: BTreeMap::new(),
            executable: manifest.join("../agent/tests/fake/wrapper.sh"),
            timings: Timings::default(),
        };
        let (leave, left) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let shutdown = async move { drop(left.await) };
            runtime.unwrap().block_on(steadfast_agent::run(config, shutdown)).unwrap();
        });
        Self { data: Some(data), leave: Some(leave), thread: Some(thread) }
    }

    /// A file in the folder of a container.
    pub fn file(&self, container: &str, name: &str) -> PathBuf {
        let data = self.data.as_ref().unwrap().path();
        data.join("containers").join(container).join(name)
    }

    /// Lets it go, and gives back its folder.
    pub fn end(mut self) -> TempDir {
        self.leave();
        self.data.take().unwrap()
    }

    fn leave(&mut self) {
        drop(self.leave.take());
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_none_or(|it| it.is_ok()), "it failed");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.leave();
    }
}
