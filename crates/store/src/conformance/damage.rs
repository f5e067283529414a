//! The cases of damage: what cannot be read is named, and fails no more than it must.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_model::JobId;

use super::cases::{
    cases, end_job, guard, ids, lead, load, page, put_job, put_ledger, put_ledger_with_history,
    put_token,
};
use super::{Case, Place, samples};
use crate::{CheckpointError, CommitError, Op, StoreError};

pub(super) const ALL: &[Case] = cases![
    one_bad_ledger_fails_nothing_else,
    one_bad_history_record_fails_nothing_else,
    a_bad_record_of_a_job_or_member_is_named,
    losses_are_never_numbered_again,
    a_newer_format_is_never_taken_for_damage_and_lets_nobody_lead,
];

async fn one_bad_ledger_fails_nothing_else(place: Arc<dyn Place>) {
    let store = place.open().await;
    let whole = |n| [put_job(n)].into_iter().chain(put_ledger_with_history(n));
    lead(&store).await.commit((1..=2).flat_map(whole).collect()).await.expect("it commits");
    drop(store);
    let other_moment = br#"{"format":4,"record":{"revision":1,"size":10}}"#;
    for (key, damage) in [
        ("ledger/1", &br#"{"format":1,"record":{"revision":"#[..]),
        ("episodes/1", br#"{"format":4,"record":{"revision":"#),
        ("episodes/1", other_moment),
    ] {
        place.plant(key, damage).await;
        let store = place.open().await;
        let loaded = load(&store).await;
        assert_eq!(ids(&loaded), [1, 2]);
        assert!(loaded.ledgers[&JobId::new(1)].as_ref().is_err_and(|text| !text.is_empty()));
        assert_eq!(loaded.ledgers[&JobId::new(2)], Ok(samples::ledger_with_history()));
        let anew = put_ledger_with_history(1).to_vec();
        lead(&store).await.commit(anew).await.expect("it can be put anew");
        let ledger = load(&store).await.ledgers.remove(&JobId::new(1));
        assert_eq!(ledger, Some(Ok(samples::ledger_with_history())));
    }
}

async fn one_bad_history_record_fails_nothing_else(place: Arc<dyn Place>) {
    let store = place.open().await;
    let ops = vec![end_job(1, 10), end_job(2, 20)];
    lead(&store).await.commit(ops).await.expect("it commits");
    drop(store);
    place.plant("history/1", b"\xff").await;
    place.plant(&format!("summary/{:020}/1", u64::MAX - 10), b"{}").await;
    let store = place.open().await;
    let entries = page(&store, 9).await.entries;
    let readable: Vec<_> = entries.iter().map(|e| (e.job.get(), e.summary.is_ok())).collect();
    assert_eq!(readable, [(2, true), (1, false)]);
    let history = store.history(JobId::new(1)).await;
    assert!(matches!(history, Err(StoreError::Undecodable { key, .. }) if key == "history/1"));
    assert!(store.history(JobId::new(2)).await.is_ok_and(|record| record.is_some()));
    assert_eq!(load(&store).await.finished.len(), 2);
    let forget = vec![Op::ForgetHistory(JobId::new(1))];
    lead(&store).await.commit(forget).await.expect("what cannot be read can be forgotten");
    assert_eq!(page(&store, 9).await.entries.len(), 1);
}

async fn a_bad_record_of_a_job_or_member_is_named(place: Arc<dyn Place>) {
    let member = format!("member/{}", samples::member_uuid(1));
    for bad in [member.as_str(), "job/7"] {
        let store = place.open().await;
        let ops = vec![Op::PutMember(samples::member(1)), put_job(7)];
        lead(&store).await.commit(ops).await.expect("it commits");
        drop(store);
        place.plant(bad, b"{\"format\":1,\"record\":{}}").await;
        let refused = place.open().await.load().await;
        assert!(matches!(refused, Err(StoreError::Undecodable { key, .. }) if key == bad));
    }
}

/// Their ledgers would take the next losses for those that they know.
async fn losses_are_never_numbered_again(place: Arc<dyn Place>) {
    let store = place.open().await;
    let ops = vec![Op::PutMemberEvent(samples::event(3))];
    lead(&store).await.commit(ops).await.expect("it commits");
    assert_eq!(load(&store).await.member_event_seq.get(), 3);
    drop(store);
    place.plant("cluster", br#"{"format":1,"record":{"memberEventSeq":2}}"#).await;
    let refused = place.open().await.load().await;
    assert!(matches!(refused, Err(StoreError::Undecodable { key, .. }) if key == "cluster"));
}

async fn a_newer_format_is_never_taken_for_damage_and_lets_nobody_lead(place: Arc<dyn Place>) {
    let newer = br#"{"format":4000000000,"version":"9.9.9","record":{"of":"another shape"}}"#;
    let store = place.open().await;
    let mut term = lead(&store).await;
    let ops = vec![put_job(1), put_ledger(1), put_token(1, 1, 1)];
    term.commit(ops).await.expect("it commits");
    place.plant("ledger/1", newer).await;
    let refused = store.load().await.expect_err("a newer ledger is not a damaged one");
    assert!(matches!(refused, StoreError::NewerFormat { .. }), "{refused}");
    assert!(refused.to_string().contains("9.9.9"), "{refused}");

    // A newer coordinator took over while this one slept.
    place.plant("head", newer).await;
    let refused = store.lead(samples::leader(2)).await.err();
    assert!(matches!(refused, Some(StoreError::NewerFormat { .. })), "{refused:?}");
    let late = store.write_checkpoint(guard(&*term, 1, 1), Bytes::new()).await;
    assert_eq!(late, Err(CheckpointError::Fenced));
    assert_eq!(term.commit(vec![put_job(2)]).await, Err(CommitError::Fenced));
}
