//! The two ends of a container's conversation: "may I go on?", and its good-bye.
//!
//! The question takes no lock of the loop, touches no store and waits in no queue.

use std::str::FromStr;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::Request;
use hyper::body::Incoming;
use serde_json::json;
use steadfast_api::{ContainerEnded, ValidityAnswer};
use steadfast_engine::{Input, Reply, Reporter};
use steadfast_model::{ContainerEvent, ExecutionId};

use super::respond::{Failure, JsonAnswer, full, json as answer_json, leading, not_leading};
use crate::index::Answer;
use crate::metrics::{Call, Endpoint};
use crate::shared::{Shared, Term};

/// The longest query that can hold everything a container may say.
pub(super) const MAX_QUERY_BYTES: usize = 1_024;

/// What a container asks.
#[derive(Debug, Default, PartialEq, Eq)]
struct Question {
    execution: Option<ExecutionId>,
    nonce: Option<u64>,
    started: Option<bool>,
    pid: Option<u32>,
    wrapper_pid: Option<u32>,
    /// Steps that the program has done.
    progress: Option<u64>,
}

impl Question {
    /// Reads the query; every key at most once, and none that is not known.
    fn read(query: Option<&str>) -> Result<Self, String> {
        let query = query.unwrap_or_default();
        if query.len() > MAX_QUERY_BYTES {
            return Err(format!("the query is longer than {MAX_QUERY_BYTES} bytes"));
        }
        let mut question = Self::default();
        if is_plain(query) {
            // As wrappers write it. Nothing has to be decoded, and decoding costs as much as all the rest.
            for pair in query.split('&').filter(|pair| !pair.is_empty()) {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                question.hear(key, value)?;
            }
        } else {
            for (key, value) in form_urlencoded::parse(query.as_bytes()) {
                question.hear(&key, &value)?;
            }
        }
        Ok(question)
    }

    fn hear(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "execution_resource_id" => {
                let id = value.parse();
                let id = id.map_err(|error: steadfast_model::ParseIdError| error.to_string())?;
                once(&mut self.execution, key, id)
            }
            "nonce" => once(&mut self.nonce, key, number(key, value)?),
            "state" => once(&mut self.started, key, value == "started"),
            "pid" => once(&mut self.pid, key, number(key, value)?),
            "wrapperPid" => once(&mut self.wrapper_pid, key, number(key, value)?),
            "progress" => once(&mut self.progress, key, number(key, value)?),
            _ => Err(format!("{key} is not known here")),
        }
    }
}

/// Whether a query says what it says without being decoded.
fn is_plain(query: &str) -> bool {
    !query.bytes().any(|byte| matches!(byte, b'%' | b'+'))
}

fn once<T>(said: &mut Option<T>, key: &str, value: T) -> Result<(), String> {
    match said.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{key} is given twice")),
    }
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{key} is not a number: {value}"))
}

/// What of a request the answer depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub query: Option<&'a str>,
    /// The value of its `Authorization` header.
    pub authorization: Option<&'a [u8]>,
}

/// `GET /isContainerValid`, as hyper has read it.
pub(crate) async fn respond(shared: &Shared, request: &Request<Incoming>) -> Response {
    if request.method() != Method::GET {
        shared.metrics.called(Endpoint::Validity, Call::Refused);
        let (method, uri) = (request.method().clone(), request.uri().clone());
        return super::respond::no_such_method(method, uri).await;
    }
    let authorization = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let asked = Asked { query: request.uri().query(), authorization };
    answer(shared, asked).await.into_response()
}

/// `GET /isContainerValid`.
pub(super) async fn answer(shared: &Shared, asked: Asked<'_>) -> JsonAnswer {
    let (call, answer) = judge(shared, asked).await;
    shared.metrics.called(Endpoint::Validity, call);
    answer
}

async fn judge(shared: &Shared, asked: Asked<'_>) -> (Call, JsonAnswer) {
    let refused = |failure: Failure| (Call::Refused, failure.into());
    let question = match Question::read(asked.query) {
        Ok(question) => question,
        Err(why) => return refused(Failure::bad_request(why)),
    };
    let Some(execution) = question.execution else {
        return refused(Failure::bad_request("execution_resource_id is missing"));
    };
    let Some(term) = shared.term() else { return (Call::Unknown, cannot_know(shared, 200)) };
    match asked.authorization.and_then(token_of) {
        Some(secret) if term.secrets.is_of(execution, secret) => {
            verdict(shared, &term, execution, &question).await
        }
        Some(_) => refused(Failure::unauthorized("this is not the secret of this container")),
        None => match term.index.peek(execution) {
            Some(is_valid) => {
                let bare = ValidityAnswer { is_valid, ..ValidityAnswer::default() };
                let call = if is_valid { Call::Valid } else { Call::Invalid };
                (call, JsonAnswer::new(StatusCode::OK, &bare))
            }
            None => (Call::Unknown, cannot_know(shared, 200)),
        },
    }
}

