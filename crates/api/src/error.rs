//! The one error body.

use serde::{Deserialize, Serialize};

/// `{"status": "fail", "message": …, "details": […]}`; the HTTP status says what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Always `fail`.
    pub status: String,
    /// What was wrong, in one sentence.
    pub message: String,
    /// Each problem with its place; empty where there is only the message.
    #[serde(default)]
    pub details: Vec<ErrorDetail>,
    /// With 503 and 307: base URLs of all coordinators, whoever leads first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coordinators: Vec<String>,
}

impl ErrorBody {
    /// A body with a message alone.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            status: "fail".into(),
            message: message.into(),
            details: Vec::new(),
            coordinators: Vec::new(),
        }
    }

    /// The same body with those to ask instead.
    #[must_use]
    pub fn with_coordinators(mut self, coordinators: Vec<String>) -> Self {
        self.coordinators = coordinators;
        self
    }

    /// The same body with the problems listed.
    #[must_use]
    pub fn with_details(mut self, details: Vec<ErrorDetail>) -> Self {
        self.details = details;
        self
    }
}

/// One problem of a submitted document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// The file, where it is known (the client knows it, the server does not).
    pub file: Option<String>,
    /// From 1.
    pub line: Option<u32>,
    /// In characters, from 1.
    pub column: Option<u32>,
    /// The dotted key.
    pub key: Option<String>,
    /// What is wrong, and what would be accepted.
    pub message: String,
}
