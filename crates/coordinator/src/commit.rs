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

#[cfg(test)]
mod tests {
    use steadfast_engine::{JobStep, JobWrites};
    use steadfast_model::{LeaveClassification, LossCause, MemberEventSeq, PipelineId, Timestamp};
    use steadfast_store::conformance::samples;
    use steadfast_store::{Fault, MemoryStore, Store};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    /// A ledger before the first event, and the same after it, prepared or deployed.
    fn ledgers(deployed: bool) -> (Arc<JobLedger>, Arc<JobLedger>) {
        let before = JobLedger::new(2, MemberEventSeq::new(0), 10);
        let mut after = before.clone();
        let loss = steadfast_engine::records::MemberEvent {
            classification: LeaveClassification::Unclassified,
            cause: LossCause::Silence,
            ..samples::event(1)
        };
        let _ = after.member_lost(&loss, &[PipelineId::new(1)], &[]);
        let attempt = after.prepare(PipelineId::new(1)).expect("it is under recovery");
        if deployed {
            let _ = after.confirm(attempt, NOW, NOW);
        }
        (Arc::new(before), Arc::new(after))
    }

    /// What two jobs write when a member is lost.
    fn loss_of_two(after: &Arc<JobLedger>) -> Step {
        let job_step = |n: u64| JobStep {
            job: JobId::new(n),
            writes: JobWrites {
                record: Some(Arc::new(samples::job(n))),
                ledger: Some(Arc::clone(after)),
                ..JobWrites::default()
            },
            index: Vec::new(),
            effects: Vec::new(),
        };
        Step {
            member_event: Some(samples::event(1)),
            processed: Some(MemberEventSeq::new(1)),
            jobs: vec![job_step(1), job_step(2)],
            ..Step::default()
        }
    }

    async fn committed(fault: Fault, commits: u32, deployed: bool) -> (MemoryStore, Refused) {
        let (before, after) = ledgers(deployed);
        let store = MemoryStore::new();
        let mut term = store.lead(samples::leader(1)).await.expect("it leads");
        let owner = |n| Op::PutLedger { job: JobId::new(n), ledger: Arc::clone(&before) };
        term.commit(vec![owner(1), owner(2)]).await.expect("the ledgers from before are durable");
        store.inject(fault, commits);
        let durable = move |_| Some(Arc::clone(&before));
        let refused = commit(term.as_mut(), &[loss_of_two(&after)], &durable).await;
        (store, refused.expect("recovery goes on"))
    }

    #[tokio::test]
    async fn a_refused_ledger_is_left_out_and_nothing_else() {
        let only_the_first = Fault::RefuseLedger(Some(JobId::new(1)), Refusal::TooLarge);
        let (store, refused) = committed(only_the_first, u32::MAX, false).await;
        assert_eq!(refused.keys().copied().collect::<Vec<_>>(), [JobId::new(1)]);
        let found = store.snapshot().expect("it loads").snapshot;
        let incidents = |n| found.ledgers[&JobId::new(n)].as_ref().map(JobLedger::incident_count);
        assert_eq!(incidents(1), Ok(0), "left out");
        assert_eq!(incidents(2), Ok(1), "one job's trouble is its own");
        let owed: Vec<_> = found.jobs.iter().map(|job| job.owed_since).collect();
        assert_eq!(owed, [Some(MemberEventSeq::new(1)), None], "it says what it owes");
        assert_eq!(found.processed, MemberEventSeq::new(1));
    }

    #[tokio::test]
    async fn a_refused_deployment_is_not_owed_but_lost() {
        let any = Fault::RefuseLedger(None, Refusal::TooLarge);
        let (store, refused) = committed(any, u32::MAX, true).await;
        assert_eq!(refused.len(), 2);
        let found = store.snapshot().expect("it loads").snapshot;
        assert!(found.jobs.iter().all(|job| job.owed_since.is_none()));
        let behind = found.jobs.iter().all(|job| {
            let stored = found.ledgers[&job.id].as_ref().expect("it reads");
            job.ledger_revision != Some(stored.revision())
        });
        assert!(behind, "whoever loads this sees that the ledger is not the expected one");
    }

    #[tokio::test]
    async fn a_store_that_is_away_for_a_moment_is_asked_again() {
        let away = Fault::Refuse(Refusal::Unavailable("away".to_owned()));
        let (store, refused) = committed(away, 2, false).await;
        assert!(refused.is_empty());
        assert_eq!(store.snapshot().expect("it loads").snapshot.jobs.len(), 2);
    }

    #[tokio::test]
    async fn what_is_not_known_ends_the_term() {
        for applied in [false, true] {
            let (_, after) = ledgers(false);
            let store = MemoryStore::new();
            let mut term = store.lead(samples::leader(1)).await.expect("it leads");
            store.inject(Fault::Unknown { applied }, 1);
            let outcome = commit(term.as_mut(), &[loss_of_two(&after)], &|_| None).await;
            assert!(outcome.is_err(), "neither done nor undone");
        }
    }
}
