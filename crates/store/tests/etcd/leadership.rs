//! Who leads: one, until it can no longer be sure, and then another.

use std::sync::Arc;

use steadfast_store::conformance::samples;
use steadfast_store::{CommitError, LeaderInfo, Store};

use crate::cluster::{Cluster, store};
use crate::link::Link;
use crate::wait::{soon, until};
use crate::{LONG_TTL, SHORT_TTL, lead, marks, put_job};

/// Red with a deadline that is counted from the answer, or not at all: the order is what is asserted.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_cut_off_knows_that_it_lost_before_another_leads() {
    let cluster = Cluster::one().await;
    let node = &cluster.nodes[0];
    let link = Link::to(node.address).await;
    let cut_off = store(std::slice::from_ref(&link.url), "cut-off", SHORT_TTL).await;
    let other = store(std::slice::from_ref(&node.url), "cut-off", SHORT_TTL).await;
    let mut first = lead(&cut_off).await;
    first.commit(vec![put_job(1, "first")]).await.expect("it commits");
    let (lost, tenure) = (first.lost(), first.tenure());
    assert!(!*lost.borrow() && tenure.holds());

    link.cut();
    let mut second =
        soon("the other leads", other.lead(samples::leader(2))).await.expect("it leads");
    assert!(*lost.borrow(), "it was told before the other could lead");
    assert!(!tenure.holds(), "and could know by itself");
    assert!(second.epoch() > first.epoch());
    second.commit(vec![put_job(2, "second")]).await.expect("it commits");

    link.mend();
    let before = other.load().await.expect("it loads");
    for _ in 0..2 {
        let refused = first.commit(vec![put_job(1, "late"), put_job(3, "late")]).await;
        assert_eq!(refused, Err(CommitError::Fenced));
    }
    first.resign().await;
    let after = other.load().await.expect("it loads");
    assert_eq!((after.rev, after.snapshot), (before.rev, before.snapshot));
    assert_eq!(after.leader, before.leader, "it resigns for nobody else");
    assert!(after.leader.is_some_and(|leader| leader.pid == samples::leader(2).pid));
    second.commit(vec![put_job(4, "second")]).await.expect("the second is not disturbed");
}

/// A deposed leader that does not know it yet: what it commits is compared, not believed.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_key_was_removed_is_fenced_and_finds_out() {
    let cluster = Cluster::one().await;
    let one = cluster.store("removed", LONG_TTL).await;
    let other = cluster.store("removed", LONG_TTL).await;
    let mut first = lead(&one).await;
    let mut client = cluster.client().await;
    client.delete("removed/leader", None).await.expect("it is removed");
    let second = soon("the other leads", other.lead(samples::leader(2))).await.expect("it leads");
    assert!(first.tenure().holds(), "its lease lives, so it does not know");
    assert_eq!(first.commit(vec![put_job(1, "late")]).await, Err(CommitError::Fenced));
    assert!(*first.lost().borrow() && !first.tenure().holds());
    assert_eq!(marks(&other).await, []);
    drop(second);

    // Also while nobody else leads.
    let alone = cluster.store("removed-alone", LONG_TTL).await;
    let mut term = lead(&alone).await;
    client.delete("removed-alone/leader", None).await.expect("it is removed");
    assert_eq!(term.commit(vec![put_job(1, "late")]).await, Err(CommitError::Fenced));
    assert_eq!(marks(&alone).await, []);

    let other = cluster.store("removed-too", SHORT_TTL).await;
    let third = lead(&other).await;
    client.delete("removed-too/leader", None).await.expect("it is removed");
    let mut lost = third.lost();
    soon("it finds out without a commit", lost.wait_for(|lost| *lost)).await.expect("it is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_waits_and_leads_when_the_leader_resigns() {
    let cluster = Cluster::one().await;
    let one = cluster.store("resign", LONG_TTL).await;
    let other = Arc::new(cluster.store("resign", LONG_TTL).await);
    let mut first = lead(&one).await;
    first.commit(vec![put_job(0, "first")]).await.expect("it commits");
    let mut client = cluster.client().await;
    let answer = client.get("resign/head", None).await.expect("a read");
    let revision = answer.header().expect("a header").revision();
    client.compact(revision, None).await.expect("the history of the leader's key is gone");
    let handled = cluster.nodes[0].transactions_handled();
    let given_up = {
        let other = other.clone();
        tokio::spawn(async move { other.lead(samples::leader(3)).await.map(drop) })
    };
    let waiting = {
        let other = other.clone();
        tokio::spawn(async move { other.lead(samples::leader(2)).await })
    };
    for n in 1..20 {
        first.commit(vec![put_job(n, "first")]).await.expect("candidates do not disturb it");
    }
    assert!(!waiting.is_finished() && !given_up.is_finished());
    // Its commits, and a look or two of each candidate (red where they look again and again).
    let asked = cluster.nodes[0].transactions_handled() - handled - 19.0;
    assert!(asked <= 8.0, "{asked} transactions of two that only wait");
    given_up.abort();
    assert!(given_up.await.is_err_and(|ended| ended.is_cancelled()), "a campaign can be given up");
    first.resign().await;
    // Its lease would have lived for a minute more.
    let second = soon("the candidate leads", waiting).await.expect("no panic").expect("it leads");
    let loaded = other.load().await.expect("it loads");
    let (leader, candidate) = (loaded.leader.expect("somebody leads"), samples::leader(2));
    assert_eq!((leader.pid, loaded.rev), (candidate.pid, second.rev()));
    assert!(leader.since > candidate.since, "since it leads, not since it began to wait");
    assert_eq!(loaded.snapshot.jobs.len(), 20);
}

