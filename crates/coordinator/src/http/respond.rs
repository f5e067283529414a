//! Answers that several handlers give.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use steadfast_api::{ErrorBody, ErrorDetail};
use steadfast_engine::{Input, Reply, Ticket};

use crate::shared::Term;

/// An error with the status that says what to do next.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    body: ErrorBody,
}

impl Failure {
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

    /// Ask again, slower.
    pub fn too_many(message: impl Into<String>) -> Self {
        Self { status: StatusCode::TOO_MANY_REQUESTS, body: ErrorBody::new(message) }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let again =
            matches!(self.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS);
        let mut response = json(self.status, &self.body);
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        if again {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// A JSON answer that nobody keeps.
pub(crate) fn json<T: Serialize>(status: StatusCode, body: &T) -> Response {
    let mut response = (status, Json(body)).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// While no term is served: loading, or between two terms.
pub(crate) fn not_leading() -> Failure {
    Failure::unavailable("this coordinator is not ready: it loads, or does not lead; ask again")
}

/// Hands an input to the loop and waits for its durable answer.
pub(crate) async fn ask(
    term: &Term,
    input: impl FnOnce(Ticket) -> Input,
) -> Result<Reply, Failure> {
    term.ask(input).await.map_err(|_| {
        Failure::unavailable(
            "this coordinator stopped leading before the answer was durable: it may or may not \
             have been done; look before you ask again",
        )
    })
}

/// The loop must not do that.
pub(crate) fn unexpected(reply: &Reply) -> Failure {
    Failure::broken(format!("the engine gave an answer to another question: {reply:?}"))
}

/// The request was not complete, or not done, in time.
pub(crate) fn too_late() -> Response {
    let message =
        "the request was not complete, or could not be done, in time: look, and ask again";
    json(StatusCode::REQUEST_TIMEOUT, &ErrorBody::new(message))
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