async fn verdict(
    shared: &Shared,
    term: &Term,
    execution: ExecutionId,
    question: &Question,
) -> (Call, JsonAnswer) {
    let now = term.clock.now();
    let body = match term.index.ask(execution, now) {
        Answer::Unknown { ask_again_ms } => {
            return (Call::Unknown, cannot_know(shared, ask_again_ms));
        }
        Answer::Invalid(reason) => {
            shared.metrics.invalid_called(reason, term.index.haunt(execution, now));
            let body = ValidityAnswer {
                is_valid: false,
                reason: Some(reason),
                coordinator_epoch: Some(term.epoch),
                nonce: question.nonce,
                ..ValidityAnswer::default()
            };
            return (Call::Invalid, JsonAnswer::new(StatusCode::OK, &body));
        }
        Answer::Valid { lease_ms, next_poll_ms, token } => ValidityAnswer {
            is_valid: true,
            lease_ms: Some(lease_ms),
            next_poll_ms: Some(next_poll_ms),
            fencing_token: Some(token),
            coordinator_epoch: Some(term.epoch),
            coordinators: Some(shared.coordinators.urls()),
            reason: None,
            nonce: question.nonce,
        },
    };
    if let Some(steps) = question.progress {
        term.index.hear_progress(execution, steps, now);
    }
    if let (Some(true), Some(pid), Some(wrapper_pid)) =
        (question.started, question.pid, question.wrapper_pid)
        && term.index.is_start_news(execution)
    {
        let event = ContainerEvent::Started { pid, wrapper_pid };
        let reporter = Reporter::Wrapper(None);
        // The verdict does not depend on it, and must not wait for a loop that waits for its store.
        if !term.hint(Input::Container { execution, event, reporter }) {
            term.index.start_is_news_again(execution);
        }
    }
    (Call::Valid, JsonAnswer::new(StatusCode::OK, &body))
}

/// 503: whoever asks goes on while its lease lasts, and asks the next coordinator.
pub(super) fn cannot_know(shared: &Shared, ask_again_ms: u64) -> JsonAnswer {
    let body = json!({
        "status": "fail",
        "message": "this coordinator cannot know at the moment; ask again, or ask another",
        "nextPollMs": ask_again_ms,
        "coordinators": *shared.coordinators.urls(),
    });
    JsonAnswer::new(StatusCode::SERVICE_UNAVAILABLE, &body)
}

/// `Authorization: Bearer …`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    token_of(headers.get(header::AUTHORIZATION)?.as_bytes())
}

fn token_of(authorization: &[u8]) -> Option<&str> {
    std::str::from_utf8(authorization).ok()?.strip_prefix("Bearer ")
}

/// `POST /containerEnded`: a wrapper's good-bye. Acknowledged once it is durable.
pub(crate) async fn ended(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Result<Json<ContainerEnded>, JsonRejection>,
) -> Result<Response, Failure> {
    let Json(ContainerEnded { execution_resource_id: execution, outcome, proof }) =
        body.map_err(|refused| Failure::bad_request(refused.body_text()))?;
    let term = leading(&shared)?;
    if !bearer(&headers).is_some_and(|secret| term.secrets.is_of(execution, secret)) {
        return Err(Failure::unauthorized("the container's own secret is required"));
    }
    let event = ContainerEvent::Ended { outcome: Some(outcome), proof };
    let said =
        |ticket| Input::Container { execution, event, reporter: Reporter::Wrapper(Some(ticket)) };
    // Said twice is the same as once, but what is said while the store is full must not pile up.
    if shared.store_health.full().is_some() {
        return Err(full(&shared));
    }
    let reply = tokio::select! {
        biased;
        reply = term.ask(said) => reply,
        () = shared.store_health.until_full() => return Err(full(&shared)),
    };
    match reply {
        Ok(Reply::EndNoted) => Ok(answer_json(StatusCode::OK, &json!({"status": "noted"}))),
        Ok(Reply::AskAgain) => Err(Failure::unavailable(
            "the fate of the container's member is being decided; say it again",
        )),
        Ok(other) => Err(Failure::broken(format!("another question was answered: {other:?}"))),
        Err(_) => Err(not_leading(&shared)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_container_says() {
        let query = "execution_resource_id=container_00000000000000ab_7&nonce=9&state=started&pid=3\
                     &wrapperPid=2";
        let question = Question::read(Some(query)).unwrap();
        assert_eq!(question.execution.unwrap().to_string(), "container_00000000000000ab_7");
        assert_eq!(
            (question.nonce, question.pid, question.wrapper_pid),
            (Some(9), Some(3), Some(2))
        );
        assert_eq!(question.started, Some(true));
    }

    #[test]
    fn refuses_ids_that_are_none_whatever_they_hold() {
        for id in ["", "a%26b", "%00", "a/b", "%20", "%C3%A4", "container_00000000000000ab_7%00"] {
            let query = format!("execution_resource_id={id}");
            assert!(Question::read(Some(&query)).is_err(), "{id}");
        }
        let id = "execution_resource_id=container_00000000000000ab_7";
        let ids = format!("{id}&{id}");
        for twice in [&ids, "nonce=1&nonce=1", "state=a&pid=1&state=a", "nonce=1&%6eonce=1"] {
            assert!(Question::read(Some(twice)).unwrap_err().contains("twice"), "{twice}");
        }
        let long = format!("execution_resource_id={}", "x".repeat(10_000));
        assert!(Question::read(Some(&long)).unwrap_err().contains("longer"));
        assert_eq!(Question::read(None).unwrap().execution, None);
    }

    #[test]
    fn a_plain_query_says_what_it_would_say_decoded() {
        for query in [
            "nonce=7&pid=8",
            "&&nonce=7&",
            "state=started=",
            "state",
            "state=",
            "=7",
            "nonce",
            "nonce=",
            "nonce==7",
            "nonce=\u{e4}",
            "state=a;nonce=7",
        ] {
            assert!(is_plain(query));
            // The same key in other words, so that it is decoded.
            let coded = query.replace("nonce", "%6eonce").replace("state", "%73tate");
            assert!(!is_plain(&coded) || coded == query, "{query}");
            assert_eq!(Question::read(Some(query)), Question::read(Some(&coded)), "{query}");
        }
    }
}
