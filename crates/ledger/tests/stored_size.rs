//! A ledger's stored size has a stated maximum, whatever happens to its job and for however long.
//!
//! Seen to fail on: a history that never drops; one that drops the first episode; incidents, attempts,
//! pipelines or task groups that are all kept; texts that are kept whole, or with their control
//! characters.

use steadfast_ledger::{Aborted, Confirmed, JobLedger, Loss, MemberLost, max_stored_bytes};
use steadfast_model::{
    Cause, EpisodeNumber, LeaveClassification, LossCause, MemberEventSeq, PipelineId, TaskGroupId,
    Timestamp,
};

const HISTORY_SIZE: usize = 10;
/// Times and sequences are near the end of their range, where they are longest.
const LATE: Timestamp = Timestamp::from_millis(u64::MAX - 1);
const WATERMARK: u64 = u64::MAX - 1_000_000;

fn loss(event: u64, text: &str) -> Loss {
    Loss {
        seq: MemberEventSeq::new(WATERMARK + event),
        member: "23cc7ea6-6374-4f2b-8a33-df75b5e58f52".parse().unwrap(),
        address: text.to_owned(),
        classification: LeaveClassification::PlannedVerified,
        cause: LossCause::ConnectionClosed,
        evidence: text.to_owned(),
        last_seen: LATE,
        declared: LATE,
    }
}

fn new_ledger() -> JobLedger {
    JobLedger::new(u64::MAX, MemberEventSeq::new(WATERMARK), HISTORY_SIZE)
}

/// The pipelines with the longest ids.
fn pipelines(count: u32) -> Vec<PipelineId> {
    (u32::MAX - count..u32::MAX).map(PipelineId::new).collect()
}

/// One episode in which more happens than is kept: 20 members are lost, 40 attempts fail, and every
/// other pipeline has been deployed and is about to be again.
fn stormy_episode(ledger: &mut JobLedger, event: &mut u64, affected: &[PipelineId], text: &str) {
    let task_groups: Vec<_> = (u32::MAX - 100..u32::MAX).map(TaskGroupId::new).collect();
    for _ in 0..20 {
        *event += 1;
        let lost = ledger.member_lost(&loss(*event, text), affected, &task_groups);
        assert!(matches!(lost, MemberLost::Opened(_) | MemberLost::Joined(_)));
    }
    for other in &affected[1..] {
        let id = ledger.prepare(*other).unwrap();
        assert_eq!(ledger.confirm(id, LATE, LATE), Confirmed::SameGeneration);
        let _ = ledger.prepare(*other).unwrap();
    }
    for _ in 0..40 {
        let id = ledger.prepare(affected[0]).unwrap();
        assert_eq!(ledger.confirm(id, LATE, LATE), Confirmed::SameGeneration);
        ledger.attempt_failed(affected[0], &Cause::Seen(text.to_owned()));
    }
}

fn stored_bytes(ledger: &JobLedger) -> usize {
    serde_json::to_vec(ledger).unwrap().len()
}

#[test]
fn of_ten_thousand_episodes_the_first_and_the_newest_nine_are_kept() {
    let mut ledger = new_ledger();
    let affected = pipelines(1);
    for event in 1..=10_000 {
        let number = EpisodeNumber::new(event);
        let lost = ledger.member_lost(&loss(event, "10.0.0.12:5801"), &affected, &[]);
        assert_eq!(lost, MemberLost::Opened(number));
        assert_eq!(ledger.abort("no restore is left", LATE), Aborted::Episode(number));
    }
    let kept: Vec<_> = ledger.history().iter().map(|episode| episode.number.get()).collect();
    let expected: Vec<_> = std::iter::once(1).chain(9_992..=10_000).collect();
    assert_eq!(kept, expected);
    assert_eq!(ledger.history().dropped(), 9_990);
    assert_eq!(ledger.episode_count(), 10_000);
    assert_eq!(ledger.incident_count(), 10_000);
    assert!(stored_bytes(&ledger) <= max_stored_bytes(HISTORY_SIZE, 1));
}

#[test]
fn the_worst_ledger_stays_below_the_stated_maximum_and_comes_near_it() {
    // What JSON has to escape takes the most room, whether in two bytes or in six.
    for text in ["\"".repeat(10_000), "\u{1}".repeat(10_000), "ü".repeat(10_000)] {
        for pipeline_count in [1, 1_000] {
            let mut ledger = new_ledger();
            let affected = pipelines(pipeline_count);
            let mut event = 0;
            for _ in 0..HISTORY_SIZE + 5 {
                stormy_episode(&mut ledger, &mut event, &affected, &text);
                assert!(matches!(ledger.abort(&text, LATE), Aborted::Episode(_)));
            }
            stormy_episode(&mut ledger, &mut event, &affected, &text);

            let maximum = max_stored_bytes(HISTORY_SIZE, pipeline_count as usize);
            let stored = stored_bytes(&ledger);
            assert!(stored <= maximum, "{stored} > {maximum} with {:?}", &text[..2]);
            if text.starts_with('"') {
                // A bound that nothing comes near would hide a sample that has grown.
                assert!(stored * 10 >= maximum * 9, "{stored} is far below {maximum}");
            }
        }
    }
}

#[test]
fn counts_stand_exactly_beside_what_is_sampled() {
    let mut ledger = new_ledger();
    let affected = pipelines(1_000);
    stormy_episode(&mut ledger, &mut 0, &affected, "silent");
    let episode = ledger.active().unwrap();
    assert_eq!(episode.incident_count, 20);
    assert_eq!(episode.generation, 40);
    let incident = &episode.incidents[0];
    assert_eq!(incident.pipeline_count, 1_000);
    assert_eq!(incident.task_group_count, 100);
    assert!(incident.pipelines.len() < 1_000 && incident.task_groups.len() < 100);
    // The sample is for people; what has to recover is not sampled.
    assert_eq!(episode.open_pipelines().count(), 1_000);
}

#[test]
fn a_ledger_of_the_default_history_fits_into_half_a_mebibyte() {
    assert!(max_stored_bytes(10, 0) < 512 * 1024);
    assert_eq!(max_stored_bytes(10, 1_000) - max_stored_bytes(10, 0), 70_000);
}

#[test]
fn a_history_of_size_one_or_zero_keeps_the_first_episode() {
    for size in [0, 1] {
        let mut ledger = JobLedger::new(1, MemberEventSeq::new(WATERMARK), size);
        for event in 1..=3 {
            let lost = ledger.member_lost(&loss(event, ""), &pipelines(1), &[]);
            assert!(matches!(lost, MemberLost::Opened(_)));
            assert!(matches!(ledger.abort("", LATE), Aborted::Episode(_)));
        }
        let kept: Vec<_> = ledger.history().iter().map(|episode| episode.number.get()).collect();
        assert_eq!((kept, ledger.history().dropped()), (vec![1], 2), "size {size}");
    }
}

#[test]
fn a_stored_text_keeps_to_one_line_and_ends_at_a_character() {
    let mut ledger = new_ledger();
    let text = format!("\u{1b}[31mred\n{}", "ü".repeat(200));
    let lost = ledger.member_lost(&loss(1, &text), &pipelines(1), &[]);
    assert!(matches!(lost, MemberLost::Opened(_)));
    let kept = &ledger.active().unwrap().incidents[0].evidence;
    assert!(kept.starts_with(" [31mred ü") && kept.ends_with('ü'), "{kept:?}");
    assert!(kept.len() <= 200 && kept.len() > 190, "{}", kept.len());
}
