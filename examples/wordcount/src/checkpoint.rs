//! The task group's checkpoint: one value that the coordinator keeps, and that only the newest
//! container of the task group can read or change.
//!
//! An answer means one of four things, and the difference is all there is to this client:
//!
//! - **done** (200, 204): the value was read, or is durable;
//! - **final** (409, and any other refusal): a newer container exists or the job has ended, or the
//!   request is wrong. Asking again cannot help and the program must stop;
//! - **too fast** (429): the same coordinator will take it a little later;
//! - **in doubt** (503, no connection, no answer in time, anything that is not understood): the
//!   value may or may not have been taken. The next coordinator may know, or one that the answer
//!   names and that was not there when this program began. Putting the same value again is harmless,
//!   so the cure is to ask again.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use serde::Deserialize;
use ureq::Agent;
use ureq::http::{Response, StatusCode, header};

use crate::container::Container;
use crate::say;
use crate::stop::Stop;

/// How long one coordinator may take to answer. Far below the lease, so that one that hangs leaves
/// time to ask the others, and below the grace, because a SIGTERM has to wait for it.
const ANSWER: Duration = Duration::from_secs(2);

/// The shortest and longest pause before asking again, whatever an answer proposes: no coordinator
/// is hammered, and none can send a container to sleep.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
const PAUSE_MAX_PROPOSED: Duration = Duration::from_secs(5);

/// A checkpoint has at most 64 KiB. A longer answer is none of ours.
const CHECKPOINT_BYTES_MAX: u64 = 64 * 1024;

/// The client for one container's checkpoint.
#[derive(Debug)]
pub struct Checkpoints {
    agent: Agent,
    coordinators: Vec<String>,
    /// Which coordinator answered last, and is asked first.
    current: usize,
    execution_resource_id: String,
    authorization: String,
}

/// What an answer means that did not end the matter.
#[derive(Debug)]
enum NotYet {
    TooFast { pause: Option<Duration> },
    InDoubt { why: String, pause: Option<Duration> },
}

/// Either the answer's body, or why there is none yet. An `Err` around it is final.
type Answer = Result<Vec<u8>, NotYet>;

#[derive(Debug, Clone, Copy)]
enum Request<'a> {
    Get,
    Put(&'a [u8]),
}

