//! The whole cluster in one value: a clock, a queue of events, and everybody who takes part.
//!
//! The engine is the real one. What surrounds it is as simple as its contract allows and no kinder:
//! whatever the network, the machines, the store and the processes may do to a coordinator, they do
//! here, each by its odds.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_engine::records::OperatorRequest;
use steadfast_engine::{AgentMessage, Connection, Input, Ticket};
use steadfast_model::{ExecutionId, JobId, RequestId, TaskGroupId};

use crate::agents::{Agent, AgentNumber, Machine};
use crate::containers::Container;
use crate::coordinator::Coordinator;
use crate::durable::Durable;
use crate::index::Answer;
use crate::invariants::{Broken, Checks};
use crate::mutation::Mutation;
use crate::network::{Link, Uplink};
use crate::operators::Errand;
use crate::plan::Plan;
use crate::rng::Rng;
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
    Again(u64, Box<Input>),
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
    /// The question arrives.
    Asked(ExecutionId, u64, bool),
    /// The answer arrives.
    Answered(ExecutionId, u64, Answer),
    /// A container's deadline.
    Look(ExecutionId),
    /// A container's program ends by itself, or of the signal that it was sent.
    ProgramEnds(ExecutionId, i32),
    /// A wrapper says good-bye, again until it is acknowledged.
    GoodBye(ExecutionId),
    /// The good-bye arrives.
    GoodByeArrives(ExecutionId),
    /// Its acknowledgement arrives.
    GoodByeNoted(ExecutionId),
    /// The commit of a term ends.
    CommitEnds(u64),
    /// The engine of a term wanted to be woken.
    Wake(u64),
    /// The coordinator is started.
    CoordinatorStarts,
    /// A stopped coordinator goes on.
    CoordinatorContinues,
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
    pub coordinator: Coordinator,
    pub durable: Durable,
    pub machines: Vec<Machine>,
    pub agents: BTreeMap<AgentNumber, Agent>,
    pub containers: BTreeMap<ExecutionId, Container>,
    pub links: BTreeMap<Connection, Link>,
    pub waiters: BTreeMap<Ticket, Waiter>,
    /// The id of each planned job, once its user knows it.
    pub submitted: Vec<Option<JobId>>,
    /// Jobs whose cancelling was acknowledged.
    pub stopped: BTreeSet<JobId>,
    /// What operators are after.
    pub errands: Vec<Errand>,
    /// The leaves whose registration was acknowledged, each as often as it was.
    pub planned: BTreeMap<RequestId, Vec<OperatorRequest>>,
    /// What each task group has worked off.
    pub worked_ms: BTreeMap<(JobId, TaskGroupId), u64>,
    /// Jobs whose ledger the store has refused at least once.
    pub refused: BTreeSet<JobId>,
    pub faulty: bool,
    pub numbers: u64,
    pub network_rng: Rng,
    pub fault_rng: Rng,
    pub program_rng: Rng,
    pub operator_rng: Rng,
    queue: BTreeMap<(u64, u64), Event>,
    pub events: u64,
}

impl World {
    pub fn new(seed: u64, plan: Plan, mutation: Option<Mutation>, trace: Trace) -> Self {
        let mut world = Self {
            now: 0,
            mutation,
            trace,
            checks: Checks::default(),
            coordinator: Coordinator::default(),
            durable: Durable::default(),
            machines: Vec::new(),
            agents: BTreeMap::new(),
            containers: BTreeMap::new(),
            links: BTreeMap::new(),
            waiters: BTreeMap::new(),
            submitted: plan.jobs.iter().map(|_| None).collect(),
            stopped: BTreeSet::new(),
            errands: Vec::new(),
            planned: BTreeMap::new(),
            worked_ms: BTreeMap::new(),
            refused: BTreeSet::new(),
            faulty: true,
            numbers: 0,
            network_rng: Rng::new(seed, 2),
            seed,
            fault_rng: Rng::new(seed, 4),
            program_rng: Rng::new(seed, 5),
            operator_rng: Rng::new(seed, 6),
            queue: BTreeMap::new(),
            events: 0,
            plan,
        };
        world.at(0, Event::CoordinatorStarts);
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
            Event::Connect(agent) => self.connect(agent),
            Event::Beat(agent) => self.beat(agent),
            Event::LeaveAnyway(agent) => self.leave_anyway(agent),
            Event::AgentContinues(agent) => self.agent_continues(agent),
            Event::AgentStarts(machine) => self.agent_starts(machine),
            Event::Reachable(machine) => self.reachable(machine),
            Event::Poll(execution, number) => self.poll(execution, number),
            Event::Asked(execution, number, started) => self.asked(execution, number, started),
            Event::Answered(execution, number, answer) => self.answered(execution, number, answer),
            Event::Look(execution) => self.look(execution),
            Event::ProgramEnds(execution, code) => self.program_ends(execution, code),
            Event::GoodBye(execution) => self.good_bye(execution),
            Event::GoodByeArrives(execution) => self.good_bye_arrives(execution),
            Event::GoodByeNoted(execution) => self.good_bye_noted(execution),
            Event::CommitEnds(term) => self.commit_ends(term),
            Event::Wake(term) => self.wake(term),
            Event::CoordinatorStarts => self.coordinator_starts(),
            Event::CoordinatorContinues => self.coordinator_continues(),
            Event::Submit(number) => self.submit(number),
            Event::Stop(job) => self.stop(job),
            Event::SetOut => self.set_out(),
            Event::AskForLeave(number) => self.ask_for_leave(number),
            Event::Depart(number) => self.depart(number),
            Event::Fault => self.fault(),
        }
    }
}
