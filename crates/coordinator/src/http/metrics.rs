//! `GET /metrics`, for Prometheus. A coordinator that does not lead tells what it counted itself.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::respond::Failure;
use crate::metrics::Standing;
use crate::shared::Shared;

/// The format that Prometheus asks for first; the older text format reads the same lines.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) async fn metrics(State(shared): State<Arc<Shared>>) -> Result<Response, Failure> {
    let text = shared.metrics.encode(&Standing {
        term: shared.term().as_deref(),
        store: shared.store_health.trouble().map(|trouble| trouble.status),
        revision: shared.coordinators.rev().0,
    });
    let text = text.map_err(|error| Failure::broken(format!("the metrics: {error}")))?;
    let kind = (header::CONTENT_TYPE, OPEN_METRICS);
    Ok(([kind, (header::CACHE_CONTROL, "no-store")], text).into_response())
}
