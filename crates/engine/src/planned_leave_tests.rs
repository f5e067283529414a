use std::collections::BTreeMap;

use steadfast_model::{FEATURE_LEVEL, TermNonce};

use super::*;
use crate::input::{Connection, Input};
use crate::records::{MemberRecord, Snapshot};
use crate::settings::Settings;
use crate::step::{Effect, Step};

const BEGIN: Timestamp = Timestamp::from_millis(1_000_000);

fn member(number: u64) -> MemberUuid {
    format!("00000000-0000-4000-8000-{number:012x}").parse().unwrap()
}

fn asked(id: usize, valid_ms: u64) -> LeaveRequest {
    LeaveRequest {
        id: format!("r{id}").parse().unwrap(),
        member: member(1),
        actor: "on-call".to_owned(),
        reason: "a new kernel".to_owned(),
        valid_ms,
        drain: false,
    }
}

/// A term with one member, and what was registered before it.
fn engine(requests: Vec<OperatorRequest>) -> Engine {
    let snapshot = Snapshot { requests, ..Snapshot::default() };
    let mut engine = Engine::load(snapshot, Settings::default(), TermNonce::new(1), BEGIN);
    let _ = engine.step(BEGIN, Input::TookOver);
    hello(&mut engine, 1, BEGIN);
    engine
}

fn hello(engine: &mut Engine, number: u64, now: Timestamp) {
    let record = MemberRecord {
        uuid: member(number),
        host: "host".to_owned(),
        address: "10.0.0.1:5801".to_owned(),
        pid: 1,
        slots: 1,
        tags: BTreeMap::new(),
        version: "test".to_owned(),
        feature_level: FEATURE_LEVEL,
        registered: Timestamp::default(),
        lost: None,
        draining: false,
    };
    let connection = Connection(number);
    let member = Box::new(record);
    let hello = Input::Hello { connection, member, welcomed: false, containers: Vec::new() };
    let _ = engine.step(now, hello);
}

fn plan(engine: &mut Engine, now: Timestamp, request: LeaveRequest) -> (Step, Reply) {
    let step = engine.step(now, Input::PlanLeave { ticket: Ticket(1), request });
    let replies: Vec<Reply> = step
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Reply(_, reply) => Some(reply.clone()),
            Effect::Send(..) => None,
        })
        .collect();
    let [reply] = replies.try_into().expect("one answer");
    (step, reply)
}

#[test]
fn nothing_is_valid_for_longer_than_the_longest_validity() {
    let mut engine = engine(Vec::new());
    let (_, reply) = plan(&mut engine, BEGIN, asked(1, u64::MAX - 1));
    let Reply::LeavePlanned(request) = reply else { panic!("{reply:?}") };
    assert_eq!(request.expires, BEGIN + MAX_LEAVE_VALID_MS);
}

#[test]
fn so_many_requests_are_kept_and_the_old_ones_are_forgotten_a_few_at_a_time() {
    let registered = |id| {
        let LeaveRequest { id, member, actor, reason, valid_ms, drain } = asked(id, 1_000);
        let expires = BEGIN + valid_ms;
        OperatorRequest { id, member, actor, reason, registered: BEGIN, expires, drain }
    };
    let mut engine = engine((0..MAX_REQUESTS).map(registered).collect());
    let (step, reply) = plan(&mut engine, BEGIN, asked(MAX_REQUESTS, 1_000));
    assert!(matches!(&reply, Reply::LeaveRefused(why) if why.contains("10000")), "{reply:?}");
    assert!(step.writes_nothing());
    let (_, again) = plan(&mut engine, BEGIN, asked(7, 1_000));
    assert!(
        matches!(again, Reply::LeavePlanned(_)),
        "what is registered is still known: {again:?}"
    );

    let forgettable = BEGIN + 1_000 + KEPT_MS;
    hello(&mut engine, 2, forgettable);
    let request = LeaveRequest { member: member(2), ..asked(MAX_REQUESTS, 1_000) };
    let (step, reply) = plan(&mut engine, forgettable, request);
    assert!(matches!(reply, Reply::LeavePlanned(_)), "{reply:?}");
    let forgotten = step.requests.iter().filter(|write| matches!(write, RequestWrite::Forget(_)));
    assert_eq!(forgotten.count(), FORGOTTEN_AT_ONCE);
    assert_eq!(engine.requests.len(), MAX_REQUESTS - FORGOTTEN_AT_ONCE + 1);
}
