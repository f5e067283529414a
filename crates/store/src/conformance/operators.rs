//! The cases of what operators ask for: requests that outlive their term, and what came of them.

use std::sync::Arc;

use steadfast_engine::records::{FailureKind, MemberEvent, MemberRecord};
use steadfast_model::{LeaveClassification, LossCause};

use super::cases::{lead, load};
use super::{Case, Place, samples};
use crate::{Op, StoreError};

pub(super) const ALL: &[Case] = &[
    ("a_request_is_kept_until_it_is_forgotten", |place| Box::pin(kept_until_forgotten(place))),
    ("a_drain_is_loaded_as_it_was_written", |place| Box::pin(a_drain(place))),
    ("a_bad_request_is_named", |place| Box::pin(a_bad_request(place))),
];

async fn kept_until_forgotten(place: Arc<dyn Place>) {
    let store = place.open().await;
    let mut term = lead(&store).await;
    let (one, two) = (samples::request(1), samples::request(2));
    let ops = vec![Op::PutRequest(two.clone()), Op::PutRequest(one.clone())];
    term.commit(ops).await.expect("it commits");
    assert_eq!(load(&store).await.requests, [one.clone(), two.clone()]);
    drop((term, store));
    let store = place.open().await;
    assert_eq!(load(&store).await.requests, [one.clone(), two.clone()], "also after reopening");
    let mut term = lead(&store).await;
    term.commit(vec![Op::ForgetRequest(one.id)]).await.expect("it commits");
    assert_eq!(load(&store).await.requests, [two]);
}

async fn a_drain(place: Arc<dyn Place>) {
    let store = place.open().await;
    let mut term = lead(&store).await;
    let event = MemberEvent {
        classification: LeaveClassification::PlannedVerified,
        cause: LossCause::ToldByOperator,
        ..samples::event(1)
    };
    let member = MemberRecord { draining: true, ..samples::member(1) };
    let mut job = samples::job(1);
    job.counts.planned = 1;
    for failure in job.pipelines.iter_mut().flat_map(|pipeline| &mut pipeline.failures) {
        failure.kind = FailureKind::Planned;
    }
    let ops = vec![
        Op::PutMemberEvent(event.clone()),
        Op::PutMember(member.clone()),
        Op::PutRequest(samples::request(1)),
        Op::PutJob(Arc::new(job.clone())),
    ];
    term.commit(ops).await.expect("it commits");
    let loaded = load(&store).await;
    assert_eq!((loaded.journal, loaded.members), (vec![event], vec![member]));
    assert_eq!((loaded.jobs, loaded.requests), (vec![job], vec![samples::request(1)]));
}

/// What is registered proves that a loss need not be counted: a record that cannot be read is not passed
/// over.
async fn a_bad_request(place: Arc<dyn Place>) {
    place.open().await;
    place.plant("request/r1", b"{}").await;
    let error = place.open().await.load().await.expect_err("it cannot be read");
    let named = matches!(&error, StoreError::Undecodable { key, .. } if key == "request/r1");
    assert!(named, "{error}");
}
