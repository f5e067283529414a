//! What copying a store to another must do, for any two engines: each pair's tests run [`suite`].

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_engine::records::JobRecord;
use steadfast_model::{FencingToken, JobId, TaskGroupId, Timestamp};

use super::samples;
use crate::copy::{Copied, CopyError, Location, Progress, Request, copy};
use crate::keys::{self, Kind};
use crate::records::decode;
use crate::table::Write;
use crate::{CheckpointGuard, Op, Store, StoreError, Term};

/// When all of this happens.
const NOW: Timestamp = Timestamp::from_millis(1_793_000_200_000);
const GROUP: TaskGroupId = TaskGroupId::new(1);
/// More than a page.
const ENDED: u64 = 1_100;

/// Two places at which there is nothing.
pub struct Pair {
    /// What is copied from.
    pub from: Location,
    /// And to.
    pub to: Location,
}

/// Runs every case, each with a pair of its own. Needs a Tokio runtime.
///
/// # Panics
/// When a case does not hold.
pub async fn suite(mut fresh: impl FnMut() -> Pair) {
    everything_arrives(fresh()).await;
    a_backup_is_known_as_one(fresh()).await;
    a_copy_that_ended_anywhere_is_begun_anew(&mut fresh).await;
    a_source_that_went_on_is_copied_as_it_is_now(fresh()).await;
    what_is_not_empty_is_left_alone(fresh()).await;
    what_is_a_store_is_left_alone(fresh()).await;
    what_is_no_store_is_refused(fresh()).await;
    what_was_moved_is_not_copied_unless_told(fresh(), fresh()).await;
    a_late_write_of_an_older_copy_is_kept_out(fresh()).await;
    a_difference_is_found(fresh()).await;
}

fn request(pair: &Pair) -> Request {
    let (from, to) = (pair.from.clone(), pair.to.clone());
    Request { from, to, me: samples::leader(9), now: NOW, again: false, backup: false }
}

async fn copied(request: &Request) -> Result<Copied, CopyError> {
    copied_until(request, |_| false).await
}

/// Broken off before the first step of which this is so.
async fn copied_until(
    request: &Request,
    mut ends: impl FnMut(Progress) -> bool + Send,
) -> Result<Copied, CopyError> {
    let mut progress = |step| match ends(step) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    copy(request, &mut progress).await
}

async fn lead(store: &Arc<dyn Store>) -> Box<dyn Term> {
    store.lead(samples::leader(1)).await.expect("it leads")
}

/// A store with records of every kind, left as by a coordinator that was told to go.
async fn fill(place: &Location, ended: u64) {
    let store = place.store().await.expect("it opens");
    let mut term = lead(&store).await;
    let job = JobId::new(1);
    let token = FencingToken::new(2);
    term.commit(samples::of_every_kind(token)).await.expect("it commits");
    let guard = CheckpointGuard { epoch: term.epoch(), job, task_group: GROUP, token };
    store.write_checkpoint(guard, checkpoint()).await.expect("it is written");
    let history = |n| Op::EndJob(Arc::new(samples::history(n, Timestamp::from_millis(n))));
    for first in (10..10 + ended).step_by(50) {
        let last = (first + 50).min(10 + ended);
        term.commit((first..last).map(history).collect()).await.expect("it commits");
    }
    term.resign().await;
}

fn checkpoint() -> Bytes {
    Bytes::from_iter((0..=255).chain(*b"\n\n"))
}

/// Everything that is there, whatever mark it has.
async fn dump(place: &Location) -> BTreeMap<String, Vec<u8>> {
    let mut rows = BTreeMap::new();
    if let Some(opened) = place.open().expect("it opens") {
        for kind in Kind::ALL {
            rows.extend(opened.rows(kind.range(), usize::MAX).await.expect("it is read"));
        }
    }
    rows
}

async fn refusal(place: &Location) -> StoreError {
    match place.store().await {
        Err(error) => error,
        Ok(store) => store.load().await.expect_err("nobody can start there"),
    }
}

/// All rows are equal but for the head, who leads, and the tokens that are minted next.
fn assert_arrived(source: &BTreeMap<String, Vec<u8>>, target: &BTreeMap<String, Vec<u8>>) {
    assert_arrived_from(source, target, false);
}

