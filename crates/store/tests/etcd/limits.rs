//! What etcd takes: its quota, the size of a request and of an answer, the operations of a transaction.

use std::sync::Arc;

use etcd_client::{AlarmAction, AlarmOptions, AlarmType, CompactionOptions};
use steadfast_model::Timestamp;
use steadfast_store::conformance::samples;
use steadfast_store::{CommitError, Op, Refusal, Store, StoreError};

use crate::cluster::Cluster;
use crate::{LONG_TTL, lead, marks, put_job, put_token};

/// Red where "full" is believed without a look: one of the refusals may be of a commit that was applied.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_etcd_refuses_and_the_term_goes_on() {
    let cluster = Cluster::start(1, &["--quota-backend-bytes=2097152"]).await;
    let store = cluster.store("full", LONG_TTL).await;
    let mut term = lead(&store).await;
    let mark = "x".repeat(200_000);
    let (mut committed, mut refused) = (0, 0);
    for n in 1..100 {
        match term.commit(vec![put_job(n, &mark)]).await {
            Ok(_) => committed = n,
            Err(CommitError::NotApplied(Refusal::Full)) => {
                refused = n;
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(committed >= 1 && refused == committed + 1, "{committed}, {refused}");
    assert_eq!(marks(&store).await.len() as u64, committed, "a refused commit is not there");
    assert!(!*term.lost().borrow() && term.tenure().holds(), "the lease goes on");
    let again = term.commit(vec![put_job(refused, "small")]).await;
    assert_eq!(again, Err(CommitError::NotApplied(Refusal::Full)), "also what would fit");
    let other = cluster.store("full", LONG_TTL).await;
    term.resign().await;
    let leads = other.lead(samples::leader(2)).await.err();
    assert_eq!(leads, Some(StoreError::Full));

    let mut client = cluster.client().await;
    for n in 1..committed {
        client.delete(format!("full/job/{n}"), None).await.expect("a delete");
    }
    let answer = client.get("full/head", None).await.expect("a read");
    let revision = answer.header().expect("a header").revision();
    let physical = Some(CompactionOptions::new().with_physical());
    client.compact(revision, physical).await.expect("it compacts");
    client.defragment().await.expect("it defragments");
    let alarms = client.alarm(AlarmAction::Get, AlarmType::Nospace, None).await.expect("alarms");
    for alarm in alarms.alarms() {
        let mut options = AlarmOptions::new();
        options.with_member(alarm.member_id());
        let ended = client.alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(options)).await;
        ended.expect("the alarm ends");
    }
    let mut term = lead(&other).await;
    term.commit(vec![put_job(refused, "small")]).await.expect("there is room again");
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_records_are_loaded_page_by_page() {
    let cluster = Cluster::one().await;
    let store = cluster.store("pages", LONG_TTL).await;
    let mut term = lead(&store).await;
    // Together 12 MiB: a page of a thousand would be larger than an answer may be.
    let mark = "x".repeat(8_000);
    for first in (0..1_000).step_by(50) {
        let jobs = (first..first + 50).map(|n| put_job(n, &mark));
        term.commit(jobs.collect()).await.expect("it commits");
    }
    // And five thousand small ones.
    let summary = |n: u64| {
        let mut history = samples::history(n, Timestamp::from_millis(n));
        history.job.pipelines.clear();
        history.ledger = None;
        Op::EndJob(Arc::new(history))
    };
    for first in (10_000..15_500).step_by(275) {
        term.commit((first..first + 275).map(summary).collect()).await.expect("it commits");
    }
    let loaded = store.load().await.expect("it loads");
    assert_eq!(loaded.rev, term.rev());
    let jobs: Vec<u64> = loaded.snapshot.jobs.iter().map(|job| job.id.get()).collect();
    assert_eq!(jobs, (0..1_000).collect::<Vec<_>>());
    let finished: Vec<u64> = loaded.snapshot.finished.iter().map(|(job, _)| job.get()).collect();
    assert_eq!(finished, (10_000..15_500).rev().collect::<Vec<_>>());
    let page = store.history_page(None, 2_500).await.expect("a page");
    assert_eq!((page.entries.len(), page.next.is_some()), (2_500, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_batch_is_applied_whole_or_refused_whole() {
    let cluster = Cluster::one().await;
    let store = cluster.store("large", LONG_TTL).await;
    let mut term = lead(&store).await;
    let limits = store.limits();
    let tokens = |count: usize| (0..count as u32).map(|n| put_token(1, n, 7)).collect::<Vec<_>>();
    let begun = term.rev();
    // The head is one more.
    let rev = term.commit(tokens(limits.max_ops - 1)).await.expect("as many as there may be");
    assert_eq!(rev.0, begun.0 + 1);
    let mut client = cluster.client().await;
    let prefix = Some(etcd_client::GetOptions::new().with_prefix().with_count_only());
    let count = client.get("large/token/", prefix).await.expect("a count").count();
    assert_eq!(count as usize, limits.max_ops - 1);

    let too_large = Err(CommitError::NotApplied(Refusal::TooLarge));
    assert_eq!(term.commit(tokens(limits.max_ops)).await, too_large);
    let mark = "x".repeat(limits.max_bytes - 10_000);
    assert_eq!(term.commit(vec![put_job(1, &mark), put_job(2, &mark)]).await, too_large);
    assert_eq!(store.load().await.expect("it loads").rev, rev);
    // The most that is let through, in both ways at once, is what etcd takes.
    let mut both = tokens(limits.max_ops - 3);
    let tokens_bytes = 90 * both.len();
    both.push(put_job(1, &"x".repeat(limits.max_bytes - tokens_bytes - 20_000)));
    term.commit(both).await.expect("it fits");
}
