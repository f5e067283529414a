//! Planned leaves and drains: an operator answers for it that a member goes.
//!
//! This is the only way to a loss that is not counted, so it takes a name that somebody vouches for: where
//! there are no credentials there is no such name, and these calls are refused whoever makes them.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use steadfast_api::{PlannedLeave, PlannedLeaveRequest};
use steadfast_engine::{
    DEFAULT_LEAVE_VALID_MS, Input, LeaveRequest, MAX_LEAVE_VALID_MS, MIN_LEAVE_VALID_MS, Reply,
};
use steadfast_model::{MemberUuid, ParseIdError};

use super::guard::Actor;
use super::respond::{Failure, ask, json, leading, unexpected};
use crate::convert;
use crate::shared::Shared;

/// The longest reason, in characters.
const MAX_REASON_CHARS: usize = 200;

type Caller = Option<Extension<Actor>>;
type Body = Result<Json<PlannedLeaveRequest>, JsonRejection>;

/// `POST /members/:uuid/planned-leave`: the member's agent will be ended by whoever asks.
pub(crate) async fn plan(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Path(member): Path<String>,
    body: Body,
) -> Result<Response, Failure> {
    register(&shared, read(caller, &member, body, false)?).await
}

/// `POST /members/:uuid/drain`: its containers move now, while its agent still runs.
pub(crate) async fn drain(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    Path(member): Path<String>,
    body: Body,
) -> Result<Response, Failure> {
    register(&shared, read(caller, &member, body, true)?).await
}

fn read(caller: Caller, member: &str, body: Body, drain: bool) -> Result<LeaveRequest, Failure> {
    let Some(Extension(Actor { name: actor })) = caller else {
        return Err(Failure::forbidden(
            "nobody can answer for a planned leave here, because this coordinator does not know who \
             calls: start the coordinator with --auth FILE",
        ));
    };
    let member: MemberUuid = member
        .parse()
        .map_err(|refused: ParseIdError| Failure::bad_request(refused.to_string()))?;
    let Json(PlannedLeaveRequest { request_id: id, reason, valid_seconds }) =
        body.map_err(|refused| Failure::bad_request(refused.body_text()))?;
    check_reason(&reason)?;
    let valid_ms = match valid_seconds {
        None => DEFAULT_LEAVE_VALID_MS,
        Some(seconds) => valid_ms(seconds)?,
    };
    Ok(LeaveRequest { id, member, actor, reason, valid_ms, drain })
}

fn check_reason(reason: &str) -> Result<(), Failure> {
    let length = reason.chars().count();
    if (1..=MAX_REASON_CHARS).contains(&length) && !reason.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Failure::bad_request(format!(
        "reason: expected 1 to {MAX_REASON_CHARS} characters on one line, without control characters"
    )))
}

fn valid_ms(seconds: u64) -> Result<u64, Failure> {
    let valid_ms = seconds.saturating_mul(1_000);
    if (MIN_LEAVE_VALID_MS..=MAX_LEAVE_VALID_MS).contains(&valid_ms) {
        return Ok(valid_ms);
    }
    Err(Failure::bad_request(format!(
        "validSeconds: expected {} to {}",
        MIN_LEAVE_VALID_MS.div_ceil(1_000),
        MAX_LEAVE_VALID_MS / 1_000
    )))
}

async fn register(shared: &Shared, request: LeaveRequest) -> Result<Response, Failure> {
    let term = leading(shared)?;
    let member = request.member;
    match ask(shared, &term, |ticket| Input::PlanLeave { ticket, request }).await? {
        Reply::LeavePlanned(registered) => {
            let answer: PlannedLeave = convert::planned_leave(registered);
            Ok(json(StatusCode::OK, &answer))
        }
        Reply::LeaveRefused(why) => Err(Failure::conflict(why)),
        Reply::UnknownMember => Err(Failure::not_found(format!(
            "there is no member {member}: GET /members lists those there are"
        ))),
        other => Err(unexpected(&other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_short_and_on_one_line() {
        let longest = "ä".repeat(200);
        for good in ["x", "new kernel (change 7)", longest.as_str()] {
            assert!(check_reason(good).is_ok(), "{good}");
        }
        let too_long = "x".repeat(201);
        for bad in ["", "a\nb", "a\u{1b}[2J", "a\u{0}", "a\u{85}", too_long.as_str()] {
            assert!(check_reason(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_registration_is_valid_for_a_second_to_an_hour() {
        for (seconds, read) in [(1, Some(1_000)), (600, Some(600_000)), (3_600, Some(3_600_000))] {
            assert_eq!(valid_ms(seconds).ok(), read, "{seconds}");
        }
        for seconds in [0, 3_601, u64::MAX] {
            assert!(valid_ms(seconds).is_err(), "{seconds}");
        }
    }
}
