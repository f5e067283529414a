//! `GET /containerHeartbeat`: what the client of Samza 1.8 inside a program asks.
//!
//! That client kills its container after any answer with a field that it does not know, and after six tries
//! without a 200 within 31 s. So there is one field, 200 only where the answer is certain, and no `false` in
//! doubt. It shows no secret, and it extends nothing: the wrapper around the program holds the lease.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use steadfast_api::HeartbeatAnswer;
use steadfast_model::ExecutionId;

use super::respond::{Failure, JsonAnswer};
use super::validity::{MAX_QUERY_BYTES, cannot_know};
use crate::index::Heartbeat;
use crate::metrics::{Call, Endpoint};
use crate::shared::Shared;

/// What an unready coordinator says in its `nextPollMs`; Samza's client has intervals of its own.
const ASK_AGAIN_MS: u64 = 200;

pub(crate) async fn heartbeat(
    State(shared): State<Arc<Shared>>,
    RawQuery(query): RawQuery,
) -> Response {
    let (call, response) = answer(&shared, query.as_deref().unwrap_or_default());
    shared.metrics.called(Endpoint::Samza, call);
    response.into_response()
}

fn answer(shared: &Shared, query: &str) -> (Call, JsonAnswer) {
    let execution = match execution_of(query) {
        Ok(execution) => execution,
        Err(why) => return (Call::Refused, Failure::bad_request(why).into()),
    };
    let alive = |alive| JsonAnswer::new(StatusCode::OK, &HeartbeatAnswer { alive });
    let Some(term) = shared.term() else {
        return (Call::Unknown, cannot_know(shared, ASK_AGAIN_MS));
    };
    let now = term.clock.now();
    match term.index.heartbeat(execution, now) {
        Heartbeat::Alive => (Call::Valid, alive(true)),
        Heartbeat::Dead(reason) => {
            shared.metrics.invalid_called(reason, term.index.haunt(execution, now));
            (Call::Invalid, alive(false))
        }
        Heartbeat::Unknown => (Call::Unknown, cannot_know(shared, ASK_AGAIN_MS)),
        Heartbeat::NotAsked => {
            let message =
                "the job of this container does not set job.container.validator.samza = true";
            (Call::Refused, Failure::not_found(message).into())
        }
    }
}

/// The one key that there is, once.
fn execution_of(query: &str) -> Result<ExecutionId, String> {
    if query.len() > MAX_QUERY_BYTES {
        return Err(format!("the query is longer than {MAX_QUERY_BYTES} bytes"));
    }
    let mut keys = form_urlencoded::parse(query.as_bytes());
    let Some((key, id)) = keys.next() else {
        return Err("executionContainerId is missing".to_owned());
    };
    if key != "executionContainerId" {
        return Err("only executionContainerId is known here".to_owned());
    }
    if keys.next().is_some() {
        return Err("executionContainerId stands alone, and once".to_owned());
    }
    id.parse().map_err(|error: steadfast_model::ParseIdError| error.to_string())
}
