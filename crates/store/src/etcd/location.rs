//! Where an etcd is, and how to be let in: `etcd:URL,URL,…?prefix=…&ttl=…&ca=…`.
//!
//! One text, because it is one argument on a command line. Secrets are not in it, only the files that hold
//! them: a command line is read by everybody on the machine.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

const DEFAULT_PREFIX: &str = "steadfast/";
/// What one key may add to the bytes of a request is part of how large a batch may be.
pub(super) const MAX_PREFIX_BYTES: usize = 64;
/// etcd grants nothing shorter where its election timeout is the default.
const MIN_TTL_SECONDS: u32 = 2;
const MAX_TTL_SECONDS: u32 = 60;

/// An etcd, the keys of one cluster in it, and the credentials that open it.
///
/// ```text
/// etcd:https://a:2379,https://b:2379?prefix=steadfast/&ttl=2&ca=ca.pem&cert=me.pem&key=me.key
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdLocation {
    /// Client URLs of its nodes, with one scheme.
    pub endpoints: Vec<String>,
    /// What every key begins with; ends with a slash. Several clusters may share an etcd.
    pub prefix: String,
    /// Time to live of the leader's lease, in seconds: how long others wait for a leader that is gone.
    pub ttl_seconds: u32,
    /// For `https`.
    pub tls: Option<TlsFiles>,
    /// For an etcd with authentication.
    pub user: Option<User>,
}

/// Files in PEM form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Who signed the servers' certificates.
    pub ca: PathBuf,
    /// Certificate and private key of this client, where the servers ask for them.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// A user of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// A file with its password, in the first line.
    pub password_file: PathBuf,
}

/// What is wrong with a location, in a sentence that says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// It is of another kind, or names nothing.
    #[error("expected etcd:URL,URL,…, such as etcd:http://a:2379,http://b:2379")]
    NoEtcd,
    /// One of its URLs.
    #[error("`{0}`: an endpoint is http://HOST:PORT or https://HOST:PORT, and nothing behind that")]
    Endpoint(String),
    /// It is there twice: losing that one node would look like losing two.
    #[error("the endpoint {0} is given twice")]
    Twice(String),
    /// Some of its URLs are encrypted, others not.
    #[error("either all endpoints are https or none is")]
    MixedSchemes,
    /// One of its options.
    #[error(
        "`{0}`: the options are prefix, ttl, ca, cert, key, user, password-file, each once and with a value"
    )]
    Option(String),
    /// `prefix`.
    #[error("prefix: at most {MAX_PREFIX_BYTES} bytes of letters, digits and `-._/`")]
    Prefix,
    /// `ttl`.
    #[error("ttl: whole seconds from {MIN_TTL_SECONDS} to {MAX_TTL_SECONDS}")]
    Ttl,
    /// `https` without its certificates, or these without `https`.
    #[error(
        "https needs ca=FILE (who signed etcd's certificates), and ca, cert and key need https"
    )]
    Tls,
    /// One of two options that belong together.
    #[error("{0} and {1} are given together or not at all")]
    Pair(&'static str, &'static str),
}

impl FromStr for EtcdLocation {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        let text = text.strip_prefix("etcd:").ok_or(LocationError::NoEtcd)?;
        let (urls, options) = text.split_once('?').unwrap_or((text, ""));
        let endpoints = endpoints(urls)?;
        let mut options = Options::parse(options)?;
        let prefix = options.take("prefix").map_or(Ok(DEFAULT_PREFIX.to_owned()), prefix)?;
        let ttl_seconds = options.take("ttl").map_or(Ok(MIN_TTL_SECONDS), ttl_seconds)?;
        let client = both(options.take("cert"), options.take("key"), ("cert", "key"))?;
        let ca = options.take("ca");
        let tls = match (endpoints[0].starts_with("https:"), ca, client) {
            (true, Some(ca), client) => {
                let client = client.map(|(cert, key)| (cert.into(), key.into()));
                Some(TlsFiles { ca: ca.into(), client })
            }
            (false, None, None) => None,
            _ => return Err(LocationError::Tls),
        };
        let names = ("user", "password-file");
        let user = both(options.take("user"), options.take("password-file"), names)?;
        let user = user.map(|(name, file)| User { name: name.into(), password_file: file.into() });
        Ok(Self { endpoints, prefix, ttl_seconds, tls, user })
    }
}

/// Without its options: for people.
impl fmt::Display for EtcdLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd:{}?prefix={}", self.endpoints.join(","), self.prefix)
    }
}

fn endpoints(urls: &str) -> Result<Vec<String>, LocationError> {
    if urls.is_empty() {
        return Err(LocationError::NoEtcd);
    }
    let mut endpoints: Vec<String> = Vec::new();
    for url in urls.split(',') {
        let url = url.strip_suffix('/').unwrap_or(url);
        if !is_endpoint(url) {
            return Err(LocationError::Endpoint(url.to_owned()));
        }
        if endpoints.iter().any(|known| known == url) {
            return Err(LocationError::Twice(url.to_owned()));
        }
        endpoints.push(url.to_owned());
    }
    let encrypted = endpoints.iter().filter(|url| url.starts_with("https:")).count();
    if encrypted != 0 && encrypted != endpoints.len() {
        return Err(LocationError::MixedSchemes);
    }
    Ok(endpoints)
}

fn is_endpoint(url: &str) -> bool {
    let authority = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let Some((host, port)) = authority.and_then(|authority| authority.rsplit_once(':')) else {
        return false;
    };
    let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).map_or_else(
        || !host.contains(':'),
        |address| address.parse::<std::net::Ipv6Addr>().is_ok(),
    );
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
    name && !host.is_empty() && host.chars().all(legal) && port.parse::<u16>().is_ok_and(|p| p > 0)
}