/// The same where what is copied is what stood there before somebody went on.
fn assert_arrived_from(
    source: &BTreeMap<String, Vec<u8>>,
    target: &BTreeMap<String, Vec<u8>>,
    backup: bool,
) {
    let kept = |rows: &BTreeMap<String, Vec<u8>>| {
        let kept = rows.iter().filter(|(key, _)| ![keys::HEAD, keys::LEADER].contains(&&***key));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect::<BTreeMap<_, _>>()
    };
    let (source, target) = (kept(source), kept(target));
    assert!(source.keys().eq(target.keys()), "the same keys");
    for (key, value) in &source {
        if !key.starts_with("job/") {
            assert_eq!(value, &target[key], "{key}");
            continue;
        }
        let read = |bytes| decode::<JobRecord>(key, bytes).expect("it is read");
        let (mut before, mut after) = (read(value), read(&target[key]));
        assert_eq!(std::mem::take(&mut after.restored), backup, "{key}");
        let groups = |job: &JobRecord| job.pipelines[0].task_groups.clone();
        for (before, after) in groups(&before).iter().zip(groups(&after)) {
            assert!(after.token.get() > before.token.get() + 1_000, "the next tokens are raised");
            assert_eq!(before.container, after.container, "what runs keeps its token");
        }
        for (before, after) in
            before.pipelines[0].task_groups.iter_mut().zip(&after.pipelines[0].task_groups)
        {
            before.token = after.token;
        }
        assert_eq!(before, after);
    }
}

async fn everything_arrives(pair: Pair) {
    fill(&pair.from, ENDED).await;
    let before = dump(&pair.from).await;
    let mut kinds: Vec<Kind> = Vec::new();
    let mut progress = |step| {
        if let Progress::Copy(kind, _) = step {
            kinds.push(kind);
        }
        ControlFlow::Continue(())
    };
    let done = copy(&request(&pair), &mut progress).await.expect("it is copied");
    let count = |kind| done.records.iter().find(|(one, _)| *one == kind).map(|(_, count)| *count);
    assert_eq!(count(Kind::History), Some(ENDED));
    assert_eq!(count(Kind::Secret), Some(1));
    // The sample of every kind was there.
    assert!(done.records.iter().all(|(_, count)| *count > 0), "{:?}", done.records);
    assert!(kinds.iter().filter(|kind| **kind == Kind::History).count() > 1, "page by page");
    assert_arrived(&before, &dump(&pair.to).await);

    let moved = refusal(&pair.from).await;
    let named = matches!(&moved, StoreError::Moved { to, .. } if *to == pair.to.to_string());
    assert!(named, "{moved}");

    let store = pair.to.store().await.expect("it opens");
    let term = lead(&store).await;
    assert!(term.epoch() > done.epoch && done.epoch.get() > done.epoch_before.get() + 1_000);
    assert!(store.load().await.expect("it loads").snapshot.ledgers.values().all(Result::is_ok));
    // A container that runs goes on with its token, and finds its position.
    let (epoch, job, token) = (term.epoch(), JobId::new(1), FencingToken::new(2));
    let found = store.read_checkpoint(epoch, job, GROUP).await.expect("it is read");
    assert_eq!(found, Some(checkpoint()));
    let guard = CheckpointGuard { epoch, job, task_group: GROUP, token };
    store.write_checkpoint(guard, Bytes::from_static(b"next")).await.expect("it is written");
    term.resign().await;
}

async fn a_backup_is_known_as_one(pair: Pair) {
    fill(&pair.from, 1).await;
    let before = dump(&pair.from).await;
    copied(&Request { backup: true, ..request(&pair) }).await.expect("it is copied");
    assert_arrived_from(&before, &dump(&pair.to).await, true);
}

/// Broken off before each of its steps, in turn: nobody can start on the target, the source is as it was until
/// it is marked, and the same command comes to the end.
async fn a_copy_that_ended_anywhere_is_begun_anew(fresh: &mut impl FnMut() -> Pair) {
    let mut at = 0;
    loop {
        let pair = fresh();
        fill(&pair.from, 3).await;
        let before = dump(&pair.from).await;
        let mut last = None;
        let mut steps = 0;
        let request = request(&pair);
        let ended = copied_until(&request, |step| {
            last = Some(step);
            steps += 1;
            steps > at
        });
        match ended.await {
            Err(CopyError::Stopped) => {}
            Ok(_) => break,
            Err(error) => panic!("step {at}, {last:?}: {error}"),
        }
        let moved = last == Some(Progress::Finish);
        assert_ended(&pair, &before, moved, &format!("step {at}, {last:?}")).await;
        at += 1;
    }
    assert!(at > 20, "every step was one: {at}");
}

