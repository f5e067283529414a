//! How a record is written down: JSON in an envelope with a format number.
//!
//! `{"format":6,"version":"0.1.0","record":{…}}`. One number serves all kinds of record: a binary that writes any of them
//! differently raises it, its head record carries it from its first commit on, and so an older binary
//! refuses to lead before it has touched anything. From format 2 on the envelope names the version to
//! use as well.
//!
//! | format | what came with it |
//! | --- | --- |
//! | 1 | the first one |
//! | 2 | parked episodes, what a job owes its ledger, how far every job has been processed |
//! | 3 | planned leaves: operators' requests, members that are drained, losses told by an operator |
//! | 4 | a ledger's closed episodes apart from it; what is not known of an episode is left out |
//! | 5 | of a ledger, what is as in most ledgers is left out |
//! | 6 | what a loss tells a ledger stands in the job's record until the ledger is written |
//!
//! Files of every format ever written stay in `tests/records/`.

use std::fmt::Display;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use steadfast_model::{Epoch, FencingToken, MemberEventSeq, Timestamp};

use crate::store::StoreError;

/// The format that this binary writes.
pub(crate) const FORMAT: u32 = 6;
/// The first version that reads [`FORMAT`].
const VERSION: &str = "0.1.0";

#[derive(Serialize)]
struct Written<'a, T> {
    format: u32,
    version: &'static str,
    record: &'a T,
}

#[derive(Deserialize)]
struct Read<T> {
    format: u32,
    record: T,
}

/// The envelope of a record that is not understood.
#[derive(Deserialize)]
struct Outside {
    format: u32,
    version: Option<String>,
}

/// A record's bytes.
///
/// # Errors
/// Only where a type cannot be written as JSON, which is a defect of that type.
pub(crate) fn encode<T: Serialize>(record: &T) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    encode_into(&mut bytes, record)?;
    Ok(bytes)
}

/// Appends a record's bytes.
///
/// # Errors
/// As [`encode`].
pub(crate) fn encode_into<T: Serialize>(bytes: &mut Vec<u8>, record: &T) -> Result<(), String> {
    serde_json::to_writer(bytes, &Written { format: FORMAT, version: VERSION, record })
        .map_err(|error| format!("a record cannot be written as JSON: {error}"))
}

/// Reads a record.
///
/// # Errors
/// [`StoreError::NewerFormat`] or [`StoreError::Undecodable`], with the key.
pub(crate) fn decode<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T, StoreError> {
    match serde_json::from_slice::<Read<T>>(bytes) {
        Ok(Read { format: 1..=FORMAT, record }) => Ok(record),
        Ok(Read { format: 0, .. }) => Err(undecodable(key, "format 0 does not exist")),
        Ok(_) => Err(newer(key, bytes).unwrap_or_else(|| undecodable(key, "no format number"))),
        Err(error) => Err(newer(key, bytes).unwrap_or_else(|| undecodable(key, error))),
    }
}

fn newer(key: &str, bytes: &[u8]) -> Option<StoreError> {
    let Outside { format, version } = serde_json::from_slice(bytes).ok()?;
    let version = version.unwrap_or_else(|| "of a newer version".to_owned());
    (format > FORMAT).then(|| StoreError::NewerFormat { key: key.to_owned(), format, version })
}

fn undecodable(key: &str, reason: impl Display) -> StoreError {
    StoreError::Undecodable { key: key.to_owned(), reason: reason.to_string() }
}

/// The last commit: which term made it, and its number over all terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head {
    pub epoch: Epoch,
    pub n: u64,
    /// Begins at random with a term. Two candidates may try the same epoch and number at once, and one
    /// that got no answer must be able to tell its own commit from the other's.
    pub commit_id: u64,
}

impl Head {
    /// The head after one more commit of the same term.
    pub(crate) fn next(&self) -> Self {
        Self { epoch: self.epoch, n: self.n + 1, commit_id: self.commit_id.wrapping_add(1) }
    }
}

/// What the cluster as a whole remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterRecord {
    pub member_event_seq: MemberEventSeq,
}

/// The member event up to which every job has been processed. Absent in format 1, which took each event
/// to all jobs in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProcessedRecord {
    pub member_event_seq: MemberEventSeq,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecretRecord {
    pub key: [u8; 32],
}

/// The newest token of a task group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenRecord {
    pub token: FencingToken,
}

/// When a job of the history ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FinishedRecord {
    pub finished: Timestamp,
}

/// Who wrote a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckpointRecord {
    pub token: FencingToken,
}

/// A checkpoint's bytes: its record on one line, then the program's value as it is. JSON would make of a
/// binary value several times its size.
pub(crate) fn encode_checkpoint(token: FencingToken, value: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = encode(&CheckpointRecord { token })?;
    bytes.push(b'\n');
    bytes.extend_from_slice(value);
    Ok(bytes)
}

/// The program's value of a checkpoint.
pub(crate) fn decode_checkpoint(key: &str, bytes: Vec<u8>) -> Result<Bytes, StoreError> {
    let line = bytes.iter().position(|byte| *byte == b'\n');
    let line = line.ok_or_else(|| undecodable(key, "it has no first line"))?;
    let CheckpointRecord { token: _ } = decode(key, &bytes[..line])?;
    Ok(Bytes::from(bytes).slice(line + 1..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_format_is_refused_with_the_version_to_use_whether_it_can_be_read_or_not() {
        for record in [r#"{"token":7}"#, r#"{"tokens":[7]}"#] {
            let format = FORMAT + 1;
            let text = format!(r#"{{"format":{format},"version":"0.9.0","record":{record}}}"#);
            let error = decode::<TokenRecord>("token/1/1", text.as_bytes()).unwrap_err();
            let text = error.to_string();
            assert!(
                matches!(error, StoreError::NewerFormat { format: f, .. } if f == format),
                "{text}"
            );
            assert!(text.contains("token/1/1") && text.contains("steadfast 0.9.0"), "{text}");
        }
    }

    #[test]
    fn what_is_no_record_is_named() {
        for bytes in ["", "x", "{}", r#"{"format":0,"record":{"token":7}}"#, r#"{"format":1}"#] {
            let error = decode::<TokenRecord>("token/1/1", bytes.as_bytes()).unwrap_err();
            assert!(matches!(error, StoreError::Undecodable { .. }), "{bytes}: {error}");
        }
    }

    #[test]
    fn a_checkpoint_keeps_every_byte() {
        let value: Vec<u8> = (0..=255).chain(*b"\n\n").collect();
        let bytes = encode_checkpoint(FencingToken::new(7), &value).unwrap();
        assert_eq!(decode_checkpoint("checkpoint/1/1", bytes).unwrap(), value);
    }
}
