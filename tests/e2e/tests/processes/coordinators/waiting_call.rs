//! A call that is there before the process that will answer it: it is sent while the coordinator is
//! stopped, and so is the first thing that it finds when it wakes.

use std::io::{Read, Write};
use std::net::TcpStream;

use steadfast_e2e::{PATIENCE, Rest};

/// A request that the kernel has taken for one coordinator.
pub struct WaitingCall(TcpStream);

impl WaitingCall {
    /// Sends the request; nobody needs to run to read it yet.
    #[track_caller]
    pub fn send(rest: &Rest, request: &str, secret: &str, body: &str) -> Self {
        let stream = TcpStream::connect(rest.url().trim_start_matches("http://"));
        let mut stream = stream.expect("the kernel takes the connection for the process");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time that is not zero");
        let text = format!(
            "{request} HTTP/1.1\r\nHost: coordinator\r\nAuthorization: Bearer {secret}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(text.as_bytes()).expect("and the request");
        Self(stream)
    }

    /// The status and the whole of what comes back; 0 where the connection ends without.
    pub fn answer(mut self) -> (u16, String) {
        let mut bytes = Vec::new();
        let ended = self.0.read_to_end(&mut bytes);
        let text = format!("{}{:?}", String::from_utf8_lossy(&bytes), ended.err());
        let status = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        (status.unwrap_or(0), text)
    }
}
