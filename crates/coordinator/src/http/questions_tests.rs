//! Questions straight off a connection are answered as hyper would have them answered.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use steadfast_model::{ExecutionId, TermNonce};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::HEAD_TIMEOUT;
use super::ids_tests::bad_ids;
use super::stage::{FROZEN, INVALID, LIVE, PLAIN, Stage, UNKNOWN};

/// A request as a wrapper sends it.
fn plain(target: &str, secret: Option<&str>) -> String {
    let secret = secret.map(|secret| format!("authorization: Bearer {secret}\r\n"));
    format!("GET {target} HTTP/1.1\r\nhost: a\r\n{}\r\n", secret.unwrap_or_default())
}

/// A connection that stays open.
struct Open(BufReader<TcpStream>);

impl Open {
    fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// The status, the headers that do not depend on the way or the moment, and the body.
    fn answer(&mut self) -> (u16, Vec<String>, String) {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_ascii_lowercase()),
            }
        }
        let status = head[0].split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        head.retain(|line| !line.starts_with("date: ") && line != "connection: close");
        head.sort_unstable();
        (status, head, String::from_utf8(body).unwrap())
    }
}

/// The body without what depends on the moment.
fn lasting(body: &str) -> Value {
    let mut body: Value = serde_json::from_str(body).unwrap();
    body.as_object_mut().unwrap().remove("nextPollMs");
    body
}

#[test]
fn both_ways_give_the_same_answer() {
    let stage = Stage::leading();
    let own = |id| Some(stage.secret(id));
    let mut asked: Vec<(String, Option<String>)> = Vec::new();
    for id in [LIVE, FROZEN, INVALID, PLAIN, UNKNOWN] {
        let target = format!("/isContainerValid?execution_resource_id={id}&nonce=7");
        asked.push((target.clone(), own(id)));
        asked.push((target.clone(), own(ExecutionId::of_term(TermNonce::new(0xab), 99))));
        asked.push((target.clone(), Some("x".to_owned())));
        asked.push((target, None));
    }
    let bad = bad_ids()
        .into_iter()
        .map(|id| (format!("/isContainerValid?execution_resource_id={id}"), own(LIVE)));
    asked.extend(bad);
    asked.push(("/isContainerValid".to_owned(), None));
    let mut kept = Open::to(stage.address);
    for (target, secret) in asked {
        let request = plain(&target, secret.as_deref());
        kept.send(&request);
        let (status, head, body) = kept.answer();
        let mut closed = Open::to(stage.address);
        closed.send(&request.replacen("host: a", "host: a\r\nconnection: close", 1));
        let through_hyper = closed.answer();
        let shown = &target[..target.len().min(90)];
        assert_eq!(
            (status, lasting(&body)),
            (through_hyper.0, lasting(&through_hyper.2)),
            "{shown}"
        );
        let length = |line: &String| !line.starts_with("content-length");
        let (head, other): (Vec<_>, Vec<_>) = (
            head.into_iter().filter(length).collect(),
            through_hyper.1.into_iter().filter(length).collect(),
        );
        assert_eq!(head, other, "{shown}");
        // One that is too long for a question stays with hyper.
        if target.len() > 4_000 {
            kept = Open::to(stage.address);
        }
    }
}

#[test]
fn one_connection_takes_questions_and_everything_else_in_order() {
    let stage = Stage::leading();
    let secret = stage.secret(LIVE);
    let ask = |nonce: u32| {
        let target = format!("/isContainerValid?execution_resource_id={LIVE}&nonce={nonce}");
        plain(&target, Some(&secret))
    };
    let mut open = Open::to(stage.address);
    // All at once, and cut where it hurts: the last bytes come later.
    let text = [ask(1), ask(2), plain("/health/live", None), ask(3)].concat();
    let (first, last) = text.split_at(text.len() - 3);
    open.send(first);
    let nonce = |(status, _, body): (u16, Vec<String>, String)| {
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).unwrap()["nonce"].as_u64()
    };
    assert_eq!(nonce(open.answer()), Some(1));
    assert_eq!(nonce(open.answer()), Some(2));
    assert_eq!(open.answer().0, 200);
    open.send(last);
    assert_eq!(nonce(open.answer()), Some(3));
}

/// A connection of which the server's end is served in this task's runtime, whose clock stands still unless
/// all wait.
async fn served(stage: &Stage) -> (tokio::net::TcpStream, tokio::task::JoinHandle<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let asks = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let shared = std::sync::Arc::clone(&stage.shared);
    let serving = tokio::spawn(async move {
        let (_stop, stopped) = watch::channel(false);
        let left = super::questions::serve(&mut stream, &shared, stopped).await;
        matches!(left, Ok(None))
    });
    (asks, serving)
}

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

#[test]
fn whoever_sends_no_complete_question_in_time_is_hung_up_on() {
    let stage = Stage::leading();
    paused().block_on(async {
        let (mut asks, serving) = served(&stage).await;
        asks.write_all(b"GET /isContainerValid?").await.unwrap();
        assert_eq!(asks.read(&mut [0]).await.unwrap(), 0, "it is closed");
        assert!(serving.await.unwrap());
    });
}

#[test]
fn whoever_asks_now_and_then_keeps_its_connection() {
    let stage = Stage::leading();
    let request = plain(&format!("/isContainerValid?execution_resource_id={LIVE}"), None);
    paused().block_on(async {
        let (mut asks, serving) = served(&stage).await;
        for _ in 0..5 {
            tokio::time::sleep(HEAD_TIMEOUT - Duration::from_secs(1)).await; // moves a clock that is paused; nothing polls
            asks.write_all(request.as_bytes()).await.unwrap();
            let mut answer = [0; 1_024];
            let length = asks.read(&mut answer).await.unwrap();
            assert!(answer[..length].starts_with(b"HTTP/1.1 200 OK\r\n"), "{length}");
        }
        drop(asks);
        assert!(serving.await.unwrap());
    });
}
