//! Making a batch of steps durable, and what happens when the store will not.
//!
//! The whole batch is one transaction. Where the store refuses it, it is split between jobs, so that one
//! job's trouble stays its own; where it refuses a job's part, the job's ledger is stripped and the rest
//! committed alone. That is the only fail-open branch: tracking never stands in the way of recovery, and
//! what was not recorded is said.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use steadfast_engine::Step;
use steadfast_engine::records::JobRecord;
use steadfast_ledger::JobLedger;
use steadfast_model::JobId;
use steadfast_store::{CommitError, Op, Refusal, Term, ops_of};
use tracing::{error, warn};

/// Tries of a commit that the store cannot take at the moment.
const TRIES: u32 = 5;

/// The last durable ledger of a job.
pub(crate) type Durable<'a> = dyn Fn(JobId) -> Option<Arc<JobLedger>> + Sync + 'a;

/// Jobs whose ledger was refused and left out, with the record that was committed in its place.
pub(crate) type Refused = BTreeMap<JobId, Option<Arc<JobRecord>>>;

/// Commits all of `steps` and says whose ledgers had to be left out.
///
/// # Errors
/// When the term is over or in doubt, or the store refuses what no job can do without: the sentence says
/// why. Nothing of the batch may then be carried out.
pub(crate) async fn commit(
    term: &mut dyn Term,
    steps: &[Step],
    durable: &Durable<'_>,
) -> Result<Refused, String> {
    if steps.iter().all(Step::writes_nothing) {
        return Ok(Refused::new());
    }
    let ops: Vec<Op> = steps.iter().flat_map(ops_of).collect();
    match attempt(term, &ops).await? {
        Ok(()) => Ok(Refused::new()),
        Err(refusal) => {
            warn!(%refusal, "the store refused a batch: each job is committed alone");
            one_by_one(term, ops, durable).await
        }
    }
}

/// One transaction, tried again while the store is only unavailable. `Ok(Err(_))`: nothing was applied.
async fn attempt(term: &mut dyn Term, ops: &[Op]) -> Result<Result<(), Refusal>, String> {
    for tried in 1.. {
        match term.commit(ops.to_vec()).await {
            Ok(_) => return Ok(Ok(())),
            Err(CommitError::NotApplied(Refusal::Unavailable(why))) if tried < TRIES => {
                warn!(why, tried, "the store is not available: the same commit is tried again");
                tokio::time::sleep(Duration::from_millis(50 << tried)).await;
            }
            Err(CommitError::NotApplied(refusal)) => return Ok(Err(refusal)),
            Err(error @ (CommitError::Fenced | CommitError::Unknown(_))) => {
                return Err(error.to_string());
            }
        }
    }
    unreachable!("the loop ends by itself");
}

/// The journal entry comes first: a loss is never lost, whatever becomes of the jobs. How far every job
/// has been processed comes last: until then, whoever takes over finishes the walk.
async fn one_by_one(
    term: &mut dyn Term,
    ops: Vec<Op>,
    durable: &Durable<'_>,
) -> Result<Refused, String> {
    let (mut first, mut last) = (Vec::new(), Vec::new());
    let mut of_jobs: BTreeMap<JobId, Vec<Op>> = BTreeMap::new();
    for op in ops {
        match op.job() {
            Some(job) => of_jobs.entry(job).or_default().push(op),
            None if matches!(op, Op::PutProcessed(_)) => last.push(op),
            None => first.push(op),
        }
    }
    must(term, first).await?;
    let mut refused = Refused::new();
    for (job, ops) in of_jobs {
        let Err(refusal) = attempt(term, &ops).await? else { continue };
        error!(%job, %refusal, "a job's writes were refused: its ledger is left out");
        let Some((record, rest)) = without_ledger(ops, durable(job).as_deref()) else {
            return Err(format!("job {job}: {refusal}"));
        };
        must(term, rest).await.map_err(|why| format!("job {job}, without its ledger: {why}"))?;
        refused.insert(job, record);
    }
    must(term, last).await?;
    Ok(refused)
}

/// Commits what nobody can do without.
async fn must(term: &mut dyn Term, ops: Vec<Op>) -> Result<(), String> {
    if ops.is_empty() {
        return Ok(());
    }
    attempt(term, &ops).await?.map_err(|refusal| refusal.to_string())
}

/// A job's ops with all ledger parts stripped and its record saying what it owes; `None` where there is no
/// ledger to leave out.
fn without_ledger(
    ops: Vec<Op>,
    durable: Option<&JobLedger>,
) -> Option<(Option<Arc<JobRecord>>, Vec<Op>)> {
    let newest = ops.iter().rev().find_map(|op| match op {
        Op::PutLedger { ledger, .. } => Some(ledger.as_ref().clone()),
        Op::EndJob(history) => history.ledger.clone(),
        _ => None,
    })?;
    let mut amended = None;
    let rest = ops
        .into_iter()
        .filter(|op| !op.is_ledger_part())
        .map(|op| match op {
            Op::PutJob(record) => {
                let record = Arc::new(record.without_ledger(&newest, durable));
                amended = Some(Arc::clone(&record));
                Op::PutJob(record)
            }
            Op::EndJob(history) => Op::EndJob(Arc::new(history.without_ledger())),
            other => other,
        })
        .collect();
    Some((amended, rest))
}
