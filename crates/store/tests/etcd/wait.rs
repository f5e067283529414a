//! Waiting for a condition, with a deadline.

use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Asks until there is an answer.
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await; // polls `ask`, up to the deadline
    }
}

/// Waits for something that comes by itself.
pub async fn soon<F: Future>(what: &str, coming: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, coming).await {
        Ok(outcome) => outcome,
        Err(_) => panic!("not within {PATIENCE:?}: {what}"),
    }
}
