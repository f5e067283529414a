//! Ten thousand containers that ask every second, and a coordinator that is killed and comes back.
//!
//! They keep the contract of `docs/http-api.md`: the lease counts from the sending of a question that got a
//! "yes", what is no verdict is asked again, and the first pause after a silence is random. They share a
//! process and nothing else: each has its own connection and opens it anew when it broke.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steadfast_coordinator::bench::LEASE;
use steadfast_model::Verdict;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::asking::{Random, ask};
use crate::http1::Connection;
use crate::server::{CREDENTIALS, Server};
use crate::{Failure, Figure, say};

const CONTAINERS: u64 = 10_000;
const BEFORE: Duration = Duration::from_secs(5);
const OUTAGE: Duration = Duration::from_secs(5);
const AFTER: Duration = Duration::from_secs(10);
const WINDOW: Duration = Duration::from_millis(100);
const PEAK_BOUND: f64 = 3.0;

/// What all containers have seen.
#[derive(Default)]
struct Seen {
    /// When each question was sent, whether or not there was somebody to take it.
    sent: Vec<Instant>,
    /// Leases that reached the time to stop before the next "yes".
    lost: u64,
    /// Verdicts that would end somebody.
    told_invalid: u64,
}

struct Container {
    id: String,
    secret: String,
    port: u16,
    random: Random,
    connection: Option<Connection>,
    /// When the program would have to stop; none before the first "yes".
    stop_at: Option<Instant>,
    had_silence: bool,
    seen: Arc<Mutex<Seen>>,
}

impl Container {
    /// Asks until `end`.
    async fn live(mut self, first: Instant, end: Instant) {
        let mut next = first;
        while next < end {
            sleep_until(next).await;
            let sent = Instant::now();
            self.seen.lock().sent.push(sent);
            let nonce = self.random.nonce();
            let credentials = (self.id.as_str(), self.secret.as_str());
            let pause_ms = match ask(&mut self.connection, self.port, credentials, nonce).await {
                Verdict::Valid { lease_ms, next_poll_ms, .. } => {
                    self.had_silence = false;
                    self.extend(sent, lease_ms);
                    next_poll_ms
                }
                Verdict::Invalid { .. } => {
                    self.seen.lock().told_invalid += 1;
                    return;
                }
                Verdict::Unknown => self.retry_ms(),
            };
            next = Instant::now() + Duration::from_millis(pause_ms);
        }
        if self.stop_at.is_none_or(|stop_at| stop_at < end) {
            self.seen.lock().lost += 1;
        }
    }

    fn extend(&mut self, sent: Instant, lease_ms: u64) {
        if self.stop_at.is_some_and(|stop_at| stop_at < Instant::now()) {
            self.seen.lock().lost += 1;
        }
        let rest_ms = lease_ms.saturating_sub(LEASE.lease_ms - LEASE.stop_after_ms());
        self.stop_at = Some(sent + Duration::from_millis(rest_ms));
    }

    fn retry_ms(&mut self) -> u64 {
        let schedule_ms = LEASE.schedule_ms;
        let silent_before = std::mem::replace(&mut self.had_silence, true);
        if silent_before { schedule_ms } else { self.random.next() % schedule_ms }
    }
}

pub async fn play(folder: &Path) -> Result<(), Failure> {
    let server = Server::start(folder, 0, CONTAINERS)?;
    let port = server.ready.port;
    let seen = Arc::new(Mutex::new(Seen::default()));
    let start = Instant::now();
    let end = start + BEFORE + OUTAGE + AFTER;
    let mut crowd = JoinSet::new();
    let credentials = std::fs::read_to_string(folder.join(CREDENTIALS))?;
    for (number, line) in (1_u64..).zip(credentials.lines()) {
        let (id, secret) = line.split_once(' ').ok_or("a line without a secret")?;
        let mut container = Container {
            id: id.to_owned(),
            secret: secret.to_owned(),
            port,
            random: Random(number),
            connection: None,
            stop_at: None,
            had_silence: false,
            seen: Arc::clone(&seen),
        };
        let first = start + Duration::from_millis(container.random.next() % LEASE.schedule_ms);
        crowd.spawn(container.live(first, end));
    }
    sleep_until(start + BEFORE).await;
    server.kill()?;
    sleep(OUTAGE).await;
    let folder = folder.to_owned();
    let again = tokio::task::spawn_blocking(move || Server::start(&folder, port, CONTAINERS));
    let server = again.await??;
    let back = Instant::now();
    while crowd.join_next().await.is_some() {}
    server.kill()?;
    let mut seen = seen.lock();
    seen.sent.sort_unstable();
    report(&seen, back, end)
}

fn report(seen: &Seen, back: Instant, end: Instant) -> Result<(), Failure> {
    let sent: Vec<Instant> =
        seen.sent.iter().copied().filter(|sent| *sent >= back && *sent < end).collect();
    let windows = (end - back).as_secs_f64() / WINDOW.as_secs_f64();
    let average = sent.len() as f64 / windows;
    let peak = (0..sent.len())
        .map(|first| sent[first..].partition_point(|at| *at < sent[first] + WINDOW))
        .max()
        .unwrap_or_default() as f64;
    let whole = |figure, value, unit, bound| {
        Figure { figure, value, unit, bound: Some(bound), ..Figure::default() }.print()
    };
    let lost = "leases lost by 10000 that ask each second, coordinator killed for 5 s";
    whole(lost, seen.lost as f64, "", 0.0)?;
    whole("… told that they are invalid", seen.told_invalid as f64, "", 0.0)?;
    Figure {
        figure: "… most questions in any 100 ms after it came back",
        value: peak,
        unit: "",
        yardstick: Some("average of 100 ms"),
        ratio: Some(peak / average),
        bound: Some(PEAK_BOUND),
    }
    .print()?;
    say(&format!("  {} questions in all; {average:.0} in 100 ms on average", seen.sent.len()))
}
