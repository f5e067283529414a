//! A term: lead, load, reconcile, then the loop. The only place that calls `Engine::step` and
//! `Term::commit`.
//!
//! The order law of a step lives in [`Leader::carry_out`]: freeze → commit → index → effects → view.
//! Memory is a shadow of the store: whenever it is in doubt, the term is dropped and loaded again.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use steadfast_api::Event;
use steadfast_engine::records::Snapshot;
use steadfast_engine::{Effect, Engine, IndexChange, Input, SelfSuspicion, Settings, Step};
use steadfast_model::{JobId, LossCause, TermNonce, Timestamp};
use steadfast_store::{HistoryEntry, LeaderInfo, StoreError, Tenure, Term as StoreTerm};
use tokio::sync::{mpsc, watch};
use tracing::{error, info, warn};

use crate::candidacy::{self, Won};
use crate::changes;
use crate::clock::Clock;
use crate::commit::{Commits, Refused};
use crate::index::{LastAnswer, ValidityIndex};
use crate::launch::Announcement;
use crate::metrics::Metrics;
use crate::pace::watch_lateness;
use crate::restores::{self, Restored};
use crate::secrets::Secrets;
use crate::shared::{INBOX, Shared, Term};
use crate::stalls;
use crate::store_health::StoreHealth;
use crate::view::{Finished, JobView, View};

/// Inputs that are decided on and committed together at most.
const BATCH: usize = 512;

/// Why a term ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TermEnd {
    /// The process was asked to go.
    Shutdown,
    /// Somebody else leads, or the store is in doubt: load again.
    Lost(String),
}

struct Leader {
    engine: Engine,
    term: Box<dyn StoreTerm>,
    serving: Arc<Term>,
    view: watch::Sender<View>,
    /// What comes back from effects is decided on before anything that waits outside.
    returned: VecDeque<Input>,
}

/// Stands by until it leads, then leads for one term.
///
/// # Errors
/// When the store cannot be led or loaded.
pub(crate) async fn run_term(
    shared: &Shared,
    settings: &Settings,
    me: LeaderInfo,
    mut shutdown: watch::Receiver<bool>,
) -> Result<TermEnd, StoreError> {
    let Some(Won { term, loaded }) = candidacy::win(shared, &me, &mut shutdown).await? else {
        return Ok(TermEnd::Shutdown);
    };
    // From here on, not from when it became a candidate: that may be weeks ago.
    let clock = Clock::start();
    let me = LeaderInfo { since: clock.now(), ..me };
    let finished = finished(loaded.history);
    log_ledgers(&loaded.snapshot);
    let began = clock.now();
    let nonce = TermNonce::new(uuid::Uuid::new_v4().as_u64_pair().1);
    let engine = Engine::load(loaded.snapshot, settings.clone(), nonce, began);
    let first = first_view(&engine, term.epoch(), began, finished);
    let (view, viewed) = watch::channel(first);
    let (inbox, inputs) = mpsc::channel(INBOX);
    let secrets = Secrets::new(&loaded.secret_key);
    let (epoch, tenure) = (term.epoch(), term.tenure());
    let serving = Arc::new(Term::new(epoch, tenure, clock, me, secrets, viewed, inbox));
    info!(%epoch, "leads");
    shared.metrics.term_began();
    let mut leader = Leader {
        engine,
        term,
        serving: Arc::clone(&serving),
        view,
        returned: VecDeque::from([Input::TookOver]),
    };
    // On a task of its own, since how late a task is woken is what it looks for.
    let lateness = tokio::spawn({
        let term = Arc::clone(&serving);
        async move { watch_lateness(&term.index.load).await }
    });
    let end = tokio::select! {
        end = leader.run(inputs, shared, &mut shutdown) => end,
        never = stalls::watch(&serving, &shared.metrics) => match never {},
    };
    lateness.abort();
    // First no verdict can leave any more, then the lead is given up.
    shared.stop_serving();
    serving.close();
    leader.term.resign().await;
    Ok(end)
}

/// A count that is not known has a line that says so, and so has a ledger that nobody asks for.
fn log_ledgers(snapshot: &Snapshot) {
    const GOES_ON: &str = "the job goes on and is UNKNOWN";
    for job in snapshot.jobs.iter().filter(|job| job.spec.tracking_threshold().is_some()) {
        let (id, owes) = (job.id, job.owed_since.is_some());
        match snapshot.ledgers.get(&id) {
            None => error!(job = %id, "the ledger is missing: {GOES_ON}"),
            Some(Err(reason)) => error!(job = %id, reason, "the ledger cannot be read: {GOES_ON}"),
            Some(Ok(ledger)) if !job.expects(Some(ledger)) && !owes => {
                error!(job = %id, "the ledger is not the one that the job expects: {GOES_ON}");
            }
            Some(Ok(_)) => {}
        }
    }
    let jobs: BTreeSet<JobId> = snapshot.jobs.iter().map(|job| job.id).collect();
    for job in snapshot.ledgers.keys() {
        if !jobs.contains(job) {
            error!(%job, "there is a ledger and no record of its job: restore the store from a backup");
        }
    }
}

