//! The cases of the suite, each a story that reads from top to bottom.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_engine::records::Snapshot;
use steadfast_model::{
    FencingToken, JobId, LedgerRevision, MemberEventSeq, TaskGroupId, Timestamp,
};

use super::{Case, Place, samples};
use crate::{
    CheckpointError, CheckpointGuard, CommitError, Fault, HistoryPage, MAX_CHECKPOINT_BYTES, Op,
    Refusal, Store, Term,
};

/// Pairs each case with its name.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        &[$((stringify!($name), |place| Box::pin($name(place)))),*]
    };
}

pub(super) use cases;

pub(super) const ALL: &[Case] = cases![
    a_new_store_is_empty_and_keeps_its_secret,
    what_was_put_is_loaded_also_after_reopening,
    of_several_ops_on_one_record_the_last_counts,
    the_epoch_grows_with_every_leader_also_after_reopening,
    a_deposed_leader_is_fenced_and_changes_nothing,
    a_leader_that_resigns_is_no_longer_named,
    a_checkpoint_needs_its_token_its_job_and_its_leader,
    a_job_that_ends_takes_all_of_its_running_state_with_it,
    the_history_is_listed_newest_first_page_by_page,
    a_job_that_ends_and_is_forgotten_at_once_leaves_nothing,
    an_event_that_was_not_taken_to_every_job_is_seen_by_the_next_leader,
    the_journal_keeps_the_newest_events,
    a_large_batch_is_one_transaction,
    checkpoints_and_commits_do_not_disturb_each_other,
    closed_episodes_stay_while_their_ledger_goes_on,
    a_refused_commit_can_be_tried_again,
    a_refused_ledger_lets_the_rest_through,
    after_an_unknown_outcome_the_term_is_over,
];

pub(super) async fn lead(store: &Arc<dyn Store>) -> Box<dyn Term> {
    store.lead(samples::leader(1)).await.expect("the store takes a leader")
}

pub(super) async fn load(store: &Arc<dyn Store>) -> Snapshot {
    store.load().await.expect("the store loads").snapshot
}

pub(super) async fn page(store: &Arc<dyn Store>, limit: usize) -> HistoryPage {
    store.history_page(None, limit).await.expect("the history is listed")
}

pub(super) fn put_job(n: u64) -> Op {
    Op::PutJob(Arc::new(samples::job(n)))
}

pub(super) fn put_ledger(n: u64) -> Op {
    Op::PutLedger { job: JobId::new(n), ledger: Arc::new(samples::ledger()) }
}

/// A ledger in its two parts.
pub(super) fn put_ledger_with_history(n: u64) -> [Op; 2] {
    let (job, ledger) = (JobId::new(n), samples::ledger_with_history());
    let episodes = ledger.history().clone();
    [Op::PutLedger { job, ledger: Arc::new(ledger) }, Op::PutEpisodes { job, episodes }]
}

pub(super) fn put_token(job: u64, task_group: u32, token: u64) -> Op {
    let (job, task_group) = (JobId::new(job), TaskGroupId::new(task_group));
    Op::PutToken { job, task_group, token: FencingToken::new(token) }
}

pub(super) fn end_job(n: u64, finished: u64) -> Op {
    Op::EndJob(Arc::new(samples::history(n, Timestamp::from_millis(finished))))
}

pub(super) fn guard(term: &dyn Term, job: u64, token: u64) -> CheckpointGuard {
    CheckpointGuard {
        epoch: term.epoch(),
        job: JobId::new(job),
        task_group: TaskGroupId::new(1),
        token: FencingToken::new(token),
    }
}

pub(super) fn ids(snapshot: &Snapshot) -> Vec<u64> {
    snapshot.jobs.iter().map(|job| job.id.get()).collect()
}

async fn a_new_store_is_empty_and_keeps_its_secret(place: Arc<dyn Place>) {
    let store = place.open().await;
    let loaded = store.load().await.expect("a new store loads");
    assert_eq!(loaded.snapshot, Snapshot::default());
    assert_eq!((loaded.leader, loaded.snapshot.journal), (None, vec![]));
    assert_ne!(loaded.secret_key.as_bytes(), &[0; 32]);
    drop(store);
    let again = place.open().await.load().await.expect("it loads again");
    assert_eq!(again.secret_key, loaded.secret_key);
}

