//! `GET` and `PUT /checkpoint`: one value per task group, guarded by the fencing token.
//!
//! The write is the one that does not go through the loop: it compares leader, token and job in its own
//! transaction. Reading asks for the same leadership, so that nobody starts from an old position.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use steadfast_api::CheckpointConflict;
use steadfast_model::{ExecutionId, FencingToken};
use steadfast_store::{CheckpointError, CheckpointGuard, MAX_CHECKPOINT_BYTES};

use super::respond::{Failure, json, not_leading};
use super::validity::bearer;
use crate::index::CheckpointOwner;
use crate::shared::{Shared, Term};

#[derive(Deserialize)]
pub(crate) struct CheckpointQuery {
    execution_resource_id: ExecutionId,
}

type CheckpointQueryResult =
    Result<Query<CheckpointQuery>, axum::extract::rejection::QueryRejection>;

/// The term, the container and what it owns; `Err` is the answer.
fn admit(
    shared: &Shared,
    query: CheckpointQueryResult,
    headers: &HeaderMap,
) -> Result<(Arc<Term>, ExecutionId, CheckpointOwner), Response> {
    let Query(query) =
        query.map_err(|refused| Failure::bad_request(refused.body_text()).into_response())?;
    let execution = query.execution_resource_id;
    let term = shared.term().ok_or_else(|| not_leading().into_response())?;
    if !bearer(headers).is_some_and(|secret| term.secrets.is_of(execution, secret)) {
        let failure = Failure::unauthorized("the container's own secret is required");
        return Err(failure.into_response());
    }
    if !term.index.is_open() {
        return Err(not_leading().into_response());
    }
    match term.index.checkpoint_owner(execution) {
        Some(owner) => Ok((term, execution, owner)),
        None => Err(superseded(None)),
    }
}

fn superseded(current_token: Option<FencingToken>) -> Response {
    let message = match current_token {
        Some(token) => format!("a newer container holds this task group, with token {token}"),
        None => "the job has ended, or the container is not known".to_owned(),
    };
    let body = CheckpointConflict { status: "fail".to_owned(), message, current_token };
    json(StatusCode::CONFLICT, &body)
}

fn refused(error: CheckpointError) -> Response {
    match error {
        CheckpointError::Superseded { current } => superseded(current),
        CheckpointError::TooLarge => Failure::bad_request(error.to_string()).into_response(),
        CheckpointError::Fenced | CheckpointError::Unavailable(_) | CheckpointError::Unknown(_) => {
            Failure::unavailable(error.to_string()).into_response()
        }
    }
}

pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    query: CheckpointQueryResult,
    headers: HeaderMap,
) -> Response {
    let (term, _, owner) = match admit(&shared, query, &headers) {
        Ok(admitted) => admitted,
        Err(answer) => return answer,
    };
    match shared.store.read_checkpoint(term.epoch, owner.job, owner.task_group).await {
        Ok(Some(value)) => {
            let kind = (header::CONTENT_TYPE, "application/octet-stream");
            let keep = (header::CACHE_CONTROL, "no-store");
            ([kind, keep], value).into_response()
        }
        Ok(None) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => refused(error),
    }
}

pub(crate) async fn write(
    State(shared): State<Arc<Shared>>,
    query: CheckpointQueryResult,
    headers: HeaderMap,
    value: Bytes,
) -> Response {
    let (term, execution, owner) = match admit(&shared, query, &headers) {
        Ok(admitted) => admitted,
        Err(answer) => return answer,
    };
    if value.len() > MAX_CHECKPOINT_BYTES {
        return refused(CheckpointError::TooLarge);
    }
    if !term.index.admit_checkpoint(execution, term.clock.now()) {
        let message = "a task group may write ten checkpoints a second";
        return Failure::too_many(message).into_response();
    }
    let CheckpointOwner { job, task_group, token } = owner;
    let guard = CheckpointGuard { epoch: term.epoch, job, task_group, token };
    match shared.store.write_checkpoint(guard, value).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => refused(error),
    }
}
