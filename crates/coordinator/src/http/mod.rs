//! The HTTP side: our own accept loop; containers' questions are answered straight off their connections,
//! everything else goes through hyper and the router.
//!
//! Handlers hold no lock of the loop: they read the published view or the validity index, or hand an
//! input to the loop and wait for its durable answer.

mod agents;
mod checkpoint;
mod elsewhere;
mod events;
mod guard;
mod heartbeat;
mod jobs;
mod leaves;
mod logs;
mod metrics;
mod overview;
mod questions;
mod respond;
mod validity;

#[cfg(test)]
mod elsewhere_tests;
#[cfg(test)]
mod ids_tests;
#[cfg(test)]
mod pace_tests;
#[cfg(test)]
mod questions_tests;
#[cfg(test)]
mod samza_client;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod stalled_tests;

use std::convert::Infallible;
use std::io::Cursor;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, getrlimit};
use steadfast_api::paths;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower_service::Service;
use tracing::{debug, warn};

use crate::shared::Shared;

/// The largest job file.
const MAX_BODY_BYTES: usize = 1024 * 1024;
/// Connections served at once, unless the process may open fewer files; beyond it new ones wait in the
/// backlog.
const MAX_CONNECTIONS: u64 = 20_000;
/// Files that are left for the store and for everything else.
const RESERVED_FILES: u64 = 256;
/// A client that sends no complete request head within this time is hung up on.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// A request that is not answered by then, its body not complete or the store stalled, is given up.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Where a connection came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route(paths::OVERVIEW, get(overview::overview))
        .route(paths::MEMBERS, get(overview::members))
        .route(&format!("{}/{{member}}/planned-leave", paths::MEMBERS), post(leaves::plan))
        .route(&format!("{}/{{member}}/drain", paths::MEMBERS), post(leaves::drain))
        .route(paths::HEALTH_LIVE, get(overview::live))
        .route(paths::HEALTH_READY, get(overview::ready))
        .route(paths::SUBMIT_JOB, post(jobs::submit))
        .route(paths::STOP_JOB, post(jobs::stop))
        .route(paths::RUNNING_JOBS, get(jobs::running))
        .route(paths::FINISHED_JOBS, get(jobs::finished))
        .route(&format!("{}/{{state}}", paths::FINISHED_JOBS), get(jobs::finished_in_state))
        .route(&format!("{}/{{job}}", paths::JOB_INFO), get(jobs::info))
        .route(&format!("{}/{{job}}/recovery-episodes", paths::JOB_INFO), get(jobs::episodes))
        .route(&format!("{}/{{job}}/explain", paths::JOB_INFO), get(jobs::explain))
        .route(&format!("{}/{{job}}/logs/{{task_group}}", paths::JOB_INFO), get(logs::logs))
        .route(paths::EVENTS, get(events::events))
        .route(paths::METRICS, get(metrics::metrics))
        .route(paths::CONTAINER_HEARTBEAT, get(heartbeat::heartbeat))
        .route(paths::CONTAINER_ENDED, post(validity::ended))
        .route(paths::CHECKPOINT, get(checkpoint::read).put(checkpoint::write))
        .route(paths::AGENT, get(agents::connect))
        .route_layer(from_fn_with_state(Arc::clone(&shared), elsewhere::elsewhere))
        .fallback(respond::no_such_path)
        .method_not_allowed_fallback(respond::no_such_method)
        .layer(from_fn_with_state(Arc::clone(&shared), guard::guard))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(shared)
}

/// Serves until `stop` becomes true, then lets the answers in flight go out for a moment.
pub(crate) async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<bool>,
) {
    let router = router(Arc::clone(&shared));
    let room = Arc::new(tokio::sync::Semaphore::new(connections_at_once()));
    loop {
        // The semaphore is never closed, so there always comes a permit.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let (stream, peer) = tokio::select! {
            _ = stop.changed() => return,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, mostly: accepting again at once would only spin.
                    warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let (shared, router, stop) = (Arc::clone(&shared), router.clone(), stop.clone());
        tokio::spawn(async move {
            connection(stream, Peer(peer), shared, router, stop).await;
            drop(permit);
        });
    }
}

/// As many as there are files for: out of files, the listener itself would stand still.
fn connections_at_once() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = files.saturating_sub(RESERVED_FILES).clamp(16, MAX_CONNECTIONS);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

/// Containers' questions first; from the first other request on everything is hyper's.
async fn connection(
    mut stream: TcpStream,
    peer: Peer,
    shared: Arc<Shared>,
    router: Router,
    stop: watch::Receiver<bool>,
) {
    // Answers are small and each is waited for: Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    match questions::serve(&mut stream, &shared, stop.clone()).await {
        // On the heap, so that a connection which never comes here does not hold the room for it.
        Ok(Some(received)) => {
            Box::pin(requests(stream, received, peer, shared, router, stop)).await;
        }
        Ok(None) => {}
        Err(error) => debug!(%error, peer = %peer.0, "a connection ended"),
    }
}

/// Serves a connection of which the bytes `received` have been read already.
async fn requests(
    stream: TcpStream,
    received: Vec<u8>,
    peer: Peer,
    shared: Arc<Shared>,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    let (reader, writer) = stream.into_split();
    let stream = tokio::io::join(Cursor::new(received).chain(reader), writer);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (shared, mut router) = (Arc::clone(&shared), router.clone());
        async move {
            if request.uri().path() == paths::IS_CONTAINER_VALID {
                return Ok::<Response<Body>, Infallible>(
                    validity::respond(&shared, &request).await,
                );
            }
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            match tokio::time::timeout(REQUEST_TIMEOUT, router.call(request)).await {
                Ok(answer) => answer,
                Err(_) => Ok(respond::too_late()),
            }
        }
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(serving);
    tokio::select! {
        ended = serving.as_mut() => {
            if let Err(error) = ended {
                debug!(%error, peer = %peer.0, "a connection ended");
            }
            return;
        }
        _ = stop.changed() => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}
