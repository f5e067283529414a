//! `GET` and `PUT /checkpoint`: one value per task group, guarded by the fencing token.
//!
//! The write is the one that does not go through the loop: it compares leader, token and job in its own
//! transaction. Reading asks for the same leadership, so that nobody starts from an old position.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use steadfast_api::CheckpointConflict;
use steadfast_model::{ExecutionId, FencingToken};
use steadfast_store::{CheckpointError, CheckpointGuard, MAX_CHECKPOINT_BYTES};

use super::respond::{Failure, json, leading, not_leading};
use super::validity::bearer;
use crate::index::CheckpointOwner;
use crate::shared::{Shared, Term};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckpointQuery {
    execution_resource_id: ExecutionId,
}

type CheckpointQueryResult =
    Result<Query<CheckpointQuery>, axum::extract::rejection::QueryRejection>;

/// Why a checkpoint is neither read nor written.
pub(crate) enum Refused {
    /// The request, or the moment, does not fit.
    Failure(Failure),
    /// A newer container holds the task group, with this token, or the job has ended.
    Superseded(Option<FencingToken>),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<CheckpointError> for Refused {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Superseded { current } => Self::Superseded(current),
            CheckpointError::TooLarge => Failure::bad_request(error.to_string()).into(),
            CheckpointError::Fenced
            | CheckpointError::Unavailable(_)
            | CheckpointError::Unknown(_) => Failure::unavailable(error.to_string()).into(),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::Failure(failure) => failure.into_response(),
            Self::Superseded(current_token) => superseded(current_token),
        }
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

/// The term, the container and what it owns.
fn admit(
    shared: &Shared,
    query: CheckpointQueryResult,
    headers: &HeaderMap,
) -> Result<(Arc<Term>, ExecutionId, CheckpointOwner), Refused> {
    let Query(query) = query.map_err(|refused| Failure::bad_request(refused.body_text()))?;
    let execution = query.execution_resource_id;
    let term = leading(shared)?;
    if !bearer(headers).is_some_and(|secret| term.secrets.is_of(execution, secret)) {
        return Err(Failure::unauthorized("the container's own secret is required").into());
    }
    if !term.index.is_open() {
        return Err(not_leading(shared).into());
    }
    match term.index.checkpoint_owner(execution) {
        Some(owner) => Ok((term, execution, owner)),
        None => Err(Refused::Superseded(None)),
    }
}

/// Counts what was fenced off: somebody who no longer holds its task group wanted to write.
fn counted(shared: &Shared, refused: Refused) -> Refused {
    if let Refused::Superseded(_) = refused {
        shared.metrics.fenced_write();
    }
    refused
}

pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    query: CheckpointQueryResult,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let (term, _, owner) = admit(&shared, query, &headers)?;
    let value = shared.store.read_checkpoint(term.epoch, owner.job, owner.task_group).await?;
    let kind = (header::CONTENT_TYPE, "application/octet-stream");
    let keep = (header::CACHE_CONTROL, "no-store");
    Ok(match value {
        Some(value) => ([kind, keep], value).into_response(),
        None => (StatusCode::NO_CONTENT, [keep]).into_response(),
    })
}

pub(crate) async fn write(
    State(shared): State<Arc<Shared>>,
    query: CheckpointQueryResult,
    headers: HeaderMap,
    value: Result<Bytes, BytesRejection>,
) -> Result<StatusCode, Refused> {
    let value = value.map_err(|refused| Failure::bad_body(&refused))?;
    let (term, execution, owner) =
        admit(&shared, query, &headers).map_err(|refused| counted(&shared, refused))?;
    if value.len() > MAX_CHECKPOINT_BYTES {
        return Err(CheckpointError::TooLarge.into());
    }
    if !term.index.admit_checkpoint(execution, term.clock.now()) {
        return Err(Failure::too_many("a task group may write ten checkpoints a second").into());
    }
    let CheckpointOwner { job, task_group, token } = owner;
    let guard = CheckpointGuard { epoch: term.epoch, job, task_group, token };
    let written = shared.store.write_checkpoint(guard, value).await;
    written.map_err(|error| counted(&shared, error.into()))?;
    Ok(StatusCode::NO_CONTENT)
}