async fn what_was_put_is_loaded_also_after_reopening(place: Arc<dyn Place>) {
    let store = place.open().await;
    let mut term = lead(&store).await;
    let (event, member) = (samples::event(1), samples::member(2));
    let ops = vec![
        Op::PutMemberEvent(event.clone()),
        Op::PutMember(member.clone()),
        put_job(12),
        put_ledger(12),
        put_token(12, 1, 2),
        put_job(3),
        Op::PutProcessed(MemberEventSeq::new(1)),
    ];
    let first = store.load().await.expect("it loads").rev;
    assert_eq!(term.rev(), first, "a term begins with its own revision");
    let rev = term.commit(ops).await.expect("it commits");
    assert!(rev > first && term.rev() == rev && term.tenure().holds(), "{first:?}, {rev:?}");
    let expected = Snapshot {
        member_event_seq: MemberEventSeq::new(1),
        processed: MemberEventSeq::new(1),
        journal: vec![event.clone()],
        jobs: vec![samples::job(3), samples::job(12)],
        ledgers: [(JobId::new(12), Ok(samples::ledger()))].into(),
        members: vec![member],
        ..Snapshot::default()
    };
    assert_eq!(load(&store).await, expected);
    drop((term, store));
    let loaded = place.open().await.load().await.expect("it loads again");
    assert_eq!(loaded.snapshot, expected);
    assert_eq!(loaded.rev, rev);
    assert_eq!(loaded.leader, Some(samples::leader(1)));
}

async fn of_several_ops_on_one_record_the_last_counts(place: Arc<dyn Place>) {
    let store = place.open().await;
    let mut term = lead(&store).await;
    let mut changed = samples::job(1);
    changed.error = Some("changed".to_owned());
    let changed = Arc::new(changed);
    let member = samples::member(1);
    let ops = vec![
        put_job(1),
        put_token(1, 1, 1),
        Op::PutJob(changed.clone()),
        put_token(1, 1, 2),
        Op::PutMember(member.clone()),
        Op::RemoveMember(member.uuid),
    ];
    term.commit(ops).await.expect("it commits");
    let loaded = load(&store).await;
    assert_eq!((loaded.jobs, loaded.members), (vec![(*changed).clone()], vec![]));
    let newest = guard(&*term, 1, 2);
    assert_eq!(store.write_checkpoint(newest, Bytes::new()).await, Ok(()));
    let ops = vec![Op::RemoveMember(member.uuid), Op::PutMember(member.clone())];
    term.commit(ops).await.expect("it commits again");
    assert_eq!(load(&store).await.members, vec![member]);
}

async fn the_epoch_grows_with_every_leader_also_after_reopening(place: Arc<dyn Place>) {
    let mut last = None;
    for _ in 0..3 {
        let store = place.open().await;
        for _ in 0..2 {
            let epoch = Some(lead(&store).await.epoch());
            assert!(epoch > last, "{epoch:?} follows {last:?}");
            last = epoch;
        }
    }
}

async fn a_deposed_leader_is_fenced_and_changes_nothing(place: Arc<dyn Place>) {
    let store = place.open().await;
    let mut first = lead(&store).await;
    first.commit(vec![put_job(1)]).await.expect("the first leader commits");
    let lost = first.lost();
    assert!(!*lost.borrow());
    let mut second = store.lead(samples::leader(2)).await.expect("another one leads");
    assert!(*lost.borrow(), "the first one is told");
    assert!(!*second.lost().borrow());
    let before = load(&store).await;
    for _ in 0..2 {
        let refused = first.commit(vec![put_job(2), end_job(1, 5)]).await;
        assert_eq!(refused, Err(CommitError::Fenced));
    }
    assert_eq!(load(&store).await, before);
    second.commit(vec![put_job(3)]).await.expect("the second leader is not disturbed");
    first.resign().await;
    let loaded = store.load().await.expect("it loads");
    assert_eq!(loaded.leader, Some(samples::leader(2)), "a deposed leader resigns nobody");
    second.commit(vec![put_job(4)]).await.expect("the second leader still leads");
}

async fn a_leader_that_resigns_is_no_longer_named(place: Arc<dyn Place>) {
    let store = place.open().await;
    let term = lead(&store).await;
    let (epoch, lost) = (term.epoch(), term.lost());
    term.resign().await;
    assert!(*lost.borrow());
    assert_eq!(store.load().await.expect("it loads").leader, None);
    assert!(lead(&store).await.epoch() > epoch);
}

