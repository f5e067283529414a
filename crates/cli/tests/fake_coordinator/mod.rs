//! A coordinator that answers from a script, to see what the command line makes of each answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// `POST /submit-job?dryRun=true`.
    pub what: String,
    /// `Bearer TOKEN`, where a token was shown.
    pub authorization: Option<String>,
    /// The body.
    pub body: String,
}

/// Status and body; `None` closes the connection without an answer.
pub type Answer = Option<(u16, String)>;

/// Listens until the test's process ends.
pub struct FakeCoordinator {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl FakeCoordinator {
    /// `script` gets each question and how many of the same kind came before it.
    pub fn start(script: impl Fn(&str, usize) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(question) = read(&stream) else { continue };
                let mut log = log.lock().unwrap();
                let before =
                    log.iter().filter(|asked: &&Asked| asked.what == question.what).count();
                let answer = script(&question.what, before);
                log.push(question);
                if let Some((status, body)) = answer {
                    write(stream, status, &body);
                }
            }
        });
        Self { url, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let what = first.rsplit_once(" HTTP/")?.0.to_owned();
    let (mut length, mut authorization) = (0, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => authorization = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { what, authorization, body: String::from_utf8(body).ok()? })
}

fn write(mut stream: TcpStream, status: u16, body: &str) {
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    // The client may have gone.
    let _ = stream.write_all((head + body).as_bytes());
}