async fn assert_ended(pair: &Pair, before: &BTreeMap<String, Vec<u8>>, moved: bool, message: &str) {
    if !dump(&pair.to).await.is_empty() {
        let refused = refusal(&pair.to).await;
        assert!(matches!(refused, StoreError::Unfinished { .. }), "{message}: {refused}");
    }
    if moved {
        let refused = refusal(&pair.from).await;
        assert!(matches!(refused, StoreError::Moved { .. }), "{message}: {refused}");
        // That it goes on is broken off as well.
        let request = request(pair);
        let once_more =
            copied_until(&request, |step| matches!(step, Progress::Copy(Kind::Summary, _)));
        assert!(matches!(once_more.await, Err(CopyError::Stopped)), "{message}");
    } else {
        let store = pair.from.store().await.expect("it opens");
        lead(&store).await.resign().await;
    }
    copied(&request(pair)).await.expect(message);
    assert_arrived(before, &dump(&pair.to).await);
    let store = pair.to.store().await.expect("it opens");
    lead(&store).await.resign().await;
}

/// Coordinators go on with the source after a copy was broken off: what they have removed meanwhile is not left
/// at the target, of whatever kind it is.
async fn a_source_that_went_on_is_copied_as_it_is_now(pair: Pair) {
    fill(&pair.from, 1).await;
    let before_comparing = |step| matches!(step, Progress::Verify(..));
    let ended = copied_until(&request(&pair), before_comparing).await;
    assert!(matches!(ended, Err(CopyError::Stopped)), "{ended:?}");
    let everything_arrived = dump(&pair.to).await;

    let opened = pair.from.open().expect("it opens").expect("it is there");
    let head = opened.rows(keys::Range::only(keys::HEAD), 1).await.expect("it is read").remove(0).1;
    for kind in Kind::ALL.iter().filter(|kind| **kind != Kind::Head) {
        let copied = everything_arrived.keys().any(|key| kind.range().contains(key));
        assert!(copied || *kind == Kind::Leader || *kind == Kind::Announced, "{kind:?}");
        let removed = vec![Write::DeleteRange(kind.range())];
        assert_eq!(opened.write_if(Some(head.clone()), removed).await, Ok(true));
    }
    drop(opened);
    assert_eq!(dump(&pair.from).await.len(), 1, "the head alone is left");
    copied(&request(&pair)).await.expect("it is copied");
    let left: Vec<_> = dump(&pair.to).await.into_keys().collect();
    assert_eq!(
        left,
        [keys::HEAD, keys::PROCESSED],
        "how far it has come is written by whoever leads"
    );
}

async fn what_is_not_empty_is_left_alone(pair: Pair) {
    // A record without a head is somebody's, too.
    let opened = pair.to.make().expect("it is made");
    let put = vec![Write::Put("job/1".to_owned(), b"x".to_vec())];
    assert_eq!(opened.write_if(None, put).await, Ok(true));
    drop(opened);
    fill(&pair.from, 1).await;
    let refused = copied(&request(&pair)).await.expect_err("it is not empty");
    assert!(matches!(refused, CopyError::NotEmpty { .. }), "{refused}");
    assert_eq!(dump(&pair.to).await.len(), 1, "it is left alone");
}

async fn what_is_a_store_is_left_alone(pair: Pair) {
    fill(&pair.from, 1).await;
    fill(&pair.to, 1).await;
    let (source, target) = (dump(&pair.from).await, dump(&pair.to).await);
    let refused = copied(&request(&pair)).await.expect_err("it is not empty");
    assert!(matches!(refused, CopyError::NotEmpty { .. }), "{refused}");
    assert_eq!((dump(&pair.from).await, dump(&pair.to).await), (source, target));
}

