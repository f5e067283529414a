//! The token that a client shows: kept in a file, never on a command line, which every process of the
//! machine can read.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hyper::header::HeaderValue;

/// Bytes of a file that are looked at: more than any token has.
const MOST_BYTES_READ: u64 = 4_096;

/// A token. Does not print itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Why a file gives no token.
#[derive(Debug, thiserror::Error)]
pub enum ReadTokenError {
    /// It cannot be read.
    #[error("cannot read the token file {file}: {error}", file = .0.display(), error = .1)]
    File(PathBuf, io::Error),
    /// Its first line is no token.
    #[error(
        "the first line of the token file {file} is no token; expected what `steadfast token` prints",
        file = .0.display()
    )]
    NoToken(PathBuf),
}

impl Token {
    /// The first line of a file.
    ///
    /// # Errors
    /// A file that cannot be read, or whose first line is empty or holds anything but visible ASCII
    /// characters.
    pub fn from_file(file: &Path) -> Result<Self, ReadTokenError> {
        let mut bytes = Vec::new();
        File::open(file)
            .and_then(|file| file.take(MOST_BYTES_READ).read_to_end(&mut bytes))
            .map_err(|error| ReadTokenError::File(file.to_owned(), error))?;
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let text = std::str::from_utf8(line).ok().and_then(|line| Self::new(line.trim()));
        text.ok_or_else(|| ReadTokenError::NoToken(file.to_owned()))
    }

    /// A token that is at hand; `None` where the text cannot be one.
    pub fn new(text: &str) -> Option<Self> {
        let is_visible = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_visible.then(|| Self(text.to_owned()))
    }

    /// `Bearer …`, marked as nothing to be logged.
    pub fn authorization(&self) -> HeaderValue {
        let value = HeaderValue::from_str(&format!("Bearer {}", self.0));
        // Visible ASCII is what a header's value may be.
        let mut value = value.expect("a token is visible ASCII");
        value.set_sensitive(true);
        value
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_counts_and_blanks_around_it_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        for (text, token) in [
            ("abc", Some("abc")),
            (" abc \r\nthe rest\n", Some("abc")),
            ("", None),
            ("\nabc", None),
            ("a b", None),
            ("ä", None),
            ("a\u{7f}", None),
        ] {
            std::fs::write(&file, text).unwrap();
            let read = Token::from_file(&file);
            assert_eq!(read.as_ref().ok(), token.and_then(Token::new).as_ref(), "{text:?}");
            let told = read.err().map(|error| error.to_string());
            assert!(told.is_none_or(|told| told.contains(&file.display().to_string())), "{text:?}");
        }
        std::fs::remove_file(&file).unwrap();
        let missing = Token::from_file(&file).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read the token file"), "{missing}");
    }

    #[test]
    fn a_token_is_shown_to_nobody_but_the_coordinator() {
        let token = Token::new("abc").unwrap();
        assert_eq!(token.authorization(), "Bearer abc");
        assert!(!format!("{token:?} {:?}", token.authorization()).contains("abc"));
    }
}
