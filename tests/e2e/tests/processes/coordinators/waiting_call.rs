//! A call that is there before the process that will answer it: the connection is made and taken while
//! the coordinator runs, the request is sent while it is stopped, and so is the first thing that it finds
//! when it wakes.

use std::io::{Read, Write};
use std::net::TcpStream;

use steadfast_e2e::{PATIENCE, Rest};

/// An open connection to one coordinator.
pub struct WaitingCall(TcpStream);

impl WaitingCall {
    /// Connects, and waits until the connection was taken.
    #[track_caller]
    pub fn open(rest: &Rest) -> Self {
        let stream = TcpStream::connect(rest.url().trim_start_matches("http://"));
        let stream = stream.expect("the coordinator runs");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time that is not zero");
        // Connections are taken in their order, and this one comes later.
        assert!(rest.get("/health/live").is_some(), "the coordinator runs");
        Self(stream)
    }

    /// Sends the request; nobody needs to read it yet.
    #[track_caller]
    pub fn send(&mut self, request: &str, secret: &str, body: &str) {
        let text = format!(
            "{request} HTTP/1.1\r\nHost: coordinator\r\nAuthorization: Bearer {secret}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        self.0.write_all(text.as_bytes()).expect("the kernel takes it for the process");
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
