//! What only a directory and a file can suffer. The rest is in the conformance suite.

use std::fs;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};

use steadfast_engine::records::JobRecord;
use steadfast_model::{LedgerRevision, Timestamp};
use tempfile::TempDir;

use super::*;
use crate::conformance::samples;
use crate::keys;

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn put_job(n: u64) -> Op {
    Op::PutJob(Arc::new(samples::job(n)))
}

fn database_of(directory: &TempDir) -> rusqlite::Connection {
    rusqlite::Connection::open(directory.path().join("steadfast.db")).unwrap()
}

#[tokio::test]
async fn a_directory_has_one_holder_who_is_named() {
    let directory = directory();
    let store = Embedded::open(directory.path()).unwrap();
    let refused = Embedded::open(directory.path()).unwrap_err().to_string();
    assert!(refused.contains(&format!("pid {}", std::process::id())), "{refused}");
    let term = store.lead(samples::leader(7)).await.unwrap();
    let refused = Embedded::open(directory.path()).unwrap_err().to_string();
    assert!(refused.contains("pid 7 on coordinator-1, serving http://127.0.0.1:8007"), "{refused}");
    drop(store);
    assert!(matches!(Embedded::open(directory.path()), Err(StoreError::Held { .. })));
    drop(term);
    Embedded::open(directory.path()).unwrap();
}

#[test]
fn missing_directories_are_made_and_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let parent = directory();
    let path = parent.path().join("a/b/c");
    drop(Embedded::open(&path).unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("steadfast.db")), 0o600);
}

#[test]
fn a_place_that_cannot_be_used_is_named() {
    let parent = directory();
    let file = parent.path().join("file");
    fs::write(&file, "not a directory").unwrap();
    // Nobody, not even root, can make a directory in /proc.
    for path in [file.join("data"), file, "/proc/steadfast".into()] {
        let error = Embedded::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Directory { .. }), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}

