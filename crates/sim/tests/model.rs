//! Every way in which a small cluster can go: the same engine and the same ledger, one job with two
//! pipelines, and a coordinator that may change at every point.
//!
//! Points are: before a commit, between the transactions of a commit that is split (journal, job,
//! processed), after it and before its effects. Up to two steps are committed together. Within the bounds
//! below nothing is left out, so that what holds here holds for an interleaving that nobody thought of.
//!
//! The store may refuse a ledger, too. What is not here is time: leases, silence and expiry are the
//! simulator's.
//!
//! Seen to fail on the mistakes that the last tests make for ever.

mod exhaustive;
mod small;

use std::fmt;
use std::hash::{Hash, Hasher};

use stateright::{Checker, Model, Property};
use steadfast_engine::records::JobRecord;
use steadfast_model::{ExecutionId, JobStatus, MemberUuid, PipelineStatus};

use exhaustive::judge;
use small::THRESHOLD;
use small::cluster::{Cluster, Faults, Life, Mistake, Part, Progress};

/// A state, and all of it in print: neither the engine nor its records can be hashed, and what they print
/// holds all of them.
#[derive(Clone)]
struct State {
    cluster: Cluster,
    print: String,
}

impl State {
    fn of(cluster: Cluster) -> Self {
        let mut print = String::with_capacity(16_384);
        let printed = cluster.print(&mut print);
        debug_assert!(printed.is_ok());
        Self { cluster, print }
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.print.hash(hasher);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.print == other.print
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cluster { durable, reference, progress, .. } = &self.cluster;
        write!(f, "{progress:?} {:?} {:?}", reference.numbers(), durable.shown())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Hello(MemberUuid),
    Leave(MemberUuid),
    Starts(ExecutionId),
    Fails(ExecutionId),
    Wait,
    Commit,
    CommitPart(Part),
    /// The job's part, without its ledger.
    CommitRefused,
    CarryOut,
    ChangeCoordinator,
}

/// The bounds.
#[derive(Clone, Copy)]
struct Small {
    members: u64,
    retries: u32,
    faults: Faults,
    /// Steps that are committed together.
    batch: usize,
    /// Whether what a loss tells the ledger stands in the job's record alone.
    redo: bool,
    mistake: Option<Mistake>,
}

impl Small {
    /// What happens without anybody's fault, if nothing else does.
    fn ordinary(&self, cluster: &Cluster, actions: &mut Vec<Action>) {
        match cluster.progress {
            Progress::Durable => return actions.push(Action::CarryOut),
            Progress::Split(part) => return actions.push(Action::CommitPart(part)),
            Progress::Decided if !cluster.is_idle() => actions.push(Action::Commit),
            Progress::Decided => {}
        }
        if cluster.queue.len() >= self.batch {
            return;
        }
        for (member, agent) in &cluster.agents {
            if agent.connection.is_none() && !agent.gone {
                actions.push(Action::Hello(*member));
            }
        }
        if cluster.is_idle() {
            actions.extend(cluster.leaving().into_iter().map(Action::Leave));
            if cluster.owes() {
                actions.push(Action::Wait);
            }
        }
        for (execution, (member, life)) in &cluster.containers {
            let connected = cluster.agents.get(member).is_some_and(|a| a.connection.is_some());
            if connected && *life == Life::Launched {
                actions.push(Action::Starts(*execution));
            }
        }
    }