async fn what_is_no_store_is_refused(pair: Pair) {
    let refused = copied(&request(&pair)).await.expect_err("there is nothing");
    assert!(matches!(refused, CopyError::NoStore(_)), "{refused}");
    fill(&pair.from, 1).await;
    plant(&pair.from, r#"{"format":4000000000,"version":"9.9.9","record":{}}"#).await;
    let refused = copied(&request(&pair)).await.expect_err("it is newer").to_string();
    assert!(refused.contains("9.9.9") && refused.contains(&pair.from.to_string()), "{refused}");
    assert!(dump(&pair.to).await.is_empty());
    // What is neither a head nor a mark is not taken for an empty place.
    let pair = Pair { from: pair.to, to: pair.from };
    fill(&pair.from, 1).await;
    assert!(copied(&request(&pair)).await.is_err());
    assert!(pair.from.store().await.is_ok(), "the source is as it was");
}

/// Puts it into the head's place, past every guard.
async fn plant(place: &Location, head: &str) {
    let opened = place.open().expect("it opens").expect("it is there");
    let present = opened.rows(keys::Range::only(keys::HEAD), 1).await.expect("it is read");
    let present = present.into_iter().next().map(|(_, value)| value);
    let put = vec![Write::Put(keys::HEAD.to_owned(), head.as_bytes().to_vec())];
    assert_eq!(opened.write_if(present, put).await, Ok(true));
}

async fn what_was_moved_is_not_copied_unless_told(pair: Pair, other: Pair) {
    fill(&pair.from, 1).await;
    let before = dump(&pair.from).await;
    let first = copied(&request(&pair)).await.expect("it is copied");
    let elsewhere = Pair { from: pair.from.clone(), to: other.to };
    let refused = copied(&request(&elsewhere)).await.expect_err("it was moved").to_string();
    assert!(refused.contains(&pair.to.to_string()) && refused.contains("--again"), "{refused}");
    let again = Request { again: true, now: NOW + 60_000, ..request(&elsewhere) };
    let second = copied(&again).await.expect("it was told");
    assert!(second.epoch.get() >= first.epoch.get() + 60, "beyond what the first copy gives out");
    assert_arrived_from(&before, &dump(&elsewhere.to).await, true);
    let moved = refusal(&pair.from).await.to_string();
    assert!(moved.contains(&elsewhere.to.to_string()), "the newest place is named: {moved}");

    // Back again, to where the first copy is not.
    let back = Pair { from: elsewhere.to, to: other.from };
    let third = copied(&request(&back)).await.expect("it is copied back");
    assert!(third.epoch > second.epoch);
}

/// What an older copy has sent, a removal above all, may come when the next one has done its work.
async fn a_late_write_of_an_older_copy_is_kept_out(pair: Pair) {
    fill(&pair.from, 1).await;
    let mut heads: Vec<Option<Vec<u8>>> = Vec::new();
    // From the second on it is one copy that goes on: the source has its mark already.
    let ends = [
        Some(Progress::Copy(Kind::Summary, 0)),
        Some(Progress::Finish),
        Some(Progress::Clean),
        Some(Progress::Copy(Kind::Summary, 0)),
        None,
    ];
    for broken_off in ends {
        let request = request(&pair);
        let mut marks = 0;
        let ended = copied_until(&request, |step| {
            marks += usize::from(step == Progress::Begin);
            broken_off == Some(step)
        });
        assert_eq!(ended.await.is_ok(), broken_off.is_none());
        // What is removed is removed under another mark than what is written after it.
        let removes = !heads.is_empty() && broken_off != Some(Progress::Clean);
        assert_eq!(marks, if removes { 2 } else { 1 });
        let head = dump(&pair.to).await.remove(keys::HEAD);
        assert!(!heads.contains(&head), "each has a mark of its own");
        heads.push(head);
    }
    let whole = dump(&pair.to).await;
    heads.pop();
    let opened = pair.to.open().expect("it opens").expect("it is there");
    for head in heads {
        let late = vec![Write::DeleteRange(Kind::Job.range())];
        assert_eq!(opened.write_if(head, late).await, Ok(false));
    }
    drop(opened);
    assert_eq!(dump(&pair.to).await, whole);
}

/// A record that is changed, lost or added between writing and comparing.
async fn a_difference_is_found(pair: Pair) {
    fill(&pair.from, 2).await;
    let put = |key: &str, value: &[u8]| Write::Put(key.to_owned(), value.to_vec());
    let damages = [
        (Kind::Token, put("token/1/1", b"x")),
        (Kind::Event, Write::DeleteRange(Kind::Event.range())),
        (Kind::Member, put("member/x", b"x")),
        (Kind::Job, put("job/1", b"{}")),
        (Kind::Ledger, Write::Delete(keys::ledger(JobId::new(1)))),
    ];
    for (kind, damage) in damages {
        // Both sides are read through the same handle by which they are held, so the damage is done before
        // the comparing begins, by a copy that is broken off there, and found by the comparing itself.
        let found = crate::copy::after_damage(&request(&pair), damage).await;
        let named =
            matches!(&found, Err(CopyError::Differs { key, .. }) if key.starts_with(kind.name()));
        assert!(named, "{kind:?}: {found:?}");
        assert!(matches!(refusal(&pair.to).await, StoreError::Unfinished { .. }));
    }
    copied(&request(&pair)).await.expect("the source is as it was");
}
