//! Each verb's answer and rule, one at a time. What they amount to together is judged by
//! `tests/reference_counter.rs`.
//!
//! Seen to fail on the same mutations as that one, and on: no threshold; a dirty time that moves; a
//! last cause that wins; a first cause of lost tracking that is replaced; a revision that goes back.

use steadfast_model::LossCause;

use super::*;
use crate::Loss;

fn seen(text: &str) -> Cause {
    Cause::Seen(text.to_owned())
}

const WATERMARK: u64 = 7;
/// `engine.dirty-task.pending-incident-ttl`, ten minutes.
const TTL_MS: u64 = 600_000;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn pipeline(id: u32) -> PipelineId {
    PipelineId::new(id)
}

fn episode(number: u64) -> EpisodeNumber {
    EpisodeNumber::new(number)
}

fn attempt(episode_number: u64, pipeline_id: u32, prepare_seq: u32) -> AttemptId {
    let (episode, pipeline) = (episode(episode_number), pipeline(pipeline_id));
    AttemptId { episode, pipeline, prepare_seq }
}

/// The loss of the member with the `event`-th UUID, declared `event` seconds after the start.
fn loss(event: u64) -> Loss {
    Loss {
        seq: MemberEventSeq::new(WATERMARK + event),
        member: format!("00000000-0000-4000-8000-{event:012x}").parse().unwrap(),
        address: "10.0.0.12:5801".to_owned(),
        classification: LeaveClassification::Unclassified,
        cause: LossCause::ConnectionClosed,
        evidence: "connection reset".to_owned(),
        last_seen: at(event * 1_000 - 400),
        declared: at(event * 1_000),
    }
}

fn planned(event: u64) -> Loss {
    Loss { classification: LeaveClassification::PlannedVerified, ..loss(event) }
}

fn ledger(threshold: u64) -> JobLedger {
    JobLedger::new(threshold, MemberEventSeq::new(WATERMARK), 10)
}

fn lose(ledger: &mut JobLedger, loss: &Loss, affected: &[u32]) -> MemberLost {
    let affected: Vec<_> = affected.iter().copied().map(PipelineId::new).collect();
    ledger.member_lost(loss, &affected, &[TaskGroupId::new(1)])
}

/// A ledger whose first episode is open.
fn recovering(threshold: u64, affected: &[u32]) -> JobLedger {
    let mut ledger = ledger(threshold);
    assert_eq!(lose(&mut ledger, &loss(1), affected), MemberLost::Opened(episode(1)));
    ledger
}

fn deploy(ledger: &mut JobLedger, pipeline_id: u32, now: Timestamp) -> Confirmed {
    let id = ledger.prepare(pipeline(pipeline_id)).unwrap();
    ledger.confirm(id, now, now)
}

fn counted(total: u64) -> Confirmed {
    Confirmed::Counted { total, dirty_now: false }
}

/// Whatever `act` does, it must leave nothing behind.
fn assert_unchanged<T>(ledger: &mut JobLedger, act: impl FnOnce(&mut JobLedger) -> T) -> T {
    let before = ledger.clone();
    let answer = act(ledger);
    assert_eq!(*ledger, before);
    answer
}

// ---- member_lost -------------------------------------------------------------------------------

#[test]
fn a_first_loss_opens_an_episode_and_counts_no_attempt() {
    let ledger = recovering(2, &[1, 2]);
    let active = ledger.active().unwrap();
    assert_eq!(active.number, episode(1));
    assert_eq!(active.status, EpisodeStatus::Active);
    assert_eq!(active.open_pipelines().collect::<Vec<_>>(), [pipeline(1), pipeline(2)]);
    assert_eq!((active.marks.last_seen, active.marks.declared), (at(600), at(1_000)));
    assert_eq!((ledger.episode_count(), ledger.incident_count()), (1, 1));
    assert_eq!(ledger.recovery_attempt_count(), 0);
    assert_eq!(ledger.watermark(), loss(1).seq);
}

