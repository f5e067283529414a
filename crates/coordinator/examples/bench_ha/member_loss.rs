//! A member is lost on which a thousand jobs have a container: the engine's step and the commit of every
//! incident, as the coordinator's loop does both. The yardstick is what nobody could do without: the same
//! keys and values under another prefix, in transactions that are as few as the store's limit of bytes
//! allows, and that compare nothing.

use std::time::{Duration, Instant};

use etcd_client::{Client, GetOptions, Txn, TxnOp};
use steadfast_coordinator::bench::commit;
use steadfast_sim::RunningJobs;
use steadfast_store::conformance::samples;
use steadfast_store::{Limits, Rev, Store, Term};
use tokio::time::sleep;

use crate::cluster::Cluster;
use crate::{Failure, Figure, median, say};

const JOBS: u64 = 1_000;
/// Losses before those that are measured. The history of a job's ledger is full then.
const WARM_UP: u32 = 11;
const ROUNDS: u32 = 20;
/// What a loss may cost, compared with the bare transactions.
const BOUND: f64 = 2.0;
/// Steps of a cluster's beginning that are committed together.
const STEPS_AT_ONCE: usize = 64;
/// etcd writes its database some time after it has answered; neither side is to wait for the other's.
const QUIET: Duration = Duration::from_millis(200);
const OURS: &str = "ours/";
/// Behind all of them: after the slash comes the zero.
const OURS_END: &str = "ours0";
const BARE: &str = "bare/";
/// Keys of one page: an answer may have 4 MiB.
const PAGE: i64 = 200;
/// Operations of one list, as the store nests them.
const LIST: usize = 60;

type Row = (Vec<u8>, Vec<u8>);

struct Loss {
    term: Box<dyn Term>,
    jobs: RunningJobs,
    client: Client,
    /// What the last loss has written.
    rows: Vec<Row>,
    limits: Limits,
}

/// How long one loss took, the engine's part of it, and in how many transactions it was written.
struct Took {
    whole: Duration,
    step: Duration,
    transactions: u64,
}

impl Loss {
    async fn new(cluster: &Cluster) -> Result<Self, Failure> {
        let store = cluster.store()?;
        let mut term = store.lead(samples::leader(1)).await?;
        let (jobs, steps) = RunningJobs::new(JOBS, JOBS, true);
        for few in steps.chunks(STEPS_AT_ONCE) {
            commit(term.as_mut(), few).await?;
        }
        let client = cluster.client().await?;
        Ok(Self { term, jobs, client, rows: Vec::new(), limits: store.limits() })
    }

    async fn ours(&mut self) -> Result<Took, Failure> {
        sleep(QUIET).await;
        let (Rev(before), revision) = (self.term.rev(), self.revision().await?);
        let began = Instant::now();
        let lost = self.jobs.lose();
        let step = began.elapsed();
        commit(self.term.as_mut(), std::slice::from_ref(&lost)).await?;
        let whole = began.elapsed();
        let transactions = self.term.rev().0 - before;
        self.rows = self.written_after(revision).await?;
        for step in self.jobs.recover(&lost).chunks(STEPS_AT_ONCE) {
            commit(self.term.as_mut(), step).await?;
        }
        Ok(Took { whole, step, transactions })
    }

    /// The last loss once more, bare.
    async fn bare(&mut self) -> Result<Took, Failure> {
        let transactions = self.transactions();
        let count = transactions.len() as u64;
        sleep(QUIET).await;
        let began = Instant::now();
        for transaction in transactions {
            self.client.txn(transaction).await?;
        }
        Ok(Took { whole: began.elapsed(), step: Duration::ZERO, transactions: count })
    }

    fn transactions(&self) -> Vec<Txn> {
        let Limits { max_ops, max_bytes } = self.limits;
        let mut transactions = Vec::new();
        let (mut puts, mut bytes) = (Vec::new(), 0);
        for (key, value) in &self.rows {
            let row_bytes = key.len() + value.len();
            if bytes + row_bytes > max_bytes || puts.len() == max_ops {
                transactions.push(nested(std::mem::take(&mut puts)));
                bytes = 0;
            }
            bytes += row_bytes;
            let key = [BARE.as_bytes(), &key[OURS.len()..]].concat();
            puts.push(TxnOp::put(key, value.clone(), None));
        }
        transactions.push(nested(puts));
        transactions
    }

    async fn revision(&mut self) -> Result<i64, Failure> {
        let answer = self.client.get("revision", None).await?;
        Ok(answer.header().ok_or("an answer without a header")?.revision())
    }

    async fn written_after(&mut self, revision: i64) -> Result<Vec<Row>, Failure> {
        let mut rows: Vec<Row> = Vec::new();
        let mut from = OURS.as_bytes().to_vec();
        loop {
            let range = GetOptions::new().with_range(OURS_END).with_limit(PAGE);
            let options = range.with_min_mod_revision(revision + 1);
            let mut page = self.client.get(from, Some(options)).await?;
            let more = page.more();
            rows.extend(page.take_kvs().into_iter().map(|row| row.into_key_value()));
            match rows.last() {
                Some((last, _)) if more => from = [last.as_slice(), &[0]].concat(),
                _ => return Ok(rows),
            }
        }
    }
}

fn nested(mut operations: Vec<TxnOp>) -> Txn {
    while operations.len() > LIST {
        let lists = operations.chunks(LIST);
        operations = lists.map(|list| TxnOp::txn(Txn::new().and_then(list))).collect();
    }
    Txn::new().and_then(operations)
}

pub async fn measure() -> Result<(), Failure> {
    let cluster = Cluster::three(OURS).await?;
    let mut loss = Loss::new(&cluster).await?;
    for _ in 0..WARM_UP {
        loss.ours().await?;
    }
    loss.bare().await?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Neither is always the one that finds the disk as the other left it.
        if round % 2 == 0 {
            ours.push(loss.ours().await?);
            bare.push(loss.bare().await?);
        } else {
            bare.push(loss.bare().await?);
            ours.push(loss.ours().await?);
        }
    }
    tell(&loss.rows, &ours, &bare)
}

fn tell(rows: &[Row], ours: &[Took], bare: &[Took]) -> Result<(), Failure> {
    let ms = |took: &[Took], of: fn(&Took) -> Duration| {
        median(took.iter().map(|took| of(took).as_secs_f64() * 1e3).collect())
    };
    let (ours_ms, bare_ms) = (ms(ours, |took| took.whole), ms(bare, |took| took.whole));
    Figure {
        figure: &format!("member loss, {JOBS} jobs, all affected, on three etcd nodes"),
        value: ours_ms,
        unit: "ms",
        yardstick: Some("bare transactions of the same bytes"),
        ratio: Some(ours_ms / bare_ms),
        bound: Some(BOUND),
    }
    .print()?;
    let of = |took: &[Took]| took.last().map_or(0, |took| took.transactions);
    let bytes: usize = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
    say(&format!(
        "  {} keys, {:.2} MiB; {} transactions, {:.1} ms of it the engine's step; bare {}, {bare_ms:.1} ms",
        rows.len(),
        bytes as f64 / (1 << 20) as f64,
        of(ours),
        ms(ours, |took| took.step),
        of(bare),
    ))
}