fn prefix(text: &str) -> Result<String, LocationError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
    let prefix = format!("{}/", text.trim_end_matches('/'));
    let fits = prefix.len() <= MAX_PREFIX_BYTES && text.chars().all(legal);
    if fits { Ok(prefix) } else { Err(LocationError::Prefix) }
}

fn ttl_seconds(text: &str) -> Result<u32, LocationError> {
    let ttl = text.parse().map_err(|_| LocationError::Ttl)?;
    if (MIN_TTL_SECONDS..=MAX_TTL_SECONDS).contains(&ttl) {
        Ok(ttl)
    } else {
        Err(LocationError::Ttl)
    }
}

fn both<'a>(
    one: Option<&'a str>,
    other: Option<&'a str>,
    names: (&'static str, &'static str),
) -> Result<Option<(&'a str, &'a str)>, LocationError> {
    match (one, other) {
        (Some(one), Some(other)) => Ok(Some((one, other))),
        (None, None) => Ok(None),
        _ => Err(LocationError::Pair(names.0, names.1)),
    }
}

/// What stands behind the question mark.
struct Options<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Options<'a> {
    const KNOWN: [&'static str; 7] =
        ["prefix", "ttl", "ca", "cert", "key", "user", "password-file"];

    fn parse(text: &'a str) -> Result<Self, LocationError> {
        let mut options: Vec<(&str, &str)> = Vec::new();
        for option in text.split('&').filter(|option| !option.is_empty()) {
            let wrong = || LocationError::Option(option.to_owned());
            let (name, value) = option.split_once('=').ok_or_else(wrong)?;
            let twice = options.iter().any(|(known, _)| *known == name);
            if twice || value.is_empty() || !Self::KNOWN.contains(&name) {
                return Err(wrong());
            }
            options.push((name, value));
        }
        Ok(Self(options))
    }

    fn take(&mut self, name: &str) -> Option<&'a str> {
        let index = self.0.iter().position(|(known, _)| *known == name)?;
        Some(self.0.swap_remove(index).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> LocationError {
        text.parse::<EtcdLocation>().unwrap_err()
    }

    #[test]
    fn urls_alone_are_enough() {
        let location: EtcdLocation = "etcd:http://a:2379,http://[::1]:2379/".parse().unwrap();
        assert_eq!(location.endpoints, ["http://a:2379", "http://[::1]:2379"]);
        assert_eq!((location.prefix.as_str(), location.ttl_seconds), ("steadfast/", 2));
        assert_eq!((&location.tls, &location.user), (&None, &None));
        assert_eq!(location.to_string(), "etcd:http://a:2379,http://[::1]:2379?prefix=steadfast/");
    }

    #[test]
    fn every_option_is_taken_and_no_secret_is_shown() {
        let text = "etcd:https://a:2379?prefix=/test/one&ttl=5&ca=ca.pem&cert=c.pem&key=c.key\
                    &user=root&password-file=pw";
        let location: EtcdLocation = text.parse().unwrap();
        assert_eq!((location.prefix.as_str(), location.ttl_seconds), ("/test/one/", 5));
        let client = Some(("c.pem".into(), "c.key".into()));
        assert_eq!(location.tls, Some(TlsFiles { ca: "ca.pem".into(), client }));
        let user = User { name: "root".into(), password_file: "pw".into() };
        assert_eq!(location.user, Some(user));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for text in ["", "etcd:", "etcd", "embedded:d", "http://a:2379", "etcd:?ttl=2"] {
            assert_eq!(refused(text), LocationError::NoEtcd, "{text}");
        }
        for url in [
            "a:2379",
            "http://a",
            "http://:2379",
            "http://a:0",
            "http://a:b",
            "ftp://a:1",
            "http://a:1/x",
            "http://u@a:1",
            "http://::1:2379",
            "http://[a]:1",
            " http://a:1",
            "http://a:99999",
        ] {
            let named = LocationError::Endpoint(url.to_owned());
            assert_eq!(refused(&format!("etcd:http://b:2379,{url}")), named);
        }
        let twice = LocationError::Twice("http://a:1".to_owned());
        assert_eq!(refused("etcd:http://a:1,http://a:1/"), twice);
        assert_eq!(refused("etcd:http://a:1,https://b:1?ca=f"), LocationError::MixedSchemes);
        for option in ["ttl", "ttl=", "x=1", "ttl=3&ttl=4", "password=secret", "=1"] {
            let text = format!("etcd:http://a:1?{option}");
            assert!(matches!(refused(&text), LocationError::Option(_)), "{text}");
        }
        for ttl in ["1", "61", "2.5", "-3"] {
            assert_eq!(refused(&format!("etcd:http://a:1?ttl={ttl}")), LocationError::Ttl);
        }
        for prefix in ["a b".to_owned(), "ä".to_owned(), "x".repeat(64)] {
            assert_eq!(refused(&format!("etcd:http://a:1?prefix={prefix}")), LocationError::Prefix);
        }
        for text in ["etcd:https://a:1", "etcd:http://a:1?ca=f", "etcd:http://a:1?cert=f&key=f"] {
            assert_eq!(refused(text), LocationError::Tls, "{text}");
        }
        assert_eq!(refused("etcd:https://a:1?ca=f&cert=f"), LocationError::Pair("cert", "key"));
        assert_eq!(refused("etcd:http://a:1?user=u"), LocationError::Pair("user", "password-file"));
    }
}
