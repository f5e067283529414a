//! Which coordinators a client command asks, and what it says when none of them answers.

use steadfast_client::{Client, ClientError};

const DEFAULT: &str = "http://127.0.0.1:8080";

/// The coordinators of the cluster that is meant.
#[derive(Clone, Debug)]
pub struct Coordinators {
    urls: Vec<String>,
    is_default: bool,
}

impl Coordinators {
    /// Those that were named, else the one that `steadfast dev` starts.
    pub fn named(urls: Vec<String>) -> Self {
        if urls.is_empty() {
            Self { urls: vec![DEFAULT.into()], is_default: true }
        } else {
            Self { urls, is_default: false }
        }
    }

    pub fn into_urls(self) -> Vec<String> {
        self.urls
    }

    /// # Errors
    /// A URL that cannot be used.
    pub fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::new(&self.urls)?)
    }

    /// The error as a person should read it.
    pub fn explain(&self, error: ClientError) -> anyhow::Error {
        let nobody = matches!(error, ClientError::Unreachable { .. });
        let error = anyhow::Error::new(error);
        if nobody && self.is_default {
            let hint = format!(
                "--coordinators and STEADFAST_COORDINATORS name nobody, so {DEFAULT} was asked \
                 (`steadfast dev` starts a whole cluster there)"
            );
            return error.context(hint);
        }
        error
    }
}
