//! The way to etcd: one node at a time, the next one when it fails, and what its errors mean.
//!
//! The client library balances over the endpoints that it knows and goes on to use one that is dead, so
//! each client here is given one endpoint, and an error moves to the next. It does not repeat requests
//! either, which is right: whether a write may be sent again is for its caller to say.

use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};

use super::location::{EtcdLocation, TlsFiles};
use crate::store::{Refusal, StoreError};

/// Without an answer for so long a connection is closed: a node that is stopped keeps its sockets open.
const PING_INTERVAL: Duration = Duration::from_secs(2);
const PING_TIMEOUT: Duration = Duration::from_secs(1);
/// A node that does not answer within this time is taken for one that will not.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a request has no good answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// A server said no, for good: nothing of this request will happen later.
    #[error("{0}")]
    Refused(Refusal),
    /// A server does not let this client in, for good.
    #[error("{0}")]
    Denied(String),
    /// This side or the other does not trust the other's certificate. Another node may be another matter.
    #[error("{0}")]
    Untrusted(String),
    /// The lease is gone.
    #[error("the lease is gone")]
    LeaseGone,
    /// The revision is no longer there.
    #[error("the revision is no longer there")]
    Compacted,
    /// The answer is larger than the client takes.
    #[error("a record is larger than the client takes")]
    TooMuch,
    /// Anything else. Whether the request was carried out, or will be, is not known.
    #[error("{0}")]
    Doubt(String),
}

impl Failure {
    pub(super) fn in_doubt(&self) -> bool {
        matches!(self, Self::Doubt(_) | Self::Untrusted(_))
    }
}

impl Failure {
    /// The same, with the node that it came from where that matters.
    fn at(self, url: &str) -> Self {
        match self {
            Self::Doubt(why) => Self::Doubt(format!("{url}: {why}")),
            Self::Untrusted(why) => Self::Untrusted(format!("{url}: {why}")),
            other => other,
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal) => refusal.into(),
            Failure::Denied(why) | Failure::Untrusted(why) => Self::Denied(why),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if let Some(why) = untrusted(&error) {
            return Self::Untrusted(why);
        }
        match error {
            Error::GRpcStatus(status) => of_status(i32::from(status.code()), status.message()),
            Error::LeaseKeepAliveError(why) if why == "lease not found" => Self::LeaseGone,
            Error::InvalidArgs(why) => Self::Refused(Refusal::Unavailable(why)),
            other => Self::Doubt(other.to_string()),
        }
    }
}

/// What TLS says of certificates stands at the end of a chain of errors, as text. An alert comes from the other
/// side, which does not trust this one.
fn untrusted(error: &Error) -> Option<String> {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        let text = error.to_string();
        if error.source().is_none()
            && (text.contains("invalid peer certificate") || text.contains("fatal alert"))
        {
            return Some(text);
        }
        cause = error.source();
    }
    None
}

/// What a status of gRPC means, by its number and etcd's own text.
fn of_status(code: i32, message: &str) -> Failure {
    const INVALID_ARGUMENT: i32 = 3;
    const NOT_FOUND: i32 = 5;
    const PERMISSION_DENIED: i32 = 7;
    const RESOURCE_EXHAUSTED: i32 = 8;
    const FAILED_PRECONDITION: i32 = 9;
    const OUT_OF_RANGE: i32 = 11;
    const UNAUTHENTICATED: i32 = 16;
    let says = |text| message.contains(text);
    match code {
        INVALID_ARGUMENT if says("request is too large") || says("too many operations") => {
            Failure::Refused(Refusal::TooLarge)
        }
        RESOURCE_EXHAUSTED if says("database space exceeded") => Failure::Refused(Refusal::Full),
        RESOURCE_EXHAUSTED if says("received message larger") => {
            Failure::Refused(Refusal::TooLarge)
        }
        PERMISSION_DENIED => Failure::Denied(message.to_owned()),
        FAILED_PRECONDITION if says("authentication is not enabled") => {
            Failure::Denied(format!("{message}: it knows no users"))
        }
        INVALID_ARGUMENT if says("authentication failed") || says("user name is empty") => {
            Failure::Denied(message.to_owned())
        }
        INVALID_ARGUMENT | UNAUTHENTICATED => {
            Failure::Refused(Refusal::Unavailable(message.to_owned()))
        }
        NOT_FOUND if says("lease not found") => Failure::LeaseGone,
        OUT_OF_RANGE if says("compacted") => Failure::Compacted,
        OUT_OF_RANGE if says("message length too large") => Failure::TooMuch,
        _ => Failure::Doubt(message.to_owned()),
    }
}

