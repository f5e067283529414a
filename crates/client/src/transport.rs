//! One request, as often as it takes: the next coordinator on a connection error or a 503, the named
//! one on a 307, and a bounded number of rounds over all of them.
//!
//! Repeating is safe where nothing happened yet (no connection, 503, 307) or where the call may take
//! effect twice. A call that may not is given up as soon as its fate is unknown: an answer that is lost, or 408.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER};
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use steadfast_api::{CoordinatorStanding, ErrorBody, Readiness, paths};

use crate::{BaseUrl, ClientError, Token};

/// From connecting to the last byte of the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How often all coordinators are asked before the client gives up.
const ROUNDS: u32 = 4;
/// Between two rounds where nobody says how long; a coordinator that is started again takes about a second.
const PAUSE: Duration = Duration::from_millis(300);
/// The longest `Retry-After` that is waited for: a person sits in front of this client.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Coordinators that send each other's clients around in a circle are left after this many steps a round.
const REDIRECTS: u32 = 4;
const LONGEST_ANSWER_BYTES: usize = 64 << 20;
/// More than anybody runs; whoever names more is not believed to the end.
const MOST_COORDINATORS: usize = 16;

/// Whether a request whose answer was lost is sent again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Twice is the same as once.
    Safe,
    /// Twice would be two.
    Never,
}

/// What is asked of whichever coordinator leads.
pub(crate) struct Call {
    pub method: Method,
    pub path_and_query: String,
    pub content_type: Option<&'static str>,
    pub body: Bytes,
    pub repeat: Repeat,
    /// The body of a good answer is left for the caller to read, at its own pace.
    pub leave_open: bool,
    /// What a good answer is, for the error message.
    pub expected: &'static str,
}

impl Call {
    pub fn get(path_and_query: impl Into<String>, expected: &'static str) -> Self {
        Self {
            method: Method::GET,
            path_and_query: path_and_query.into(),
            content_type: None,
            body: Bytes::new(),
            repeat: Repeat::Safe,
            leave_open: false,
            expected,
        }
    }

    /// A `POST` that may be sent again: twice is the same as once.
    pub fn safe_post(
        path: impl Into<String>,
        body: &impl Serialize,
        expected: &'static str,
    ) -> Self {
        Self {
            method: Method::POST,
            path_and_query: path.into(),
            content_type: Some("application/json"),
            body: serde_json::json!(body).to_string().into(),
            repeat: Repeat::Safe,
            leave_open: false,
            expected,
        }
    }
}

/// An answer, complete but for a body that is left open.
pub(crate) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Bytes,
    open: Option<Incoming>,
}

/// Why a try brought no complete answer.
enum NoAnswer {
    /// The request never left.
    NotSent(String),
    /// It may have been acted on.
    Lost(String),
}

pub(crate) struct Transport {
    http: HyperClient<HttpConnector, Full<Bytes>>,
    coordinators: Vec<BaseUrl>,
    authorization: Option<HeaderValue>,
    /// Who answered last; asked first the next time.
    leader: Mutex<Option<BaseUrl>>,
}

impl Transport {
    pub fn new(coordinators: Vec<BaseUrl>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        let http = HyperClient::builder(TokioExecutor::new()).build(connector);
        Self { http, coordinators, authorization: None, leader: Mutex::new(None) }
    }

    /// From now on every call carries this token.
    pub fn show(&mut self, token: &Token) {
        self.authorization = Some(token.authorization());
    }

    /// Asks until somebody answers with the call's success or a refusal.
    pub async fn ask<T: DeserializeOwned>(&self, call: &Call) -> Result<T, ClientError> {
        let (url, answer) = self.answer(call).await?;
        let unexpected = |url, why| ClientError::Unexpected {
            url,
            status: answer.status,
            expected: call.expected,
            why,
        };
        if !answer.status.is_success() {
            return Err(answer.refusal(url, call.expected));
        }
        serde_json::from_slice(&answer.body).map_err(|error| unexpected(url, error.to_string()))
    }

    /// The same for a call whose body is left open.
    pub async fn open(&self, call: &Call) -> Result<(BaseUrl, HeaderMap, Incoming), ClientError> {
        let (url, mut answer) = self.answer(call).await?;
        match answer.open.take() {
            Some(body) => Ok((url, answer.headers, body)),
            None => Err(answer.refusal(url, call.expected)),
        }
    }

