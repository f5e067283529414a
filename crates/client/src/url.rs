//! A coordinator's base URL, parsed once at the edge.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;
use hyper::http::uri::{PathAndQuery, Scheme};

/// `http://HOST:PORT`. Prints without a trailing slash; two URLs of one coordinator compare equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BaseUrl {
    host: String,
    port: u16,
}

/// A text that is no coordinator's URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a coordinator's URL: {why}; expected http://HOST:PORT")]
pub struct ParseUrlError {
    text: String,
    why: &'static str,
}

impl BaseUrl {
    /// `HOST:PORT`; an IPv6 host keeps its brackets.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The base URL that `location` lies on, whatever its path: how a redirect names a coordinator.
    pub fn of_location(location: &str) -> Result<Self, ParseUrlError> {
        let refused = |why| ParseUrlError { text: location.chars().take(200).collect(), why };
        let uri: Uri = location.parse().map_err(|_| refused("it does not read as a URL"))?;
        Self::of_uri(&uri).map_err(refused)
    }

    /// The address of `path_and_query` at this coordinator.
    pub(crate) fn uri(&self, path_and_query: &str) -> Result<Uri, hyper::http::Error> {
        Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(self.authority())
            .path_and_query(PathAndQuery::try_from(path_and_query)?)
            .build()
    }

    fn of_uri(uri: &Uri) -> Result<Self, &'static str> {
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err("TLS is not supported yet"),
            Some(_) => return Err("its scheme is not http"),
            None => return Err("it has no scheme"),
        }
        let authority = uri.authority().ok_or("it has no host")?;
        if authority.as_str().contains('@') {
            return Err("it carries a user name");
        }
        if authority.host().is_empty() {
            return Err("it has no host");
        }
        let port = authority.port_u16().filter(|port| *port != 0).ok_or("it has no port")?;
        Ok(Self { host: authority.host().to_ascii_lowercase(), port })
    }
}

impl FromStr for BaseUrl {
    type Err = ParseUrlError;

    fn from_str(text: &str) -> Result<Self, ParseUrlError> {
        let refused = |why| ParseUrlError { text: text.chars().take(200).collect(), why };
        let uri: Uri = text.trim().parse().map_err(|_| refused("it does not read as a URL"))?;
        let base = Self::of_uri(&uri).map_err(refused)?;
        match uri.path_and_query().map(PathAndQuery::as_str) {
            None | Some("" | "/") => Ok(base),
            Some(_) => Err(refused("it has a path")),
        }
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_coordinator_has_one_spelling() {
        for text in ["http://localhost:8080", "http://LOCALHOST:8080/", " http://localhost:8080 "] {
            assert_eq!(text.parse::<BaseUrl>().unwrap().to_string(), "http://localhost:8080");
        }
        let v6: BaseUrl = "http://[::1]:8080".parse().unwrap();
        assert_eq!(v6.to_string(), "http://[::1]:8080");
    }

    #[test]
    fn everything_else_is_refused_with_the_reason() {
        for (text, why) in [
            ("https://localhost:8080", "TLS"),
            ("localhost:8080", "no scheme"),
            ("localhost", "no scheme"),
            ("ftp://localhost:8080", "scheme is not http"),
            ("http://localhost", "no port"),
            ("http://localhost:0", "no port"),
            ("http://localhost:99999", "no port"),
            ("http://user@localhost:8080", "user name"),
            ("http://localhost:8080/api", "path"),
            ("http://localhost:8080/?x", "path"),
            ("", "does not read as a URL"),
        ] {
            let error = text.parse::<BaseUrl>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
            assert!(error.ends_with("expected http://HOST:PORT"), "{error}");
        }
    }

    #[test]
    fn a_redirect_names_a_coordinator_whatever_its_path() {
        let base = BaseUrl::of_location("http://127.0.0.1:9/members?x=1").unwrap();
        assert_eq!(base.to_string(), "http://127.0.0.1:9");
        assert!(BaseUrl::of_location("/members").is_err());
    }
}
