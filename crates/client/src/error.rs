//! What can go wrong between a client and the coordinators, told so that a person knows what to do.

use std::fmt::{self, Write as _};

use hyper::StatusCode;
use steadfast_api::ErrorBody;

use crate::{BaseUrl, ParseUrlError};

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No URL was given at all.
    #[error(
        "no coordinator is named; expected at least one URL in --coordinators or \
         STEADFAST_COORDINATORS, such as http://127.0.0.1:8080"
    )]
    NoCoordinators,
    /// A URL that cannot be used.
    #[error(transparent)]
    Url(#[from] ParseUrlError),
    /// A coordinator understood the request and refused it.
    #[error("{}", Refusal { url, status: *status, body })]
    Refused {
        /// Who refused.
        url: BaseUrl,
        /// Says what to do next (07): 400 mend, 401 and 403 credentials, 404 no such thing, 409 it
        /// changed meanwhile.
        status: StatusCode,
        /// The reason, with the place of each problem.
        body: Box<ErrorBody>,
    },
    /// Nobody who was asked could answer.
    #[error(
        "no coordinator answered{}; expected the active one among them; see that it runs, and \
             that --coordinators (or STEADFAST_COORDINATORS) names it",
        Tried(tried)
    )]
    Unreachable {
        /// Whom the client asked, and what became of the last try at each.
        tried: Vec<(BaseUrl, String)>,
    },
    /// The request was sent and its answer never came. It is not repeated, because it would take
    /// effect twice.
    #[error(
        "{url} took the request and did not answer ({why}); expected {expected}; whether it took \
             effect is not known: look before you repeat it"
    )]
    Interrupted {
        /// Who was asked.
        url: BaseUrl,
        /// What was waited for.
        expected: &'static str,
        /// What happened instead.
        why: String,
    },
    /// An output that came in part.
    #[error(
        "{url} gave a part of the output, and then no more ({why}); ask again from where it stopped"
    )]
    BrokenOff {
        /// Who gave it.
        url: BaseUrl,
        /// What happened.
        why: String,
    },
    /// An answer that no coordinator of this version gives.
    #[error(
        "{url} answered {status} with something else than {expected} ({why}); see that the URL is \
             a steadfast coordinator's and of a version like this client's"
    )]
    Unexpected {
        /// Who answered.
        url: BaseUrl,
        /// The status.
        status: StatusCode,
        /// What would have been understood.
        expected: &'static str,
        /// What does not fit.
        why: String,
    },
}

/// The refused request: the message, then each problem on a line of its own.
struct Refusal<'a> {
    url: &'a BaseUrl,
    status: StatusCode,
    body: &'a ErrorBody,
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, status, body } = self;
        write!(f, "{url} refused with {}: {}", status.as_u16(), body.message)?;
        for detail in &body.details {
            f.write_str("\n  ")?;
            if let Some(file) = &detail.file {
                write!(f, "{file}:")?;
            }
            for number in [detail.line, detail.column].into_iter().flatten() {
                write!(f, "{number}:")?;
            }
            if detail.file.is_some() || detail.line.is_some() {
                f.write_char(' ')?;
            }
            if let Some(key) = &detail.key {
                write!(f, "{key}: ")?;
            }
            f.write_str(&detail.message)?;
        }
        match status.as_u16() {
            401 => f.write_str("; name the file of a valid token with --token-file"),
            404 => f.write_str(
                "; see that the id is right: `steadfast jobs` and `steadfast members` list what there is",
            ),
            _ => Ok(()),
        }
    }
}

/// ` (URL: why, URL: why)`.
struct Tried<'a>(&'a [(BaseUrl, String)]);

impl fmt::Display for Tried<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (url, why)) in self.0.iter().enumerate() {
            write!(f, "{}{url}: {why}", if position == 0 { " (" } else { ", " })?;
        }
        f.write_str(if self.0.is_empty() { "" } else { ")" })
    }
}
