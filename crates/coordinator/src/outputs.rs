//! Questions to agents about what their containers have written, and who waits for the answers.
//!
//! They go past the loop: nothing is decided by them, nothing is durable, and an answer that does not come
//! is only that. The agent's end of a connection is also the end of every question that was asked on it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use steadfast_api::{LogAnswer, LogOwner, LogPart, LogsFound};
use steadfast_engine::Connection;
use tokio::sync::oneshot;

/// An agent that has not answered by then is too busy, or too old to know the question.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// What an agent said.
#[derive(Debug)]
pub(crate) enum Told {
    Found(Vec<LogOwner>),
    Part(LogAnswer, Vec<u8>),
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The connection ended, or the term.
    Gone,
    /// It took too long.
    Late,
    /// Another question was answered.
    Confused,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("its connection ended"),
            Self::Late => write!(f, "it did not answer within {} s", ANSWER_TIMEOUT.as_secs()),
            Self::Confused => f.write_str("it answered another question"),
        }
    }
}

/// The questions that wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    waiting: Mutex<BTreeMap<u64, (Connection, oneshot::Sender<Told>)>>,
}

impl Questions {
    /// Waits for the answer to the question with this number, which `ask` sends.
    pub async fn ask(
        &self,
        number: u64,
        connection: Connection,
        ask: impl FnOnce(),
    ) -> Result<Told, NoAnswer> {
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().insert(number, (connection, answer));
        // Whoever asked may go at any moment, and this future with it.
        let _forget = Forget { questions: self, number };
        ask();
        match tokio::time::timeout(ANSWER_TIMEOUT, answered).await {
            Ok(answered) => answered.map_err(|_| NoAnswer::Gone),
            Err(_) => Err(NoAnswer::Late),
        }
    }

    /// An agent answered "which containers".
    pub fn found(&self, connection: Connection, found: LogsFound) {
        self.answered(connection, found.request, Told::Found(found.containers));
    }

    /// An agent sent a part.
    pub fn part(&self, connection: Connection, part: LogPart) {
        self.answered(connection, part.request, Told::Part(part.answer, part.bytes));
    }

    /// The connection is gone, and whoever was asked on it.
    pub fn disconnected(&self, connection: Connection) {
        self.waiting.lock().retain(|_, (asked, _)| *asked != connection);
    }

    /// Nobody is answered any more.
    pub fn close(&self) {
        self.waiting.lock().clear();
    }

    fn answered(&self, connection: Connection, number: u64, told: Told) {
        let mut waiting = self.waiting.lock();
        // Only who was asked may answer.
        if waiting.get(&number).is_some_and(|(asked, _)| *asked == connection)
            && let Some((_, answer)) = waiting.remove(&number)
        {
            let _ = answer.send(told);
        }
    }
}

struct Forget<'a> {
    questions: &'a Questions,
    number: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.questions.waiting.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Connection = Connection(1);

    fn found(request: u64) -> LogsFound {
        LogsFound { request, containers: Vec::new() }
    }

    #[tokio::test]
    async fn who_was_asked_answers_and_nobody_else() {
        let questions = Questions::default();
        let answers = || {
            questions.found(Connection(2), found(5));
            questions.found(ASKED, found(6));
            questions
                .part(ASKED, LogPart { request: 5, answer: LogAnswer::NotHere, bytes: Vec::new() });
        };
        let told = questions.ask(5, ASKED, answers).await;
        assert!(matches!(told, Ok(Told::Part(LogAnswer::NotHere, _))), "{told:?}");
        questions.found(ASKED, found(5));
        assert!(questions.waiting.lock().is_empty(), "an answer that comes twice is nobody's");
    }

    #[tokio::test]
    async fn the_end_of_a_connection_or_of_the_term_is_an_answer() {
        let questions = Questions::default();
        let end = questions.ask(1, ASKED, || questions.disconnected(ASKED)).await;
        assert_eq!(end.unwrap_err(), NoAnswer::Gone);
        let end = questions.ask(2, ASKED, || questions.close()).await;
        assert_eq!(end.unwrap_err(), NoAnswer::Gone);
        let asked = questions.ask(3, ASKED, || ());
        drop(asked);
        assert!(questions.waiting.lock().is_empty(), "nothing is kept for who has gone");
    }
}
