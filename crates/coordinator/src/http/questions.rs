//! A container's connection: "may I go on?", over and over.
//!
//! Ten thousand containers ask that each second, and whatever else this server does is little beside it. So
//! every connection is read here first. As long as each request is that one question, in the form in which
//! wrappers send it, it is answered out of the buffer into which it was read. The first request that is
//! anything else, or in the least doubt, goes to hyper with every byte of it, and the connection stays there.
//! A question costs half of what it costs through hyper and its timers (ADR 14).

use std::io;
use std::pin::pin;
use std::time::SystemTime;

use steadfast_api::paths;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::validity::{self, Asked};
use super::{HEAD_TIMEOUT, REQUEST_TIMEOUT};
use crate::shared::Shared;

/// Beyond it hyper decides, with limits of its own.
const MAX_HEAD_BYTES: usize = 4 * 1024;
/// What wrappers send, and what changes nothing about a request.
const PLAIN_HEADERS: [&str; 5] =
    ["host", "authorization", "accept", "accept-encoding", "user-agent"];

/// What the beginning of the bytes is.
#[derive(Debug)]
enum Head<'a> {
    Question { asked: Asked<'a>, length: usize },
    Incomplete,
    Other,
}

impl<'a> Head<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let mut headers = [httparse::EMPTY_HEADER; PLAIN_HEADERS.len()];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => {
                question(&request).map_or(Self::Other, |asked| Self::Question { asked, length })
            }
            Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD_BYTES => Self::Incomplete,
            _ => Self::Other,
        }
    }
}

/// The question, if the request is nothing but that.
fn question<'a>(request: &httparse::Request<'_, 'a>) -> Option<Asked<'a>> {
    let is_plain = |header: &httparse::Header<'_>| {
        PLAIN_HEADERS.iter().any(|plain| header.name.eq_ignore_ascii_case(plain))
    };
    if request.method != Some("GET") || request.version != Some(1) {
        return None;
    }
    if !request.headers.iter().all(is_plain) {
        return None;
    }
    let query = match request.path?.strip_prefix(paths::IS_CONTAINER_VALID)? {
        "" => None,
        // What follows a `#` is no part of the query.
        rest if rest.contains('#') => return None,
        rest => Some(rest.strip_prefix('?')?),
    };
    let mut headers = request.headers.iter();
    let authorization = headers.find(|header| header.name.eq_ignore_ascii_case("authorization"));
    Some(Asked { query, authorization: authorization.map(|header| header.value) })
}

/// Answers questions until something else comes, and returns the bytes of that; `None` when the connection
/// is to be closed: by whoever asked, after a while without a complete question, or because `stop` is true.
///
/// # Errors
/// When the connection fails.
pub(super) async fn serve(
    stream: &mut TcpStream,
    shared: &Shared,
    mut stop: watch::Receiver<bool>,
) -> io::Result<Option<Vec<u8>>> {
    let (mut received, mut answers) = (Vec::with_capacity(1_024), Vec::new());
    let mut stopped = pin!(stop.wait_for(|stop| *stop));
    // Looked at when it has run out, and not moved with every question: there are many, and it is far away.
    let (mut heard, mut patience) = (Instant::now(), pin!(sleep(HEAD_TIMEOUT)));
    loop {
        let answered = answer(&received, &mut answers, shared).await;
        if !answers.is_empty() {
            timeout(REQUEST_TIMEOUT, stream.write_all(&answers)).await??;
            answers.clear();
            heard = Instant::now();
        }
        let Answered { length, goes_on } = answered;
        received.drain(..length);
        if !goes_on {
            return Ok(Some(received));
        }
        loop {
            tokio::select! {
                biased;
                read = stream.read_buf(&mut received) => match read? {
                    0 => return Ok(None),
                    _ => break,
                },
                _ = &mut stopped => return Ok(None),
                () = &mut patience => {
                    let end = heard + HEAD_TIMEOUT;
                    if end <= Instant::now() {
                        return Ok(None);
                    }
                    patience.as_mut().reset(end);
                }
            }
        }
    }
}

/// How far the questions in a buffer were answered.
struct Answered {
    /// The bytes of those that were.
    length: usize,
    /// What follows them is the beginning of another one, or nothing.
    goes_on: bool,
}

/// Appends an answer to each whole question at the beginning of `received`.
async fn answer(received: &[u8], answers: &mut Vec<u8>, shared: &Shared) -> Answered {
    let mut length = 0;
    while length < received.len() {
        match Head::read(&received[length..]) {
            Head::Question { asked, length: of_this } => {
                let answer = validity::answer(shared, asked).await;
                answer.write(&httpdate::fmt_http_date(SystemTime::now()), answers);
                length += of_this;
            }
            Head::Incomplete => break,
            Head::Other => return Answered { length, goes_on: false },
        }
    }
    Answered { length, goes_on: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &str = "GET /isContainerValid?nonce=7 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\
                            AUTHORIZATION: Bearer x\r\n\r\n";

    #[test]
    fn a_question_is_read_from_the_bytes_as_they_come() {
        for end in 0..QUESTION.len() {
            let head = Head::read(&QUESTION.as_bytes()[..end]);
            assert!(matches!(head, Head::Incomplete), "{end}: {head:?}");
        }
        let two = [QUESTION, QUESTION].concat();
        let Head::Question { asked, length } = Head::read(two.as_bytes()) else {
            panic!("it is one")
        };
        assert_eq!(length, QUESTION.len());
        assert_eq!(asked.query, Some("nonce=7"));
        assert_eq!(asked.authorization, Some(&b"Bearer x"[..]));
    }

    #[test]
    fn whatever_is_not_plainly_the_question_is_left_to_hyper() {
        for (instead_of, other) in [
            ("GET", "HEAD"),
            ("GET", "POST"),
            ("/isContainerValid", "/isContainerValidx"),
            ("/isContainerValid", "/IsContainerValid"),
            ("/isContainerValid", "//isContainerValid"),
            ("/isContainerValid", "http://a/isContainerValid"),
            ("nonce=7", "nonce=7#9"),
            ("HTTP/1.1", "HTTP/1.0"),
            ("Accept: */*", "Connection: close"),
            ("Accept: */*", "Content-Length: 9"),
            ("Accept: */*", "Transfer-Encoding: chunked"),
            ("Accept: */*", "Expect: 100-continue"),
            ("Accept: */*", "Upgrade: websocket"),
            ("Accept: */*", "Accept : */*"),
            ("Accept: */*", "a: b\r\nc: d\r\ne: f\r\ng: h\r\ni: j\r\nk: l"),
            ("Accept: */*", " folded"),
        ] {
            let text = QUESTION.replacen(instead_of, other, 1);
            let head = Head::read(text.as_bytes());
            assert!(matches!(head, Head::Other), "{text:?}: {head:?}");
        }
        let long = format!("GET /isContainerValid?{}", "x".repeat(MAX_HEAD_BYTES));
        assert!(matches!(Head::read(long.as_bytes()), Head::Other));
    }
}