#[test]
fn another_loss_joins_the_open_episode() {
    let mut ledger = recovering(2, &[1]);
    assert_eq!(lose(&mut ledger, &loss(2), &[2]), MemberLost::Joined(episode(1)));
    assert_eq!((ledger.episode_count(), ledger.incident_count()), (1, 2));
    let active = ledger.active().unwrap();
    assert_eq!(active.open_pipelines().collect::<Vec<_>>(), [pipeline(1), pipeline(2)]);
    assert_eq!(active.marks.declared, at(1_000), "the episode began with the first loss");
}

#[test]
fn the_same_event_again_changes_nothing() {
    let mut ledger = recovering(2, &[1]);
    let again = assert_unchanged(&mut ledger, |ledger| lose(ledger, &loss(1), &[1, 2]));
    assert_eq!(again, MemberLost::AlreadyProcessed);
}

#[test]
fn an_event_from_before_the_job_changes_nothing() {
    let mut ledger = ledger(2);
    let old = Loss { seq: MemberEventSeq::new(WATERMARK), ..loss(1) };
    let lost = assert_unchanged(&mut ledger, |ledger| lose(ledger, &old, &[1]));
    assert_eq!(lost, MemberLost::AlreadyProcessed);
}

#[test]
fn another_member_at_the_same_address_is_another_incident() {
    let mut ledger = recovering(2, &[1]);
    assert_eq!(loss(1).address, loss(2).address);
    assert_eq!(lose(&mut ledger, &loss(2), &[1]), MemberLost::Joined(episode(1)));
    assert_eq!(ledger.incident_count(), 2);
    assert_eq!(ledger.last_loss().unwrap().member, loss(2).member);
}

#[test]
fn an_unaffected_job_only_moves_its_watermark() {
    let mut ledger = ledger(2);
    assert_eq!(lose(&mut ledger, &loss(1), &[]), MemberLost::Unaffected);
    assert_eq!(ledger.watermark(), loss(1).seq);
    assert_eq!((ledger.episode_count(), ledger.incident_count()), (0, 0));
    assert_eq!((ledger.active(), ledger.last_loss()), (None, None));
}

#[test]
fn a_loss_after_a_closed_episode_opens_the_next() {
    let mut ledger = recovering(2, &[1]);
    assert_eq!(ledger.recovered(pipeline(1), at(2)), Recovered::Episode(episode(1)));
    assert_eq!(lose(&mut ledger, &loss(2), &[1]), MemberLost::Opened(episode(2)));
    assert_eq!(ledger.abort("canceled", at(3)), Aborted::Episode(episode(2)));
    assert_eq!(lose(&mut ledger, &loss(3), &[1]), MemberLost::Opened(episode(3)));
    assert_eq!(ledger.prepare(pipeline(1)), Some(attempt(3, 1, 1)), "sequences begin anew");
}

// ---- prepare -----------------------------------------------------------------------------------

#[test]
fn an_ordinary_failure_prepares_nothing() {
    let mut quiet = ledger(2);
    assert_eq!(assert_unchanged(&mut quiet, |l| l.prepare(pipeline(1))), None);
    let mut other = recovering(2, &[2]);
    assert_eq!(assert_unchanged(&mut other, |l| l.prepare(pipeline(1))), None);
}

