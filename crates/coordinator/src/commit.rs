//! Making a batch of steps durable, and what happens when the store will not.
//!
//! The whole batch is one transaction. Where the store refuses it, it is split between jobs, so that one
//! job's trouble stays its own; where it refuses a job's part, the job's ledger is stripped and the rest
//! committed alone. That is the only fail-open branch: tracking never stands in the way of recovery, and
//! what was not recorded is said.
//!
//! A store that is full is nobody's trouble and ends no term (`docs/adr/0016-a-full-store.md`): what was decided
//! waits here until there is room, and nothing of it is carried out meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use steadfast_engine::Step;
use steadfast_engine::records::{DurableLedger, JobRecord};
use steadfast_model::JobId;
use steadfast_store::{CommitError, Op, Refusal, Term, ops_of};
use tokio::sync::watch;
use tracing::{error, warn};

use crate::leader::{TermEnd, still_leads};
use crate::store_health::StoreHealth;

/// Tries of a commit that the store cannot take at the moment.
const TRIES: u32 = 5;
/// Between two tries of one that it has no room for: somebody has to make it first.
const WITHOUT_ROOM: Duration = Duration::from_millis(500);

/// The last durable ledger of a job.
pub(crate) type Durable<'a> = dyn Fn(JobId) -> Option<DurableLedger> + Sync + 'a;

/// Jobs whose ledger was refused and left out, with the record that was committed in its place.
pub(crate) type Refused = BTreeMap<JobId, Option<Arc<JobRecord>>>;

/// What each job wants written.
type Writes = BTreeMap<JobId, Vec<Op>>;

/// The way to the store of a term that leads.
pub(crate) struct Commits<'a> {
    pub term: &'a mut dyn Term,
    pub health: &'a StoreHealth,
    /// Whoever waits for room is asked to go here.
    pub shutdown: &'a mut watch::Receiver<bool>,
}

impl Commits<'_> {
    /// Commits all of `steps` and says whose ledgers had to be left out. Where the store is full, it waits
    /// until there is room.
    ///
    /// # Errors
    /// When the process is asked to go, the term is over or in doubt, or the store refuses what no job can do
    /// without. Nothing of the batch may then be carried out.
    pub async fn commit(
        &mut self,
        steps: &[Step],
        durable: &Durable<'_>,
    ) -> Result<Refused, TermEnd> {
        if steps.iter().all(Step::writes_nothing) {
            return Ok(Refused::new());
        }
        let ops: Vec<Op> = steps.iter().flat_map(ops_of).collect();
        match self.attempt(&ops).await? {
            Ok(()) => Ok(Refused::new()),
            Err(refusal) => {
                warn!(%refusal, "the store refused a batch: it is split between jobs");
                self.in_parts(ops, durable).await
            }
        }
    }

    /// One transaction, tried again while the store is only unavailable, and for as long as it is full.
    /// `Ok(Err(_))`: nothing was applied. Want of room is nobody's fault, so no job is ever isolated for it.
    async fn attempt(&mut self, ops: &[Op]) -> Result<Result<(), Refusal>, TermEnd> {
        let mut tried = 1;
        loop {
            match self.term.commit(ops.to_vec()).await {
                Ok(_) => {
                    self.health.note_well();
                    return Ok(Ok(()));
                }
                Err(CommitError::NotApplied(Refusal::Full)) => {
                    self.health.note_full();
                    self.pause(WITHOUT_ROOM).await?;
                }
                Err(CommitError::NotApplied(Refusal::Unavailable(why))) if tried < TRIES => {
                    warn!(why, tried, "the store is not available: the same commit is tried again");
                    self.pause(Duration::from_millis(50 << tried)).await?;
                    tried += 1;
                }
                Err(CommitError::NotApplied(refusal)) => return Ok(Err(refusal)),
                Err(error @ (CommitError::Fenced | CommitError::Unknown(_))) => {
                    return Err(TermEnd::Lost(error.to_string()));
                }
            }
        }
    }

    /// Before the same is sent again, if this coordinator still leads then and is not asked to go.
    async fn pause(&mut self, time: Duration) -> Result<(), TermEnd> {
        let mut lost = self.term.lost();
        // What these give locks the channels, so it must not outlive the waiting.
        let asked_to_go = async { drop(self.shutdown.wait_for(|stop| *stop).await) };
        let over = async { drop(lost.wait_for(|lost| *lost).await) };
        tokio::select! {
            biased;
            () = asked_to_go => return Err(TermEnd::Shutdown),
            () = over => {}
            () = tokio::time::sleep(time) => {}
        }
        still_leads(&self.term.tenure(), &self.term.lost())
    }

    /// Between jobs, never inside one, in halves: a batch that is only too large becomes a few
    /// transactions and not one for each job, and a job at fault is found among a thousand in ten.
    ///
    /// The journal entry comes first: a loss is never lost, whatever becomes of the jobs. How far every job
    /// has been processed comes last: until then, whoever takes over finishes the walk.
    async fn in_parts(&mut self, ops: Vec<Op>, durable: &Durable<'_>) -> Result<Refused, TermEnd> {
        let (mut first, mut last) = (Vec::new(), Vec::new());
        let mut of_jobs = Writes::new();
        for op in ops {
            match op.job() {
                Some(job) => of_jobs.entry(job).or_default().push(op),
                None if matches!(op, Op::PutProcessed(_)) => last.push(op),
                None => first.push(op),
            }
        }
        self.must(first, "what belongs to no job").await?;
        let mut refused = Refused::new();
        let mut parts = halves(of_jobs);
        while let Some(part) = parts.pop() {
            let ops: Vec<Op> = part.values().flatten().cloned().collect();
            let Err(refusal) = self.attempt(&ops).await? else { continue };
            if part.len() > 1 {
                parts.extend(halves(part));
                continue;
            }
            for (job, ops) in part {
                error!(%job, %refusal, "a job's writes were refused: its ledger is left out");
                let Some((record, rest)) = without_ledger(ops, durable(job).as_ref()) else {
                    return Err(TermEnd::Lost(format!("job {job}: {refusal}")));
                };
                self.must(rest, &format!("job {job}, without its ledger")).await?;
                refused.insert(job, record);
            }
        }
        self.must(last, "what belongs to no job").await?;
        Ok(refused)
    }

    /// Commits what nobody can do without.
    async fn must(&mut self, ops: Vec<Op>, what: &str) -> Result<(), TermEnd> {
        if ops.is_empty() {
            return Ok(());
        }
        let done = self.attempt(&ops).await?;
        done.map_err(|refusal| TermEnd::Lost(format!("{what}: {refusal}")))
    }
}

