//! Members as an operator sees them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steadfast_model::{MemberStatus, MemberUuid, RequestId};

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

/// `POST /members/:uuid/planned-leave` and `…/drain`: somebody answers for it that this member goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlannedLeaveRequest {
    /// Chosen by whoever asks, used once: 1 to 64 letters, digits, dots, dashes or underscores. The same
    /// request again is answered as the first was.
    pub request_id: RequestId,
    /// Why: 1 to 200 characters on one line.
    pub reason: String,
    /// For how long the member may go after it, 1 to 3,600 seconds; 600 where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_seconds: Option<u64>,
}

/// What is registered of a planned leave, durably.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedLeave {
    /// The member that goes.
    pub member_uuid: MemberUuid,
    /// The request.
    pub request_id: RequestId,
    /// Who asked, as the token said.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub registered: WireTime,
    /// A member that goes later goes unplanned.
    pub expires: WireTime,
    /// Whether its containers are moved away at once.
    pub draining: bool,
}
