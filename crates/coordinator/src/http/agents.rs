//! An agent's one connection: a WebSocket whose closing is the news that the agent died.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use steadfast_api::{FromAgent, Hello, LogPart, LogsFound, ToAgent};
use steadfast_engine::records::MemberRecord;
use steadfast_engine::{Connection, Input, Reporter};
use steadfast_model::{MemberUuid, Timestamp};
use tokio::sync::mpsc::UnboundedReceiver;
use tracing::{info, warn};

use super::Peer;
use super::respond::{full, leading};
use crate::shared::{Shared, Term};

/// The largest message: a `Hello` of an agent with thousands of containers.
const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;
/// The agent takes a connection that is silent for several of these for dead.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// An agent that does not say who it is within this time is hung up on.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) async fn connect(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let term = match leading(&shared) {
        Ok(term) => term,
        Err(failure) => return failure.into_response(),
    };
    // Nobody can be welcomed, and who waits for it would only come again.
    if shared.store_health.full().is_some() {
        return full(&shared).into_response();
    }
    upgrade
        .max_message_size(MAX_MESSAGE_BYTES)
        .on_upgrade(move |socket| async move { converse(socket, term, peer).await })
}

/// Why a conversation ended.
enum End {
    /// The agent closed it, died, or broke the protocol.
    Theirs,
    /// This coordinator closed it: not to be held against the member.
    Ours,
}

async fn converse(mut socket: WebSocket, term: Arc<Term>, peer: Peer) {
    let Some(hello) = first_message(&mut socket).await else {
        warn!(peer = %peer.0, "an agent's connection did not begin with a Hello");
        return;
    };
    if let Some(why) = refusal(&hello, &term) {
        warn!(member = %hello.uuid, peer = %peer.0, "{why}");
        let close = CloseFrame { code: close_code::POLICY, reason: why.into() };
        let _ = socket.send(Message::Close(Some(close))).await;
        return;
    }
    let member = hello.uuid;
    let (connection, outgoing) = term.connect(member);
    info!(%member, peer = %peer.0, pid = hello.pid, "an agent connected");
    let end = match term.tell(hello_input(connection, hello, peer)).await {
        Ok(()) => match talk(&mut socket, &term, member, connection, outgoing).await {
            Ok(never) => match never {},
            Err(end) => end,
        },
        Err(_) => End::Ours,
    };
    term.disconnect(connection);
    let by_us = matches!(end, End::Ours);
    info!(%member, by_us, "an agent's connection ended");
    let _ = term.tell(Input::Disconnected { member, connection, by_us }).await;
}

/// Why this coordinator is none for the agent. Epochs of two clusters say nothing about each other.
fn refusal(hello: &Hello, term: &Term) -> Option<String> {
    if let Some(cluster) = &hello.cluster
        && *cluster != term.secrets.cluster()
    {
        return Some(
            "this agent belongs to another cluster, on another store; restart it to join this one"
                .into(),
        );
    }
    let (seen, own) = (hello.highest_epoch, term.epoch);
    (seen > own).then(|| {
        format!("this agent has obeyed a later leader, of epoch {seen}; this one's is {own}")
    })
}

async fn first_message(socket: &mut WebSocket) -> Option<Hello> {
    let received = tokio::time::timeout(HELLO_TIMEOUT, socket.recv()).await.ok()??;
    let Ok(Message::Text(text)) = received else { return None };
    match serde_json::from_str(&text) {
        Ok(FromAgent::Hello(hello)) => Some(hello),
        _ => None,
    }
}

fn hello_input(connection: Connection, hello: Hello, peer: Peer) -> Input {
    let Hello {
        uuid,
        host,
        pid,
        slots,
        tags,
        version,
        feature_level,
        welcomed,
        highest_epoch: _,
        cluster: _,
        containers,
    } = hello;
    let member = MemberRecord {
        uuid,
        host,
        address: peer.0.to_string(),
        pid,
        slots,
        tags,
        version,
        feature_level,
        registered: Timestamp::default(),
        lost: None,
        draining: false,
    };
    let containers = containers
        .into_iter()
        .map(|sighting| (sighting.execution_resource_id, sighting.last_event))
        .collect();
    Input::Hello { connection, member: Box::new(member), welcomed, containers }
}