impl Checkpoints {
    /// Connects to nothing yet.
    pub fn new(container: &Container) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // A redirect to another host would lose the secret, or give it away.
            .max_redirects(0)
            .max_redirects_will_error(false)
            // The secret is for the coordinator, not for whatever a proxy variable names.
            .proxy(None)
            .build();
        Self {
            agent: config.into(),
            coordinators: container.coordinators.clone(),
            current: 0,
            execution_resource_id: container.execution_resource_id.clone(),
            authorization: format!("Bearer {}", container.secret),
        }
    }

    /// The task group's checkpoint, `None` if no container of it has left one. Asks until a
    /// coordinator knows: starting from a guess would count twice.
    ///
    /// # Errors
    /// If the answer is final, and [`Terminated`](crate::stop::Terminated).
    pub fn load(&mut self, stop: &Stop) -> Result<Option<Vec<u8>>> {
        let bytes = self.ask_until_answered(Request::Get, stop)?;
        // A checkpoint that exists is never empty, as this program never puts an empty one.
        Ok((!bytes.is_empty()).then_some(bytes))
    }

    /// Makes `bytes` the task group's checkpoint, and returns when that is durable.
    ///
    /// # Errors
    /// If the answer is final, and [`Terminated`](crate::stop::Terminated).
    pub fn save(&mut self, bytes: &[u8], stop: &Stop) -> Result<()> {
        self.ask_until_answered(Request::Put(bytes), stop).map(drop)
    }

    /// Like [`Checkpoints::save`], but asks each coordinator once at most, and none after `time`.
    ///
    /// # Errors
    /// If the checkpoint was not taken, or not as far as anybody knows.
    pub fn save_once(&mut self, bytes: &[u8], time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        let mut reason = "there was no time left".to_owned();
        for _ in 0..self.coordinators.len() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match self.ask(Request::Put(bytes), left)? {
                Ok(_) => return Ok(()),
                Err(NotYet::TooFast { .. }) => bail!("the coordinator takes no more just now"),
                Err(NotYet::InDoubt { why, .. }) => reason = why,
            }
            self.turn_to_next();
        }
        Err(anyhow!(reason))
    }

    fn ask_until_answered(&mut self, request: Request<'_>, stop: &Stop) -> Result<Vec<u8>> {
        let mut backoff = PAUSE_MIN;
        let mut said = false;
        loop {
            let pause = match self.ask_round(request, stop)? {
                Ok(bytes) => return Ok(bytes),
                Err(NotYet::TooFast { pause }) => pause,
                Err(NotYet::InDoubt { why, pause }) => {
                    if !said {
                        say(&format!("no coordinator can answer ({why}); asking until one does"));
                        said = true;
                    }
                    pause
                }
            };
            stop.wait(pause.unwrap_or(backoff).clamp(PAUSE_MIN, PAUSE_MAX_PROPOSED))?;
            backoff = (backoff * 2).min(PAUSE_MAX);
        }
    }

    /// Asks one coordinator after the other, until one is not in doubt. If all are, returns the last
    /// one's reason and the shortest pause that any of them proposed.
    fn ask_round(&mut self, request: Request<'_>, stop: &Stop) -> Result<Answer> {
        let mut shortest: Option<Duration> = None;
        let mut reason = String::new();
        for _ in 0..self.coordinators.len() {
            stop.check()?;
            match self.ask(request, ANSWER)? {
                Err(NotYet::InDoubt { why, pause }) => {
                    shortest = shortest.into_iter().chain(pause).min();
                    reason = why;
                    self.turn_to_next();
                }
                answer => return Ok(answer),
            }
        }
        Ok(Err(NotYet::InDoubt { why: reason, pause: shortest }))
    }

    fn turn_to_next(&mut self) {
        self.current = (self.current + 1) % self.coordinators.len();
    }

    fn ask(&mut self, request: Request<'_>, time: Duration) -> Result<Answer> {
        let url = format!("{}/checkpoint", self.coordinators[self.current]);
        match self.send(&url, request, time) {
            Ok((response, body)) => {
                if response.status() == StatusCode::SERVICE_UNAVAILABLE {
                    self.learn(&body);
                }
                judge(&url, request, &response, body)
            }
            Err(error) => Ok(in_doubt(format!("{url}: {error}"), None)),
        }
    }

    /// Whoever cannot answer names everybody whom it knows.
    fn learn(&mut self, body: &[u8]) {
        let Ok(Others { coordinators }) = serde_json::from_slice(body) else { return };
        for url in coordinators {
            let url = url.trim_end_matches('/');
            if url.starts_with("http://") && !self.coordinators.iter().any(|known| known == url) {
                self.coordinators.push(url.to_owned());
            }
        }
    }

    fn send(
        &self,
        url: &str,
        request: Request<'_>,
        time: Duration,
    ) -> Result<(Response<()>, Vec<u8>), ureq::Error> {
        let id = &self.execution_resource_id;
        let response = match request {
            Request::Get => self
                .agent
                .get(url)
                .query("execution_resource_id", id)
                .header(header::AUTHORIZATION, &self.authorization)
                .config()
                .timeout_global(Some(time))
                .build()
                .call()?,
            Request::Put(bytes) => self
                .agent
                .put(url)
                .query("execution_resource_id", id)
                .header(header::AUTHORIZATION, &self.authorization)
                .header(header::CONTENT_TYPE, "application/octet-stream")
                .config()
                .timeout_global(Some(time))
                .build()
                .send(bytes)?,
        };
        let (head, mut body) = response.into_parts();
        let body = body.with_config().limit(CHECKPOINT_BYTES_MAX).read_to_vec()?;
        Ok((Response::from_parts(head, ()), body))
    }
}

/// What an answer that knows nothing says of who may.
#[derive(Deserialize)]
struct Others {
    #[serde(default)]
    coordinators: Vec<String>,
}

