//! Identities. All are made by the core from a per-term nonce and counters, none is random, and each
//! has one textual form that is parsed once at the edge.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A text that is not an id of the wanted kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not {expected}")]
pub struct ParseIdError {
    text: String,
    expected: &'static str,
}

impl ParseIdError {
    fn new(text: &str, expected: &'static str) -> Self {
        // An error must not repeat ten kilobytes of somebody's input.
        let text = text.chars().take(80).collect();
        Self { text, expected }
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $expected:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name($inner);

        impl $name {
            /// Wraps the number.
            pub const fn new(value: $inner) -> Self {
                Self(value)
            }

            /// The bare number.
            pub const fn get(self) -> $inner {
                self.0
            }

            /// The next one in order.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                canonical(text).map(Self).ok_or_else(|| ParseIdError::new(text, $expected))
            }
        }
    };
}

/// Reads digits without sign or leading zero, so that every id has exactly one spelling.
fn canonical<T: FromStr>(text: &str) -> Option<T> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

number! {
    /// A pipeline of a job, from 1.
    PipelineId(u32), "a pipeline id (a whole number)"
}
number! {
    /// A task group, numbered from 1 through the whole job.
    TaskGroupId(u32), "a task group id (a whole number)"
}
number! {
    /// The term of a leader; grows with every leader. Containers and agents refuse lower ones.
    Epoch(u64), "an epoch (a whole number)"
}
number! {
    /// Strictly increasing per task group; what a container leaves behind is guarded by it.
    FencingToken(u64), "a fencing token (a whole number)"
}
number! {
    /// The cluster-wide number of a member's loss; one per lost member UUID.
    MemberEventSeq(u64), "a member event sequence (a whole number)"
}
number! {
    /// Grows with every durable write of a job's ledger.
    LedgerRevision(u64), "a ledger revision (a whole number)"
}
number! {
    /// The number of a recovery episode within its job, from 1.
    EpisodeNumber(u64), "an episode number (a whole number)"
}
number! {
    /// Made outside the engine once per term, from a random source; part of every job id and execution
    /// id of that term, so that a restored backup never hands out an id a second time.
    TermNonce(u64), "a term nonce (a whole number)"
}

/// A job. A number of up to 63 bits on the inside, always a string in JSON: readers that keep numbers
/// as doubles would round it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

/// Jobs that one term can number before its part of the id overflows.
const JOBS_PER_TERM: u64 = 1 << 22;

impl JobId {
    /// The `counter`-th job of a term, or `None` when the term has handed out all of its numbers.
    pub const fn of_term(nonce: TermNonce, counter: u64) -> Option<Self> {
        if counter >= JOBS_PER_TERM {
            return None;
        }
        let nonce = nonce.0 & ((1 << 41) - 1);
        Some(Self(nonce * JOBS_PER_TERM + counter))
    }

    /// The bare number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Wraps a number that was a job id before.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }
}

const EXECUTION_ID_PREFIX: &str = "container_";
/// The hexadecimal digits of a term's nonce in an execution id.
const NONCE_DIGITS: usize = 16;
/// The longest execution id: its number has at most 20 digits.
const EXECUTION_ID_BYTES: usize = EXECUTION_ID_PREFIX.len() + NONCE_DIGITS + 1 + 20;

/// One container's identity, its *execution resource id*: never reused, never shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId {
    nonce: u64,
    seq: u64,
}

impl ExecutionId {
    /// The `seq`-th container of a term.
    pub const fn of_term(nonce: TermNonce, seq: u64) -> Self {
        Self { nonce: nonce.0, seq }
    }

    /// Its one spelling. Written digit by digit: a member's loss stores thousands of ids, and the general
    /// formatter needs several times as long for each.
    fn text(self, buffer: &mut [u8; EXECUTION_ID_BYTES]) -> &str {
        let (prefix, rest) = buffer.split_at_mut(EXECUTION_ID_PREFIX.len());
        prefix.copy_from_slice(EXECUTION_ID_PREFIX.as_bytes());
        for (at, byte) in rest[..NONCE_DIGITS].iter_mut().enumerate() {
            let nibble = self.nonce >> (4 * (NONCE_DIGITS - 1 - at)) & 0xf;
            *byte = b"0123456789abcdef"[nibble as usize];
        }
        rest[NONCE_DIGITS] = b'_';
        let mut seq = itoa::Buffer::new();
        let seq = seq.format(self.seq).as_bytes();
        let number = NONCE_DIGITS + 1;
        rest[number..number + seq.len()].copy_from_slice(seq);
        let end = EXECUTION_ID_PREFIX.len() + number + seq.len();
        std::str::from_utf8(&buffer[..end]).unwrap_or_default() // Only ASCII was written.
    }
}

