//! `steadfast store copy` as a script sees it, and killed at every line that it says. What arrives is shown by
//! the store's own tests.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use steadfast_model::Timestamp;
use steadfast_store::conformance::samples;
use steadfast_store::{Embedded, Op, Rev, Store};

const ENDED: u64 = 1_000;

fn steadfast(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.env_remove("STEADFAST_COORDINATORS").env_remove("STEADFAST_TOKEN_FILE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).args(arguments);
    command
}

fn copy(from: &Path, to: &Path, more: &[&str]) -> Command {
    let place = |path: &Path| format!("embedded:{}", path.display());
    steadfast(&[&["store", "copy", &place(from), &place(to)], more].concat())
}

fn says(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A coordinator that cannot start here: why not.
fn refused(directory: &Path) -> String {
    let store = format!("embedded:{}", directory.display());
    let output =
        steadfast(&["coordinator", "--http", "127.0.0.1:0", "--store", &store]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    says(&output)
}

async fn fill(directory: &Path) {
    let store = Embedded::open(directory).unwrap();
    let mut term = store.lead(samples::leader(1)).await.unwrap();
    let ended = |n| Op::EndJob(Arc::new(samples::history(n, Timestamp::from_millis(n))));
    term.commit((10..10 + ENDED).map(ended).collect()).await.unwrap();
    term.commit(vec![Op::PutJob(Arc::new(samples::job(1)))]).await.unwrap();
    term.resign().await;
}

#[tokio::test]
async fn a_store_is_moved_and_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fill(&from).await;
    let output = copy(&from, &to, &["--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", says(&output));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["records"]["history"], &told["records"]["job"]), (&ENDED.into(), &1.into()));
    assert_eq!(told["records"]["secret"], 1);
    assert!(told["epoch"].as_u64() > Some(1_000_000) && told["epochBefore"].as_u64() < Some(10));
    assert!(says(&output).contains("comparing history"), "progress is on standard error");

    let why = refused(&from);
    assert!(why.contains(&format!("moved to embedded:{}", to.display())), "{why}");
    let again = copy(&from, &folder.path().join("other"), &[]).output().unwrap();
    assert_eq!((again.status.code(), &again.stdout[..]), (Some(2), &b""[..]));
    assert!(says(&again).contains("--again"), "{}", says(&again));
    let again = copy(&from, &folder.path().join("other"), &["--again"]).output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", says(&again));
    assert!(String::from_utf8_lossy(&again.stdout).contains("Start coordinators with --store"));
}

#[tokio::test]
async fn what_cannot_be_copied_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let nothing = copy(&from, &to, &[]).output().unwrap();
    assert_eq!(nothing.status.code(), Some(2));
    assert!(says(&nothing).contains("there is no store at"), "{}", says(&nothing));
    fill(&from).await;
    fill(&to).await;
    let full = copy(&from, &to, &[]).output().unwrap();
    assert_eq!(full.status.code(), Some(2));
    assert!(says(&full).contains("is not empty; name a directory"), "{}", says(&full));
    let itself = copy(&from, &from, &[]).output().unwrap();
    assert!(says(&itself).contains("to itself"), "{}", says(&itself));

    let holder = Embedded::open(&from).unwrap();
    let held = copy(&from, &folder.path().join("new"), &[]).output().unwrap();
    assert_eq!(held.status.code(), Some(2));
    let named = format!("pid {}", std::process::id());
    assert!(says(&held).contains(&named), "{}", says(&held));
    drop(holder);
    assert!(!folder.path().join("new").exists());
    Embedded::open(&from).unwrap();
    Embedded::open(&to).unwrap();
}

/// Whether the state is there. A place at which nothing was begun is left as it was found: opening makes an
/// empty store of it.
async fn arrived(to: &Path) -> bool {
    let Some(store) = to.exists().then(|| Embedded::open(to).ok()).flatten() else { return false };
    let has_begun = store.load().await.unwrap().rev != Rev(0);
    drop(store);
    if !has_begun {
        fs::remove_dir_all(to).unwrap();
    }
    has_begun
}

#[tokio::test]
async fn killed_at_any_line_it_leaves_one_place_to_start_from_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut at = 0;
    loop {
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fill(&from).await;
        let mut process = copy(&from, &to, &[]).spawn().unwrap();
        let stderr = BufReader::new(process.stderr.take().unwrap());
        let reached = stderr.lines().map_while(Result::ok).nth(at).is_some();
        process.kill().unwrap();
        process.wait().unwrap();
        if !reached {
            break;
        }
        // The kill may come some steps later than the line, even after the end.
        let arrived = arrived(&to).await;
        let source = Embedded::open(&from);
        assert!(source.is_err() || !arrived, "line {at}: both can be started on");
        drop(source);
        if !arrived {
            let output = copy(&from, &to, &[]).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "line {at}: {}", says(&output));
        }
        let store = Embedded::open(&to).unwrap();
        let loaded = store.load().await.unwrap().snapshot;
        assert_eq!((loaded.jobs.len(), loaded.finished.len()), (1, ENDED as usize), "line {at}");
        drop(store);
        for directory in [&from, &to] {
            fs::remove_dir_all(directory).unwrap();
        }
        at += 1;
    }
    assert!(at > 10, "every line was one: {at}");
}