async fn a_checkpoint_needs_its_token_its_job_and_its_leader(place: Arc<dyn Place>) {
    let store = place.open().await;
    let mut term = lead(&store).await;
    let first = guard(&*term, 1, 1);
    let read = |epoch| store.read_checkpoint(epoch, first.job, first.task_group);
    let superseded = |current: Option<u64>| {
        Err(CheckpointError::Superseded { current: current.map(FencingToken::new) })
    };
    let write =
        |guard, value: &'static [u8]| store.write_checkpoint(guard, Bytes::from_static(value));
    assert_eq!(write(first, b"early").await, superseded(None), "no token was minted");
    term.commit(vec![put_job(1), put_token(1, 1, 1)]).await.expect("it commits");
    assert_eq!(read(term.epoch()).await, Ok(None));
    assert_eq!(write(first, b"one\n\0two").await, Ok(()));
    let largest = Bytes::from(vec![b'x'; MAX_CHECKPOINT_BYTES + 1]);
    let refused = store.write_checkpoint(first, largest.clone()).await;
    assert_eq!(refused, Err(CheckpointError::TooLarge));
    assert_eq!(read(term.epoch()).await, Ok(Some(Bytes::from_static(b"one\n\0two"))));
    term.commit(vec![put_token(1, 1, 2)]).await.expect("a checkpoint does not fence its leader");
    assert_eq!(write(first, b"zombie").await, superseded(Some(2)));
    let second = guard(&*term, 1, 2);
    assert_eq!(store.write_checkpoint(second, largest.slice(1..)).await, Ok(()));
    assert_eq!(write(guard(&*term, 1, 3), b"forged").await, superseded(Some(2)));

    let mut next = lead(&store).await;
    assert_eq!(write(second, b"of a deposed leader").await, Err(CheckpointError::Fenced));
    assert_eq!(read(term.epoch()).await, Err(CheckpointError::Fenced));
    assert_eq!(read(next.epoch()).await, Ok(Some(largest.slice(1..))));
    next.commit(vec![end_job(1, 5)]).await.expect("it commits");
    assert_eq!(write(guard(&*next, 1, 2), b"late").await, superseded(None));
    assert_eq!(read(next.epoch()).await, Ok(None));
}

async fn a_job_that_ends_takes_all_of_its_running_state_with_it(place: Arc<dyn Place>) {
    let store = place.open().await;
    let mut term = lead(&store).await;
    // Ids of which one is the beginning of the other: a removal by prefix must tell them apart.
    for n in [1, 10, 11] {
        let mut ops = vec![put_job(n), put_token(n, 1, 1)];
        ops.extend(put_ledger_with_history(n));
        term.commit(ops).await.expect("it commits");
        let value = Bytes::from_static(b"position");
        assert_eq!(store.write_checkpoint(guard(&*term, n, 1), value).await, Ok(()));
    }
    // What earlier steps of the same batch have put goes as well.
    let ops = vec![put_job(1), put_ledger(1), put_token(1, 2, 1), end_job(1, 5)];
    term.commit(ops).await.expect("it commits");
    let loaded = load(&store).await;
    assert_eq!(ids(&loaded), [10, 11]);
    let ledger_of = |n: u64| (JobId::new(n), Ok(samples::ledger_with_history()));
    assert_eq!(loaded.ledgers, [ledger_of(10), ledger_of(11)].into());
    let ended = Timestamp::from_millis(5);
    assert_eq!(loaded.finished, [(JobId::new(1), ended)]);
    let history = store.history(JobId::new(1)).await.expect("the history is read");
    assert_eq!(history, Some(samples::history(1, ended)));
    assert_eq!(store.history(JobId::new(10)).await, Ok(None));
    for (n, expected) in [(1, None), (10, Some(Bytes::from_static(b"position")))] {
        let read = store.read_checkpoint(term.epoch(), JobId::new(n), TaskGroupId::new(1)).await;
        assert_eq!(read, Ok(expected), "job {n}");
    }
    for task_group in [1, 2] {
        let task_group = TaskGroupId::new(task_group);
        let late = CheckpointGuard { task_group, ..guard(&*term, 1, 1) };
        let refused = store.write_checkpoint(late, Bytes::new()).await;
        assert_eq!(refused, Err(CheckpointError::Superseded { current: None }));
    }
    let [ledger, _] = put_ledger_with_history(1);
    term.commit(vec![put_job(1), ledger]).await.expect("it commits");
    let ledger = load(&store).await.ledgers.remove(&JobId::new(1));
    assert!(ledger.is_some_and(|ledger| ledger.is_err()), "its closed episodes are gone too");
}

