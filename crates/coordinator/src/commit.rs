//! Making a batch of steps durable, and what happens when the store will not.
//!
//! The whole batch is one transaction. Where the store refuses it, it is split between jobs, so that one
//! job's trouble stays its own; where it refuses a job's part, the job's ledger is stripped and the rest
//! committed alone. That is the only fail-open branch: tracking never stands in the way of recovery, and
//! what was not recorded is said.

use std::collections::BTreeMap;
use std::time::Duration;

use steadfast_engine::Step;
use steadfast_model::JobId;
use steadfast_store::{CommitError, Op, Refusal, Term, ops_of};
use tracing::{error, warn};

/// Tries of a commit that the store cannot take at the moment.
const TRIES: u32 = 5;

/// A batch that is durable.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Committed {
    /// Jobs whose ledger was refused and left out.
    pub refused_ledgers: Vec<JobId>,
}

/// Commits all of `steps`.
///
/// # Errors
/// When the term is over or in doubt, or the store refuses what no job can do without: the sentence says
/// why. Nothing of the batch may then be carried out.
pub(crate) async fn commit(term: &mut dyn Term, steps: &[Step]) -> Result<Committed, String> {
    if steps.iter().all(Step::writes_nothing) {
        return Ok(Committed::default());
    }
    let ops: Vec<Op> = steps.iter().flat_map(ops_of).collect();
    match attempt(term, &ops).await? {
        Ok(()) => Ok(Committed::default()),
        Err(refusal) => {
            warn!(%refusal, "the store refused a batch: each job is committed alone");
            one_by_one(term, ops).await
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

async fn one_by_one(term: &mut dyn Term, ops: Vec<Op>) -> Result<Committed, String> {
    let mut of_nobody = Vec::new();
    let mut of_jobs: BTreeMap<JobId, Vec<Op>> = BTreeMap::new();
    for op in ops {
        match op.job() {
            Some(job) => of_jobs.entry(job).or_default().push(op),
            None => of_nobody.push(op),
        }
    }
    // The journal entry comes first: a loss is never lost, whatever becomes of the jobs.
    if !of_nobody.is_empty() {
        attempt(term, &of_nobody).await?.map_err(|refusal| refusal.to_string())?;
    }
    let mut committed = Committed::default();
    for (job, ops) in of_jobs {
        let Err(refusal) = attempt(term, &ops).await? else { continue };
        error!(%job, %refusal, "a job's writes were refused: its ledger is left out");
        let without_ledger: Vec<Op> =
            ops.iter().filter(|op| !op.is_ledger_part()).cloned().collect();
        if without_ledger.len() == ops.len() {
            return Err(format!("job {job}: {refusal}"));
        }
        attempt(term, &without_ledger)
            .await?
            .map_err(|refusal| format!("job {job}, without its ledger: {refusal}"))?;
        committed.refused_ledgers.push(job);
    }
    Ok(committed)
}
