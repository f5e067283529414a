//! The whole cluster in one value: a clock, a queue of events, and everybody who takes part.
//!
//! The engine is the real one. What surrounds it is as simple as its contract allows and no kinder:
//! whatever the network, the machines, the store and the processes may do to a coordinator, they do
//! here, each by its odds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use steadfast_engine::records::{OperatorRequest, Snapshot};
use steadfast_engine::{AgentMessage, Connection, Input};
use steadfast_ledger::JobLedger;
use steadfast_model::{ExecutionId, JobId, RequestId, TaskGroupId};

use crate::agents::{Agent, AgentNumber, Machine};
use crate::ambush::Ambush;
use crate::checkpoints::CheckpointWrite;
use crate::containers::Container;
use crate::coordinator::{Coordinator, CoordinatorNumber};
use crate::durable::{Durable, TermNumber};
use crate::etcd::{Outcome, Request};
use crate::index::Answer;
use crate::invariants::{Broken, Checks};
use crate::lead::Lead;
use crate::mutation::Mutation;
use crate::network::{Link, Uplink};
use crate::operators::Errand;
use crate::plan::Plan;
use crate::recording::Recording;
use crate::rng::Rng;
use crate::sights::{Sight, Sights};
use crate::trace::Trace;

/// Something that happens at a time.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A message of an agent arrives.
    Uplink(Connection, Box<Uplink>),
    /// A message to an agent arrives.
    Downlink(Connection, Box<AgentMessage>),
    /// An agent's end of a connection learns that it is closed.
    AgentSeesClosed(AgentNumber, Connection),
    /// An agent learns that a container of it has ended.
    AgentSeesEnd(AgentNumber, ExecutionId),
    /// A copy of something that the coordinator has heard comes again.
    Again(TermNumber, Box<Input>),
    /// A connection has carried nothing for a while.
    LinkSilent(Connection),
    /// An agent connects.
    Connect(AgentNumber),
    /// An agent's second is over.
    Beat(AgentNumber),
    /// An agent that said that it leaves waits no longer.
    LeaveAnyway(AgentNumber),
    /// A stopped agent goes on.
    AgentContinues(AgentNumber),
    /// A machine gets an agent.
    AgentStarts(usize),
    /// A machine is reachable again.
    Reachable(usize),
    /// A container asks, with the number of its question.
    Poll(ExecutionId, u64),
    /// The question arrives, at this coordinator first.
    Asked(ExecutionId, u64, bool, CoordinatorNumber),
    /// The answer arrives, of whoever led then.
    Answered(ExecutionId, u64, Answer, TermNumber),
    /// A container's deadline.
    Look(ExecutionId),
    /// A container's program ends by itself, or of the signal that it was sent.
    ProgramEnds(ExecutionId, i32),
    /// A program writes its checkpoint with this number.
    Checkpoint(ExecutionId, u64),
    /// The checkpoint lands in the store.
    CheckpointLands(CheckpointWrite),
    /// A wrapper says good-bye, again until it is acknowledged.
    GoodBye(ExecutionId),
    /// The good-bye arrives.
    GoodByeArrives(ExecutionId),
    /// Its acknowledgement arrives.
    GoodByeNoted(ExecutionId),
    /// The commit of a term ends, with the embedded store.
    CommitEnds(TermNumber),
    /// A commit lands in the store.
    Lands(Box<Request>),
    /// Its answer arrives.
    CommitAnswered(TermNumber, u64, Outcome),
    /// Or it did not.
    InDoubt(TermNumber, u64),
    /// The engine of a term wanted to be woken.
    Wake(TermNumber),
    /// A coordinator tries to lead.
    Campaign(CoordinatorNumber),
    /// It learns that it does, and until when.
    Won(CoordinatorNumber, TermNumber, u64),
    /// A leader renews its lease.
    Renew(TermNumber),
    /// What it sent then lands in the store.
    RenewalLands(TermNumber, u64),
    /// It learns whether its lease was still there.
    Renewed(TermNumber, u64, bool),
    /// A leader's time is over, if nothing was renewed.
    TenureEnds(TermNumber),
    /// The same for its lease, on the other side.
    LeaseEnds(TermNumber),
    /// A leader gives its lease back.
    Resigns(TermNumber),
    /// Every node of the store goes on.
    EtcdBack,
    /// A coordinator reaches the store again.
    CoordinatorReachesEtcd(CoordinatorNumber),
    /// A coordinator is started.
    CoordinatorStarts(CoordinatorNumber),
    /// A stopped coordinator is continued.
    CoordinatorContinues(CoordinatorNumber),
    /// Its loop moves.
    GoesOn(CoordinatorNumber),
    /// A user submits the job with this number.
    Submit(usize),
    /// A user stops a job.
    Stop(JobId),
    /// An operator sets out to plan a leave.
    SetOut,
    /// An operator asks for a leave to be planned, the errand with this number.
    AskForLeave(usize),
    /// The agent goes that such an errand was about.
    Depart(usize),
    /// Something goes wrong.
    Fault,
}