fn finished(history: Vec<HistoryEntry>) -> Finished {
    let summaries = history.into_iter().filter_map(|HistoryEntry { job, finished, summary }| {
        let summary = summary
            .inspect_err(|reason| warn!(%job, reason, "a history record cannot be read"))
            .ok()?;
        Some(((Reverse(finished), job), Arc::new(summary)))
    });
    summaries.collect()
}

/// While the store is full a loss that cannot be written may have happened: no count is known to be complete.
/// What is published after the commit knows it again.
async fn know_nothing_while_full(view: &watch::Sender<View>, health: &StoreHealth) -> Infallible {
    health.until_full().await;
    view.send_modify(|view| view.watermarks.owes = true);
    std::future::pending().await
}

pub(crate) fn first_view(
    engine: &Engine,
    epoch: steadfast_model::Epoch,
    since: Timestamp,
    finished: Finished,
) -> View {
    let jobs = engine.jobs().map(|(record, ledger)| {
        let record = Arc::new(record.clone());
        let ledger = ledger.map(|ledger| Arc::new(ledger.clone()));
        (record.id, crate::view::JobView { record, ledger })
    });
    View {
        epoch,
        number: 0,
        since,
        watermarks: engine.watermarks(),
        jobs: jobs.collect(),
        finished,
        members: Arc::new(engine.member_views().collect()),
        counters: engine.counters(),
        self_suspicion: engine.self_suspicion(),
    }
}

impl Leader {
    async fn run(
        &mut self,
        mut inputs: mpsc::Receiver<Input>,
        shared: &Shared,
        shutdown: &mut watch::Receiver<bool>,
    ) -> TermEnd {
        let mut lost = self.term.lost();
        let mut served = false;
        loop {
            if let Err(end) = still_leads(&self.serving.tenure, &lost) {
                return end;
            }
            let batch = match self.gather(&mut inputs, &mut lost, shutdown).await {
                Ok(batch) => batch,
                Err(end) => return end,
            };
            let began = Instant::now();
            let steps = self.decide(batch);
            shared.metrics.decided(began.elapsed());
            if let Err(end) = self.carry_out(steps, shared, shutdown).await {
                return end;
            }
            if !served && self.returned.is_empty() {
                // Reconciled: from here on verdicts may be given and requests taken.
                served = true;
                self.serving.index.open();
                shared.serve(Arc::clone(&self.serving));
            }
        }
    }

