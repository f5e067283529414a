//! A process is killed while it commits; nothing that it acknowledged may be missing, and no batch may be
//! there in part.
//!
//! The process that is killed is this test program, started again with [`DIRECTORY`] set and told to run
//! only [`child_that_commits_until_it_is_killed`]; every line that it prints acknowledges one commit.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use steadfast_model::{FencingToken, JobId, TaskGroupId, Timestamp};
use steadfast_store::conformance::samples;
use steadfast_store::{CheckpointGuard, Embedded, Op, Store, StoreError, Term};

const DIRECTORY: &str = "STEADFAST_STORE_CRASH_DIRECTORY";
const ACKNOWLEDGED: &str = "acknowledged ";
const ROUNDS: u64 = 20;
/// Jobs that run at once; the one before them ends in the commit that puts the newest.
const RUNNING: u64 = 3;

/// The `n`-th commit: a job with its ledger and token begins, an older one ends.
fn commit_of(n: u64) -> Vec<Op> {
    let job = JobId::new(n);
    let mut ops = vec![
        Op::PutJob(Arc::new(samples::job(n))),
        Op::PutLedger { job, ledger: Arc::new(samples::ledger()) },
        Op::PutToken { job, task_group: TaskGroupId::new(1), token: FencingToken::new(1) },
    ];
    if n > RUNNING {
        let old = n - RUNNING;
        ops.push(Op::EndJob(Arc::new(samples::history(old, Timestamp::from_millis(old)))));
    }
    ops
}

fn guard(term: &dyn Term, n: u64) -> CheckpointGuard {
    let (job, task_group) = (JobId::new(n), TaskGroupId::new(1));
    CheckpointGuard { epoch: term.epoch(), job, task_group, token: FencingToken::new(1) }
}

#[tokio::test]
async fn child_that_commits_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let store = Embedded::open(directory).unwrap();
    let mut term = store.lead(samples::leader(std::process::id())).await.unwrap();
    let loaded = store.load().await.unwrap().snapshot;
    let mut n = loaded.jobs.last().map_or(0, |job| job.id.get());
    loop {
        n += 1;
        term.commit(commit_of(n)).await.unwrap();
        store.write_checkpoint(guard(&*term, n), Bytes::from(n.to_string())).await.unwrap();
        // Not `println!`: the test harness would keep it for itself.
        writeln!(std::io::stdout(), "{ACKNOWLEDGED}{n}").unwrap();
    }
}

fn start(directory: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child_that_commits_until_it_is_killed", "--exact", "--nocapture"]);
    command.env(DIRECTORY, directory).stdout(Stdio::piped()).spawn().unwrap()
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let mut child = start(directory.path());
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut numbers = output.lines().map_while(Result::ok).filter_map(|line| {
            // The harness writes the test's name in front of its first line.
            Some(line.split_once(ACKNOWLEDGED)?.1.parse::<u64>().unwrap())
        });
        // At another place in the log each time, the automatic checkpoints of the log included.
        for _ in 0..=round * 7 % 60 {
            acknowledged = numbers.next().expect("the child commits");
        }
        let refused = Embedded::open(directory.path());
        let held = format!("pid {}", child.id());
        assert!(matches!(&refused, Err(StoreError::Held { holder, .. }) if holder.contains(&held)));
        child.kill().unwrap();
        acknowledged = numbers.last().unwrap_or(acknowledged);
        child.wait().unwrap();
        verify(directory.path(), acknowledged, round).await;
    }
}

async fn verify(directory: &Path, acknowledged: u64, round: u64) {
    let store = Embedded::open(directory).unwrap();
    let term = store.lead(samples::leader(1)).await.unwrap();
    let loaded = store.load().await.unwrap().snapshot;
    let newest = loaded.jobs.last().map_or(0, |job| job.id.get());
    let message = format!("round {round}: {acknowledged} acknowledged, {newest} found");
    // The last commit may have been durable without its acknowledgement; none before it.
    assert!(newest == acknowledged || newest == acknowledged + 1, "{message}");
    let running: Vec<u64> = (newest.saturating_sub(RUNNING - 1).max(1)..=newest).collect();
    assert_eq!(
        loaded.jobs.iter().map(|job| job.id.get()).collect::<Vec<_>>(),
        running,
        "{message}"
    );
    assert_eq!(loaded.ledgers.keys().map(|id| id.get()).collect::<Vec<_>>(), running, "{message}");
    assert!(loaded.ledgers.values().all(Result::is_ok), "{message}");
    assert_eq!(loaded.finished.len() as u64, newest.saturating_sub(RUNNING), "{message}");
    let job = JobId::new(acknowledged);
    let checkpoint = store.read_checkpoint(term.epoch(), job, TaskGroupId::new(1)).await.unwrap();
    assert_eq!(checkpoint, Some(Bytes::from(acknowledged.to_string())), "{message}");
}
