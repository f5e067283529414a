//! A container that asks, as far as every bench has it alike: its question with the answer's verdict, and
//! numbers that differ from container to container.

use std::time::Duration;

use steadfast_api::ValidityAnswer;
use steadfast_model::Verdict;
use tokio::time::timeout;

use crate::Failure;
use crate::http1::{Connection, question};

/// How long an answer may take, as in the validator.
const LONGEST_ANSWER: Duration = Duration::from_secs(2);

/// Asks on the connection that is open, or on a new one. What is late or broken is no verdict, and closes it.
pub async fn ask(
    connection: &mut Option<Connection>,
    port: u16,
    (id, secret): (&str, &str),
    nonce: u64,
) -> Verdict {
    match timeout(LONGEST_ANSWER, exchange(connection, port, (id, secret), nonce)).await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(_)) | Err(_) => {
            *connection = None;
            Verdict::Unknown
        }
    }
}

async fn exchange(
    connection: &mut Option<Connection>,
    port: u16,
    (id, secret): (&str, &str),
    nonce: u64,
) -> Result<Verdict, Failure> {
    let open = match connection.take() {
        Some(open) => open,
        None => Connection::open(port).await?,
    };
    let (status, body) = connection.insert(open).ask(&question(id, secret, nonce)).await?;
    if status != 200 {
        return Ok(Verdict::Unknown);
    }
    Ok(serde_json::from_slice::<ValidityAnswer>(body)?.verdict(nonce))
}

/// SplitMix64, from a seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 53 bits survive readers that keep JSON numbers as doubles.
    pub fn nonce(&mut self) -> u64 {
        self.next() >> 11
    }
}