    async fn answer(&self, call: &Call) -> Result<(BaseUrl, Answer), ClientError> {
        let mut tried = Tries::default();
        for round in 0..ROUNDS {
            if round > 0 {
                tokio::time::sleep(tried.pause.take().unwrap_or(PAUSE).min(LONGEST_PAUSE)).await;
            }
            if let Some(answered) = self.round(call, &mut tried).await? {
                return Ok(answered);
            }
        }
        Err(ClientError::Unreachable { tried: tried.last })
    }

    /// Asks each coordinator once; `None` when none of them could answer.
    async fn round(
        &self,
        call: &Call,
        tried: &mut Tries,
    ) -> Result<Option<(BaseUrl, Answer)>, ClientError> {
        let mut waiting = self.in_order();
        let mut redirects = 0;
        while let Some(url) = waiting.pop() {
            let answer = match self.send(&url, call).await {
                Ok(answer) => answer,
                Err(NoAnswer::Lost(why)) if call.repeat == Repeat::Never => {
                    return Err(ClientError::Interrupted { url, expected: call.expected, why });
                }
                Err(NoAnswer::NotSent(why) | NoAnswer::Lost(why)) => {
                    tried.failed(url, why);
                    continue;
                }
            };
            match answer.status {
                StatusCode::TEMPORARY_REDIRECT => match answer.location() {
                    Ok(leader) if leader != url && redirects < REDIRECTS => {
                        redirects += 1;
                        tried.failed(url, format!("307 to {leader}"));
                        waiting.retain(|other| *other != leader);
                        waiting.push(leader);
                    }
                    Ok(leader) => tried.failed(url, format!("307 to {leader}, in a circle")),
                    Err(why) => tried.failed(url, format!("307, but {why}")),
                },
                StatusCode::REQUEST_TIMEOUT if call.repeat == Repeat::Safe => {
                    tried.failed(url, format!("408, {}", answer.message()));
                }
                StatusCode::SERVICE_UNAVAILABLE => {
                    tried.pause = tried.pause.max(answer.retry_after());
                    tried.failed(url, format!("503, {}", answer.message()));
                }
                _ => {
                    *self.leader.lock().unwrap_or_else(PoisonError::into_inner) = Some(url.clone());
                    return Ok(Some((url, answer)));
                }
            }
        }
        Ok(None)
    }

    /// The coordinators to ask, the first to be asked *last*.
    fn in_order(&self) -> Vec<BaseUrl> {
        let leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let others = self.coordinators.iter().filter(|url| Some(*url) != leader.as_ref());
        let mut order: Vec<BaseUrl> = others.rev().cloned().collect();
        order.extend(leader);
        order
    }

    /// True where one coordinator answers 200; asks each once.
    pub async fn any_ok(&self, path: &'static str) -> Result<bool, ClientError> {
        let mut tried = Tries::default();
        let mut answered = false;
        for url in self.in_order().into_iter().rev() {
            match self.send(&url, &Call::get(path, "a health status")).await {
                Ok(answer) if answer.status == StatusCode::OK => return Ok(true),
                Ok(_) => answered = true,
                Err(NoAnswer::NotSent(why) | NoAnswer::Lost(why)) => tried.failed(url, why),
            }
        }
        if answered { Ok(false) } else { Err(ClientError::Unreachable { tried: tried.last }) }
    }

    /// Asks everybody once who can be found, from those on that are known: each names all that it knows.
    pub async fn standings(&self) -> Vec<CoordinatorStanding> {
        let mut urls = self.coordinators.clone();
        let mut standings = Vec::new();
        while let Some(url) = urls.get(standings.len()).cloned() {
            let (readiness, others) = self.readiness(&url).await;
            let others = others.iter().filter_map(|other| other.parse().ok());
            for other in others.collect::<Vec<BaseUrl>>() {
                if !urls.contains(&other) && urls.len() < MOST_COORDINATORS {
                    urls.push(other);
                }
            }
            let (readiness, error) = match readiness {
                Ok(readiness) => {
                    let error = readiness.message.clone();
                    (Some(readiness), error)
                }
                Err(why) => (None, Some(why)),
            };
            standings.push(CoordinatorStanding { url: url.to_string(), readiness, error });
        }
        standings
    }