async fn the_history_is_listed_newest_first_page_by_page(place: Arc<dyn Place>) {
    let store = place.open().await;
    let mut term = lead(&store).await;
    let ends = [(1, 30), (2, 10), (3, 20), (4, 20), (5, 1_000)];
    term.commit(ends.map(|(n, at)| end_job(n, at)).to_vec()).await.expect("it commits");
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = store.history_page(after, 2).await.expect("the history is listed");
        assert!(page.entries.len() <= 2);
        seen.extend(page.entries.iter().map(|entry| (entry.job.get(), entry.finished.as_millis())));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, [(5, 1_000), (1, 30), (3, 20), (4, 20), (2, 10)]);
    let first = &page(&store, 1).await.entries[0];
    let summary = first.summary.as_ref().expect("it can be read");
    let record = samples::history(5, Timestamp::from_millis(1_000));
    assert_eq!(*summary, crate::HistorySummary::of(&record));
    assert_eq!(page(&store, 5).await.next, None, "a full last page says that it is the last");
    let loaded = store.load().await.expect("it loads");
    assert_eq!(loaded.history, page(&store, 5).await.entries, "a leader need not list it");

    let ops = vec![Op::ForgetHistory(JobId::new(1)), Op::ForgetHistory(JobId::new(99))];
    term.commit(ops).await.expect("to forget what is not there is no error");
    let left: Vec<u64> = page(&store, 9).await.entries.iter().map(|e| e.job.get()).collect();
    assert_eq!(left, [5, 3, 4, 2]);
    assert_eq!(store.history(JobId::new(1)).await, Ok(None));
    assert_eq!(load(&store).await.finished.len(), 4);
}

async fn a_job_that_ends_and_is_forgotten_at_once_leaves_nothing(place: Arc<dyn Place>) {
    let store = place.open().await;
    let mut term = lead(&store).await;
    term.commit(vec![put_job(1)]).await.expect("it commits");
    let ops = vec![end_job(1, 5), Op::ForgetHistory(JobId::new(1))];
    term.commit(ops).await.expect("it commits");
    assert_eq!(load(&store).await, Snapshot::default());
    assert_eq!(store.history(JobId::new(1)).await, Ok(None));
}

async fn an_event_that_was_not_taken_to_every_job_is_seen_by_the_next_leader(
    place: Arc<dyn Place>,
) {
    let store = place.open().await;
    let mut term = lead(&store).await;
    term.commit(vec![Op::PutMemberEvent(samples::event(1))]).await.expect("it commits");
    let reached = |snapshot: Snapshot| (snapshot.member_event_seq.get(), snapshot.processed.get());
    assert_eq!(reached(load(&store).await), (1, 0), "the very first event, too");
    term.commit(vec![Op::PutProcessed(MemberEventSeq::new(1))]).await.expect("it commits");
    term.commit(vec![Op::PutMemberEvent(samples::event(2))]).await.expect("it commits");
    drop((term, store));
    let store = place.open().await;
    let _term = lead(&store).await;
    assert_eq!(reached(load(&store).await), (2, 1));
}

async fn the_journal_keeps_the_newest_events(place: Arc<dyn Place>) {
    let store = place.open().await;
    let mut term = lead(&store).await;
    let put = |n| Op::PutMemberEvent(samples::event(n));
    term.commit((1..=999).map(put).collect()).await.expect("it commits");
    let kept = |loaded: crate::Loaded| {
        let seqs: Vec<u64> = loaded.snapshot.journal.iter().map(|event| event.seq.get()).collect();
        (seqs[0], seqs.len(), loaded.snapshot.member_event_seq.get())
    };
    assert_eq!(kept(store.load().await.expect("it loads")), (1, 999, 999));
    term.commit(vec![put(1_000)]).await.expect("it commits");
    assert_eq!(kept(store.load().await.expect("it loads")), (1, 1_000, 1_000));
    term.commit(vec![put(1_001), put(1_002)]).await.expect("it commits");
    assert_eq!(kept(store.load().await.expect("it loads")), (3, 1_000, 1_002));
}

async fn a_large_batch_is_one_transaction(place: Arc<dyn Place>) {
    let store = place.open().await;
    let mut term = lead(&store).await;
    let limits = store.limits();
    // A job's record and ledger are about 4 KiB.
    let jobs = 2_000.min(limits.max_ops / 2 - 1).min(limits.max_bytes / 8_192) as u64;
    let before = store.load().await.expect("it loads").rev;
    let ops = (1..=jobs).flat_map(|n| [put_job(n), put_ledger(n)]).collect();
    let rev = term.commit(ops).await.expect("it commits");
    assert_eq!(rev.0, before.0 + 1);
    let loaded = load(&store).await;
    assert_eq!(ids(&loaded), (1..=jobs).collect::<Vec<_>>());
    assert!(loaded.ledgers.len() as u64 == jobs && loaded.ledgers.values().all(Result::is_ok));
}