/// Who waits for an answer of the coordinator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiter {
    Submitter(usize),
    Stopper(JobId),
    Wrapper(ExecutionId),
    Operator(usize),
}

/// The cluster.
pub(crate) struct World {
    pub seed: u64,
    pub now: u64,
    pub plan: Plan,
    pub mutation: Option<Mutation>,
    pub trace: Trace,
    pub checks: Checks,
    pub coordinators: Vec<Coordinator>,
    pub durable: Durable,
    /// Who leads, by what the store knows.
    pub lead: Option<Lead>,
    /// Terms so far.
    pub terms: TermNumber,
    /// Until then no node of the store does anything.
    pub etcd_away_until: u64,
    /// Who waits for a coordinator at one of its steps.
    pub ambush: Option<Ambush>,
    pub machines: Vec<Machine>,
    pub agents: BTreeMap<AgentNumber, Agent>,
    pub containers: BTreeMap<ExecutionId, Container>,
    pub links: BTreeMap<Connection, Link>,
    /// The id of each planned job, once its user knows it.
    pub submitted: Vec<Option<JobId>>,
    /// Jobs whose cancelling was acknowledged.
    pub stopped: BTreeSet<JobId>,
    /// What operators are after.
    pub errands: Vec<Errand>,
    /// The leaves whose registration was acknowledged, each as often as it was.
    pub planned: BTreeMap<RequestId, Vec<OperatorRequest>>,
    /// Containers whose end was acknowledged to their wrappers.
    pub noted: BTreeSet<ExecutionId>,
    /// How often the checkpoint of each task group was written.
    pub checkpoints: BTreeMap<(JobId, TaskGroupId), u64>,
    /// What each task group has worked off.
    pub worked_ms: BTreeMap<(JobId, TaskGroupId), u64>,
    /// Jobs whose ledger the store has refused at least once.
    pub refused: BTreeSet<JobId>,
    /// The ledgers as they were some commits ago, for one of the mutations.
    pub old_ledgers: VecDeque<BTreeMap<JobId, Arc<JobLedger>>>,
    /// What was durable before the newest commit, for another.
    pub last_snapshot: Option<Snapshot>,
    /// What was seen around changes of leader.
    pub sights: Sights,
    /// Steps of all engines.
    pub steps: u64,
    /// What they were told, if somebody wants to tell it again.
    pub recording: Option<Recording>,
    pub faulty: bool,
    pub numbers: u64,
    pub network_rng: Rng,
    pub fault_rng: Rng,
    pub program_rng: Rng,
    pub operator_rng: Rng,
    pub checkpoint_rng: Rng,
    queue: BTreeMap<(u64, u64), Event>,
    pub events: u64,
}

impl World {
    pub fn new(seed: u64, plan: Plan, mutation: Option<Mutation>, trace: Trace) -> Self {
        let many = plan.etcd.as_ref().map_or(1, |etcd| etcd.coordinators);
        let mut world = Self {
            now: 0,
            mutation,
            trace,
            checks: Checks::default(),
            coordinators: (0..many).map(|_| Coordinator::new()).collect(),
            durable: Durable::default(),
            lead: None,
            terms: 0,
            etcd_away_until: 0,
            ambush: None,
            machines: Vec::new(),
            agents: BTreeMap::new(),
            containers: BTreeMap::new(),
            links: BTreeMap::new(),
            submitted: plan.jobs.iter().map(|_| None).collect(),
            stopped: BTreeSet::new(),
            errands: Vec::new(),
            planned: BTreeMap::new(),
            noted: BTreeSet::new(),
            checkpoints: BTreeMap::new(),
            worked_ms: BTreeMap::new(),
            refused: BTreeSet::new(),
            old_ledgers: VecDeque::new(),
            last_snapshot: None,
            sights: Sights::new(),
            steps: 0,
            recording: None,
            faulty: true,
            numbers: 0,
            network_rng: Rng::new(seed, 2),
            seed,
            fault_rng: Rng::new(seed, 4),
            program_rng: Rng::new(seed, 5),
            operator_rng: Rng::new(seed, 6),
            checkpoint_rng: Rng::new(seed, 9),
            queue: BTreeMap::new(),
            events: 0,
            plan,
        };
        for c in 0..many {
            world.at(0, Event::CoordinatorStarts(c));
        }
        for machine in 0..world.plan.slots.len() {
            world.machines.push(Machine::new(world.plan.slots[machine]));
            world.at(0, Event::AgentStarts(machine));
        }
        for (number, job) in world.plan.jobs.clone().iter().enumerate() {
            world.at(job.at_ms, Event::Submit(number));
        }
        world.at(world.plan.fault_every_ms, Event::Fault);
        world.at(world.plan.leave_every_ms.unwrap_or_default(), Event::SetOut);
        world
    }