/// Says what an answer means; see the top of this file.
fn judge(
    url: &str,
    request: Request<'_>,
    response: &Response<()>,
    body: Vec<u8>,
) -> Result<Answer> {
    let status = response.status();
    let pause = retry_after(response);
    Ok(match (request, status) {
        (Request::Get, StatusCode::OK) => Ok(body),
        (_, StatusCode::NO_CONTENT) => Ok(Vec::new()),
        (_, StatusCode::TOO_MANY_REQUESTS) => Err(NotYet::TooFast { pause }),
        (_, StatusCode::CONFLICT) => bail!("{}", superseded(&body)),
        (_, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => bail!(
            "{url} does not accept this container's secret (STEADFAST_CONTAINER_SECRET): {status}{}",
            message(&body)
        ),
        (_, status) if status.is_client_error() => {
            bail!("{url} refuses the checkpoint: {status}{}", message(&body))
        }
        // A standby that redirects, a proxy's 502, a success that is none: nobody who knows.
        (_, status) => in_doubt(format!("{url}: {status}{}", message(&body)), pause),
    })
}

fn in_doubt(why: String, pause: Option<Duration>) -> Answer {
    Err(NotYet::InDoubt { why, pause })
}

/// In seconds. The other form of the header, a date, is left to the backoff.
fn retry_after(response: &Response<()>) -> Option<Duration> {
    let value = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

/// The coordinator's error body, as far as it matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Refusal {
    message: String,
    current_token: Option<u64>,
}

impl Refusal {
    /// A body that is no JSON explains nothing, and the status alone must do.
    fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }
}

fn message(body: &[u8]) -> String {
    let message = Refusal::read(body).message;
    if message.is_empty() { message } else { format!(": {message}") }
}