    fn faults(&self, cluster: &Cluster, actions: &mut Vec<Action>) {
        let left = cluster.left;
        if left.changes > 0 {
            actions.push(Action::ChangeCoordinator);
        }
        let next = match cluster.progress {
            Progress::Durable => return,
            Progress::Split(part) => Some(part),
            Progress::Decided => cluster.next_part(Part::Journal),
        };
        if cluster.progress == Progress::Decided && cluster.parts() > 1 {
            actions.extend(next.map(Action::CommitPart));
        }
        if left.refusals > 0 && next == Some(Part::Job) && cluster.has_ledger() {
            actions.push(Action::CommitRefused);
        }
        if cluster.progress != Progress::Decided || cluster.queue.len() >= self.batch {
            return;
        }
        if left.losses > 0 {
            let stay = cluster.agents.iter().filter(|(_, a)| a.connection.is_some() && !a.leaves);
            actions.extend(stay.map(|(member, _)| Action::Leave(*member)));
        }
        if left.failures > 0 {
            for (execution, (member, life)) in &cluster.containers {
                let connected = cluster.agents.get(member).is_some_and(|a| a.connection.is_some());
                if connected && *life != Life::Failed {
                    actions.push(Action::Fails(*execution));
                }
            }
        }
    }
}

impl Model for Small {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::of(Cluster::new(
            self.members,
            self.retries,
            self.faults,
            self.redo,
            self.mistake,
        ))]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.ordinary(&state.cluster, actions);
        self.faults(&state.cluster, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut cluster = state.cluster.clone();
        match action {
            Action::Hello(member) => cluster.hello(member),
            Action::Leave(member) => {
                let again = cluster.agents.get(&member).is_some_and(|agent| agent.leaves);
                cluster.left.losses -= u8::from(!again);
                cluster.leave(member);
            }
            Action::Starts(execution) => cluster.report(execution, Life::Runs),
            Action::Fails(execution) => {
                cluster.left.failures -= 1;
                cluster.report(execution, Life::Failed);
            }
            Action::Wait => cluster.wait(),
            Action::Commit => cluster.commit(),
            Action::CommitPart(part) => cluster.commit_part(part, false),
            Action::CommitRefused => {
                cluster.left.refusals -= 1;
                cluster.commit_part(Part::Job, true);
            }
            Action::CarryOut => cluster.carry_out(),
            Action::ChangeCoordinator => {
                cluster.left.changes -= 1;
                cluster.change_coordinator();
            }
        }
        Some(State::of(cluster))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXACT, |_, state: &State| is_exact(&state.cluster)),
            Property::always(COMPLETE, |_, state: &State| is_complete(&state.cluster)),
            Property::always(NEVER_STANDS_STILL, |model: &Self, state: &State| {
                let mut actions = Vec::new();
                model.ordinary(&state.cluster, &mut actions);
                !actions.is_empty() || is_settled(&state.cluster)
            }),
            Property::sometimes(RECOVERED, |_, state: &State| {
                let numbers = state.cluster.reference.numbers();
                numbers.episodes == 2 && numbers.attempts >= THRESHOLD && runs(&state.cluster)
            }),
            Property::sometimes(AGAIN, |_, state: &State| {
                let numbers = state.cluster.reference.numbers();
                numbers.episodes == 1 && numbers.attempts == 2 && runs(&state.cluster)
            }),
            Property::sometimes(ONCE, |_, state: &State| {
                let numbers = state.cluster.reference.numbers();
                numbers.episodes == 1 && numbers.attempts == 1 && runs(&state.cluster)
            }),
            Property::sometimes(CURED, |_, state: &State| {
                let cluster = &state.cluster;
                let complete = cluster.view().is_some_and(|shown| shown.tracking_complete);
                let counted = cluster.reference.numbers().attempts > 0;
                cluster.refused && cluster.is_idle() && complete && counted && runs(cluster)
            }),
            Property::sometimes(FAILED, |_, state: &State| {
                let history = state.cluster.durable.history.as_ref();
                history.is_some_and(|history| history.job.status == JobStatus::Failed)
            }),
        ]
    }
}

const EXACT: &str = "what says that it is complete is exact, and only that is ever CLEAN";
const COMPLETE: &str = "tracking is complete unless the store refused something";
const NEVER_STANDS_STILL: &str = "where nothing is left to happen the job runs, or has ended";
const RECOVERED: &str = "two recoveries, and the job runs";
const AGAIN: &str = "two deployments of one recovery, and the job runs";
const ONCE: &str = "one deployment of one recovery, and the job runs";
const CURED: &str = "the store refused something, and tracking is complete again";
const FAILED: &str = "the job uses up its restores";

/// What is durable, what is shown while nothing is under way, and what the history keeps.
fn is_exact(cluster: &Cluster) -> bool {
    let truth = cluster.reference.numbers();
    let durable = cluster.durable.shown().is_none_or(|(shown, _)| truth.is_told_by(&shown));
    let view = cluster.view().filter(|_| cluster.is_idle());
    let history = cluster.durable.history.as_ref().and_then(|history| history.evaluation.as_ref());
    durable
        && view.is_none_or(|shown| truth.is_told_by(&shown))
        && history.is_none_or(|shown| truth.is_told_by(shown))
}

