//! A whole coordinator on a store in memory, spoken to over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steadfast_coordinator::{Config, run};
use steadfast_engine::Settings;
use steadfast_model::JobId;
use steadfast_store::MemoryStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub struct Coordinator {
    address: SocketAddr,
    /// Dropped, it is asked to go.
    stop: tokio::sync::oneshot::Sender<()>,
    run: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Coordinator {
    /// Starts on what the store holds, and waits until it leads, or stands by and knows who leads.
    pub async fn start(store: MemoryStore) -> Self {
        // Free a moment ago: nobody else is told of it.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound");
        drop(listener);
        let config = Config {
            listen: address,
            urls: vec![format!("http://{address}")],
            credentials: None,
            settings: Settings::default(),
        };
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let run = tokio::spawn(run(Arc::new(store), config, async {
            let _ = stopped.await;
        }));
        let coordinator = Self { address, stop, run };
        let ready = || async { coordinator.call("GET", "/health/ready", "").await?.body("200") };
        until("the coordinator to be ready", ready).await;
        coordinator
    }

    /// Asks it to go, and waits until it has gone.
    pub async fn stop(self) {
        drop(self.stop);
        let ended = tokio::time::timeout(Duration::from_secs(30), self.run).await;
        ended.expect("it goes").expect("no panic").expect("no error");
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The body of a call that must succeed.
    pub async fn get(&self, path: &str) -> Value {
        let answer = self.call("GET", path, "").await.expect("it listens");
        serde_json::from_str(&answer.body("200").unwrap_or_else(|| panic!("{path}: {answer:?}")))
            .expect("JSON")
    }

    /// The label of a job's detail, as the bytes that came.
    pub async fn label(&self, job: u64) -> String {
        let path = format!("/job-info/{}", JobId::new(job));
        let body = self.call("GET", &path, "").await.and_then(|answer| answer.body("200"));
        let body = body.expect("the job is known");
        let label = body.split_once("\"dirtyTask\":").expect("it has a label").1;
        // It has no object inside.
        format!("{}}}", label.split_once('}').expect("it is an object").0)
    }

    pub async fn stop_job(&self, job: u64) {
        let wish = format!(r#"{{"jobId":"{}"}}"#, JobId::new(job));
        let answer = self.call("POST", "/stop-job", &wish).await.expect("it listens");
        assert!(answer.body("202").is_some(), "{answer:?}");
    }

    /// `None` where nobody listens yet.
    pub async fn call(&self, method: &str, path: &str, body: &str) -> Option<Answer> {
        let mut stream = TcpStream::connect(self.address).await.ok()?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        Some(Answer(answer))
    }
}

#[derive(Debug)]
pub struct Answer(String);

impl Answer {
    /// The body, if the status is this one.
    pub fn body(&self, status: &str) -> Option<String> {
        let (head, body) = self.0.split_once("\r\n\r\n")?;
        head.starts_with(&format!("HTTP/1.1 {status} ")).then(|| body.to_owned())
    }
}

/// Looks until there is something to see.
pub async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..3_000 {
        if let Some(seen) = look().await {
            return seen;
        }
        tokio::time::sleep(Duration::from_millis(10)).await; // polls
    }
    panic!("waited in vain for {what}");
}
