//! Each duty of 03 as a story of messages.

use steadfast_model::{LeaseTerms, TermNonce, ValidatorKind};

use super::*;

const LEASE: LeaseTerms = LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 };

fn uuid(text: &str) -> MemberUuid {
    text.parse().unwrap()
}

fn first_life() -> MemberUuid {
    uuid("00000000-0000-4000-8000-000000000001")
}

fn id(seq: u64) -> ExecutionId {
    ExecutionId::of_term(TermNonce::new(1), seq)
}

fn order(epoch: u64, seq: u64) -> LaunchOrder {
    LaunchOrder {
        epoch: Epoch::new(epoch),
        execution_resource_id: id(seq),
        runs: None,
        command: vec!["true".into()],
        environment: BTreeMap::new(),
        lease: LEASE,
        validator: ValidatorKind::Wrapper,
        validator_enabled: true,
    }
}

fn launch(epoch: u64, seq: u64) -> ToAgent {
    ToAgent::Launch(order(epoch, seq))
}

fn stop(epoch: u64, seq: u64, grace_ms: u64) -> ToAgent {
    ToAgent::Stop {
        epoch: Epoch::new(epoch),
        execution_resource_id: id(seq),
        reason: InvalidReason::Canceled,
        grace_ms,
    }
}

fn welcome(epoch: u64) -> ToAgent {
    ToAgent::Welcome { epoch: Epoch::new(epoch), coordinators: Vec::new(), cluster: None }
}

fn welcome_of(cluster: &str) -> ToAgent {
    let cluster = Some(cluster.to_owned());
    ToAgent::Welcome { epoch: Epoch::new(1), coordinators: Vec::new(), cluster }
}

fn acknowledge(seq: u64) -> ToAgent {
    ToAgent::Acknowledge { execution_resource_id: id(seq) }
}

fn started(pid: u32) -> ContainerEvent {
    ContainerEvent::Started { pid, wrapper_pid: 1 }
}

fn exited() -> ContainerEvent {
    let outcome = Some(Outcome::Exited { code: 0 });
    ContainerEvent::Ended { outcome, proof: Some(Proof::NoChildLeft) }
}

fn never_started() -> ContainerEvent {
    ContainerEvent::Ended { outcome: None, proof: Some(Proof::NeverStarted) }
}

fn report(seq: u64, event: ContainerEvent) -> Effect {
    Effect::Send(FromAgent::Report(ContainerReport { execution_resource_id: id(seq), event }))
}

fn passed_on(seq: u64, reason: InvalidReason, grace_ms: u64) -> Effect {
    Effect::Stop { id: id(seq), reason, grace_ms }
}

fn agent() -> State {
    let profile = Profile {
        host: "h".into(),
        pid: 1,
        slots: 4,
        tags: BTreeMap::new(),
        version: "0".into(),
        leave_wait_ms: 1_000,
    };
    State::new(first_life(), profile)
}

/// An agent that was welcomed in term 3 and runs these.
fn serving(running: &[u64]) -> State {
    let mut agent = agent();
    agent.connected();
    agent.heard(welcome(3));
    for seq in running {
        assert_eq!(agent.heard(launch(3, *seq)), [Effect::Launch(order(3, *seq))]);
        agent.observed(id(*seq), started(100));
    }
    agent
}

/// The hello of the next connection.
fn hello(agent: &mut State) -> Hello {
    match agent.connected().as_slice() {
        [Effect::Send(FromAgent::Hello(hello))] => hello.clone(),
        other => panic!("{other:?}"),
    }
}

fn sightings(agent: &mut State) -> Vec<(ExecutionId, Option<ContainerEvent>)> {
    let containers = hello(agent).containers;
    containers.into_iter().map(|it| (it.execution_resource_id, it.last_event)).collect()
}

#[test]
fn a_launch_is_idempotent_while_the_container_runs_and_after_its_end() {
    let mut agent = serving(&[]);
    assert_eq!(agent.heard(launch(3, 1)), [Effect::Launch(order(3, 1))]);
    assert_eq!(agent.heard(launch(3, 1)), [], "it waits for its first yes");
    agent.observed(id(1), started(100));
    assert_eq!(agent.heard(launch(3, 1)), [report(1, started(100))]);
    agent.observed(id(1), exited());
    assert_eq!(agent.heard(launch(3, 1)), [report(1, exited())]);
    agent.heard(acknowledge(1));
    assert_eq!(agent.heard(launch(3, 1)), [report(1, exited())], "acknowledged is not forgotten");
}

