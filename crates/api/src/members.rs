//! Members as an operator sees them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steadfast_model::{MemberStatus, MemberUuid};

use crate::WireTime;

/// One member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberInfo {
    /// Its identity.
    pub uuid: MemberUuid,
    /// Its host's name, as it said.
    pub host: String,
    /// The address that its connection came from; diagnostic only.
    pub address: String,
    /// The agent's pid.
    pub pid: u32,
    /// Its status; a lost member stays listed as `LOST` for ten minutes.
    pub status: MemberStatus,
    /// Containers that it can hold at once.
    pub slots: u32,
    /// Slots that are taken, old copies that are not proven gone included.
    pub used_slots: u32,
    /// When it was last heard.
    pub last_seen: WireTime,
    /// The agent's version.
    pub version: String,
    /// The agent's feature level.
    pub feature_level: u32,
    /// What placement can ask for.
    pub tags: BTreeMap<String, String>,
}
