//! Just enough HTTP/1.1 for a client that knows whom it asks: the same for every side, and cheap, so that
//! little of what is measured is the client.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Failure;

/// A connection that stays open, and what was read from it.
pub struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
}

/// The head's status and where the body lies in what was read.
struct Head {
    status: u16,
    body_at: usize,
    body_bytes: usize,
}

impl Connection {
    pub async fn open(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::with_capacity(2_048) })
    }

    /// One question and its whole answer: status and body.
    pub async fn ask(&mut self, question: &[u8]) -> Result<(u16, &[u8]), Failure> {
        self.stream.write_all(question).await?;
        self.read.clear();
        loop {
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err("the connection was closed".into());
            }
            if let Some(Head { status, body_at, body_bytes }) = head(&self.read)?
                && self.read.len() >= body_at + body_bytes
            {
                return Ok((status, &self.read[body_at..body_at + body_bytes]));
            }
        }
    }
}

fn head(read: &[u8]) -> Result<Option<Head>, Failure> {
    let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&read[..end])?;
    let status = text.get(9..12).ok_or("no status")?.parse()?;
    let length = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    };
    let body_bytes = text.lines().find_map(length).ok_or("no content-length")?;
    Ok(Some(Head { status, body_at: end + 4, body_bytes }))
}

/// A wrapper's question, with the headers that it sends.
pub fn question(id: &str, secret: &str, nonce: u64) -> Vec<u8> {
    format!(
        "GET /isContainerValid?execution_resource_id={id}&nonce={nonce}&state=started&pid=12345\
         &wrapperPid=12344&progress=0 HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: steadfast/bench\r\n\
         accept: */*\r\nauthorization: Bearer {secret}\r\n\r\n"
    )
    .into_bytes()
}