#[test]
fn a_deposed_leader_is_refused() {
    let mut agent = serving(&[1]);
    assert_eq!(agent.heard(launch(2, 2)), []);
    assert_eq!(agent.heard(stop(2, 1, 0)), []);
    assert_eq!(agent.heard(stop(2, 9, 0)), [], "nor does it learn about unknown ids");
    assert_eq!(agent.heard(launch(4, 2)), [Effect::Launch(order(4, 2))]);
    assert_eq!(agent.heard(stop(3, 1, 0)), [], "a command raises the term too");
    assert_eq!(hello(&mut agent).highest_epoch, Epoch::new(4));
}

#[test]
fn the_connection_of_a_deposed_leader_is_dropped() {
    let mut agent = serving(&[1]);
    agent.disconnected();
    agent.connected();
    assert_eq!(agent.heard(welcome(2)), [Effect::Connect]);
    assert_eq!(agent.observed(id(1), exited()), [], "it gets no report");
}

#[test]
fn an_end_is_reported_until_it_is_acknowledged() {
    let mut agent = serving(&[1, 2]);
    assert_eq!(agent.observed(id(1), exited()), [report(1, exited())]);
    assert_eq!(agent.disconnected(), [Effect::Connect]);
    assert_eq!(
        sightings(&mut agent),
        [(id(2), Some(started(100))), (id(1), Some(exited()))],
        "what runs, and what ended unacknowledged"
    );
    let welcomed = Effect::Welcomed { coordinators: Vec::new() };
    assert_eq!(agent.heard(welcome(3)), [welcomed.clone(), report(1, exited())]);
    assert_eq!(agent.heard(acknowledge(1)), [Effect::Clear(id(1))]);
    assert_eq!(agent.heard(acknowledge(1)), []);
    agent.disconnected();
    assert_eq!(sightings(&mut agent), [(id(2), Some(started(100)))]);
    assert_eq!(agent.heard(welcome(3)), [welcomed]);
}

#[test]
fn an_end_is_repeated_on_a_connection_that_stays() {
    let mut agent = serving(&[1]);
    agent.observed(id(1), exited());
    let beats: Vec<Effect> = (0..BEATS_PER_REPORT).flat_map(|_| agent.beat()).collect();
    let repeated = beats.iter().filter(|effect| **effect == report(1, exited())).count();
    assert_eq!((beats.len() as u64, repeated), (BEATS_PER_REPORT + 1, 1));
}

#[test]
fn an_end_while_nobody_is_connected_waits_for_the_next_hello() {
    let mut agent = serving(&[1]);
    agent.disconnected();
    assert_eq!(agent.beat(), []);
    assert_eq!(agent.observed(id(1), exited()), []);
    assert_eq!(sightings(&mut agent), [(id(1), Some(exited()))]);
}

#[test]
fn an_acknowledgement_of_something_that_runs_ends_nothing() {
    let mut agent = serving(&[1]);
    assert_eq!(agent.heard(acknowledge(1)), []);
    assert_eq!(sightings(&mut agent), [(id(1), Some(started(100)))]);
}

#[test]
fn a_stop_of_an_unknown_id_is_answered_and_its_late_launch_refused() {
    let mut agent = serving(&[]);
    assert_eq!(agent.heard(stop(3, 1, 0)), [report(1, never_started())]);
    assert_eq!(agent.heard(launch(3, 1)), [report(1, never_started())]);
    agent.heard(acknowledge(1));
    assert_eq!(agent.heard(launch(3, 1)), [report(1, never_started())]);
    assert!(
        agent.held().any(|it| it == id(1)),
        "asked again, it is reported until acknowledged again"
    );
}

#[test]
fn a_stop_of_an_id_that_ended_repeats_what_is_known() {
    let mut agent = serving(&[1]);
    let unseen = ContainerEvent::Ended { outcome: None, proof: None };
    agent.observed(id(1), unseen.clone());
    agent.heard(acknowledge(1));
    assert_eq!(agent.heard(stop(3, 1, 0)), [report(1, unseen)], "and claims no proof");
}

#[test]
fn a_stop_is_passed_on_once_and_again_only_when_it_is_shorter() {
    let mut agent = serving(&[1]);
    assert_eq!(agent.heard(stop(3, 1, 5_000)), [passed_on(1, InvalidReason::Canceled, 5_000)]);
    assert_eq!(agent.heard(stop(3, 1, 5_000)), []);
    assert_eq!(agent.heard(stop(3, 1, 0)), [passed_on(1, InvalidReason::Canceled, 0)]);
}

