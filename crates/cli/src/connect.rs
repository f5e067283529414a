//! Which coordinators a client command asks, with which token, and what it says when none of them answers.

use std::path::PathBuf;

use steadfast_client::{Client, ClientError, ReadTokenError, Token};

const DEFAULT: &str = "http://127.0.0.1:8080";

/// The coordinators of the cluster that is meant.
#[derive(Clone, Debug)]
pub struct Coordinators {
    urls: Vec<String>,
    is_default: bool,
    token_file: Option<PathBuf>,
}

impl Coordinators {
    /// Those that were named, else the one that `steadfast dev` starts.
    pub fn named(urls: Vec<String>, token_file: Option<PathBuf>) -> Self {
        if urls.is_empty() {
            Self { urls: vec![DEFAULT.into()], is_default: true, token_file }
        } else {
            Self { urls, is_default: false, token_file }
        }
    }

    pub fn into_urls(self) -> Vec<String> {
        self.urls
    }

    /// The token to show them, where a file of one was named.
    ///
    /// # Errors
    /// A file that gives none.
    pub fn token(&self) -> Result<Option<Token>, ReadTokenError> {
        self.token_file.as_deref().map(Token::from_file).transpose()
    }

    /// # Errors
    /// A URL, or a token's file, that cannot be used.
    pub fn client(&self) -> anyhow::Result<Client> {
        let client = Client::new(&self.urls)?;
        Ok(match self.token()? {
            Some(token) => client.with_token(&token),
            None => client,
        })
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
