//! The table of evaluation: which of the four answers a job gets, and what stands beside it.
//!
//! Seen to fail on: `UNKNOWN` before `DIRTY`; a missing ledger that is clean; a lag that is not seen; a
//! lost tracking that is not seen; a threshold that must be exceeded; a job's own watermark that is
//! not asked; a disabled job that shows its counts.

use steadfast_ledger::{
    Confirmed, Evaluation, JobLedger, Loss, MemberLost, TrackingLostCause, Watermarks, evaluate,
};
use steadfast_model::EvaluationStatus::{Clean, Dirty, Disabled, Unknown};
use steadfast_model::{
    EpisodeNumber, EvaluationStatus, LeaveClassification, LossCause, MemberEventSeq, PipelineId,
    Timestamp,
};

const THRESHOLD: u64 = 2;
const MEMBER: &str = "23cc7ea6-6374-4f2b-8a33-df75b5e58f52";
/// The event by which the job of these tests lost a member.
const EVENT: u64 = 12;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn watermarks(cluster: u64, processed: u64) -> Watermarks {
    Watermarks {
        cluster: MemberEventSeq::new(cluster),
        processed: MemberEventSeq::new(processed),
        owes: false,
    }
}

/// Nothing that the cluster has seen is unprocessed.
fn up_to_date() -> Watermarks {
    watermarks(EVENT, EVENT)
}

/// A ledger after one loss and so many deployments, at 1,001 ms and each millisecond from there.
fn ledger_with(deployments: u64) -> JobLedger {
    let mut ledger = JobLedger::new(THRESHOLD, MemberEventSeq::new(EVENT - 1), 10);
    let loss = Loss {
        seq: MemberEventSeq::new(EVENT),
        member: MEMBER.parse().unwrap(),
        address: "10.0.0.12:5801".to_owned(),
        classification: LeaveClassification::Unclassified,
        cause: LossCause::ConnectionClosed,
        evidence: "connection reset".to_owned(),
        last_seen: at(900),
        declared: at(1_000),
    };
    let lost = ledger.member_lost(&loss, &[PipelineId::new(1)], &[]);
    assert_eq!(lost, MemberLost::Opened(EpisodeNumber::new(1)));
    for deployment in 1..=deployments {
        let id = ledger.prepare(PipelineId::new(1)).unwrap();
        let confirmed = ledger.confirm(id, at(1_000), at(1_000 + deployment));
        assert!(matches!(confirmed, Confirmed::Counted { total, .. } if total == deployment));
    }
    ledger
}

fn losing_tracking(mut ledger: JobLedger) -> JobLedger {
    ledger.tracking_lost(TrackingLostCause::WriteRefused, at(2_000));
    ledger
}

/// A row: what is known, and the status, label and completeness that follow.
struct Row {
    name: &'static str,
    threshold: Option<u64>,
    dirty_in_record: bool,
    ledger: Option<JobLedger>,
    watermarks: Watermarks,
    expected: (EvaluationStatus, bool, bool),
}

impl Row {
    /// A row of an enabled job that is up to date and was not dirty.
    fn new(
        name: &'static str,
        ledger: JobLedger,
        expected: (EvaluationStatus, bool, bool),
    ) -> Self {
        Self {
            name,
            threshold: Some(THRESHOLD),
            dirty_in_record: false,
            ledger: Some(ledger),
            watermarks: up_to_date(),
            expected,
        }
    }

    fn without_ledger(self) -> Self {
        Self { ledger: None, ..self }
    }

    fn disabled(self) -> Self {
        Self { threshold: None, ..self }
    }

    fn dirty_in_record(self) -> Self {
        Self { dirty_in_record: true, ..self }
    }

    fn at_watermarks(self, cluster: u64, processed: u64) -> Self {
        Self { watermarks: watermarks(cluster, processed), ..self }
    }
}

