//! Where a coordinator that does not lead sends those who ask it: 307 to the leader.
//!
//! One layer over the routes, so that no handler has to think of it. Two kinds of calls pass it: what needs
//! no leader is answered here, and what shows a container's secret is never redirected, since clients drop
//! it on the way; it is answered 503 with the list of all coordinators (05). Where no leader is known, each
//! handler says by itself that it cannot know.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::Response;
use steadfast_api::{ErrorBody, paths};
use steadfast_store::LeaderInfo;

use super::respond::json;
use crate::shared::Shared;

/// Whether a call is answered here whoever leads.
fn is_answered_here(path: &str) -> bool {
    let of_this_one = [paths::HEALTH_LIVE, paths::HEALTH_READY, paths::METRICS];
    let with_a_secret = [paths::IS_CONTAINER_VALID, paths::CONTAINER_ENDED, paths::CHECKPOINT];
    of_this_one.contains(&path) || with_a_secret.contains(&path)
}

/// Lets a call through, or names the coordinator to ask.
pub(crate) async fn elsewhere(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    if is_answered_here(request.uri().path()) || shared.term().is_some() {
        return next.run(request).await;
    }
    let leader = shared.coordinators.leader();
    match leader.and_then(|leader| redirect(&shared, &leader, request.uri())) {
        Some(redirect) => redirect,
        None => next.run(request).await,
    }
}

fn redirect(shared: &Shared, leader: &LeaderInfo, asked: &Uri) -> Option<Response> {
    let target = asked.path_and_query().map_or("/", |target| target.as_str());
    let location = format!("{}{target}", leader.url.trim_end_matches('/'));
    let location = HeaderValue::try_from(location).ok()?;
    let body = ErrorBody::new(format!("this coordinator stands by; {} leads", leader.url))
        .with_coordinators(shared.coordinators.urls().to_vec());
    let mut response = json(StatusCode::TEMPORARY_REDIRECT, &body);
    response.headers_mut().insert(header::LOCATION, location);
    Some(response)
}