/// Red where the leader's key is put without its lease: nobody else could ever lead.
#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_that_has_given_up_never_comes_to_lead() {
    let cluster = Cluster::one().await;
    let node = &cluster.nodes[0];
    let link = Link::to(node.address).await;
    let urls = [link.url.clone(), node.url.clone()];
    let stale = Arc::new(store(&urls, "stale", LONG_TTL).await);
    let before = stale.load().await.expect("it loads").rev;
    link.hold_requests_from(1_000);
    let candidate = {
        let stale = stale.clone();
        // Its transaction is larger than all that it sends before.
        let me = LeaderInfo { host: "h".repeat(3_000), ..samples::leader(1) };
        tokio::spawn(async move { stale.lead(me).await.map(drop) })
    };
    link.held(3_000).await;
    link.lose_requests();
    candidate.abort();
    assert!(candidate.await.is_err_and(|ended| ended.is_cancelled()));
    let mut client = cluster.client().await;
    until("its lease is given back", async || {
        let leases = client.leases().await.expect("leases are listed");
        leases.leases().is_empty().then_some(())
    })
    .await;
    let handled = node.transactions_handled();
    link.deliver().await;
    until("its transaction has come", async || {
        (node.transactions_handled() > handled).then_some(())
    })
    .await;
    let loaded = stale.load().await.expect("it loads");
    assert_eq!((loaded.rev, loaded.leader), (before, None));
    let other = cluster.store("stale", LONG_TTL).await;
    let term = soon("nobody has to wait", other.lead(samples::leader(2))).await.expect("it leads");
    assert_eq!(term.rev().0, before.0 + 1);
}

/// A coordinator that loads again after a doubt must not wait for its own lease.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_term_of_the_same_process_begins_at_once() {
    let cluster = Cluster::one().await;
    let store = cluster.store("again", LONG_TTL).await;
    let first = lead(&store).await;
    let (lost, epoch) = (first.lost(), first.epoch());
    drop(first);
    assert!(*lost.borrow());
    let second = soon("its own lease is ended", store.lead(samples::leader(1))).await;
    assert!(second.expect("it leads").epoch() > epoch);
}

/// Of many candidates one leads at a time, and each sees what all before it have committed.
#[tokio::test(flavor = "multi_thread")]
async fn one_at_a_time() {
    let cluster = Cluster::one().await;
    let candidates = (1..=5).map(|n| {
        let urls = cluster.urls();
        tokio::spawn(async move {
            let store = store(&urls, "crowd", LONG_TTL).await;
            let mut term = store.lead(samples::leader(n)).await.expect("it leads");
            let seen = marks(&store).await;
            term.commit(vec![put_job(term.epoch().get(), &n.to_string())])
                .await
                .expect("it commits");
            let epoch = term.epoch();
            term.resign().await;
            (epoch, seen.len())
        })
    });
    let mut terms = Vec::new();
    for candidate in candidates.collect::<Vec<_>>() {
        terms.push(soon("each leads once", candidate).await.expect("no panic"));
    }
    terms.sort();
    let seen: Vec<usize> = terms.iter().map(|(_, seen)| *seen).collect();
    assert_eq!(seen, [0, 1, 2, 3, 4], "{terms:?}");
}
