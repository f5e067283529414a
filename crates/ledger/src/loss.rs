//! A member's loss, as every ledger that it concerns remembers it.
//!
//! One loss may concern thousands of jobs, and each of them writes it down. So it is shared, and its JSON is
//! made once.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use steadfast_model::{LeaveClassification, LossCause, MemberEventSeq, MemberUuid, Timestamp};

use crate::episode::bounded;

/// What is known about one member's loss. Handed to [`crate::JobLedger::member_lost`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Loss {
    /// The loss's number in the cluster's journal; strictly increasing.
    pub seq: MemberEventSeq,
    /// Whose.
    pub member: MemberUuid,
    /// Its address; diagnostic only.
    pub address: String,
    /// Whether it was proven to be planned.
    pub classification: LeaveClassification,
    /// How it was noticed.
    pub cause: LossCause,
    /// What was seen.
    pub evidence: String,
    /// The member's last sign of life.
    pub last_seen: Timestamp,
    /// When it was declared.
    pub declared: Timestamp,
}

/// The same, made ready for many ledgers.
#[derive(Clone, Debug)]
pub struct SharedLoss {
    pub(crate) facts: LossFacts,
    pub(crate) last_seen: Timestamp,
}

impl From<&Loss> for SharedLoss {
    fn from(loss: &Loss) -> Self {
        let facts = Facts {
            seq: loss.seq,
            member: loss.member,
            address: bounded(&loss.address),
            classification: loss.classification,
            cause: loss.cause,
            evidence: bounded(&loss.evidence),
            declared: loss.declared,
        };
        Self { facts: LossFacts::from(facts), last_seen: loss.last_seen }
    }
}

impl From<&SharedLoss> for SharedLoss {
    fn from(loss: &Self) -> Self {
        loss.clone()
    }
}

/// What ledgers keep of a loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The loss's number in the cluster's journal.
    pub seq: MemberEventSeq,
    /// The lost member.
    pub member: MemberUuid,
    /// Its address; diagnostic only.
    pub address: String,
    /// Whether it was proven to be planned. Written only where it was.
    #[serde(default = "unclassified", skip_serializing_if = "is_unclassified")]
    pub classification: LeaveClassification,
    /// How it was noticed.
    pub cause: LossCause,
    /// What was seen.
    pub evidence: String,
    /// When it was declared.
    pub declared: Timestamp,
}

pub(crate) fn unclassified() -> LeaveClassification {
    LeaveClassification::Unclassified
}

pub(crate) fn is_unclassified(classification: &LeaveClassification) -> bool {
    *classification == LeaveClassification::Unclassified
}

/// [`Facts`], shared. Only JSON knows what a [`RawValue`] is, and ledgers are stored as nothing else.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Facts")]
pub struct LossFacts(Arc<(Facts, OnceLock<Box<RawValue>>)>);

impl From<Facts> for LossFacts {
    fn from(facts: Facts) -> Self {
        Self(Arc::new((facts, OnceLock::new())))
    }
}

impl Deref for LossFacts {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.0.0
    }
}

impl PartialEq for LossFacts {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for LossFacts {}

impl Serialize for LossFacts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (facts, json) = &*self.0;
        let json = json.get_or_init(|| {
            serde_json::value::to_raw_value(facts).expect("numbers and texts can be JSON")
        });
        json.serialize(serializer)
    }
}