#[test]
fn a_preparation_is_not_counted_and_hands_out_the_same_id_until_it_deploys() {
    let mut ledger = recovering(2, &[1]);
    assert_eq!(ledger.prepare(pipeline(1)), Some(attempt(1, 1, 1)));
    let again = assert_unchanged(&mut ledger, |ledger| ledger.prepare(pipeline(1)));
    assert_eq!(again, Some(attempt(1, 1, 1)));
    assert_eq!((ledger.recovery_attempt_count(), ledger.last_counted()), (0, None));
    assert_eq!(ledger.confirm(attempt(1, 1, 1), at(5), at(5)), counted(1));
    assert_eq!(ledger.prepare(pipeline(1)), Some(attempt(1, 1, 2)));
    let attempts = &ledger.active().unwrap().attempts;
    assert_eq!(attempts.iter().map(|a| a.id.prepare_seq).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((attempts[0].confirmed, attempts[1].confirmed), (Some(at(5)), None));
}

#[test]
fn a_prepared_pipeline_that_is_affected_once_more_keeps_its_id() {
    let mut ledger = recovering(2, &[1]);
    assert_eq!(ledger.prepare(pipeline(1)), Some(attempt(1, 1, 1)));
    assert_eq!(lose(&mut ledger, &loss(2), &[1]), MemberLost::Joined(episode(1)));
    assert_eq!(ledger.prepare(pipeline(1)), Some(attempt(1, 1, 1)));
    assert_eq!(ledger.active().unwrap().attempts.len(), 1);
}

// ---- confirm -----------------------------------------------------------------------------------

#[test]
fn several_pipelines_of_one_loss_count_once() {
    let mut ledger = recovering(9, &[1, 2, 3]);
    assert_eq!(deploy(&mut ledger, 2, at(5)), counted(1));
    assert_eq!(deploy(&mut ledger, 1, at(6)), Confirmed::SameGeneration);
    assert_eq!(deploy(&mut ledger, 3, at(7)), Confirmed::SameGeneration);
    assert_eq!((ledger.recovery_attempt_count(), ledger.last_counted()), (1, Some(at(5))));
}

#[test]
fn a_second_deployment_counts_once_however_many_pipelines_need_it() {
    let mut ledger = recovering(9, &[1, 2]);
    assert_eq!(deploy(&mut ledger, 1, at(5)), counted(1));
    assert_eq!(deploy(&mut ledger, 1, at(6)), counted(2));
    assert_eq!(deploy(&mut ledger, 2, at(7)), Confirmed::SameGeneration);
    assert_eq!(deploy(&mut ledger, 2, at(8)), Confirmed::SameGeneration);
    assert_eq!(deploy(&mut ledger, 2, at(9)), counted(3));
    assert_eq!(ledger.active().unwrap().generation, 3);
}

#[test]
fn the_count_does_not_depend_on_the_order_of_confirmations() {
    let mut totals = Vec::new();
    for order in [[1, 2], [2, 1]] {
        let mut ledger = recovering(9, &[1, 2]);
        // Pipeline 2 was prepared twice, since its first preparation never came to a deployment.
        let ids = [1, 2, 2].map(|id| ledger.prepare(pipeline(id)).unwrap());
        for id in order {
            let id = ids.into_iter().rfind(|known| known.pipeline == pipeline(id)).unwrap();
            let _ = ledger.confirm(id, at(5), at(5));
        }
        totals.push(ledger.recovery_attempt_count());
    }
    assert_eq!(totals, [1, 1]);
}

#[test]
fn a_confirmation_again_counts_nothing() {
    let mut ledger = recovering(9, &[1]);
    assert_eq!(deploy(&mut ledger, 1, at(5)), counted(1));
    let confirm = |ledger: &mut JobLedger| ledger.confirm(attempt(1, 1, 1), at(6), at(6));
    assert_eq!(assert_unchanged(&mut ledger, confirm), Confirmed::AlreadyCounted);
    // Still so when the next attempt is under way.
    assert_eq!(deploy(&mut ledger, 1, at(7)), counted(2));
    assert_eq!(assert_unchanged(&mut ledger, confirm), Confirmed::AlreadyCounted);
}

#[test]
fn an_attempt_that_nobody_prepared_is_not_counted() {
    let mut ledger = recovering(9, &[1, 2]);
    assert_eq!(deploy(&mut ledger, 1, at(5)), counted(1));
    let next = |ledger: &mut JobLedger| ledger.confirm(attempt(1, 1, 2), at(6), at(6));
    assert_eq!(assert_unchanged(&mut ledger, next), Confirmed::NotPrepared);
    assert_eq!(ledger.prepare(pipeline(1)), Some(attempt(1, 1, 2)));
    for id in [
        attempt(1, 1, 0),
        attempt(1, 1, 3),
        attempt(1, 2, 1),
        attempt(1, 3, 1),
        attempt(0, 1, 2),
        attempt(2, 1, 2),
    ] {
        let confirmed = assert_unchanged(&mut ledger, |l| l.confirm(id, at(6), at(6)));
        assert_eq!(confirmed, Confirmed::NotPrepared, "{id:?}");
    }
}

#[test]
fn a_confirmation_after_its_pipeline_has_recovered_counts_nothing() {
    let mut ledger = recovering(9, &[1, 2]);
    assert_eq!(ledger.prepare(pipeline(1)), Some(attempt(1, 1, 1)));
    assert_eq!(ledger.recovered(pipeline(1), at(5)), Recovered::Pipeline);
    let confirm = |ledger: &mut JobLedger| ledger.confirm(attempt(1, 1, 1), at(6), at(6));
    assert_eq!(assert_unchanged(&mut ledger, confirm), Confirmed::NotPrepared);
}

#[test]
fn a_confirmation_after_its_episode_has_closed_counts_nothing() {
    let confirm = |ledger: &mut JobLedger| ledger.confirm(attempt(1, 1, 1), at(9), at(9));

    let mut aborted = recovering(9, &[1]);
    assert!(aborted.prepare(pipeline(1)).is_some());
    assert_eq!(aborted.abort("canceled", at(5)), Aborted::Episode(episode(1)));
    assert_eq!(assert_unchanged(&mut aborted, confirm), Confirmed::NotPrepared);

    let mut completed = recovering(9, &[1]);
    assert_eq!(deploy(&mut completed, 1, at(5)), counted(1));
    assert_eq!(completed.recovered(pipeline(1), at(6)), Recovered::Episode(episode(1)));
    assert_eq!(assert_unchanged(&mut completed, confirm), Confirmed::NotPrepared);
    assert_eq!(lose(&mut completed, &loss(2), &[1]), MemberLost::Opened(episode(2)));
    assert!(completed.prepare(pipeline(1)).is_some());
    assert_eq!(assert_unchanged(&mut completed, confirm), Confirmed::NotPrepared);
}

#[test]
fn the_threshold_makes_dirty_once_and_for_ever() {
    let mut ledger = recovering(2, &[1]);
    assert_eq!(deploy(&mut ledger, 1, at(5)), counted(1));
    assert_eq!((ledger.is_dirty(), ledger.dirty_since()), (false, None));
    let confirmed = deploy(&mut ledger, 1, at(6));
    assert_eq!(confirmed, Confirmed::Counted { total: 2, dirty_now: true });
    assert_eq!(deploy(&mut ledger, 1, at(7)), counted(3));
    assert_eq!(ledger.recovered(pipeline(1), at(8)), Recovered::Episode(episode(1)));
    assert_eq!((ledger.is_dirty(), ledger.dirty_since()), (true, Some(at(6))));
    assert_eq!(ledger.last_counted(), Some(at(7)));
}

#[test]
fn counts_go_on_over_the_episodes_of_a_job() {
    let mut ledger = ledger(2);
    for (event, dirty_now) in [(1, false), (2, true), (3, false)] {
        assert_eq!(lose(&mut ledger, &loss(event), &[1]), MemberLost::Opened(episode(event)));
        let confirmed = deploy(&mut ledger, 1, at(event));
        assert_eq!(confirmed, Confirmed::Counted { total: event, dirty_now });
        assert_eq!(ledger.recovered(pipeline(1), at(event)), Recovered::Episode(episode(event)));
    }
}

#[test]
fn an_episode_keeps_the_moments_of_its_first_deployment() {
    let mut ledger = recovering(9, &[1, 2]);
    for (id, fenced, deployed) in [(1, 1_100, 1_200), (2, 1_300, 1_400)] {
        let id = ledger.prepare(pipeline(id)).unwrap();
        let _ = ledger.confirm(id, at(fenced), at(deployed));
    }
    assert_eq!(ledger.recovered(pipeline(1), at(1_500)), Recovered::Pipeline);
    assert_eq!(ledger.active().unwrap().marks.recovered, None);
    assert_eq!(ledger.recovered(pipeline(2), at(1_600)), Recovered::Episode(episode(1)));
    let closed = ledger.history().iter().next().unwrap();
    let marks = closed.marks;
    assert_eq!((marks.fenced, marks.deployed), (Some(at(1_100)), Some(at(1_200))));
    assert_eq!((marks.recovered, closed.ended), (Some(at(1_600)), Some(at(1_600))));
}

// ---- recovered ---------------------------------------------------------------------------------

#[test]
fn a_recovered_pipelines_later_failure_is_ordinary_while_others_still_recover() {
    let mut ledger = recovering(9, &[1, 2]);
    assert_eq!(deploy(&mut ledger, 1, at(5)), counted(1));
    assert_eq!(ledger.recovered(pipeline(1), at(6)), Recovered::Pipeline);
    assert_eq!(ledger.prepare(pipeline(1)), None);
    assert_eq!(ledger.active().unwrap().open_pipelines().collect::<Vec<_>>(), [pipeline(2)]);
}

#[test]
fn the_last_pipeline_completes_the_episode_and_no_later_failure_uses_it() {
    let mut ledger = recovering(9, &[1]);
    assert_eq!(deploy(&mut ledger, 1, at(5)), counted(1));
    assert_eq!(ledger.recovered(pipeline(1), at(6)), Recovered::Episode(episode(1)));
    assert_eq!(ledger.active(), None);
    assert_eq!(ledger.prepare(pipeline(1)), None);
    let closed = ledger.history().iter().next().unwrap();
    assert_eq!((closed.status, closed.generation), (EpisodeStatus::Completed, 1));
    assert_eq!(closed.attempts[0].outcome, AttemptOutcome::Recovered);
    assert_eq!(closed.attempts[0].confirmed, Some(at(5)));
}

#[test]
fn what_is_not_under_recovery_cannot_recover() {
    let mut ledger = recovering(9, &[1, 2]);
    assert_eq!(ledger.recovered(pipeline(1), at(5)), Recovered::Pipeline);
    for id in [1, 3] {
        let recovered = assert_unchanged(&mut ledger, |l| l.recovered(pipeline(id), at(6)));
        assert_eq!(recovered, Recovered::NotRecovering, "pipeline {id}");
    }
    assert_eq!(ledger.recovered(pipeline(2), at(7)), Recovered::Episode(episode(1)));
    let recovered = assert_unchanged(&mut ledger, |l| l.recovered(pipeline(2), at(8)));
    assert_eq!(recovered, Recovered::NotRecovering);
}

#[test]
fn a_recovered_pipeline_that_is_affected_again_goes_on_with_its_next_sequence() {
    let mut ledger = recovering(9, &[1, 2]);
    assert_eq!(deploy(&mut ledger, 1, at(5)), counted(1));
    assert_eq!(ledger.recovered(pipeline(1), at(6)), Recovered::Pipeline);
    assert_eq!(lose(&mut ledger, &loss(2), &[1]), MemberLost::Joined(episode(1)));
    assert_eq!(ledger.prepare(pipeline(1)), Some(attempt(1, 1, 2)));
    assert_eq!(ledger.confirm(attempt(1, 1, 2), at(7), at(7)), counted(2));
}

// ---- attempt_failed ----------------------------------------------------------------------------

#[test]
fn of_an_attempts_failures_the_first_cause_is_kept() {
    let mut ledger = recovering(9, &[1]);
    assert_eq!(deploy(&mut ledger, 1, at(5)), counted(1));
    ledger.attempt_failed(pipeline(1), &seen("exit code 73"));
    assert_unchanged(&mut ledger, |ledger| ledger.attempt_failed(pipeline(1), &seen("signal 15")));
    let kept = &ledger.active().unwrap().attempts[0];
    assert_eq!(kept.outcome, AttemptOutcome::Failed);
    assert_eq!(kept.cause, Some(seen("exit code 73")));
}

#[test]
fn a_pending_cause_settles_once_also_when_its_episode_has_ended() {
    let mut ledger = recovering(9, &[1]);
    assert_eq!(deploy(&mut ledger, 1, at(5)), counted(1));
    ledger.attempt_failed(pipeline(1), &Cause::Pending);
    // What the others of the attempt report are symptoms.
    assert_unchanged(&mut ledger, |ledger| ledger.attempt_failed(pipeline(1), &seen("signal 15")));
    assert_unchanged(&mut ledger, |ledger| ledger.settle_cause(attempt(1, 1, 2), &seen("other")));
    let _ = ledger.abort("no restore is left", at(6));
    ledger.settle_cause(attempt(1, 1, 1), &seen("exit code 73"));
    assert_unchanged(&mut ledger, |ledger| ledger.settle_cause(attempt(1, 1, 1), &seen("later")));
    let kept = ledger.history().iter().next().unwrap();
    assert_eq!(kept.attempts[0].cause, Some(seen("exit code 73")));
}

#[test]
fn a_failure_needs_a_deployed_attempt_that_is_still_open() {
    let mut ledger = recovering(9, &[1, 2]);
    let fail = |ledger: &mut JobLedger| ledger.attempt_failed(pipeline(1), &seen("exit code 1"));
    assert_unchanged(&mut ledger, fail);
    assert!(ledger.prepare(pipeline(1)).is_some());
    assert_unchanged(&mut ledger, fail);
    assert_eq!(deploy(&mut ledger, 1, at(5)), counted(1));
    assert_eq!(ledger.recovered(pipeline(1), at(6)), Recovered::Pipeline);
    assert_unchanged(&mut ledger, fail);
    // Affected again, but what recovered did recover.
    assert_eq!(lose(&mut ledger, &loss(2), &[1]), MemberLost::Joined(episode(1)));
    assert_unchanged(&mut ledger, fail);
    assert_eq!(ledger.active().unwrap().attempts[0].outcome, AttemptOutcome::Recovered);
}

// ---- abort -------------------------------------------------------------------------------------

#[test]
fn an_aborted_episode_keeps_its_counts() {
    let mut ledger = recovering(1, &[1, 2]);
    assert_eq!(deploy(&mut ledger, 1, at(5)), Confirmed::Counted { total: 1, dirty_now: true });
    assert_eq!(ledger.abort("no restore is left", at(6)), Aborted::Episode(episode(1)));
    assert_eq!((ledger.recovery_attempt_count(), ledger.is_dirty()), (1, true));
    assert_eq!((ledger.episode_count(), ledger.incident_count()), (1, 1));
    assert_eq!(ledger.active(), None);
    assert_eq!(ledger.prepare(pipeline(1)), None);
    let closed = ledger.history().iter().next().unwrap();
    assert_eq!((closed.status, closed.ended), (EpisodeStatus::Aborted, Some(at(6))));
    assert_eq!(closed.abort_reason.as_deref(), Some("no restore is left"));
    assert_eq!(closed.marks.recovered, None);
}

#[test]
fn without_an_open_episode_there_is_nothing_to_abort() {
    let mut ledger = ledger(2);
    let aborted = assert_unchanged(&mut ledger, |ledger| ledger.abort("canceled", at(5)));
    assert_eq!(aborted, Aborted::Nothing);
}

// ---- classification ----------------------------------------------------------------------------

#[test]
fn an_episode_of_planned_losses_alone_is_not_counted() {
    let mut ledger = ledger(1);
    assert_eq!(lose(&mut ledger, &planned(1), &[1]), MemberLost::Opened(episode(1)));
    assert_eq!(lose(&mut ledger, &planned(2), &[2]), MemberLost::Joined(episode(1)));
    for _ in 0..3 {
        assert_eq!(deploy(&mut ledger, 1, at(5)), Confirmed::SameGeneration);
    }
    assert_eq!((ledger.recovery_attempt_count(), ledger.is_dirty()), (0, false));
    assert_eq!((ledger.episode_count(), ledger.incident_count()), (1, 2));
    assert_eq!(ledger.active().unwrap().generation, 3);
}

#[test]
fn an_unclassified_loss_that_joins_counts_what_was_excluded_once() {
    let mut ledger = ledger(3);
    assert_eq!(lose(&mut ledger, &planned(1), &[1]), MemberLost::Opened(episode(1)));
    assert_eq!(deploy(&mut ledger, 1, at(1_100)), Confirmed::SameGeneration);
    assert_eq!(deploy(&mut ledger, 1, at(1_200)), Confirmed::SameGeneration);

    assert_eq!(lose(&mut ledger, &loss(2), &[1]), MemberLost::Joined(episode(1)));
    assert_eq!(ledger.recovery_attempt_count(), 2);
    assert_eq!(ledger.last_counted(), Some(loss(2).declared), "the moment of joining");

    assert_eq!(lose(&mut ledger, &loss(3), &[1]), MemberLost::Joined(episode(1)));
    assert_eq!(ledger.recovery_attempt_count(), 2, "once");
    let confirmed = deploy(&mut ledger, 1, at(3_100));
    assert_eq!(confirmed, Confirmed::Counted { total: 3, dirty_now: true });
}

#[test]
fn an_unclassified_loss_that_joins_can_reach_the_threshold() {
    let mut ledger = ledger(1);
    assert_eq!(lose(&mut ledger, &planned(1), &[1]), MemberLost::Opened(episode(1)));
    assert_eq!(deploy(&mut ledger, 1, at(1_100)), Confirmed::SameGeneration);
    assert_eq!(lose(&mut ledger, &loss(2), &[1]), MemberLost::Joined(episode(1)));
    assert_eq!((ledger.is_dirty(), ledger.dirty_since()), (true, Some(loss(2).declared)));
}

#[test]
fn an_unclassified_loss_before_any_deployment_counts_nothing_by_itself() {
    let mut ledger = ledger(1);
    assert_eq!(lose(&mut ledger, &planned(1), &[1]), MemberLost::Opened(episode(1)));
    assert_eq!(lose(&mut ledger, &loss(2), &[1]), MemberLost::Joined(episode(1)));
    assert_eq!((ledger.recovery_attempt_count(), ledger.last_counted()), (0, None));
    // A planned loss that joins takes nothing back.
    assert_eq!(lose(&mut ledger, &planned(3), &[1]), MemberLost::Joined(episode(1)));
    assert_eq!(deploy(&mut ledger, 1, at(5)), Confirmed::Counted { total: 1, dirty_now: true });
}

// ---- tracking and revision ---------------------------------------------------------------------

#[test]
fn lost_tracking_stays_lost_by_its_first_cause_and_goes_on_counting() {
    let mut ledger = recovering(9, &[1]);
    ledger.tracking_lost(TrackingLostCause::WriteRefused, at(5));
    assert_unchanged(&mut ledger, |l| l.tracking_lost(TrackingLostCause::Unexplained, at(6)));
    assert_eq!(deploy(&mut ledger, 1, at(7)), counted(1));
    assert_eq!(ledger.recovered(pipeline(1), at(8)), Recovered::Episode(episode(1)));
    let lost = Tracking::Lost { since: at(5), cause: TrackingLostCause::WriteRefused };
    assert_eq!(*ledger.tracking(), lost);
}

#[test]
fn the_revision_grows_with_every_change() {
    type Verb = fn(&mut JobLedger) -> bool;
    let verbs: [Verb; 6] = [
        |ledger| lose(ledger, &loss(1), &[1, 2]) == MemberLost::Opened(episode(1)),
        |ledger| ledger.prepare(pipeline(1)).is_some(),
        |ledger| ledger.confirm(attempt(1, 1, 1), at(5), at(5)) == counted(1),
        |ledger| ledger.recovered(pipeline(1), at(6)) == Recovered::Pipeline,
        |ledger| lose(ledger, &loss(2), &[]) == MemberLost::Unaffected,
        |ledger| ledger.abort("canceled", at(8)) == Aborted::Episode(episode(1)),
    ];
    let mut ledger = ledger(9);
    let mut revision = ledger.revision();
    for (index, verb) in verbs.iter().enumerate() {
        assert!(verb(&mut ledger), "verb {index}");
        assert!(ledger.revision() > revision, "verb {index}");
        revision = ledger.revision();
    }
    ledger.tracking_lost(TrackingLostCause::Unexplained, at(9));
    assert!(ledger.revision() > revision, "lost tracking");
}

#[test]
fn a_skipped_revision_never_goes_back() {
    let mut ledger = ledger(9);
    ledger.skip_to_revision(LedgerRevision::new(40));
    ledger.skip_to_revision(LedgerRevision::new(30));
    assert_eq!(ledger.revision(), LedgerRevision::new(40));
    assert_eq!(lose(&mut ledger, &loss(1), &[1]), MemberLost::Opened(episode(1)));
    assert_eq!(ledger.revision(), LedgerRevision::new(41));
}

#[test]
fn an_episode_that_is_never_deployed_can_be_parked_once() {
    let mut ledger = ledger(1);
    assert_eq!(lose(&mut ledger, &loss(1), &[1]), MemberLost::Opened(episode(1)));
    assert_eq!(ledger.pending_since(), Some(loss(1).declared));
    assert_eq!(ledger.expire(at(9_000)), Expired::Parked(episode(1)));
    assert!(ledger.active().is_none(), "it is no longer active");
    assert_eq!(ledger.parked().unwrap().status, EpisodeStatus::Expired);
    assert_eq!(ledger.pending_since(), None);
    assert_eq!(ledger.expire(at(9_001)), Expired::Nothing, "once");
    assert_eq!(ledger.recovery_attempt_count(), 0);
}

#[test]
fn a_deployed_episode_never_expires() {
    let mut ledger = ledger(1);
    let _ = lose(&mut ledger, &loss(1), &[1]);
    let attempt = ledger.prepare(pipeline(1)).unwrap();
    let _ = ledger.confirm(attempt, at(10), at(10));
    assert_eq!(ledger.pending_since(), None);
    assert_eq!(ledger.expire(at(9_000)), Expired::Nothing);
}

#[test]
fn a_late_confirmation_reopens_a_parked_episode_and_is_counted_once() {
    let mut ledger = ledger(2);
    let _ = lose(&mut ledger, &loss(1), &[1]);
    let attempt = ledger.prepare(pipeline(1)).unwrap();
    let late = loss(1).declared + TTL_MS;
    let _ = ledger.expire(late);
    assert_eq!(ledger.prepare(pipeline(1)), Some(attempt), "its binding is kept");
    let counted = Confirmed::Counted { total: 1, dirty_now: false };
    assert_eq!(ledger.confirm(attempt, late + 1, late + 1), counted);
    assert_eq!(ledger.active().map(|episode| episode.number), Some(episode(1)), "the same id");
    assert_eq!(ledger.confirm(attempt, late + 2, late + 2), Confirmed::AlreadyCounted);
    assert_eq!(ledger.recovered(pipeline(1), late + 3), Recovered::Episode(episode(1)));
    assert_eq!(ledger.episode_count(), 1, "never a second one");
}

#[test]
fn a_new_loss_reopens_a_parked_episode_for_another_ttl() {
    let mut ledger = ledger(2);
    let _ = lose(&mut ledger, &loss(1), &[1]);
    let late = loss(1).declared + TTL_MS;
    let _ = ledger.expire(late);
    let again = Loss { declared: late + 5, ..loss(2) };
    assert_eq!(lose(&mut ledger, &again, &[2]), MemberLost::Reopened(episode(1)));
    assert_eq!((ledger.episode_count(), ledger.incident_count()), (1, 2));
    assert_eq!(ledger.pending_since(), Some(late + 5));
    assert_eq!(ledger.active().unwrap().open_pipelines().count(), 2);
}

#[test]
fn a_parked_episode_is_aborted_with_its_job() {
    let mut ledger = ledger(2);
    let _ = lose(&mut ledger, &loss(1), &[1]);
    let late = loss(1).declared + TTL_MS;
    let _ = ledger.expire(late);
    assert_eq!(ledger.abort("cancelled", late + 1), Aborted::Episode(episode(1)));
    assert_eq!(ledger.history().iter().count(), 1);
    assert!(ledger.parked().is_none());
}