#[test]
fn the_order_is_disabled_dirty_unknown_clean() {
    let below = || ledger_with(THRESHOLD - 1);
    let reached = || ledger_with(THRESHOLD);
    let lag = EVENT + 1;
    let table = [
        Row::new("off", below(), (Disabled, false, false)).disabled().without_ledger(),
        Row::new("off outranks dirty", reached(), (Disabled, false, false))
            .disabled()
            .dirty_in_record(),
        Row::new("no attempt", ledger_with(0), (Clean, false, true)),
        Row::new("one below the threshold", below(), (Clean, false, true)),
        Row::new("exactly the threshold", reached(), (Dirty, true, true)),
        Row::new("one above the threshold", ledger_with(THRESHOLD + 1), (Dirty, true, true)),
        Row::new("no ledger", below(), (Unknown, false, false)).without_ledger(),
        Row::new("no ledger, dirty in the record", below(), (Dirty, true, false))
            .without_ledger()
            .dirty_in_record(),
        Row::new("a restored ledger, dirty in the record", below(), (Dirty, true, true))
            .dirty_in_record(),
        Row::new("behind by one event", below(), (Unknown, false, false)).at_watermarks(lag, EVENT),
        Row::new("behind, dirty", reached(), (Dirty, true, false)).at_watermarks(lag, EVENT),
        Row::new("ahead of the cluster's record by itself", below(), (Clean, false, true))
            .at_watermarks(EVENT, EVENT - 1),
        Row::new("up to date by the cluster's record", below(), (Clean, false, true))
            .at_watermarks(lag, lag),
        Row::new("tracking lost", losing_tracking(below()), (Unknown, false, false)),
        Row::new("tracking lost, dirty", losing_tracking(reached()), (Dirty, true, false)),
    ];
    for row in table {
        let evaluation =
            evaluate(row.threshold, row.dirty_in_record, row.ledger.as_ref(), row.watermarks);
        let answer = (evaluation.status, evaluation.dirty, evaluation.tracking_complete);
        assert_eq!(answer, row.expected, "{}", row.name);
    }
}

#[test]
fn a_readable_ledger_shows_its_counts_and_its_newest_loss() {
    let ledger = ledger_with(2);
    assert_eq!(
        evaluate(Some(THRESHOLD), false, Some(&ledger), up_to_date()),
        Evaluation {
            status: Dirty,
            dirty: true,
            tracking_complete: true,
            threshold: Some(THRESHOLD),
            recovery_attempt_count: 2,
            episode_count: 1,
            incident_count: 1,
            active_episode: Some(EpisodeNumber::new(1)),
            last_classification: Some(LeaveClassification::Unclassified),
            last_member: Some(MEMBER.parse().unwrap()),
            last_address: Some("10.0.0.12:5801".to_owned()),
            last_counted: Some(at(1_002)),
        }
    );
}

#[test]
fn counts_of_lost_or_lagging_tracking_are_shown_as_the_lower_bound_that_they_are() {
    let lost = losing_tracking(ledger_with(1));
    let lost = evaluate(Some(THRESHOLD), false, Some(&lost), up_to_date());
    let behind = evaluate(Some(THRESHOLD), false, Some(&ledger_with(1)), watermarks(20, EVENT));
    for evaluation in [lost, behind] {
        assert_eq!((evaluation.recovery_attempt_count, evaluation.episode_count), (1, 1));
        assert_eq!(evaluation.active_episode, Some(EpisodeNumber::new(1)));
    }
}

#[test]
fn without_a_ledger_or_without_tracking_there_is_nothing_to_show() {
    let nothing = |status, dirty, threshold| Evaluation {
        status,
        dirty,
        tracking_complete: false,
        threshold,
        recovery_attempt_count: 0,
        episode_count: 0,
        incident_count: 0,
        active_episode: None,
        last_classification: None,
        last_member: None,
        last_address: None,
        last_counted: None,
    };
    let ledger = ledger_with(2);
    assert_eq!(evaluate(None, true, Some(&ledger), up_to_date()), nothing(Disabled, false, None));
    assert_eq!(
        evaluate(Some(THRESHOLD), true, None, up_to_date()),
        nothing(Dirty, true, Some(THRESHOLD))
    );
    assert_eq!(
        evaluate(Some(THRESHOLD), false, None, up_to_date()),
        nothing(Unknown, false, Some(THRESHOLD))
    );
}

#[test]
fn a_job_without_losses_is_clean_from_its_first_moment() {
    let ledger = JobLedger::new(THRESHOLD, MemberEventSeq::new(EVENT), 10);
    let evaluation = evaluate(Some(THRESHOLD), false, Some(&ledger), up_to_date());
    assert_eq!((evaluation.status, evaluation.tracking_complete), (Clean, true));
    assert_eq!((evaluation.last_member, evaluation.last_counted), (None, None));
}

#[test]
fn a_job_that_owes_its_ledger_something_is_never_clean() {
    let ledger = JobLedger::new(1, MemberEventSeq::new(3), 10);
    let caught_up = watermarks(3, 3);
    assert_eq!(evaluate(Some(1), false, Some(&ledger), caught_up).status, EvaluationStatus::Clean);
    let owes = Watermarks { owes: true, ..caught_up };
    let evaluation = evaluate(Some(1), false, Some(&ledger), owes);
    assert_eq!(evaluation.status, EvaluationStatus::Unknown);
    assert!(!evaluation.tracking_complete);
    assert_eq!(evaluate(Some(1), true, Some(&ledger), owes).status, EvaluationStatus::Dirty);
}
