//! Which losses were planned, as somebody outside could tell: from what operators asked for and were
//! answered, and from what was heard of members.
//!
//! Written from the design's words alone: a leave is registered before its member goes, for exactly that
//! member, and proves nothing once it has expired. The order of things is the order in which they were
//! told, not that of any clock; only the expiry is a moment.

use std::collections::BTreeMap;

use steadfast_engine::records::{MemberEvent, OperatorRequest};
use steadfast_engine::{AgentMessage, Connection, Effect, Input, LeaveRequest, Reply, Step};
use steadfast_model::{LossCause, MemberUuid, RequestId, Timestamp};

/// What was heard of a member in the present term.
#[derive(Clone, Debug, Default)]
struct Seen {
    connection: Option<Connection>,
    heard: u64,
    closed: u64,
}

#[derive(Clone, Debug)]
struct Registered {
    member: MemberUuid,
    at: Timestamp,
    expires: Timestamp,
    /// Its place among all that was told in this term; 0 where an earlier one registered it.
    place: u64,
    /// Its coordinator's clock was ahead of the present one's.
    void: bool,
}

/// What is known so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaves {
    place: u64,
    members: BTreeMap<MemberUuid, Seen>,
    registered: BTreeMap<RequestId, Registered>,
}

impl Leaves {
    /// Another coordinator begins, at this moment by its clock.
    pub fn term_begins(&mut self, began: Timestamp) {
        self.place = 0;
        self.members.clear();
        for registered in self.registered.values_mut() {
            registered.place = 0;
            registered.void = registered.at > began;
        }
    }

    /// A committed step, with its input.
    pub fn go_on(&mut self, input: &Input, step: &Step) {
        self.place += 1;
        let place = self.place;
        match input {
            Input::Hello { connection, member, .. } if welcomes(step, *connection) => {
                let seen = Seen { connection: Some(*connection), heard: place, closed: 0 };
                self.members.insert(member.uuid, seen);
            }
            Input::Heard { member, connection } | Input::Leaving { member, connection } => {
                if let Some(seen) = self.on(*member, *connection) {
                    seen.heard = place;
                }
            }
            Input::Disconnected { member, connection, by_us: _ } => {
                if let Some(seen) = self.on(*member, *connection) {
                    seen.connection = None;
                    seen.closed = place;
                }
            }
            Input::PlanLeave { request, .. } => {
                if let Some(answered) = answered(step) {
                    self.register(request, answered);
                }
            }
            _ => {}
        }
    }

    fn on(&mut self, member: MemberUuid, connection: Connection) -> Option<&mut Seen> {
        self.members.get_mut(&member).filter(|seen| seen.connection == Some(connection))
    }

    fn register(&mut self, asked: &LeaveRequest, answered: &OperatorRequest) {
        let registered = Registered {
            member: asked.member,
            at: answered.registered,
            expires: answered.registered + asked.valid_ms,
            place: self.place,
            void: false,
        };
        // Whoever asks again is answered with what is registered.
        self.registered.entry(asked.id.clone()).or_insert(registered);
    }

    /// Whether this loss was planned.
    pub fn planned(&self, input: &Input, step: &Step, event: &MemberEvent) -> bool {
        if event.cause == LossCause::ToldByOperator {
            let drains = |request: &LeaveRequest| request.drain && request.member == event.member;
            return matches!(input, Input::PlanLeave { request, .. } if drains(request))
                && answered(step).is_some();
        }
        let never = Seen::default();
        let seen = self.members.get(&event.member).unwrap_or(&never);
        self.registered.values().any(|registered| {
            let in_force = (registered.at..registered.expires).contains(&event.declared);
            let went_after = match event.cause {
                LossCause::Leaving => true,
                LossCause::ConnectionClosed => seen.closed > registered.place,
                LossCause::Silence | LossCause::ToldByOperator => seen.heard > registered.place,
            };
            registered.member == event.member && !registered.void && in_force && went_after
        })
    }
}

fn welcomes(step: &Step, connection: Connection) -> bool {
    let effects = step.jobs.iter().flat_map(|job| &job.effects).chain(&step.effects);
    effects.into_iter().any(
        |effect| matches!(effect, Effect::Send(to, AgentMessage::Welcome) if *to == connection),
    )
}

fn answered(step: &Step) -> Option<&OperatorRequest> {
    step.effects.iter().find_map(|effect| match effect {
        Effect::Reply(_, Reply::LeavePlanned(request)) => Some(request),
        _ => None,
    })
}