    /// Puts an event into the queue; of two at one time the one that was put first comes first.
    pub fn at(&mut self, time: u64, event: Event) {
        let number = self.number();
        self.queue.insert((time.max(self.now), number), event);
    }

    /// A number that was not used before.
    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub fn sees(&mut self, sight: Sight) {
        *self.sights.entry(sight).or_default() += 1;
    }

    pub fn mutated(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Plays on until `end`, or until something is wrong.
    ///
    /// # Errors
    /// What is wrong.
    pub fn play_until(&mut self, end: u64) -> Result<(), Broken> {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > end {
                break;
            }
            let (time, _) = *entry.key();
            let event = entry.remove();
            self.now = time;
            self.events += 1;
            self.happen(event);
            self.checks.verdict(self.now)?;
        }
        self.now = end;
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Uplink(connection, message) => self.uplink_arrives(connection, *message),
            Event::Downlink(connection, message) => self.downlink_arrives(connection, *message),
            Event::AgentSeesClosed(agent, connection) => self.agent_sees_closed(agent, connection),
            Event::AgentSeesEnd(agent, execution) => self.agent_sees_end(agent, execution),
            Event::Again(term, input) => self.hear_again(term, *input),
            Event::LinkSilent(connection) => self.link_silent(connection),
            Event::Connect(agent) => self.connect(agent),
            Event::Beat(agent) => self.beat(agent),
            Event::LeaveAnyway(agent) => self.leave_anyway(agent),
            Event::AgentContinues(agent) => self.agent_continues(agent),
            Event::AgentStarts(machine) => self.agent_starts(machine),
            Event::Reachable(machine) => self.reachable(machine),
            Event::Poll(execution, number) => self.poll(execution, number),
            Event::Asked(execution, number, started, first) => {
                self.asked(execution, number, started, first);
            }
            Event::Answered(execution, number, answer, term) => {
                self.answered(execution, number, answer, term);
            }
            Event::Look(execution) => self.look(execution),
            Event::ProgramEnds(execution, code) => self.program_ends(execution, code),
            Event::Checkpoint(execution, count) => self.write_checkpoint(execution, count),
            Event::CheckpointLands(write) => self.checkpoint_lands(write),
            Event::GoodBye(execution) => self.good_bye(execution),
            Event::GoodByeArrives(execution) => self.good_bye_arrives(execution),
            Event::GoodByeNoted(execution) => self.good_bye_noted(execution),
            Event::Wake(term) => self.wake(term),
            Event::CoordinatorStarts(c) => self.coordinator_starts(c),
            Event::CoordinatorContinues(c) => self.coordinator_continues(c),
            Event::GoesOn(c) => self.goes_on(c),
            Event::CommitEnds(_)
            | Event::Lands(_)
            | Event::CommitAnswered(..)
            | Event::InDoubt(..)
            | Event::Campaign(_)
            | Event::Won(..)
            | Event::Renew(_)
            | Event::RenewalLands(..)
            | Event::Renewed(..)
            | Event::TenureEnds(_)
            | Event::LeaseEnds(_)
            | Event::Resigns(_)
            | Event::EtcdBack
            | Event::CoordinatorReachesEtcd(_) => self.happen_at_the_store(event),
            Event::Submit(number) => self.submit(number),
            Event::Stop(job) => self.stop(job),
            Event::SetOut => self.set_out(),
            Event::AskForLeave(number) => self.ask_for_leave(number),
            Event::Depart(number) => self.depart(number),
            Event::Fault => self.fault(),
        }
    }

    fn happen_at_the_store(&mut self, event: Event) {
        match event {
            Event::CommitEnds(term) => self.commit_ends(term),
            Event::Lands(request) => self.lands(*request),
            Event::CommitAnswered(term, sending, outcome) => {
                self.commit_answered(term, sending, outcome);
            }
            Event::InDoubt(term, sending) => self.in_doubt(term, sending),
            Event::Campaign(c) => self.campaign(c),
            Event::Won(c, term, tenure_until) => self.won(c, term, tenure_until),
            Event::Renew(term) => self.renew(term),
            Event::RenewalLands(term, sent) => self.renewal_lands(term, sent),
            Event::Renewed(term, sent, holds) => self.renewed(term, sent, holds),
            Event::TenureEnds(term) => self.tenure_ends(term),
            Event::LeaseEnds(term) => self.lease_ends(term),
            Event::Resigns(term) => self.resigns(term),
            Event::EtcdBack => self.etcd_back(),
            Event::CoordinatorReachesEtcd(c) => self.coordinator_reaches_etcd(c),
            _ => {}
        }
    }
}