async fn checkpoints_and_commits_do_not_disturb_each_other(place: Arc<dyn Place>) {
    const ROUNDS: u64 = 50;
    let store = place.open().await;
    let mut term = lead(&store).await;
    let minted = (1..=4).flat_map(|n| [put_job(n), put_token(n, 1, 1)]);
    term.commit(minted.collect()).await.expect("it commits");
    let epoch = term.epoch();
    let writers: Vec<_> = (1..=4)
        .map(|job| {
            let (store, guard) = (store.clone(), guard(&*term, job, 1));
            tokio::spawn(async move {
                for n in 0..ROUNDS {
                    let value = Bytes::from(n.to_string());
                    assert_eq!(store.write_checkpoint(guard, value.clone()).await, Ok(()));
                    let read = store.read_checkpoint(epoch, guard.job, guard.task_group).await;
                    assert_eq!(read, Ok(Some(value)), "what was acknowledged is read");
                }
            })
        })
        .collect();
    for n in 0..ROUNDS {
        term.commit(vec![put_job(100 + n)]).await.expect("it commits");
        store.load().await.expect("it loads");
    }
    for writer in writers {
        writer.await.expect("a container could write all of its checkpoints");
    }
    assert_eq!(load(&store).await.jobs.len() as u64, 4 + ROUNDS);
}

async fn closed_episodes_stay_while_their_ledger_goes_on(place: Arc<dyn Place>) {
    let store = place.open().await;
    let mut term = lead(&store).await;
    let (job, mut ledger) = (JobId::new(1), samples::ledger_with_history());
    let ops = [put_job(1)].into_iter().chain(put_ledger_with_history(1));
    term.commit(ops.collect()).await.expect("it commits");
    ledger.skip_to_revision(LedgerRevision::new(99));
    let alone = Op::PutLedger { job, ledger: Arc::new(ledger.clone()) };
    term.commit(vec![alone]).await.expect("a ledger is put without its closed episodes");
    assert_eq!(load(&store).await.ledgers[&job], Ok(ledger));
}

async fn a_refused_commit_can_be_tried_again(place: Arc<dyn Place>) {
    let store = place.open().await;
    let mut term = lead(&store).await;
    for refusal in [Refusal::Full, Refusal::TooLarge, Refusal::Unavailable("paused".to_owned())] {
        if !place.inject(Fault::Refuse(refusal.clone())) {
            return;
        }
        let before = load(&store).await;
        let ops = vec![put_job(1), put_ledger(1)];
        assert_eq!(term.commit(ops.clone()).await, Err(CommitError::NotApplied(refusal)));
        assert_eq!(load(&store).await, before);
        assert!(!*term.lost().borrow());
        term.commit(ops).await.expect("the same again is committed");
    }
}

async fn a_refused_ledger_lets_the_rest_through(place: Arc<dyn Place>) {
    let store = place.open().await;
    let mut term = lead(&store).await;
    if !place.inject(Fault::RefuseLedger(Some(JobId::new(2)), Refusal::TooLarge)) {
        return;
    }
    term.commit(vec![put_job(1), put_ledger(1)]).await.expect("another job's ledger is not meant");
    let ops = vec![put_job(2), put_ledger(2)];
    let refused = term.commit(ops.clone()).await;
    assert_eq!(refused, Err(CommitError::NotApplied(Refusal::TooLarge)));
    let stripped = ops.into_iter().filter(|op| !op.is_ledger_part()).collect();
    term.commit(stripped).await.expect("the job's part alone is committed");
    let loaded = load(&store).await;
    assert_eq!((ids(&loaded), loaded.ledgers.len()), (vec![1, 2], 1));
}

async fn after_an_unknown_outcome_the_term_is_over(place: Arc<dyn Place>) {
    let store = place.open().await;
    for (n, applied) in [(1, true), (2, false)] {
        let mut term = lead(&store).await;
        if !place.inject(Fault::Unknown { applied }) {
            return;
        }
        let unknown = term.commit(vec![put_job(n)]).await;
        assert!(matches!(unknown, Err(CommitError::Unknown(_))), "{unknown:?}");
        assert!(*term.lost().borrow());
        assert_eq!(term.commit(vec![put_job(3)]).await, Err(CommitError::Fenced));
    }
    let mut term = lead(&store).await;
    assert_eq!(ids(&load(&store).await), [1], "what was applied is there, the other is not");
    term.commit(vec![put_job(4)]).await.expect("the next term commits");
}