async fn talk(
    socket: &mut WebSocket,
    term: &Term,
    member: MemberUuid,
    connection: Connection,
    mut outgoing: UnboundedReceiver<ToAgent>,
) -> Result<Infallible, End> {
    let mut ping = tokio::time::interval(PING_INTERVAL);
    loop {
        tokio::select! {
            message = outgoing.recv() => {
                // What was on its way when the term ended stays here.
                let message = message.filter(|_| term.tenure.holds()).ok_or(End::Ours)?;
                send(socket, &message).await.map_err(|_| End::Theirs)?;
            }
            received = socket.recv() => match heard(received, term, member, connection)? {
                None => {}
                // There comes another one, and silence that a busy loop has missed is nobody's fault.
                Some(input @ Input::Heard { .. }) => drop(term.hint(input)),
                Some(input) => {
                    let told = term.tell(input);
                    tokio::pin!(told);
                    // The loop may wait for its store for long: the agent must not take it for dead.
                    let told = loop {
                        tokio::select! {
                            biased;
                            told = told.as_mut() => break told,
                            _ = ping.tick() => say_alive(socket).await?,
                        }
                    };
                    told.map_err(|_| End::Ours)?;
                }
            },
            _ = ping.tick() => say_alive(socket).await?,
        }
    }
}

async fn say_alive(socket: &mut WebSocket) -> Result<(), End> {
    socket.send(Message::Ping(Default::default())).await.map_err(|_| End::Theirs)
}

/// What a frame has for the loop; the answers of questions past the loop go to whoever waits for them.
fn heard(
    received: Option<Result<Message, axum::Error>>,
    term: &Term,
    member: MemberUuid,
    connection: Connection,
) -> Result<Option<Input>, End> {
    let refused = |why: &dyn std::fmt::Display| {
        warn!(%member, %why, "an agent sent what cannot be read");
        End::Theirs
    };
    match received {
        Some(Ok(Message::Text(text))) => {
            match read(&text, member, connection).map_err(|why| refused(&why))? {
                Said::Input(input) => return Ok(Some(*input)),
                Said::LogsFound(found) => term.outputs.found(connection, found),
            }
        }
        Some(Ok(Message::Binary(frame))) => {
            let part = LogPart::from_frame(&frame).map_err(|why| refused(&why))?;
            term.outputs.part(connection, part);
        }
        Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(End::Theirs),
        Some(Ok(_)) => return Ok(Some(Input::Heard { member, connection })),
    }
    Ok(None)
}

async fn send(socket: &mut WebSocket, message: &ToAgent) -> Result<(), axum::Error> {
    let text = serde_json::to_string(message).map_err(axum::Error::new)?;
    socket.send(Message::text(text)).await
}

/// What an agent said: something for the loop, or the answer to somebody who waits beside it.
enum Said {
    Input(Box<Input>),
    LogsFound(LogsFound),
}

fn read(text: &str, member: MemberUuid, connection: Connection) -> Result<Said, String> {
    let input = match serde_json::from_str(text).map_err(|error| error.to_string())? {
        FromAgent::Hello(_) => return Err("a second Hello".to_owned()),
        FromAgent::Beat => Input::Heard { member, connection },
        FromAgent::Report(report) => Input::Container {
            execution: report.execution_resource_id,
            event: report.event,
            reporter: Reporter::Agent(member, connection),
        },
        FromAgent::Leaving => Input::Leaving { member, connection },
        FromAgent::LogsFound(found) => return Ok(Said::LogsFound(found)),
    };
    Ok(Said::Input(Box::new(input)))
}