    /// What is to be decided on next: what came back, else what waits, else the passing of time.
    async fn gather(
        &mut self,
        inputs: &mut mpsc::Receiver<Input>,
        lost: &mut watch::Receiver<bool>,
        shutdown: &mut watch::Receiver<bool>,
    ) -> Result<Vec<Input>, TermEnd> {
        if *shutdown.borrow() {
            return Err(TermEnd::Shutdown);
        }
        if !self.returned.is_empty() {
            return Ok(self.returned.drain(..).collect());
        }
        let now = self.serving.clock.now();
        let wait_ms = self.engine.next_deadline().map_or(1_000, |at| at.millis_since(now));
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            _ = shutdown.changed() => {}
            _ = lost.changed() => {}
            received = inputs.recv_many(&mut batch, BATCH) => {
                debug_assert!(received > 0, "the term itself holds a sender");
            }
            () = tokio::time::sleep(Duration::from_millis(wait_ms)) => batch.push(Input::Deadline),
        }
        Ok(batch)
    }

    fn decide(&mut self, batch: Vec<Input>) -> Vec<Step> {
        let now = self.serving.clock.now();
        let mut steps: Vec<Step> =
            batch.into_iter().map(|input| self.engine.step(now, input)).collect();
        // Members that are due together are declared one step each.
        while self.engine.next_deadline().is_some_and(|at| at <= now) && steps.len() < 2 * BATCH {
            steps.push(self.engine.step(now, Input::Deadline));
        }
        steps
    }

    async fn carry_out(
        &mut self,
        steps: Vec<Step>,
        shared: &Shared,
        shutdown: &mut watch::Receiver<bool>,
    ) -> Result<(), TermEnd> {
        let metrics = &shared.metrics;
        let index = &self.serving.index;
        for execution in steps.iter().flat_map(|step| &step.freeze) {
            index.freeze(*execution);
        }
        // What readers see is what is durable.
        let before = self.view.borrow().jobs.clone();
        let durable = |job| before.get(&job).and_then(JobView::durable_ledger);
        let began = Instant::now();
        let (term, health) = (self.term.as_mut(), &shared.store_health);
        let mut commits = Commits { term, health, shutdown };
        let refused = tokio::select! {
            refused = commits.commit(&steps, &durable) => refused?,
            never = know_nothing_while_full(&self.view, health) => match never {},
        };
        // A step that writes nothing is compared with nothing in the store, and one that was durable in time
        // may still be carried out too late.
        still_leads(&self.serving.tenure, &self.term.lost())?;
        if !steps.iter().all(Step::writes_nothing) {
            metrics.committed(began.elapsed());
            shared.coordinators.note_rev(self.term.rev());
        }
        self.returned.extend(
            refused.keys().map(|job| Input::LedgerRefused { job: *job, durable: durable(*job) }),
        );
        let now = self.serving.clock.now();
        let mut answers = Vec::new();
        for step in &steps {
            if let Some(event) = &step.member_event {
                metrics.member_lost(event.cause);
            }
            let of_jobs = step.jobs.iter().flat_map(|job| &job.index);
            let changes = step.index.iter().chain(of_jobs);
            answers.extend(changes.filter_map(|change| apply(index, change, now, metrics)));
        }
        if !answers.is_empty() {
            self.returned.push_back(Input::LastAnswers(answers));
        }
        for Restored { kind, took_ms } in self.publish(&steps, &refused) {
            metrics.restored(kind, took_ms);
        }
        self.perform(steps, &shared.coordinators.urls());
        Ok(())
    }

    fn perform(&self, steps: Vec<Step>, urls: &[String]) {
        let secrets = &self.serving.secrets;
        let announcement = Announcement { epoch: self.term.epoch(), urls, secrets };
        for step in steps {
            log_loss(&step);
            let of_jobs = step.jobs.into_iter().flat_map(|job| job.effects);
            for effect in of_jobs.chain(step.effects) {
                match effect {
                    Effect::Send(connection, message) => {
                        self.serving.send(connection, announcement.wire(message));
                    }
                    Effect::Reply(ticket, reply) => self.serving.answer(ticket, reply),
                }
            }
        }
    }

    /// Readers see what is durable. It is published before the answers go out, so that whoever was
    /// answered finds what it asked for. Returns the restores that became complete.
    fn publish(&self, steps: &[Step], refused: &Refused) -> Vec<Restored> {
        let mut restored = Vec::new();
        log_suspicion(self.view.borrow().self_suspicion, self.engine.self_suspicion());
        let feed = &self.serving.feed;
        let before = feed.is_read().then(|| self.view.borrow().clone());
        self.view.send_modify(|view| {
            view.number += 1;
            for step in steps {
                restored.extend(restores::completed(view, step));
                view.apply(step, refused);
            }
            view.watermarks = self.engine.watermarks();
            view.counters = self.engine.counters();
            view.self_suspicion = self.engine.self_suspicion();
            view.members = Arc::new(self.engine.member_views().collect());
        });
        if feed.is_read() {
            let after = self.view.borrow();
            let time = self.serving.clock.now().into();
            let events = before.map(|before| {
                let changes = changes::between(&before, &after, steps).into_iter();
                changes.map(|change| Event { time, change }).collect()
            });
            // Who began to read meanwhile may have seen the view before this one, and cannot be told how
            // they differ.
            feed.tell(after.number, events);
        }
        restored
    }
}

/// Whether this coordinator may still act for the term: by the clock, and by what it was told.
pub(crate) fn still_leads(tenure: &Tenure, lost: &watch::Receiver<bool>) -> Result<(), TermEnd> {
    if *lost.borrow() {
        return Err(TermEnd::Lost("the store says that it may no longer lead".to_owned()));
    }
    if !tenure.holds() {
        return Err(TermEnd::Lost("it could not renew its leadership in time".to_owned()));
    }
    Ok(())
}

/// Applies a change, and keeps count of the zombies: who was revoked, and for how long it went on calling.
fn apply(
    index: &ValidityIndex,
    change: &IndexChange,
    now: Timestamp,
    metrics: &Metrics,
) -> Option<LastAnswer> {
    if let IndexChange::Remove(execution) = change
        && let Some(lifetime_ms) = index.zombie_lifetime_ms(*execution)
    {
        metrics.zombie_gone(lifetime_ms);
    }
    let told = index.apply(change);
    if let IndexChange::Invalid(execution, ..) = change {
        index.note_revoked(*execution, now);
    }
    told
}