/// The nodes of an etcd.
pub(super) struct Endpoints {
    urls: Vec<String>,
    options: ConnectOptions,
    current: Mutex<Current>,
}

struct Current {
    /// Which node, counted on for ever.
    turn: usize,
    client: Option<Client>,
}

impl Endpoints {
    /// # Errors
    /// A file that cannot be read.
    pub(super) fn new(location: &EtcdLocation) -> Result<Self, StoreError> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(REQUEST_TIMEOUT)
            .with_keep_alive(PING_INTERVAL, PING_TIMEOUT)
            .with_keep_alive_while_idle(true)
            .with_require_leader(true);
        if let Some(user) = &location.user {
            let password = read(&user.password_file)?;
            let password = password.lines().next().unwrap_or_default();
            options = options.with_user(&user.name, password).with_auto_token_refresh(true);
        }
        if let Some(TlsFiles { ca, client }) = &location.tls {
            let mut tls =
                TlsOptions::new().ca_certificate(Certificate::from_pem(pem(ca, CERTIFICATE)?));
            if let Some((certificate, key)) = client {
                let (certificate, key) = (pem(certificate, CERTIFICATE)?, pem(key, PRIVATE_KEY)?);
                tls = tls.identity(Identity::from_pem(certificate, key));
            }
            options = options.with_tls(tls);
        }
        let current = Mutex::new(Current { turn: 0, client: None });
        Ok(Self { urls: location.endpoints.clone(), options, current })
    }

    /// Sends one request to the present node, and moves on where that fails. `Doubt` may mean that it was
    /// carried out.
    pub(super) async fn once<T, F>(&self, request: impl FnOnce(Client) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.within(REQUEST_TIMEOUT, request).await
    }

    /// The same with a time of its own.
    pub(super) async fn within<T, F>(
        &self,
        time: Duration,
        request: impl FnOnce(Client) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let (turn, client) = self.client().await?;
        let url = &self.urls[turn % self.urls.len()];
        let outcome = match tokio::time::timeout(time, request(client)).await {
            Ok(answer) => answer.map_err(Failure::from),
            Err(_) => Err(Failure::Doubt(format!("no answer within {} ms", time.as_millis()))),
        };
        match outcome {
            Err(failure) if failure.in_doubt() => {
                self.move_on(turn);
                Err(failure.at(url))
            }
            other => other,
        }
    }

    /// Sends a request that may be carried out more than once: to each node, until one answers.
    pub(super) async fn read<T, F>(&self, request: impl Fn(Client) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut outcome = self.once(&request).await;
        // The first one may have been left by another request meanwhile: each gets its turn, and one again.
        for _ in &self.urls {
            if !outcome.as_ref().is_err_and(Failure::in_doubt) {
                break;
            }
            outcome = self.once(&request).await;
        }
        outcome
    }

    /// The present node's client, for a stream. Tell [`Endpoints::move_on`] with its turn when it breaks.
    pub(super) async fn client(&self) -> Result<(usize, Client), Failure> {
        let (turn, known) = {
            let current = self.current();
            (current.turn, current.client.clone())
        };
        if let Some(client) = known {
            return Ok((turn, client));
        }
        // Only with a user this speaks to the node; two tasks that do so at once do no harm.
        let url = &self.urls[turn % self.urls.len()];
        let connect = Client::connect([url], Some(self.options.clone()));
        let client = match tokio::time::timeout(REQUEST_TIMEOUT, connect).await {
            Ok(Ok(client)) => client,
            failed => {
                self.move_on(turn);
                return Err(match failed {
                    Ok(Err(error)) => Failure::from(error).at(url),
                    _ => Failure::Doubt("it cannot be connected to".to_owned()).at(url),
                });
            }
        };
        let mut current = self.current();
        if current.turn == turn {
            current.client = Some(client.clone());
        }
        Ok((turn, client))
    }

    /// Leaves the node of that turn, unless somebody has done so before.
    pub(super) fn move_on(&self, turn: usize) {
        let mut current = self.current();
        if current.turn == turn {
            *current = Current { turn: turn + 1, client: None };
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How what a PEM file holds begins, as far as it matters.
const CERTIFICATE: &str = "CERTIFICATE-----";
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// A file without it would count as one that is never trusted, by an etcd that is asked for ever.
fn pem(path: &Path, what: &str) -> Result<String, StoreError> {
    let text = read(path)?;
    let holds_it =
        text.lines().any(|line| line.starts_with("-----BEGIN ") && line.trim_end().ends_with(what));
    if holds_it {
        return Ok(text);
    }
    let reason = format!("it has no line `-----BEGIN … {what}`, so it is no PEM file of that kind");
    Err(StoreError::Directory { path: path.display().to_string(), reason })
}

fn read(path: &Path) -> Result<String, StoreError> {
    std::fs::read_to_string(path).map_err(|error| StoreError::Directory {
        path: path.display().to_string(),
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are etcd's own; the numbers are gRPC's.
    #[test]
    fn only_what_a_server_said_is_a_refusal() {
        let refused = |refusal| Failure::Refused(refusal);
        let denied = |why: &str| Failure::Denied(why.to_owned());
        let cases = [
            (3, "etcdserver: request is too large", refused(Refusal::TooLarge)),
            (3, "etcdserver: too many operations in txn request", refused(Refusal::TooLarge)),
            (8, "etcdserver: mvcc: database space exceeded", refused(Refusal::Full)),
            (8, "grpc: received message larger than max", refused(Refusal::TooLarge)),
            (7, "etcdserver: permission denied", denied("etcdserver: permission denied")),
            (3, "etcdserver: user name is empty", denied("etcdserver: user name is empty")),
            (
                9,
                "etcdserver: authentication is not enabled",
                denied("etcdserver: authentication is not enabled: it knows no users"),
            ),
            (5, "etcdserver: requested lease not found", Failure::LeaseGone),
            (11, "etcdserver: mvcc: required revision has been compacted", Failure::Compacted),
        ];
        for (code, message, expected) in cases {
            assert_eq!(of_status(code, message), expected, "{message}");
        }
        for (code, message) in [
            (14, "etcdserver: request timed out"),
            (14, "etcdserver: no leader"),
            (4, "context deadline exceeded"),
            (1, "cancelled"),
            (2, "transport error"),
            (13, "stream error"),
            (8, "etcdserver: too many requests"),
            (11, "etcdserver: mvcc: required revision is a future revision"),
        ] {
            assert!(of_status(code, message).in_doubt(), "{message}");
        }
    }

    #[test]
    fn a_file_of_another_kind_is_named_before_anybody_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.pem");
        std::fs::write(
            &path,
            "-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----\n",
        )
        .unwrap();
        assert!(pem(&path, PRIVATE_KEY).is_ok());
        let refused = pem(&path, CERTIFICATE).unwrap_err().to_string();
        assert!(
            refused.contains("file.pem") && refused.contains("BEGIN … CERTIFICATE"),
            "{refused}"
        );
    }
}