/// A member: the UUID that its agent made at its start. An address is not an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberUuid(Uuid);

impl MemberUuid {
    /// Wraps a UUID.
    pub const fn new(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

/// An operator's request, named by whoever makes it, so that a repetition over the network is known for one:
/// up to 64 letters, digits, dots, hyphens and underscores.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RequestId(String);

/// The longest request id, in characters.
const MAX_REQUEST_ID: usize = 64;

/// One redeployment attempt of one affected pipeline within an episode (first seed: *attemptId =
/// episodeId + pipelineId + prepareSequence*). A struct on the inside, printed only at the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptId {
    /// The episode of the job.
    pub episode: EpisodeNumber,
    /// The pipeline that is deployed again.
    pub pipeline: PipelineId,
    /// Counts deployments of this pipeline within the episode, from 1.
    pub prepare_seq: u32,
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text(&mut [0; EXECUTION_ID_BYTES]))
    }
}

impl fmt::Display for MemberUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RequestId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if (1..=MAX_REQUEST_ID).contains(&text.len()) && text.bytes().all(known) {
            return Ok(Self(text.to_owned()));
        }
        let expected = "a request id (1 to 64 letters, digits, dots, hyphens and underscores)";
        Err(ParseIdError::new(text, expected))
    }
}

impl FromStr for JobId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        canonical(text)
            .map(Self)
            .ok_or_else(|| ParseIdError::new(text, "a job id (a whole number)"))
    }
}

impl FromStr for ExecutionId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let read = || {
            let (nonce, seq) = text.strip_prefix(EXECUTION_ID_PREFIX)?.split_once('_')?;
            let hex = nonce.len() == NONCE_DIGITS
                && nonce.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            let nonce = if hex { u64::from_str_radix(nonce, 16).ok()? } else { return None };
            Some(Self { nonce, seq: canonical(seq)? })
        };
        read().ok_or_else(|| {
            ParseIdError::new(text, "an execution resource id (container_<16 hex digits>_<number>)")
        })
    }
}

impl FromStr for MemberUuid {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        Uuid::parse_str(text).map(Self).map_err(|_| ParseIdError::new(text, "a member's UUID"))
    }
}

impl Serialize for JobId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(itoa::Buffer::new().format(self.0))
    }
}

impl Serialize for ExecutionId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text(&mut [0; EXECUTION_ID_BYTES]))
    }
}

macro_rules! deserialize_from_text {
    ($($name:ident),*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
deserialize_from_text!(JobId, ExecutionId, RequestId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_id_has_exactly_one_spelling() {
        let id = ExecutionId::of_term(TermNonce::new(0xab), 7);
        assert_eq!(id.to_string(), "container_00000000000000ab_7");
        assert_eq!("container_00000000000000ab_7".parse(), Ok(id));
        for other in [
            "container_00000000000000AB_7",
            "container_00000000000000ab_07",
            "container_00000000000000ab_+7",
            "container_00000000000000ab_7 ",
            "container_ab_7",
            "container_00000000000000ab_",
            "",
        ] {
            assert!(other.parse::<ExecutionId>().is_err(), "{other:?}");
        }
    }

    #[test]
    fn job_ids_of_two_terms_differ_and_fit_63_bits() {
        let a = JobId::of_term(TermNonce::new(u64::MAX), 0).unwrap();
        let b = JobId::of_term(TermNonce::new(1), JOBS_PER_TERM - 1).unwrap();
        assert_ne!(a, b);
        assert!(a.get() < 1 << 63);
        assert_eq!(JobId::of_term(TermNonce::new(1), JOBS_PER_TERM), None);
    }

    #[test]
    fn a_request_id_is_short_and_can_stand_in_a_key() {
        let longest = "x".repeat(64);
        for good in ["a", "drain-2026.07_31", longest.as_str()] {
            let id: RequestId = good.parse().unwrap();
            assert_eq!(id.to_string(), good);
        }
        let too_long = "x".repeat(65);
        for bad in ["", "a/b", "a b", "\u{e4}", "a\n", too_long.as_str()] {
            assert!(bad.parse::<RequestId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_error_does_not_repeat_a_long_input() {
        let error = "x".repeat(10_000).parse::<JobId>().unwrap_err();
        assert!(error.to_string().len() < 200);
    }
}