fn superseded(body: &[u8]) -> String {
    let who = match Refusal::read(body).current_token {
        Some(token) => format!("the fencing token is now {token}"),
        None => "the job has ended".to_owned(),
    };
    format!("this container is superseded, {who}; stopping{}", message(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_coordinator::{BUSY, FakeCoordinator, Reply, SECRET, TOO_FAST};
    use crate::stop::Terminated;

    fn client(urls: &[&str]) -> Checkpoints {
        Checkpoints::new(&Container {
            task_index: 0,
            task_count: 1,
            attempt: 1,
            execution_resource_id: "e-1".to_owned(),
            coordinators: urls.iter().map(|&url| url.to_owned()).collect(),
            secret: SECRET.to_owned(),
        })
    }

    /// Where nobody listens: a port that only root could open, for a service nobody runs.
    const NOBODY: &str = "http://127.0.0.1:1";

    #[test]
    fn what_was_put_is_read_back_and_nothing_is_nothing() {
        let coordinator = FakeCoordinator::start("e-1", &[]);
        let (mut client, stop) = (client(&[&coordinator.url]), Stop::by_hand());
        assert_eq!(client.load(&stop).unwrap(), None);
        client.save(b"one", &stop).unwrap();
        client.save(b"two", &stop).unwrap();
        assert_eq!(client.load(&stop).unwrap().unwrap(), b"two");
        assert_eq!(coordinator.statuses(), [204, 204, 204, 200]);
    }

    #[test]
    fn a_coordinator_in_doubt_or_too_busy_is_asked_again() {
        let redirect =
            Reply::Say("307 Temporary Redirect", "Location: http://127.0.0.1:1/\r\n", "");
        let dated = Reply::Say(
            "503 Service Unavailable",
            "Retry-After: Thu, 01 Jan 2026 00:00:00 GMT\r\n",
            "",
        );
        let broken = Reply::Say("500 Internal Server Error", "", "<html>");
        let odd = Reply::Say("202 Accepted", "", "");
        // Those without a pause of their own first: each of them makes the next one longer.
        let script = [dated, redirect, broken, odd, BUSY, TOO_FAST, BUSY];
        let expected = [503, 307, 500, 202, 503, 429, 503, 204];

        let coordinator = FakeCoordinator::start("e-1", &script);
        client(&[&coordinator.url]).save(b"v", &Stop::by_hand()).unwrap();
        assert_eq!(coordinator.statuses(), expected);
        assert!(coordinator.puts().iter().all(|put| put.body == b"v"));

        let coordinator = FakeCoordinator::start("e-1", &script);
        assert_eq!(client(&[&coordinator.url]).load(&Stop::by_hand()).unwrap(), None);
        assert_eq!(coordinator.statuses(), expected);
    }

    #[test]
    fn the_next_coordinator_is_asked_and_remembered() {
        let standby = FakeCoordinator::start("e-1", &[]);
        standby.always(BUSY);
        let active = FakeCoordinator::start("e-1", &[TOO_FAST]);
        let mut client = client(&[NOBODY, &standby.url, &active.url]);
        let stop = Stop::by_hand();
        client.save(b"one", &stop).unwrap();
        client.save_once(b"two", ANSWER).unwrap();
        // Too fast means that it is the right one, so the standby is not bothered again.
        assert_eq!(standby.statuses(), [503]);
        assert_eq!(active.statuses(), [429, 204, 204]);
        assert_eq!(active.checkpoint().unwrap(), b"two");
    }

    /// Red where the list that the program began with is all that it ever asks.
    #[test]
    fn a_coordinator_that_was_not_there_at_the_start_is_asked_once_another_names_it() {
        let active = FakeCoordinator::start("e-1", &[]);
        let named = format!(r#"{{"status": "fail", "coordinators": ["{}/"]}}"#, active.url);
        let standby = FakeCoordinator::start("e-1", &[]);
        standby.always(Reply::Say("503 Service Unavailable", "", named.leak()));
        let mut client = client(&[&standby.url]);
        client.save(b"v", &Stop::by_hand()).unwrap();
        assert_eq!((standby.statuses(), active.statuses()), (vec![503], vec![204]));
    }

    #[test]
    fn a_final_answer_is_an_error_at_once() {
        let stop = Stop::by_hand();
        let refused = |reply: Reply| {
            let coordinator = FakeCoordinator::start("e-1", &[]);
            coordinator.always(reply);
            let urls = [coordinator.url.as_str(), coordinator.url.as_str()];
            let save = format!("{:#}", client(&urls).save(b"v", &stop).unwrap_err());
            let load = format!("{:#}", client(&urls).load(&stop).unwrap_err());
            let once = format!("{:#}", client(&urls).save_once(b"v", ANSWER).unwrap_err());
            assert_eq!(coordinator.seen().len(), 3, "{:?}", coordinator.seen());
            assert!(save == load && save == once, "{save}\n{load}\n{once}");
            save
        };
        let newer = r#"{"status":"fail","message":"attempt 3 was minted","currentToken":9}"#;
        let error = refused(Reply::Say("409 Conflict", "", newer));
        assert!(error.contains("token is now 9") && error.contains("attempt 3"), "{error}");
        let ended = r#"{"status":"fail","message":"canceled","currentToken":null}"#;
        let error = refused(Reply::Say("409 Conflict", "", ended));
        assert!(error.contains("job has ended") && error.contains("canceled"), "{error}");
        assert!(refused(Reply::Say("409 Conflict", "", "no JSON")).contains("superseded"));
        for status in ["401 Unauthorized", "403 Forbidden"] {
            let error = refused(Reply::Say(status, "", r#"{"message":"no such secret"}"#));
            assert!(error.contains("secret") && error.contains(status), "{error}");
        }
        let error = refused(Reply::Say("404 Not Found", "", r#"{"message":"unknown id"}"#));
        assert!(error.contains("404") && error.contains("unknown id"), "{error}");
    }

    #[test]
    fn a_stop_ends_the_asking() {
        let coordinator = FakeCoordinator::start("e-1", &[]);
        coordinator.always(BUSY);
        let stop = Stop::by_hand();
        let mut client = client(&[&coordinator.url]);
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| client.save(b"v", &stop).unwrap_err());
            coordinator.wait_for_puts(3);
            stop.tell();
            assert!(asking.join().unwrap().is::<Terminated>());
        });
    }

    #[test]
    fn a_last_try_asks_everybody_once_and_nobody_twice() {
        let [first, second] = [(); 2].map(|()| FakeCoordinator::start("e-1", &[]));
        first.always(BUSY);
        second.always(BUSY);
        let mut both = client(&[&first.url, &second.url]);
        let error = both.save_once(b"v", ANSWER).unwrap_err();
        assert!(error.to_string().contains("503"), "{error}");
        assert_eq!((first.statuses(), second.statuses()), (vec![503], vec![503]));

        // One that hangs eats up the time; that this returns at all is the point.
        let hanging = FakeCoordinator::start("e-1", &[Reply::Hold]);
        let mut both = client(&[&hanging.url, &second.url]);
        assert!(both.save_once(b"v", Duration::from_millis(20)).is_err());
        assert_eq!(second.seen().len(), 1);
    }

    #[test]
    fn an_answer_that_is_too_long_is_not_taken_for_a_checkpoint() {
        let coordinator = FakeCoordinator::start("e-1", &[]);
        let most = usize::try_from(CHECKPOINT_BYTES_MAX).unwrap();
        let mut client = client(&[&coordinator.url]);
        coordinator.set_checkpoint(&vec![b'x'; most]);
        assert_eq!(client.load(&Stop::by_hand()).unwrap().unwrap().len(), most);
        coordinator.set_checkpoint(&vec![b'x'; most + 1]);
        let asked = client.ask(Request::Get, ANSWER).unwrap();
        assert!(matches!(asked, Err(NotYet::InDoubt { .. })), "{asked:?}");
    }
}