#[test]
fn another_programs_file_is_refused_and_left_alone() {
    let directory = directory();
    let path = directory.path().join("steadfast.db");
    let garbage = b"This is somebody's text and no database at all. ".repeat(100);
    fs::write(&path, &garbage).unwrap();
    let error = Embedded::open(directory.path()).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), garbage);

    fs::remove_file(&path).unwrap();
    database_of(&directory).execute_batch("CREATE TABLE theirs (a)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = Embedded::open(directory.path()).unwrap_err();
    assert!(error.to_string().contains("another program"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_damaged_page_is_an_error_and_not_a_missing_job() {
    let directory = directory();
    let store = Embedded::open(directory.path()).unwrap();
    let mut term = store.lead(samples::leader(1)).await.unwrap();
    term.commit((1..=200).map(put_job).collect()).await.unwrap();
    drop((store, term));
    let path = directory.path().join("steadfast.db");
    let mut bytes = fs::read(&path).unwrap();
    let page = 4_096;
    for page in bytes.chunks_mut(page).skip(2) {
        page[..64].fill(0xa5);
    }
    fs::write(&path, bytes).unwrap();
    let outcome = match Embedded::open(directory.path()) {
        Ok(store) => store.load().await.map(|_| ()),
        Err(error) => Err(error),
    };
    assert!(matches!(outcome, Err(StoreError::Corrupt { .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_full_disk_refuses_a_commit_whole_and_the_term_goes_on() {
    let directory = directory();
    let store = Embedded::open(directory.path()).unwrap();
    let mut term = store.lead(samples::leader(1)).await.unwrap();
    term.commit(vec![put_job(1)]).await.unwrap();
    let set_pages = |pages: u32| {
        store.inner.writer.run(move |connection| {
            connection.pragma_update(None, "max_page_count", pages).unwrap();
        })
    };
    set_pages(20).await.unwrap();
    let before = store.load().await.unwrap().snapshot;
    let ops: Vec<_> = (1..=100).map(put_job).collect();
    let full = term.commit(ops.clone()).await;
    assert_eq!(full, Err(CommitError::NotApplied(Refusal::Full)));
    assert_eq!(store.load().await.unwrap().snapshot, before);
    set_pages(u32::MAX - 1).await.unwrap();
    term.commit(ops).await.unwrap();
    assert_eq!(store.load().await.unwrap().snapshot.jobs.len(), 100);
}

#[tokio::test]
async fn a_head_that_somebody_else_moved_fences_though_the_lock_is_held() {
    let directory = directory();
    let store = Embedded::open(directory.path()).unwrap();
    let mut term = store.lead(samples::leader(1)).await.unwrap();
    term.commit(vec![put_job(1)]).await.unwrap();
    // As a process would that does not see the lock, on a network file system for example.
    let moved = Head { epoch: term.epoch().next(), n: 9, commit_id: 0 };
    let moved = crate::records::encode(&moved).unwrap();
    let sql = "UPDATE records SET value = ?1 WHERE key = 'head'";
    database_of(&directory).execute(sql, [moved]).unwrap();
    assert_eq!(term.commit(vec![put_job(2)]).await, Err(CommitError::Fenced));
    assert!(*term.lost().borrow());
    assert_eq!(store.load().await.unwrap().snapshot.jobs.len(), 1);
}

#[test]
fn a_commit_that_nobody_waits_for_ends_the_term() {
    // One thread for what blocks, and it is kept busy while the commit is begun.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let directory = directory();
        let store = Embedded::open(directory.path()).unwrap();
        let mut term = store.lead(samples::leader(1)).await.unwrap();
        let (go_on, waits) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || waits.recv());
        {
            let mut commit = std::pin::pin!(term.commit(vec![put_job(1)]));
            let context = &mut Context::from_waker(Waker::noop());
            assert!(commit.as_mut().poll(context).is_pending());
        }
        drop(go_on);
        assert!(busy.await.unwrap().is_err());
        assert_eq!(term.commit(vec![put_job(2)]).await, Err(CommitError::Fenced));
        let mut next = store.lead(samples::leader(1)).await.unwrap();
        assert_eq!(store.load().await.unwrap().snapshot.jobs.len(), 1);
        next.commit(vec![put_job(3)]).await.unwrap();
    });
}

#[test]
fn a_store_of_a_newer_format_is_not_even_opened() {
    let directory = directory();
    drop(Embedded::open(directory.path()).unwrap());
    let newer = br#"{"format":4000000000,"version":"9.9.9","record":{}}"#;
    let sql = "UPDATE records SET value = ?1 WHERE key = 'head'";
    database_of(&directory).execute(sql, [&newer[..]]).unwrap();
    let error = Embedded::open(directory.path()).unwrap_err();
    assert!(matches!(error, StoreError::NewerFormat { .. }), "{error}");
    assert!(error.to_string().contains("9.9.9"), "{error}");
}

#[test]
fn waiting_for_the_disk_is_never_switched_off() {
    let directory = directory();
    let path = directory.path().join("steadfast.db");
    let connection = database::open(&path, [1; 32]).unwrap();
    let full: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    let mode: String =
        connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!((full, mode.as_str()), (2, "wal"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_commit_that_waits_for_the_disk_holds_up_no_other_task() {
    let directory = directory();
    let store = Embedded::open(directory.path()).unwrap();
    let (go_on, wait) = std::sync::mpsc::channel();
    let waits = tokio::spawn(async move {
        let patience = std::time::Duration::from_secs(30);
        store.inner.writer.run(move |_| wait.recv_timeout(patience)).await
    });
    // Where the only worker stood still, this would not run before the patience has ended.
    tokio::spawn(async move { go_on.send("another task has run") }).await.unwrap().unwrap();
    assert_eq!(waits.await.unwrap().unwrap(), Ok("another task has run"));
}

async fn a_panic_ends_the_writer_and_not_its_caller() {
    let directory = directory();
    let store = Embedded::open(directory.path()).unwrap();
    let mut term = store.lead(samples::leader(1)).await.unwrap();
    let panicked = store.inner.writer.run(|_| panic!("a defect in the store")).await;
    assert!(matches!(panicked, Err::<(), _>(Gone::During)));
    // It had not begun, so nothing of it can have been applied.
    let refused = term.commit(vec![put_job(1)]).await;
    assert!(
        matches!(&refused, Err(CommitError::NotApplied(Refusal::Unavailable(why))) if why.contains("writer")),
        "{refused:?}"
    );
    assert_eq!(store.load().await.unwrap().snapshot.jobs.len(), 0);
    drop((store, term));
    Embedded::open(directory.path()).unwrap();
}

#[tokio::test]
async fn a_panic_ends_the_writer_and_not_its_caller_on_one_thread() {
    a_panic_ends_the_writer_and_not_its_caller().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_ends_the_writer_and_not_its_caller_on_many_threads() {
    a_panic_ends_the_writer_and_not_its_caller().await;
}

#[tokio::test]
async fn a_ledger_among_the_other_records_counts_until_the_next_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path()).unwrap();
    let mut term = store.lead(samples::leader(1)).await.unwrap();
    let job = JobId::new(u64::MAX);
    let ledger = |revision| {
        let mut ledger = samples::ledger();
        ledger.skip_to_revision(LedgerRevision::new(revision));
        ledger
    };
    let old = crate::records::encode(&ledger(50)).unwrap();
    let sql = "INSERT INTO records (key, value) VALUES (?1, ?2)";
    database_of(&directory).execute(sql, rusqlite::params![keys::ledger(job), old]).unwrap();
    let loaded = async || store.load().await.unwrap().snapshot.ledgers.remove(&job);
    assert_eq!(loaded().await, Some(Ok(ledger(50))));

    term.commit(vec![Op::PutLedger { job, ledger: Arc::new(ledger(60)) }]).await.unwrap();
    assert_eq!(loaded().await, Some(Ok(ledger(60))));

    let history = HistoryRecord {
        job: JobRecord { id: job, ..samples::job(1) },
        ..samples::history(1, Timestamp::from_millis(5))
    };
    term.commit(vec![Op::EndJob(Arc::new(history))]).await.unwrap();
    assert_eq!(loaded().await, None);
}
