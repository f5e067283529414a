//! Answers that several handlers give.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use steadfast_api::{ErrorBody, ErrorDetail};
use steadfast_engine::{Input, Reply, Ticket};

use crate::shared::{Shared, Term};

/// An error with the status that says what to do next.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    body: ErrorBody,
}

impl Failure {
    /// What it says.
    pub fn message(&self) -> &str {
        &self.body.message
    }

    /// Mend the request.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, body: ErrorBody::new(message) }
    }

    /// Mend the document, here.
    pub fn bad_document(message: impl Into<String>, details: Vec<ErrorDetail>) -> Self {
        let body = ErrorBody::new(message).with_details(details);
        Self { status: StatusCode::BAD_REQUEST, body }
    }

    /// The body could not be read: too large, mostly.
    pub fn bad_body(refused: &BytesRejection) -> Self {
        Self { status: refused.status(), body: ErrorBody::new(refused.body_text()) }
    }

    /// No such thing.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, body: ErrorBody::new(message) }
    }

    /// Not with these credentials.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self { status: StatusCode::UNAUTHORIZED, body: ErrorBody::new(message) }
    }

    /// Not with this role.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, body: ErrorBody::new(message) }
    }

    /// It changed meanwhile, or cannot be now; the message says what to do.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self { status: StatusCode::CONFLICT, body: ErrorBody::new(message) }
    }

    /// Something is wrong with what is stored.
    pub fn broken(message: impl Into<String>) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, body: ErrorBody::new(message) }
    }

    /// Ask again: nobody here can know at the moment.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, body: ErrorBody::new(message) }
    }

    /// It may have been done, or is going to be: whoever asks again asks for it twice, which 503 would invite to.
    pub fn in_doubt(message: impl Into<String>) -> Self {
        Self { status: StatusCode::REQUEST_TIMEOUT, body: ErrorBody::new(message) }
    }

    /// Ask again, slower.
    pub fn too_many(message: impl Into<String>) -> Self {
        Self { status: StatusCode::TOO_MANY_REQUESTS, body: ErrorBody::new(message) }
    }
}

impl From<Failure> for JsonAnswer {
    fn from(failure: Failure) -> Self {
        Self::new(failure.status, &failure.body)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        JsonAnswer::from(self).into_response()
    }
}

/// A JSON answer that nobody keeps, as bytes: for hyper, or straight for a connection.
#[derive(Debug)]
pub(crate) struct JsonAnswer {
    status: StatusCode,
    body: Vec<u8>,
}

impl JsonAnswer {
    pub fn new<T: Serialize>(status: StatusCode, body: &T) -> Self {
        match serde_json::to_vec(body) {
            Ok(body) => Self { status, body },
            // A defect of that type: nobody must take half an answer for a whole one.
            Err(error) => Self {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                body: error.to_string().into_bytes(),
            },
        }
    }

    /// What goes with every answer of this kind.
    fn headers(&self) -> impl Iterator<Item = (HeaderName, &'static str)> {
        let with_its_status = match self.status {
            StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, "Bearer")),
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                Some((header::RETRY_AFTER, "1"))
            }
            _ => None,
        };
        let json = (header::CONTENT_TYPE, "application/json");
        [json, (header::CACHE_CONTROL, "no-store")].into_iter().chain(with_its_status)
    }

    /// Appends the whole answer as HTTP/1.1 has it on a connection that stays open. `date` is the value of
    /// that header.
    pub fn write(&self, date: &str, into: &mut Vec<u8>) {
        // Piece by piece, for the general formatter takes as long as all the rest of an answer.
        let mut put = |piece: &str| into.extend_from_slice(piece.as_bytes());
        put("HTTP/1.1 ");
        put(self.status.as_str());
        put(" ");
        put(self.status.canonical_reason().unwrap_or_default());
        for (name, value) in self.headers() {
            ["\r\n", name.as_str(), ": ", value].into_iter().for_each(&mut put);
        }
        put("\r\ncontent-length: ");
        put(itoa::Buffer::new().format(self.body.len()));
        ["\r\ndate: ", date, "\r\n\r\n"].into_iter().for_each(put);
        into.extend_from_slice(&self.body);
    }
}

impl IntoResponse for JsonAnswer {
    fn into_response(self) -> Response {
        let headers = self.headers().map(|(name, value)| (name, HeaderValue::from_static(value)));
        let headers: HeaderMap = headers.collect();
        (self.status, headers, self.body).into_response()
    }
}

/// A JSON answer that nobody keeps.
pub(crate) fn json<T: Serialize>(status: StatusCode, body: &T) -> Response {
    JsonAnswer::new(status, body).into_response()
}

/// The term that is served.
///
/// # Errors
/// None is: loading, standing by, or between two terms. The answer says who else there is.
pub(crate) fn leading(shared: &Shared) -> Result<Arc<Term>, Failure> {
    shared.term().ok_or_else(|| not_leading(shared))
}

/// While no term is served.
pub(crate) fn not_leading(shared: &Shared) -> Failure {
    let why = match shared.store_health.trouble() {
        Some(trouble) => format!("this coordinator does not lead: {}", trouble.message),
        None => {
            "this coordinator is not ready: it loads, or does not lead; ask again, or ask another"
                .to_owned()
        }
    };
    let mut failure = Failure::unavailable(why);
    failure.body = failure.body.with_coordinators(shared.coordinators.urls().to_vec());
    failure
}

/// Hands an input to the loop and waits for its durable answer. A store that is full takes nothing on: who
/// asks while it is, is refused at once, and nothing of it happens. Who asked just before is told that it
/// will, as it may take long, and is not told to ask again.
pub(crate) async fn ask(
    shared: &Shared,
    term: &Term,
    input: impl FnOnce(Ticket) -> Input,
) -> Result<Reply, Failure> {
    if shared.store_health.full().is_some() {
        return Err(full(shared));
    }
    tokio::select! {
        biased;
        reply = term.ask(input) => reply.map_err(|_| {
            Failure::in_doubt(
                "this coordinator stopped leading before the answer was durable: it may or may not \
                 have been done; look before you ask again",
            )
        }),
        () = shared.store_health.until_full() => Err(Failure::in_doubt(format!(
            "{}. What was asked for waits for that, and is done then: look before you ask again",
            full(shared).message()
        ))),
    }
}

/// While the store has no room.
pub(crate) fn full(shared: &Shared) -> Failure {
    // There may be room again since.
    let why = shared.store_health.full();
    Failure::unavailable(why.unwrap_or_else(|| "the store was full: ask again".to_owned()))
}

/// The loop must not do that.
pub(crate) fn unexpected(reply: &Reply) -> Failure {
    Failure::broken(format!("the engine gave an answer to another question: {reply:?}"))
}

/// The request was not complete, or not done, in time.
pub(crate) fn too_late() -> Response {
    let message =
        "the request was not complete, or could not be done, in time: look, and ask again";
    Failure::in_doubt(message).into_response()
}

pub(crate) async fn no_such_path(uri: axum::http::Uri) -> Response<Body> {
    Failure::not_found(format!("there is nothing at {}", uri.path())).into_response()
}

pub(crate) async fn no_such_method(
    method: axum::http::Method,
    uri: axum::http::Uri,
) -> Response<Body> {
    let message = format!("{} does not take {method}", uri.path());
    let body = ErrorBody::new(message);
    Failure { status: StatusCode::METHOD_NOT_ALLOWED, body }.into_response()
}