fn log_suspicion(before: Option<SelfSuspicion>, now: Option<SelfSuspicion>) {
    match (before, now) {
        (None, Some(suspicion)) => warn!(
            members = suspicion.members,
            "most members went at once: this coordinator suspects itself and declares nobody lost yet"
        ),
        (Some(_), None) => info!("this coordinator suspects itself no longer"),
        _ => {}
    }
}

fn log_loss(step: &Step) {
    let Some(event) = &step.member_event else { return };
    let what = match event.cause {
        LossCause::ToldByOperator => "a member is drained",
        _ => "a member is lost",
    };
    warn!(
        member = %event.member,
        sequence = %event.seq,
        cause = %event.cause,
        classification = %event.classification,
        evidence = event.evidence,
        affected_jobs = step.jobs.len(),
        what
    );
}

#[cfg(test)]
mod tests {
    use steadfast_engine::IndexEntry;
    use steadfast_model::{
        ExecutionId, FencingToken, InvalidReason, JobId, LeaseTerms, TaskGroupId, TermNonce,
    };
    use steadfast_store::Store;
    use steadfast_store::conformance::samples;

    use super::*;

    /// Red without the look at the tenure behind the commit, which compares nothing where nothing is written.
    #[tokio::test]
    async fn nothing_leaves_once_the_tenure_is_over() {
        let store = steadfast_store::MemoryStore::new();
        let me = samples::leader(1);
        let term = store.lead(me.clone()).await.unwrap();
        let loaded = store.load().await.unwrap();
        let clock = Clock::start();
        let nonce = TermNonce::new(1);
        let engine = Engine::load(loaded.snapshot, Settings::default(), nonce, clock.now());
        let first = first_view(&engine, term.epoch(), clock.now(), Finished::new());
        let (view, viewed) = watch::channel(first);
        let (inbox, _inputs) = mpsc::channel(1);
        let secrets = Secrets::new(&loaded.secret_key);
        let (epoch, tenure) = (term.epoch(), term.tenure());
        let serving = Arc::new(Term::new(epoch, tenure, clock, me, secrets, viewed, inbox));
        let (connection, mut messages) = serving.connect(samples::member(1).uuid);
        let shared = Shared::new(Arc::new(store.clone()), Vec::new(), None);
        let returned = VecDeque::new();
        let mut leader = Leader { engine, term, serving, view, returned };
        let welcome = || Step {
            effects: vec![Effect::Send(connection, steadfast_engine::AgentMessage::Welcome)],
            ..Step::default()
        };
        let (_stop, mut shutdown) = watch::channel(false);
        leader.carry_out(vec![welcome()], &shared, &mut shutdown).await.unwrap();
        assert!(messages.try_recv().is_ok());
        store.end_tenure();
        leader.carry_out(vec![welcome()], &shared, &mut shutdown).await.unwrap_err();
        leader.perform(vec![welcome()], &[]);
        assert!(messages.try_recv().is_err(), "a later step, and one that was on its way");
    }

    #[test]
    fn a_zombies_lifetime_is_told_once_it_is_gone() {
        let (index, metrics) = (ValidityIndex::new(Tenure::without_end()), Metrics::new());
        let at = |ms: u64| Timestamp::from_millis(1_000_000 + ms);
        let entry = IndexEntry {
            job: JobId::new(1),
            task_group: TaskGroupId::new(1),
            token: FencingToken::new(7),
            lease: LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 },
            assumed_answer: None,
            started: false,
            samza: false,
        };
        let told = || metrics.encode(&Default::default()).unwrap();
        let [calls, never] = [1, 2].map(|seq| ExecutionId::of_term(TermNonce::new(1), seq));
        for id in [calls, never] {
            let revoke = IndexChange::Invalid(id, InvalidReason::Superseded, entry);
            assert!(apply(&index, &revoke, at(0), &metrics).is_some());
        }
        assert!(index.haunt(calls, at(2_500)));
        assert!(told().contains("steadfast_zombie_lifetime_seconds_count 0"), "{}", told());
        for id in [calls, never] {
            let _ = apply(&index, &IndexChange::Remove(id), at(9_000), &metrics);
        }
        assert!(told().contains("steadfast_zombie_lifetime_seconds_count 1"), "{}", told());
        assert!(told().contains("steadfast_zombie_lifetime_seconds_sum 2.5"), "{}", told());
    }
}
