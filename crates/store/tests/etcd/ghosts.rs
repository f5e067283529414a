//! Requests whose answer does not come: they are carried out late, or were carried out, or will never be.

use bytes::Bytes;
use steadfast_model::{JobId, TaskGroupId};
use steadfast_store::conformance::samples;
use steadfast_store::{CommitError, Store};

use crate::cluster::{Cluster, Node, store};
use crate::link::Link;
use crate::wait::{soon, until};
use crate::{LONG_TTL, SHORT_TTL, guard, lead, marks, put_job, put_token};

/// Hands over what the link has kept back, and waits until the node has answered it.
async fn deliver(link: &Link, node: &Node) {
    let before = node.transactions_handled();
    link.deliver().await;
    until("the node has answered what came late", async || {
        (node.transactions_handled() > before).then_some(())
    })
    .await;
}

/// Red with only the leader's key compared: the first commit then lands on top of the second.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_comes_late_changes_nothing() {
    let cluster = Cluster::one().await;
    let node = &cluster.nodes[0];
    let link = Link::to(node.address).await;
    let store = store(&[link.url.clone(), node.url.clone()], "ghost", LONG_TTL).await;
    let mut term = lead(&store).await;
    let begun = term.rev().0;

    link.hold_requests_from(1_000);
    let (sent, ()) = tokio::join!(term.commit(vec![put_job(1, "first")]), async {
        link.held(2_000).await;
        link.lose_requests();
    });
    assert_eq!(sent.expect("it is sent again by the other way").0, begun + 1);
    let rev = term.commit(vec![put_job(1, "second")]).await.expect("it commits");
    assert_eq!(rev.0, begun + 2);

    deliver(&link, node).await;
    assert_eq!(marks(&store).await, [(1, "second".to_owned())]);
    term.commit(vec![put_job(2, "third")]).await.expect("its term goes on");
    assert_eq!(store.load().await.expect("it loads").rev.0, begun + 3);
}

/// The same with a node that is really paused; whether it carries out what it finds is its luck.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_paused_node_finds_when_it_wakes_changes_nothing() {
    let cluster = Cluster::three().await;
    let mut urls = cluster.urls();
    for round in 0..3 {
        let paused = &cluster.nodes[round];
        let store = store(&urls, &format!("paused-{round}"), LONG_TTL).await;
        let mut term = lead(&store).await;
        let begun = term.rev().0;
        paused.pause();
        for (n, mark) in (1..).zip(["first", "second", "third"]) {
            let rev = term.commit(vec![put_job(1, mark)]).await.expect("the others suffice");
            assert_eq!(rev.0, begun + n, "round {round}: each is applied once");
        }
        paused.resume();
        until("the paused node has caught up", async || paused.is_healthy().await.then_some(()))
            .await;
        term.commit(vec![put_job(2, "last")]).await.expect("it commits");
        let marks = marks(&store).await;
        assert_eq!(marks, [(1, "third".to_owned()), (2, "last".to_owned())], "round {round}");
        urls.rotate_left(1);
    }
}

/// Red when an error is read as "not applied": the same would be committed twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_found() {
    let cluster = Cluster::one().await;
    let node = &cluster.nodes[0];
    let link = Link::to(node.address).await;
    let store = store(&[link.url.clone(), node.url.clone()], "lost-answer", LONG_TTL).await;
    let mut term = lead(&store).await;
    let begun = term.rev().0;
    link.lose_answers();
    let handled = node.transactions_handled();
    let rev = term.commit(vec![put_job(1, "once")]).await.expect("it was applied");
    assert_eq!(rev.0, begun + 1);
    // That one and the look at the head; no second sending.
    let sent = node.transactions_handled() - handled;
    assert!(sent <= 2.0, "{sent} transactions for one commit");
    let rev = term.commit(vec![put_job(1, "twice")]).await.expect("it commits");
    assert_eq!(rev.0, begun + 2);
    assert_eq!(marks(&store).await, [(1, "twice".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_nobody_can_tell_is_unknown_and_ends_the_term() {
    let cluster = Cluster::one().await;
    let node = &cluster.nodes[0];
    let link = Link::to(node.address).await;
    for (round, applied) in [true, false].into_iter().enumerate() {
        let prefix = format!("unknown-{round}");
        let store = store(std::slice::from_ref(&link.url), &prefix, SHORT_TTL).await;
        let mut term = lead(&store).await;
        let tenure = term.tenure();
        if applied {
            link.lose_answers();
        } else {
            link.cut();
        }
        let unknown = term.commit(vec![put_job(1, "perhaps")]).await;
        assert!(matches!(unknown, Err(CommitError::Unknown(_))), "{unknown:?}");
        assert!(*term.lost().borrow() && !tenure.holds());
        link.mend();
        assert_eq!(term.commit(vec![put_job(2, "late")]).await, Err(CommitError::Fenced));

        let mut next =
            soon("the next term", store.lead(samples::leader(2))).await.expect("it leads");
        let there = if applied { vec![(1, "perhaps".to_owned())] } else { vec![] };
        assert_eq!(marks(&store).await, there, "applied: {applied}");
        assert!(next.epoch() > term.epoch());
        next.commit(vec![put_job(3, "next")]).await.expect("it commits");
    }
}

/// Red without the checkpoint's own revision in the compares: an acknowledged position is taken back.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_comes_late_takes_nothing_back() {
    let cluster = Cluster::one().await;
    let node = &cluster.nodes[0];
    let link = Link::to(node.address).await;
    let store = store(&[link.url.clone(), node.url.clone()], "checkpoint", LONG_TTL).await;
    let mut term = lead(&store).await;
    term.commit(vec![put_job(1, ""), put_token(1, 1, 7)]).await.expect("it commits");
    let guard = guard(&*term, 1, 7);
    let first = Bytes::from(vec![b'1'; 5_000]);
    link.hold_requests_from(1_000);
    let (written, ()) = tokio::join!(store.write_checkpoint(guard, first), async {
        link.held(5_000).await;
        link.lose_requests();
    });
    assert_eq!(written, Ok(()), "it is sent again by the other way");
    let second = Bytes::from_static(b"2");
    assert_eq!(store.write_checkpoint(guard, second.clone()).await, Ok(()));
    deliver(&link, node).await;
    let read = store.read_checkpoint(term.epoch(), JobId::new(1), TaskGroupId::new(1)).await;
    assert_eq!(read, Ok(Some(second)));
}
