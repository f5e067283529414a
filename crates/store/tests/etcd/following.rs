//! Standbys: what they hold is what loading would find, whatever happens to the stream that tells them.

use steadfast_store::conformance::samples;
use steadfast_store::{EtcdStore, Missed, Op, Standby, Store};

use crate::cluster::{Cluster, store};
use crate::link::Link;
use crate::wait::soon;
use crate::{LONG_TTL, SHORT_TTL, guard, lead, put_job, put_token};

async fn follow(store: &EtcdStore) -> Standby {
    store.follow().await.expect("it can be read").expect("others can stand by")
}

async fn same(standby: &Standby, store: &EtcdStore) {
    let (held, found) =
        (standby.loaded().expect("it loads"), store.load().await.expect("it loads"));
    assert_eq!(held.rev, found.rev);
    assert_eq!(held.snapshot, found.snapshot);
    assert_eq!((held.leader, held.secret_key), (found.leader, found.secret_key));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_holds_what_loading_would_find() {
    let cluster = Cluster::one().await;
    let store = cluster.store("standby", LONG_TTL).await;
    let other = cluster.store("standby", LONG_TTL).await;
    let mut standby = follow(&other).await;
    let mut term = lead(&store).await;
    term.commit(vec![put_job(1, "one"), put_token(1, 1, 7), put_job(2, "two")])
        .await
        .expect("it commits");
    let checkpoint = store.write_checkpoint(guard(&*term, 1, 7), b"x".as_slice().into()).await;
    assert_eq!(checkpoint, Ok(()), "checkpoints are none of its business");
    let history = samples::history(1, steadfast_model::Timestamp::from_millis(5));
    let ops = vec![Op::EndJob(history.into()), Op::PutMember(samples::member(1))];
    let rev = term.commit(ops).await.expect("it commits");
    soon("it follows", standby.reach(rev)).await.expect("nothing is missed");
    same(&standby, &store).await;
    assert_eq!(standby.leader(), Ok(Some(samples::leader(1))));

    term.resign().await;
    soon("it is told that nobody leads", async {
        while standby.leader() != Ok(None) {
            standby.changed().await.expect("nothing is missed");
        }
    })
    .await;
    // It takes over from what it holds.
    let next = lead(&other).await;
    soon("it follows", standby.reach(next.rev())).await.expect("nothing is missed");
    assert_eq!(standby.rev(), next.rev());
    same(&standby, &other).await;
}

/// More than one message of it is on the way when the stream comes back.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_watch_goes_on_behind_what_it_has_seen() {
    let cluster = Cluster::one().await;
    let node = &cluster.nodes[0];
    let link = Link::to(node.address).await;
    let leads = cluster.store("broken", LONG_TTL).await;
    let follows = store(std::slice::from_ref(&link.url), "broken", LONG_TTL).await;
    let mut term = lead(&leads).await;
    let mut standby = follow(&follows).await;
    let mut rev = term.commit(vec![put_job(0, "before")]).await.expect("it commits");
    soon("it follows", standby.reach(rev)).await.expect("nothing is missed");
    for round in 0..2 {
        link.cut();
        let mark = format!("{round}").repeat(40_000);
        for n in 0..10 {
            let jobs = (0..20).map(|job| put_job(100 * n + job, &mark));
            rev = term.commit(jobs.collect()).await.expect("it commits");
        }
        link.mend();
        soon("it follows again", standby.reach(rev)).await.expect("nothing is missed");
        same(&standby, &leads).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_compacted_meanwhile_is_missed_and_followed_anew() {
    let cluster = Cluster::one().await;
    let node = &cluster.nodes[0];
    let link = Link::to(node.address).await;
    let leads = cluster.store("compacted", LONG_TTL).await;
    let follows = store(std::slice::from_ref(&link.url), "compacted", LONG_TTL).await;
    let mut term = lead(&leads).await;
    let mut standby = follow(&follows).await;
    link.cut();
    for n in 0..5 {
        term.commit(vec![put_job(n, "missed")]).await.expect("it commits");
    }
    let mut client = cluster.client().await;
    let answer = client.get("compacted/head", None).await.expect("a read");
    let revision = answer.header().expect("a header").revision();
    client.compact(revision, None).await.expect("it compacts");
    link.mend();
    let missed = soon("it is told", standby.reach(term.rev())).await;
    assert_eq!(missed, Err(Missed));
    assert_eq!(standby.changed().await, Err(Missed), "for ever");

    let mut standby = follow(&follows).await;
    assert_eq!(standby.rev(), term.rev());
    let rev = term.commit(vec![put_job(9, "seen")]).await.expect("it commits");
    soon("it follows", standby.reach(rev)).await.expect("nothing is missed");
    same(&standby, &leads).await;
}

/// Red where a copy names whoever led when it last heard of anything.
#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_hear_the_store_names_no_leader_until_it_hears_it_again() {
    let cluster = Cluster::one().await;
    let link = Link::to(cluster.nodes[0].address).await;
    let leads = cluster.store("unheard", LONG_TTL).await;
    let follows = store(std::slice::from_ref(&link.url), "unheard", SHORT_TTL).await;
    let term = lead(&leads).await;
    let mut standby = follow(&follows).await;
    soon("it follows", standby.reach(term.rev())).await.expect("nothing is missed");
    assert_eq!(standby.leader(), Ok(Some(samples::leader(1))));
    link.cut();
    soon("it hears nothing", async {
        while standby.leader() != Ok(None) {
            standby.changed().await.expect("nothing is missed");
        }
    })
    .await;
    assert!(!standby.is_heard());
    link.mend();
    soon("it hears again, though nothing was committed", async {
        while standby.leader() == Ok(None) {
            standby.changed().await.expect("nothing is missed");
        }
    })
    .await;
    assert_eq!(standby.rev(), term.rev());
}
