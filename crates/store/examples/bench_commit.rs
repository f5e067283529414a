//! What a commit costs beside a bare SQLite commit of the same bytes.
//!
//! The batch is that of a member's loss: record and ledger of every affected job. The yardstick writes the
//! very keys and values that the store wrote, with the same pragmas and the same table, straight through
//! the library on the calling thread: what the store adds is the mapping to JSON, the compare of the head,
//! and the way to its writer's thread and back. The two take turns, so that a disk which is slow for a
//! moment is slow for both. Prints one JSON object a line.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior, params};
use steadfast_model::JobId;
use steadfast_store::conformance::samples;
use steadfast_store::{Embedded, MemoryStore, Op, Store, Term};

/// Affected jobs of one loss, and how many losses are measured.
const SIZES: [(u64, usize); 3] = [(1, 600), (10, 400), (100, 200)];
const WARM_UP: usize = 20;
const BOUND: f64 = 1.5;

type Failure = Box<dyn std::error::Error>;

/// The same commit straight through the library.
struct Bare(Connection);

impl Bare {
    fn open(path: &Path) -> Result<Self, Failure> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(
            "CREATE TABLE records (key TEXT NOT NULL UNIQUE, value BLOB NOT NULL) STRICT",
        )?;
        Ok(Self(connection))
    }

    fn commit(&mut self, rows: &[(String, Vec<u8>)]) -> Result<(), Failure> {
        let transaction = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (key, value) in rows {
            let sql = "INSERT INTO records (key, value) VALUES (?1, ?2) \
                       ON CONFLICT (key) DO UPDATE SET value = excluded.value";
            transaction.prepare_cached(sql)?.execute(params![key, value])?;
        }
        Ok(transaction.commit()?)
    }
}

/// What a loss of a member with this many jobs writes.
fn loss(jobs: u64) -> Vec<Op> {
    let of_job = |n| {
        let ledger = Op::PutLedger { job: JobId::new(n), ledger: Arc::new(samples::ledger()) };
        [Op::PutJob(Arc::new(samples::job(n))), ledger]
    };
    (1..=jobs).flat_map(of_job).collect()
}

/// The rows that the store makes of it.
fn rows(ops: &[Op]) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let store = MemoryStore::new();
    let epoch = store.begin_term(&samples::leader(1))?;
    store.apply(epoch, ops)?;
    let written = |key: &str| ["head", "job/", "ledger/"].iter().any(|kind| key.starts_with(kind));
    Ok(store.dump().into_iter().filter(|(key, _)| written(key)).collect())
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

async fn measure(
    term: &mut dyn Term,
    bare: &mut Bare,
    jobs: u64,
    commits: usize,
) -> Result<(), Failure> {
    let ops = loss(jobs);
    let rows = rows(&ops)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for n in 0..WARM_UP + commits {
        let batch = ops.clone();
        let start = Instant::now();
        term.commit(batch).await?;
        let ours_took = start.elapsed();
        let start = Instant::now();
        bare.commit(&rows)?;
        let theirs_took = start.elapsed();
        if n >= WARM_UP {
            ours.push(ours_took);
            theirs.push(theirs_took);
        }
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let bytes: usize = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
    let figure = serde_json::json!({
        "bench": "store",
        "figure": format!("commit of a member's loss, {jobs} jobs, {} kB", bytes.div_ceil(1_000)),
        "value": ours.round(),
        "unit": "µs",
        "yardstick": "bare SQLite commit of the same bytes",
        "ratio": (ours / theirs * 100.0).round() / 100.0,
        "bound": BOUND,
    });
    writeln!(std::io::stdout(), "{figure}")?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // Beside the build, not in /tmp, which may be memory and would make every fsync free.
    let beside = std::env::current_exe()?;
    let directory = tempfile::tempdir_in(beside.parent().unwrap_or(Path::new(".")))?;
    let store = Embedded::open(directory.path().join("store"))?;
    let mut term = store.lead(samples::leader(1)).await?;
    let mut bare = Bare::open(&directory.path().join("bare.db"))?;
    for (jobs, commits) in SIZES {
        measure(&mut *term, &mut bare, jobs, commits).await?;
    }
    Ok(())
}