/// The first half of the jobs lies on top.
fn halves(mut first: Writes) -> Vec<Writes> {
    let Some(middle) = first.keys().nth(first.len() / 2).copied() else { return Vec::new() };
    let second = first.split_off(&middle);
    [second, first].into_iter().filter(|part| !part.is_empty()).collect()
}

/// A job's ops with all ledger parts stripped and its record saying what it owes; `None` where there is no
/// ledger to leave out.
fn without_ledger(
    ops: Vec<Op>,
    durable: Option<&DurableLedger>,
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
    use steadfast_ledger::{JobLedger, Redo};
    use steadfast_model::{LeaveClassification, LossCause, MemberEventSeq, PipelineId, Timestamp};
    use steadfast_store::conformance::samples;
    use steadfast_store::{Fault, Limits, MemoryStore, Store};

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

    fn loss_of_two(after: &Arc<JobLedger>) -> Step {
        loss_of(2, after)
    }

    /// What so many jobs write when a member is lost.
    fn loss_of(jobs: u64, after: &Arc<JobLedger>) -> Step {
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
            jobs: (1..=jobs).map(job_step).collect(),
            ..Step::default()
        }
    }

    /// A term, and the durable ledgers of both jobs.
    async fn prepared(before: &Arc<JobLedger>) -> (MemoryStore, Box<dyn Term>) {
        let store = MemoryStore::new();
        let mut term = store.lead(samples::leader(1)).await.expect("it leads");
        let owner = |n| Op::PutLedger { job: JobId::new(n), ledger: Arc::clone(before) };
        term.commit(vec![owner(1), owner(2)]).await.expect("the ledgers from before are durable");
        (store, term)
    }

    async fn committed(fault: Fault, commits: u32, deployed: bool) -> (MemoryStore, Refused) {
        let (before, after) = ledgers(deployed);
        let (store, mut term) = prepared(&before).await;
        store.inject(fault, commits);
        let durable =
            move |_| Some(DurableLedger { ledger: Arc::clone(&before), redo: Redo::default() });
        let refused = commit(term.as_mut(), &[loss_of_two(&after)], &durable).await;
        (store, refused.expect("recovery goes on"))
    }

    async fn commit(
        term: &mut dyn Term,
        steps: &[Step],
        durable: &Durable<'_>,
    ) -> Result<Refused, TermEnd> {
        let (_stop, mut shutdown) = watch::channel(false);
        let health = &StoreHealth::new();
        Commits { term, health, shutdown: &mut shutdown }.commit(steps, durable).await
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

    /// Red where each job of a batch that is only too large is committed alone.
    #[tokio::test]
    async fn a_batch_that_is_too_large_is_split_into_a_few() {
        let (_, after) = ledgers(false);
        // A record and a ledger of each, and the head: 25 jobs fit.
        let store = MemoryStore::with_limits(Limits { max_ops: 51, max_bytes: usize::MAX });
        let mut term = store.lead(samples::leader(1)).await.expect("it leads");
        let before = term.rev();
        let refused = commit(term.as_mut(), &[loss_of(100, &after)], &|_| None).await;
        assert_eq!(refused.map(|refused| refused.len()), Ok(0));
        assert_eq!(term.rev().0 - before.0, 6, "the loss, four quarters, how far it is processed");
        assert_eq!(store.snapshot().expect("it loads").snapshot.ledgers.len(), 100);
    }

    #[tokio::test]
    async fn one_job_at_fault_is_found_among_many_in_a_few_commits() {
        let (_, after) = ledgers(false);
        let store = MemoryStore::new();
        let mut term = store.lead(samples::leader(1)).await.expect("it leads");
        let before = term.rev();
        let at_fault = JobId::new(37);
        store.inject(Fault::RefuseLedger(Some(at_fault), Refusal::TooLarge), u32::MAX);
        let refused = commit(term.as_mut(), &[loss_of(100, &after)], &|_| None).await;
        assert_eq!(refused.map(|refused| refused.into_keys().collect()), Ok(vec![at_fault]));
        // The loss, a part for each time that a hundred is halved, that job, how far it is processed.
        assert!(term.rev().0 - before.0 <= 3 + 7, "{:?} after {before:?}", term.rev());
        assert_eq!(store.snapshot().expect("it loads").snapshot.ledgers.len(), 99);
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

    /// Red where "full" is taken for the fault of whatever was to be written: its ledger is then left out.
    #[tokio::test(start_paused = true)]
    async fn want_of_room_is_waited_for_and_is_no_jobs_fault() {
        let no_room = Fault::Refuse(Refusal::Full);
        let no_room_for_ledgers = Fault::RefuseLedger(None, Refusal::Full);
        for full in [no_room, no_room_for_ledgers] {
            let (store, refused) = committed(full, 9, false).await;
            assert!(refused.is_empty());
            recorded_whole(&store);
        }
    }

    /// Also in the middle of a batch that is split between jobs.
    #[tokio::test(start_paused = true)]
    async fn want_of_room_between_two_jobs_is_waited_for() {
        let (before, after) = ledgers(false);
        let (store, mut term) = prepared(&before).await;
        store.inject(Fault::RefuseLedger(Some(JobId::new(2)), Refusal::TooLarge), 1);
        store.inject(Fault::RefuseLedger(Some(JobId::new(2)), Refusal::Full), 9);
        let refused = commit(term.as_mut(), &[loss_of_two(&after)], &|_| None).await;
        assert_eq!(refused.map(|refused| refused.len()), Ok(0));
        recorded_whole(&store);
    }

    fn recorded_whole(store: &MemoryStore) {
        let found = store.snapshot().expect("it loads").snapshot;
        let incidents = found.ledgers.values().map(|it| it.as_ref().map(JobLedger::incident_count));
        assert_eq!(incidents.collect::<Vec<_>>(), [Ok(1), Ok(1)], "once each");
        assert!(found.jobs.iter().all(|job| job.owed_since.is_none()));
    }

    /// Red where whoever waits for room does not look at what else there is: it would commit for a term that
    /// is over as soon as there is room, or never go.
    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_room_goes_when_it_is_asked_to_or_leads_no_longer() {
        let (before, after) = ledgers(false);
        let steps = [loss_of_two(&after)];
        let health = &StoreHealth::new();
        for asked_to_go in [true, false] {
            let (store, mut term) = prepared(&before).await;
            store.inject(Fault::Refuse(Refusal::Full), u32::MAX);
            let written = store.dump();
            let (stop, mut shutdown) = watch::channel(false);
            let mut commits = Commits { term: term.as_mut(), health, shutdown: &mut shutdown };
            let (end, ()) = tokio::join!(commits.commit(&steps, &|_| None), async {
                health.until_full().await;
                match asked_to_go {
                    true => drop(stop.send_replace(true)),
                    false => store.end_tenure(),
                }
                store.clear_faults();
            });
            assert_eq!(matches!(end, Err(TermEnd::Shutdown)), asked_to_go, "{end:?}");
            assert!(end.is_err());
            assert_eq!(store.dump(), written, "nothing is written for a term that is over");
        }
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
