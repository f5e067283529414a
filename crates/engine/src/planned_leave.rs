//! Planned leaves: what an operator registers before a member goes.

use std::collections::BTreeMap;

use steadfast_model::{RequestId, Timestamp};

use crate::draft::Draft;
use crate::engine::Engine;
use crate::input::{LeaveRequest, Ticket};
use crate::records::OperatorRequest;
use crate::step::Reply;

/// For how long a registration is valid where nothing else was asked for.
pub const DEFAULT_LEAVE_VALID_MS: u64 = 10 * 60_000;
/// The shortest validity that can be asked for.
pub const MIN_LEAVE_VALID_MS: u64 = 1_000;
/// The longest one.
pub const MAX_LEAVE_VALID_MS: u64 = 60 * 60_000;

/// An operator's request, in memory.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub request: OperatorRequest,
    /// Registered by an earlier term at a moment that this one has not reached: their clocks differ, and it
    /// proves nothing.
    pub doubtful: bool,
}

/// What earlier terms registered.
pub(crate) fn loaded(
    requests: Vec<OperatorRequest>,
    began: Timestamp,
) -> BTreeMap<RequestId, Registration> {
    let registration = |request: OperatorRequest| {
        let doubtful = request.registered > began;
        (request.id.clone(), Registration { request, doubtful })
    };
    requests.into_iter().map(registration).collect()
}

impl Engine {
    /// Registers a planned leave, and begins the drain where that was asked for.
    pub(crate) fn plan_leave(&mut self, ticket: Ticket, asked: LeaveRequest, d: &mut Draft) {
        if self.members.get(asked.member).is_none() {
            d.reply(ticket, Reply::UnknownMember);
            return;
        }
        d.reply(ticket, Reply::LeaveRefused("planned leaves are not there yet".to_owned()));
    }
}
