//! Answers that several handlers give.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use steadfast_api::{ErrorBody, ErrorDetail};

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
