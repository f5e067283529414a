//! What stands in the head's place in a store that no coordinator may start on.
//!
//! Every way into a store reads its head first, and every commit compares it: opening, leading, following, a
//! checkpoint. So a mark there is seen by all of them, whoever led until now is fenced by it, and no other
//! place has to be looked at. It has none of a head's fields: a binary that knows no marks cannot read it,
//! and does not start either.

use serde::{Deserialize, Serialize};
use steadfast_model::Timestamp;

use crate::keys;
use crate::records::{Head, decode};
use crate::store::StoreError;

/// Why nobody may start here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mark", rename_all = "camelCase")]
pub(crate) enum Mark {
    /// The records of another store are on their way here.
    Copying {
        /// From where.
        from: String,
        /// Which copy: random, so that two of them are told apart.
        copy: u64,
        /// Which of its writes may still land: random, too, and new where a write that comes late would do
        /// harm.
        phase: u64,
    },
    /// They have gone to another store.
    Moved {
        /// Where they are.
        to: String,
        /// Since when.
        at: Timestamp,
        /// By which copy.
        copy: u64,
        /// The head until then.
        head: Head,
    },
}

/// What a head's key may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Top {
    Head(Head),
    Mark(Mark),
}

impl Top {
    /// # Errors
    /// What is neither, or of a newer format.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        match decode::<Head>(keys::HEAD, bytes) {
            Ok(head) => Ok(Self::Head(head)),
            Err(error @ StoreError::Undecodable { .. }) => {
                decode(keys::HEAD, bytes).map(Self::Mark).map_err(|_| error)
            }
            Err(error) => Err(error),
        }
    }

    /// # Errors
    /// What the mark says.
    pub(crate) fn into_head(self) -> Result<Head, StoreError> {
        match self {
            Self::Head(head) => Ok(head),
            Self::Mark(Mark::Copying { from, .. }) => Err(StoreError::Unfinished { from }),
            Self::Mark(Mark::Moved { to, .. }) => Err(StoreError::Moved { to }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{FORMAT, encode};

    #[test]
    fn a_mark_is_no_head_to_whoever_knows_none() {
        let at = Timestamp::from_millis(1_793_000_000_000);
        let head = Head { epoch: steadfast_model::Epoch::new(7), n: 12, commit_id: 9 };
        let moved = Mark::Moved { to: "etcd:x".into(), at, copy: u64::MAX, head: head.clone() };
        for mark in [Mark::Copying { from: "embedded:d".into(), copy: 5, phase: 6 }, moved] {
            let bytes = encode(&mark).unwrap();
            assert!(decode::<Head>(keys::HEAD, &bytes).is_err(), "{mark:?}");
            let top = Top::decode(&bytes).unwrap();
            assert_eq!(top, Top::Mark(mark));
            assert!(top.into_head().is_err());
        }
        let bytes = encode(&head).unwrap();
        assert_eq!(Top::decode(&bytes).unwrap().into_head(), Ok(head));
    }

    /// What lies in stores must be read by every later version.
    #[test]
    fn a_mark_is_written_so() {
        for record in [
            r#"{"mark":"moved","to":"etcd:x","at":1793000000000,"copy":5,"head":{"epoch":7,"n":12,"commitId":9}}"#,
            r#"{"mark":"copying","from":"embedded:d","copy":5,"phase":6}"#,
        ] {
            let text = |format: u32| {
                format!(r#"{{"format":{format},"version":"0.1.0","record":{record}}}"#)
            };
            for format in 4..=FORMAT {
                let Top::Mark(mark) = Top::decode(text(format).as_bytes()).unwrap() else {
                    panic!("a head")
                };
                assert_eq!(String::from_utf8(encode(&mark).unwrap()).unwrap(), text(FORMAT));
            }
        }
    }
}