    /// What the first coordinator says of itself.
    pub async fn readiness_of_first(&self) -> Result<Readiness, String> {
        match self.coordinators.first() {
            Some(url) => self.readiness(url).await.0,
            None => Err("there is nobody to ask".to_owned()),
        }
    }

    /// What one coordinator says of itself, and whom it names.
    async fn readiness(&self, url: &BaseUrl) -> (Result<Readiness, String>, Vec<String>) {
        let call = Call::get(paths::HEALTH_READY, "a health status");
        let answer = match self.send(url, &call).await {
            Ok(answer) => answer,
            Err(NoAnswer::NotSent(why) | NoAnswer::Lost(why)) => return (Err(why), Vec::new()),
        };
        // With 503 as well, where it is only its store that is in trouble.
        match serde_json::from_slice::<Readiness>(&answer.body) {
            Ok(readiness) => {
                let others = readiness.coordinators.clone();
                return (Ok(readiness), others);
            }
            Err(error) if answer.status == StatusCode::OK => {
                return (Err(error.to_string()), Vec::new());
            }
            Err(_) => {}
        }
        let others = serde_json::from_slice::<ErrorBody>(&answer.body)
            .map_or_else(|_| Vec::new(), |body| body.coordinators);
        (Err(format!("{}, {}", answer.status.as_u16(), answer.message())), others)
    }

    async fn send(&self, url: &BaseUrl, call: &Call) -> Result<Answer, NoAnswer> {
        let never_left = |error: hyper::http::Error| NoAnswer::NotSent(error.to_string());
        let uri = url.uri(&call.path_and_query).map_err(never_left)?;
        let mut request = Request::builder().method(&call.method).uri(uri);
        if let Some(content_type) = call.content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::new(call.body.clone())).map_err(never_left)?;
        let answer = async {
            let answer = self.http.request(request).await.map_err(|error| {
                let why = innermost(&error);
                if error.is_connect() { NoAnswer::NotSent(why) } else { NoAnswer::Lost(why) }
            })?;
            let (head, body) = answer.into_parts();
            if call.leave_open && head.status.is_success() {
                let (status, headers) = (head.status, head.headers);
                return Ok(Answer { status, headers, body: Bytes::new(), open: Some(body) });
            }
            let body = Limited::new(body, LONGEST_ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| NoAnswer::Lost(innermost(&*error)))?.to_bytes();
            Ok(Answer { status: head.status, headers: head.headers, body, open: None })
        };
        tokio::time::timeout(ANSWER_TIMEOUT, answer).await.unwrap_or_else(|_| {
            Err(NoAnswer::Lost(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs())))
        })
    }
}

impl Answer {
    fn location(&self) -> Result<BaseUrl, String> {
        let location = self.headers.get(LOCATION).and_then(|value| value.to_str().ok());
        let location = location.ok_or("it names no other coordinator")?;
        BaseUrl::of_location(location).map_err(|error| error.to_string())
    }

    /// `Retry-After` in seconds; the form with a date is not used by coordinators.
    fn retry_after(&self) -> Option<Duration> {
        let seconds = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds))
    }

    /// What it refuses, and why.
    fn refusal(&self, url: BaseUrl, expected: &'static str) -> ClientError {
        let Self { status, body, .. } = self;
        let status = *status;
        match serde_json::from_slice(body) {
            Ok(body) => ClientError::Refused { url, status, body: Box::new(body) },
            Err(_) => {
                ClientError::Unexpected { url, status, expected, why: "and no error body".into() }
            }
        }
    }

    fn message(&self) -> String {
        serde_json::from_slice::<ErrorBody>(&self.body)
            .map_or_else(|_| "it cannot answer now".into(), |body| body.message)
    }
}

/// What became of each coordinator that was asked.
#[derive(Default)]
struct Tries {
    last: Vec<(BaseUrl, String)>,
    /// The longest wait that somebody asked for in this round.
    pause: Option<Duration>,
}

impl Tries {
    fn failed(&mut self, url: BaseUrl, why: String) {
        match self.last.iter_mut().find(|(known, _)| *known == url) {
            Some((_, last)) => *last = why,
            None => self.last.push((url, why)),
        }
    }
}

/// The cause that a person can act on ("Connection refused") lies at the end of the chain.
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
