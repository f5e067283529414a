//! What a commit costs beside a bare SQLite commit of the same bytes.
//!
//! The batch is that of a member's loss: record and ledger of every affected job. The yardstick writes the
//! very keys and values that the store wrote, with the same pragmas and the same table, straight through
//! the library: what the store adds is the mapping to JSON, the compare of the head, and its turn at the
//! connection. The two take turns, so that a disk which is slow for a moment is slow for both. Prints one
//! JSON object a line.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior, params};
use steadfast_model::{Epoch, JobId, LedgerRevision};
use steadfast_store::conformance::samples;
use steadfast_store::{Embedded, MemoryStore, Op, Store, Term};

/// As the product has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Affected jobs of one loss, and how many losses are measured: one job, all jobs of a member with twelve
/// slots, and many at once, where nearly all that the store adds is the time to write JSON.
const SIZES: [(u64, u32); 3] = [(1, 600), (12, 400), (100, 200)];
const WARM_UP: u32 = 20;
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

    fn commit(&mut self, rows: &[(String, Vec<u8>)]) -> Result<Duration, Failure> {
        let start = Instant::now();
        let transaction = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (key, value) in rows {
            let sql = "INSERT INTO records (key, value) VALUES (?1, ?2) \
                       ON CONFLICT (key) DO UPDATE SET value = excluded.value";
            transaction.prepare_cached(sql)?.execute(params![key, value])?;
        }
        transaction.commit()?;
        Ok(start.elapsed())
    }
}

/// What the `round`-th loss of a member with this many jobs writes. Every record differs from that of
/// the round before: SQLite writes no page that has not changed.
fn loss(jobs: u64, round: u32) -> Vec<Op> {
    let of_job = |n| {
        let mut record = samples::job(n);
        for pipeline in &mut record.pipelines {
            pipeline.attempt = round;
            pipeline.failures[0].attempt = round;
            let groups = pipeline.task_groups.iter_mut();
            groups.filter_map(|group| group.container.as_mut()).for_each(|c| c.attempt = round);
        }
        let mut ledger = samples::ledger();
        ledger.skip_to_revision(LedgerRevision::new(round.into()));
        let ledger = Op::PutLedger { job: JobId::new(n), ledger: Arc::new(ledger) };
        [Op::PutJob(Arc::new(record)), ledger]
    };
    (1..=jobs).flat_map(of_job).collect()
}

/// The rows that a store makes of ops, taken from one in memory.
fn rows(mirror: &MemoryStore, epoch: Epoch, ops: &[Op]) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    mirror.apply(epoch, ops)?;
    let written = |key: &str| ["head", "job/", "ledger/"].iter().any(|kind| key.starts_with(kind));
    Ok(mirror.dump().into_iter().filter(|(key, _)| written(key)).collect())
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

async fn measure(
    term: &mut dyn Term,
    bare: &mut Bare,
    jobs: u64,
    commits: u32,
) -> Result<(), Failure> {
    let mirror = MemoryStore::new();
    let epoch = mirror.begin_term(&samples::leader(1))?;
    let (mut ours, mut theirs, mut bytes) = (Vec::new(), Vec::new(), 0);
    for round in 0..WARM_UP + commits {
        let rows = rows(&mirror, epoch, &loss(jobs, 1_000 + round))?;
        bytes = rows.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        // Each goes first every other time: whoever does finds the disk idle. And each finds what it
        // writes made a moment ago, as the coordinator commits what a step has just made.
        let mut theirs_took = Duration::ZERO;
        if round % 2 == 0 {
            theirs_took = bare.commit(&rows.clone())?;
        }
        let ops = loss(jobs, 1_000 + round);
        // As in the coordinator, whose steps and views share the records: a commit frees none of them.
        let shared = ops.clone();
        let start = Instant::now();
        term.commit(ops).await?;
        let ours_took = start.elapsed();
        drop(shared);
        if round % 2 == 1 {
            theirs_took = bare.commit(&rows.clone())?;
        }
        if round >= WARM_UP {
            ours.push(ours_took);
            theirs.push(theirs_took);
        }
    }
    let (ours, theirs) = (median(ours), median(theirs));
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
