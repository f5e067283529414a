//! What operators ask for in a scenario: `plan a id=r1` and `drain a id=r1`, with `by=on-call`,
//! `because=new-kernel` and `valid=600000` where a scenario says nothing else.

use steadfast_engine::records::{MemberEvent, OperatorRequest};
use steadfast_engine::{DEFAULT_LEAVE_VALID_MS, Input, LeaveRequest, Ticket};
use steadfast_model::{LeaveClassification, LossCause};

use super::words::Words;
use super::{member, name_of};

pub fn request(words: &Words<'_>, drain: bool) -> Input {
    let request = LeaveRequest {
        id: words.value("id").unwrap_or("r1").parse().unwrap(),
        member: member(words.name(1)),
        actor: words.value("by").unwrap_or("on-call").to_owned(),
        reason: words.value("because").unwrap_or("new-kernel").to_owned(),
        valid_ms: words.number("valid").unwrap_or(DEFAULT_LEAVE_VALID_MS),
        drain,
    };
    Input::PlanLeave { ticket: Ticket(4), request }
}

pub fn tell_registered(request: &OperatorRequest) -> String {
    let OperatorRequest { id, member, actor, reason, registered, expires, drain } = request;
    let what = if *drain { "drained" } else { "planned to leave" };
    let (name, valid_ms) = (name_of(*member), expires.millis_since(*registered));
    format!("{name} is {what} in request {id} by {actor}: {reason}, valid for {valid_ms} ms")
}

pub fn tell_event(event: &MemberEvent) -> String {
    let how = match (event.classification, event.cause) {
        (LeaveClassification::Unclassified, _) => "is lost",
        (LeaveClassification::PlannedVerified, LossCause::ToldByOperator) => "is drained",
        (LeaveClassification::PlannedVerified, _) => "leaves as planned",
    };
    format!("{} {how}, event {}: {}", name_of(event.member), event.seq, event.evidence)
}