#[test]
fn registering_anew_ends_everything_first_and_still_reports_the_ends() {
    let mut agent = serving(&[1, 2]);
    let lost = InvalidReason::MemberLost;
    assert_eq!(
        agent.heard(ToAgent::RegisterAnew),
        [passed_on(1, lost, 5_000), passed_on(2, lost, 5_000)]
    );
    assert_eq!(agent.heard(ToAgent::RegisterAnew), []);
    assert_eq!(agent.observed(id(1), exited()), [report(1, exited())]);
    assert_eq!(agent.disconnected(), [], "the old UUID does not come back");
    assert_eq!(agent.observed(id(2), exited()), [Effect::MakeIdentity]);

    let second_life = uuid("00000000-0000-4000-8000-000000000002");
    assert_eq!(agent.register_as(second_life), [Effect::Connect]);
    let hello = hello(&mut agent);
    assert_eq!((hello.uuid, hello.welcomed), (second_life, false));
    assert_eq!(hello.containers.len(), 2, "ends of the old life are still owed");
    agent.heard(welcome(3));
    assert_eq!(agent.heard(launch(3, 3)), [Effect::Launch(order(3, 3))]);
}

#[test]
fn a_hello_says_whether_this_uuid_was_welcomed_before() {
    let mut agent = agent();
    assert!(!hello(&mut agent).welcomed);
    agent.disconnected();
    assert!(!hello(&mut agent).welcomed);
    agent.heard(welcome(3));
    agent.disconnected();
    assert!(hello(&mut agent).welcomed);
}

#[test]
fn registering_anew_with_nothing_to_end_is_immediate() {
    assert_eq!(serving(&[]).heard(ToAgent::RegisterAnew), [Effect::MakeIdentity]);
}

#[test]
fn nothing_is_started_on_the_way_out() {
    let mut agent = serving(&[1]);
    agent.heard(ToAgent::RegisterAnew);
    let effects = agent.heard(launch(3, 2));
    let [Effect::Send(FromAgent::Report(report))] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    let ContainerEvent::Ended { outcome: Some(Outcome::NotStarted { .. }), proof } = &report.event
    else {
        panic!("{report:?}")
    };
    assert_eq!(*proof, Some(Proof::NeverStarted));
}

#[test]
fn a_leave_is_acknowledged_before_anything_is_stopped() {
    let mut agent = serving(&[1]);
    assert_eq!(
        agent.shutdown(),
        [Effect::Deadline { after_ms: 1_000 }, Effect::Send(FromAgent::Leaving)]
    );
    assert_eq!(agent.shutdown(), []);
    assert_eq!(
        agent.heard(ToAgent::LeaveAcknowledged),
        [passed_on(1, InvalidReason::MemberLost, 5_000), Effect::Deadline { after_ms: 7_000 }]
    );
    assert_eq!(agent.observed(id(1), exited()), [report(1, exited())]);
    assert_eq!(agent.heard(acknowledge(1)), [Effect::Clear(id(1)), Effect::Exit]);
}

#[test]
fn a_leave_waits_for_a_connection_but_not_for_ever() {
    let mut agent = serving(&[1]);
    agent.disconnected();
    assert_eq!(agent.shutdown(), [Effect::Deadline { after_ms: 1_000 }]);
    agent.connected();
    assert!(agent.heard(welcome(3)).contains(&Effect::Send(FromAgent::Leaving)));
    agent.disconnected();
    assert_eq!(
        agent.deadline(),
        [passed_on(1, InvalidReason::MemberLost, 5_000), Effect::Deadline { after_ms: 7_000 }]
    );
    agent.observed(id(1), exited());
    assert_eq!(agent.deadline(), [Effect::Exit], "unacknowledged, but out of time");
}

#[test]
fn a_leaving_agent_that_is_told_to_register_anew_is_lost_and_goes() {
    let mut agent = serving(&[]);
    agent.shutdown();
    let effects = agent.heard(ToAgent::RegisterAnew);
    assert_eq!(effects.last(), Some(&Effect::Exit));
    assert!(!effects.contains(&Effect::MakeIdentity));
}

#[test]
fn a_shutdown_while_the_old_life_ends_goes_without_a_new_one() {
    let mut agent = serving(&[1]);
    agent.heard(ToAgent::RegisterAnew);
    assert_eq!(agent.shutdown(), [Effect::Deadline { after_ms: 7_000 }]);
    assert_eq!(agent.observed(id(1), exited()), [report(1, exited())]);
    assert_eq!(agent.heard(acknowledge(1)), [Effect::Clear(id(1)), Effect::Exit]);
}

#[test]
fn it_says_in_which_cluster_it_was_welcomed_first_also_in_a_later_life() {
    let mut state = agent();
    let cluster = |effects: &[Effect]| match effects {
        [Effect::Send(FromAgent::Hello(hello))] => hello.cluster.clone(),
        other => panic!("no Hello: {other:?}"),
    };
    assert_eq!(cluster(&state.connected()), None);
    let _ = state.heard(welcome_of("one"));
    let _ = state.disconnected();
    assert_eq!(cluster(&state.connected()).as_deref(), Some("one"));
    let _ = state.heard(ToAgent::RegisterAnew);
    let _ = state.register_as(uuid("00000000-0000-4000-8000-000000000002"));
    assert_eq!(cluster(&state.connected()).as_deref(), Some("one"));
}