/// Without a refusal, wherever a coordinator can change, what the next one loads lacks nothing: but for
/// losses on their way to the job, which are in the journal.
fn is_complete(cluster: &Cluster) -> bool {
    if cluster.refused {
        return true;
    }
    let durable = cluster.durable.shown().is_none_or(|(shown, agrees)| {
        agrees && (shown.tracking_complete || !cluster.durable.is_processed())
    });
    let view = cluster.view().filter(|_| cluster.is_idle());
    durable && view.is_none_or(|shown| shown.tracking_complete)
}

/// Every pipeline does, on a member that is not lost.
fn runs(cluster: &Cluster) -> bool {
    let members = &cluster.durable.snapshot.members;
    let is_lost = |member| members.iter().any(|m| m.uuid == member && m.lost.is_some());
    let all_run = |record: &JobRecord| {
        record.pipelines.iter().all(|pipeline| {
            let mut containers = pipeline.task_groups.iter().flat_map(|group| &group.container);
            pipeline.status == PipelineStatus::Running && containers.all(|c| !is_lost(c.member))
        })
    };
    cluster.durable.record().is_some_and(all_run)
}

fn is_settled(cluster: &Cluster) -> bool {
    let nobody = cluster.agents.values().all(|agent| agent.gone);
    runs(cluster) || cluster.durable.history.is_some() || nobody
}

/// Looks at every state.
#[track_caller]
fn holds(model: Small, at_least: usize, reached: &[&'static str]) {
    let checker = model.checker().spawn_bfs().join();
    judge(&checker, &[EXACT, COMPLETE, NEVER_STANDS_STILL], reached, at_least);
}

const NONE: Faults = Faults { losses: 0, failures: 0, changes: 0, refusals: 0 };

#[test]
fn a_loss_and_a_failed_deployment_are_exact_wherever_a_coordinator_changes() {
    let faults = Faults { losses: 1, failures: 1, changes: 1, ..NONE };
    let model = Small { members: 2, retries: 2, faults, batch: 2, redo: true, mistake: None };
    holds(model, 30_000, &[AGAIN]);
}

#[test]
fn two_changes_of_coordinator_are_no_worse_than_one() {
    let faults = Faults { losses: 1, changes: 2, ..NONE };
    let model = Small { members: 2, retries: 2, faults, batch: 2, redo: true, mistake: None };
    holds(model, 8_000, &[ONCE]);
}

#[test]
fn two_losses_are_exact_wherever_a_coordinator_changes() {
    let faults = Faults { losses: 2, changes: 1, ..NONE };
    let model = Small { members: 3, retries: 2, faults, batch: 1, redo: true, mistake: None };
    holds(model, 20_000, &[RECOVERED, AGAIN]);
}

#[test]
fn a_job_that_can_no_longer_restore_keeps_its_count() {
    let faults = Faults { losses: 2, failures: 1, changes: 1, ..NONE };
    let model = Small { members: 2, retries: 2, faults, batch: 1, redo: true, mistake: None };
    holds(model, 25_000, &[AGAIN, FAILED]);
}

#[test]
fn whatever_ledger_the_store_refuses_the_job_goes_on_and_nothing_untrue_is_called_complete() {
    let faults = Faults { losses: 1, failures: 1, changes: 1, refusals: 1 };
    let model = Small { members: 2, retries: 2, faults, batch: 1, redo: false, mistake: None };
    holds(model, 30_000, &[AGAIN, CURED]);
    // What a loss tells it is refused no more; what comes after it is.
    let faults = Faults { failures: 0, ..faults };
    holds(Small { faults, redo: true, ..model }, 2_000, &[ONCE]);
}

/// A mistake must be found, or what holds above holds of nothing.
#[track_caller]
fn finds(mistake: Mistake, property: &'static str) {
    let faults = Faults { losses: 1, changes: 1, ..NONE };
    let model =
        Small { members: 2, retries: 2, faults, batch: 1, redo: true, mistake: Some(mistake) };
    let checker = model.checker().spawn_bfs().join();
    let states = checker.unique_state_count();
    assert!(checker.discovery(property).is_some(), "{states} unique states, all of them right");
}

#[test]
fn a_confirmation_outside_of_its_deployments_transaction_is_found() {
    finds(Mistake::LedgerLater, COMPLETE);
    finds(Mistake::LedgerLaterUnsaid, EXACT);
}

#[test]
fn a_loss_that_is_called_processed_too_soon_is_found() {
    finds(Mistake::ProcessedFirst, NEVER_STANDS_STILL);
    finds(Mistake::ProcessedFirst, EXACT);
}
