//! The load: ten thousand questions a second, each sent when it is due and not when the one before is
//! answered, so that a slow answer does not spare the side that gave it the next question.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::Failure;
use crate::http1::{Connection, question};

const CONNECTIONS: u32 = 5_000;
/// Between two questions on one connection.
const PAUSE: Duration = Duration::from_millis(500);
const SLICE: Duration = Duration::from_secs(1);

/// Questions of registered containers, drawn evenly from all of them.
pub struct Questions(Vec<Vec<u8>>);

impl Questions {
    /// Reads the ids and secrets that the server wrote into its folder.
    pub fn read(folder: &Path) -> Result<Arc<Self>, Failure> {
        let told = std::fs::read_to_string(folder.join(crate::server::CREDENTIALS))?;
        let ask = |(line, nonce): (&str, u64)| {
            let (id, secret) = line.split_once(' ')?;
            Some(question(id, secret, nonce))
        };
        let nonces = (1_000_000_000_000_000_u64..).step_by(7);
        let questions = told.lines().zip(nonces).map(ask).collect::<Option<_>>();
        Ok(Arc::new(Self(questions.ok_or("a line without a secret")?)))
    }
}

/// The body of one answer.
pub async fn one_body(port: u16, questions: &Questions) -> Result<String, Failure> {
    let mut connection = Connection::open(port).await?;
    let (_, body) = connection.ask(&questions.0[0]).await?;
    Ok(String::from_utf8(body.to_vec())?)
}

/// One of the two who are asked, with connections to it.
pub struct Side {
    connections: Vec<Connection>,
    questions: Arc<Questions>,
    next: usize,
}

impl Side {
    pub async fn connect(port: u16, questions: &Arc<Questions>) -> Result<Self, Failure> {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(Connection::open(port).await?);
        }
        Ok(Self { connections, questions: Arc::clone(questions), next: 0 })
    }

    /// Asks for the length of a slice, and gives the time that each answer took, in nanoseconds.
    ///
    /// # Errors
    /// When any answer is not a yes.
    pub async fn slice(&mut self) -> Result<Vec<u64>, Failure> {
        let start = Instant::now() + Duration::from_millis(20);
        let mut asking = JoinSet::new();
        for (place, mut connection) in (0..).zip(self.connections.drain(..)) {
            let questions = Arc::clone(&self.questions);
            // Neighbours in the list are strangers in the index: a prime apart, over all of them.
            let mut at = self.next.wrapping_add(place as usize * 7_919);
            asking.spawn(async move {
                let mut latencies_ns = Vec::new();
                let mut due = start + PAUSE * place / CONNECTIONS;
                while due < start + SLICE {
                    sleep_until(due).await;
                    let sent = Instant::now();
                    let question = &questions.0[at % questions.0.len()];
                    let (status, body) = connection.ask(question).await?;
                    latencies_ns.push(u64::try_from(sent.elapsed().as_nanos())?);
                    if status != 200 || !body.starts_with(br#"{"isValid":true,"leaseMs""#) {
                        return Err(String::from_utf8_lossy(body).into_owned().into());
                    }
                    at = at.wrapping_add(104_729);
                    due += PAUSE;
                }
                Ok::<_, Failure>((connection, latencies_ns))
            });
        }
        self.next = self.next.wrapping_add(15_485_863);
        let mut all = Vec::new();
        while let Some(done) = asking.join_next().await {
            let (connection, mut latencies_ns) = done??;
            self.connections.push(connection);
            all.append(&mut latencies_ns);
        }
        Ok(all)
    }
}
