//! Machines, and the agents on them: they speak every second, start what they are told to start, and
//! report an end until it is acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_engine::records::MemberRecord;
use steadfast_engine::{AgentMessage, Connection, Input};
use steadfast_model::{
    ContainerEvent, ExecutionId, FEATURE_LEVEL, InvalidReason, MemberUuid, Proof, Timestamp,
};

use crate::coordinator::CoordinatorNumber;
use crate::durable::TermNumber;
use crate::network::{Link, Uplink};
use crate::sights::Sight;
use crate::world::{Event, World};

/// An agent's process; a machine that starts another one gets another number.
pub(crate) type AgentNumber = u64;

const BEAT_MS: u64 = 1_000;
const LEAVE_ANYWAY_MS: u64 = 1_000;
/// How long an agent waits for a coordinator to take its connection.
const OPEN_TIMEOUT_MS: u64 = 2_000;
/// What an agent gives its containers when it has to end them all.
const GRACE_MS: u64 = 2_000;

/// A machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub slots: u32,
    pub agent: Option<AgentNumber>,
    pub reachable: bool,
}

impl Machine {
    pub fn new(slots: u32) -> Self {
        Self { slots, agent: None, reachable: true }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Process {
    Runs,
    Stopped,
    Dead,
}

/// Whether an agent is on its way to somewhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    Stays,
    /// It has said that it leaves and waits for the acknowledgement.
    SaidSo,
    /// It ends its containers, then itself.
    Leaves,
    /// It ends its containers, then takes another UUID.
    Renews,
}

/// An agent.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub machine: usize,
    pub member: MemberUuid,
    pub process: Process,
    pub connection: Option<Connection>,
    pub course: Course,
    /// The coordinator that it asks next.
    asks: CoordinatorNumber,
    /// The highest term that it has obeyed.
    highest: TermNumber,
    welcomed: bool,
    /// Whether this connection's `Hello` was answered; before that it obeys nothing.
    greeted: bool,
    /// What it runs.
    pub running: BTreeSet<ExecutionId>,
    /// Ends that are not acknowledged.
    ends: BTreeMap<ExecutionId, ContainerEvent>,
    /// What happened while it was stopped.
    missed: Vec<Event>,
}

impl Agent {
    pub fn is_dead(&self) -> bool {
        self.process == Process::Dead
    }
}

impl World {
    /// The agent, if it can act now; if it is stopped, it will see `event` later.
    fn awake(&mut self, number: AgentNumber, event: impl FnOnce() -> Event) -> Option<&mut Agent> {
        let agent = self.agents.get_mut(&number)?;
        match agent.process {
            Process::Runs => Some(agent),
            Process::Stopped => {
                agent.missed.push(event());
                None
            }
            Process::Dead => None,
        }
    }

    pub fn agent_starts(&mut self, machine: usize) {
        if self.machines[machine].agent.is_some() {
            return;
        }
        let number = self.number();
        let agent = Agent {
            machine,
            member: member_uuid(number),
            process: Process::Runs,
            connection: None,
            course: Course::Stays,
            asks: 0,
            highest: 0,
            welcomed: false,
            greeted: false,
            running: BTreeSet::new(),
            ends: BTreeMap::new(),
            missed: Vec::new(),
        };
        self.trace.note(self.now, || format!("machine {machine}: agent {} starts", agent.member));
        self.agents.insert(number, agent);
        self.machines[machine].agent = Some(number);
        self.at(self.now, Event::Connect(number));
        self.at(self.now + BEAT_MS, Event::Beat(number));
    }

    pub fn connect(&mut self, number: AgentNumber) {
        let Some(agent) = self.awake(number, || Event::Connect(number)) else { return };
        let (machine, highest) = (agent.machine, agent.highest);
        if agent.connection.is_some() {
            return;
        }
        let found = if self.machines[machine].reachable {
            self.find_leader(number)
        } else {
            Err(self.network_rng.between(50, 500))
        };
        let found = found.map(|c| self.term(c).map_or(0, |term| term.number));
        let term = match found {
            // Whoever has obeyed a later leader is hung up on.
            Ok(term) if term >= highest => term,
            Ok(_) => return self.at(self.now + BEAT_MS, Event::Connect(number)),
            Err(again_ms) => return self.at(self.now + again_ms, Event::Connect(number)),
        };
        let connection = Connection(self.number());
        let slots = self.machines[machine].slots;
        // Whoever was never welcomed holds nothing, so it is a new member at every try: its last one may
        // have been registered, declared lost and forgotten while it waited for the answer.
        let fresh = member_uuid(self.number());
        let Some(agent) = self.agents.get_mut(&number) else { return };
        if !agent.welcomed {
            agent.member = fresh;
        }
        let member = agent.member;
        agent.connection = Some(connection);
        agent.greeted = false;
        self.links.insert(connection, Link::new(number, term, member));
        let hello = Input::Hello {
            connection,
            member: Box::new(record(member, machine, slots)),
            welcomed: self.agents.get(&number).is_some_and(|agent| agent.welcomed),
            containers: Vec::new(),
        };
        let hello = self.with_containers(number, hello);
        self.trace.note(self.now, || format!("agent {member} connects as {connection:?}"));
        self.send_up(connection, Uplink::Hello(Box::new(hello)));
    }

    /// Whom an agent comes to that asks the next coordinator, whoever served it last first: one that stands
    /// by sends it on, and one that is stopped lets it wait.
    ///
    /// # Errors
    /// How long it waits before its next try.
    fn find_leader(&mut self, number: AgentNumber) -> Result<CoordinatorNumber, u64> {
        let many = self.coordinators.len();
        if many == 1 {
            let found = self.serving_or_asleep();
            return found.ok_or_else(|| self.network_rng.between(50, 500));
        }
        let pause_ms = self.network_rng.between(25, 500);
        let Some(agent) = self.agents.get_mut(&number) else { return Err(pause_ms) };
        let asked = agent.asks;
        agent.asks = (asked + 1) % many;
        let sent_on = self.leading().map(|(leader, _)| leader);
        let to = match self.coordinators[asked].process {
            Process::Dead => return Err(pause_ms),
            Process::Stopped => return Err(OPEN_TIMEOUT_MS + pause_ms),
            Process::Runs if self.still_leads(asked) => asked,
            Process::Runs => sent_on.ok_or(pause_ms)?,
        };
        if self.coordinators[to].process == Process::Stopped {
            return Err(OPEN_TIMEOUT_MS + pause_ms);
        }
        if !self.still_leads(to) {
            return Err(pause_ms);
        }
        if let Some(agent) = self.agents.get_mut(&number) {
            agent.asks = to;
        }
        Ok(to)
    }

    fn with_containers(&self, number: AgentNumber, mut hello: Input) -> Input {
        if let (Some(agent), Input::Hello { containers, .. }) =
            (self.agents.get(&number), &mut hello)
        {
            let running = agent.running.iter().map(|execution| {
                let container = self.containers.get(execution);
                (*execution, container.and_then(|container| container.started_event()))
            });
            let ended = agent.ends.iter().map(|(execution, end)| (*execution, Some(end.clone())));
            *containers = running.chain(ended).collect();
        }
        hello
    }

    pub fn beat(&mut self, number: AgentNumber) {
        let Some(agent) = self.awake(number, || Event::Beat(number)) else { return };
        if let Some(connection) = agent.connection {
            self.send_up(connection, Uplink::Beat);
        }
        self.at(self.now + BEAT_MS, Event::Beat(number));
    }

    pub fn agent_sees_closed(&mut self, number: AgentNumber, connection: Connection) {
        let event = || Event::AgentSeesClosed(number, connection);
        let Some(agent) = self.awake(number, event) else { return };
        if agent.connection == Some(connection) {
            agent.connection = None;
            self.at(self.now, Event::Connect(number));
        }
        let is_over = |link: &Link| self.coordinator_of(link.term).is_none();
        if self.links.get(&connection).is_some_and(is_over) {
            self.links.remove(&connection);
        }
    }

    /// An agent has heard nothing on a connection for a while.
    pub fn link_silent(&mut self, connection: Connection) {
        let Some(link) = self.links.get(&connection) else { return };
        let number = link.agent;
        let asleep = self.coordinator_of(link.term).is_some_and(|c| !self.coordinators[c].runs());
        let Some(agent) = self.awake(number, || Event::LinkSilent(connection)) else { return };
        if asleep && agent.connection == Some(connection) {
            agent.connection = None;
            self.close_from_agent(connection);
            self.at(self.now, Event::Connect(number));
        }
    }

    pub fn downlink_arrives(&mut self, connection: Connection, message: AgentMessage) {
        let Some(link) = self.links.get(&connection).filter(|link| link.down) else { return };
        let (number, term) = (link.agent, link.term);
        let event = || Event::Downlink(connection, Box::new(message.clone()));
        let Some(agent) = self.awake(number, event) else { return };
        if term < agent.highest {
            return;
        }
        agent.highest = term;
        if self.lead.is_some_and(|lead| lead.term > term) {
            self.sees(Sight::LateMessage);
        }
        let Some(agent) = self.agents.get_mut(&number) else { return };
        let greets = matches!(message, AgentMessage::Welcome | AgentMessage::RegisterAnew);
        agent.greeted |= greets && agent.connection == Some(connection);
        if agent.connection != Some(connection) || !agent.greeted {
            return;
        }
        let member = agent.member;
        self.trace.note(self.now, || format!("agent {member} is told {message:?}"));
        match message {
            AgentMessage::Welcome => {
                agent.welcomed = true;
                if agent.course == Course::SaidSo {
                    self.send_up(connection, Uplink::Leaving);
                }
            }
            AgentMessage::RegisterAnew => self.end_all(number, Course::Renews),
            AgentMessage::Launch(launch) => self.launch(number, *launch),
            AgentMessage::Stop { execution, reason, grace_ms } => {
                self.agent_stops(number, execution, reason, grace_ms);
            }
            AgentMessage::Acknowledge(execution) => {
                if let Some(agent) = self.agents.get_mut(&number) {
                    agent.ends.remove(&execution);
                }
            }
            AgentMessage::LeaveAcknowledged => self.end_all(number, Course::Leaves),
        }
    }

    fn launch(&mut self, number: AgentNumber, launch: steadfast_engine::Launch) {
        let Some(agent) = self.agents.get_mut(&number) else { return };
        let execution = launch.execution;
        let known = agent.running.contains(&execution) || agent.ends.contains_key(&execution);
        if known || !matches!(agent.course, Course::Stays | Course::SaidSo) {
            return;
        }
        agent.running.insert(execution);
        let machine = agent.machine;
        self.container_starts(number, machine, &launch);
    }

    fn agent_stops(
        &mut self,
        number: AgentNumber,
        execution: ExecutionId,
        reason: InvalidReason,
        grace_ms: u64,
    ) {
        let Some(agent) = self.agents.get_mut(&number) else { return };
        if agent.running.contains(&execution) {
            self.told(execution, reason, grace_ms);
            return;
        }
        let never = ContainerEvent::Ended { outcome: None, proof: Some(Proof::NeverStarted) };
        let end = agent.ends.entry(execution).or_insert(never).clone();
        self.report(number, execution, end);
    }

    /// Sends a report, if there is a connection; else the next `Hello` holds it.
    pub fn report(&mut self, number: AgentNumber, execution: ExecutionId, event: ContainerEvent) {
        let connection = self.agents.get(&number).and_then(|agent| agent.connection);
        if let Some(connection) = connection {
            self.send_up(connection, Uplink::Report(execution, event));
        }
    }

    pub fn agent_sees_end(&mut self, number: AgentNumber, execution: ExecutionId) {
        let end = self.containers.get(&execution).and_then(|container| container.end.clone());
        let event = || Event::AgentSeesEnd(number, execution);
        let Some(agent) = self.awake(number, event) else {
            if self.agents.get(&number).is_none_or(|agent| agent.process == Process::Dead) {
                self.at(self.now, Event::GoodBye(execution));
            }
            return;
        };
        let Some(end) = end else { return };
        agent.running.remove(&execution);
        agent.ends.insert(execution, end.clone());
        self.report(number, execution, end);
        self.finish_course(number);
    }

    fn end_all(&mut self, number: AgentNumber, course: Course) {
        let Some(agent) = self.agents.get_mut(&number) else { return };
        if matches!(agent.course, Course::Leaves | Course::Renews) {
            return;
        }
        agent.course = course;
        for execution in agent.running.clone() {
            self.told(execution, InvalidReason::MemberLost, GRACE_MS);
        }
        self.finish_course(number);
    }

    /// Once nothing of it runs any more, an agent that leaves goes, and one that was turned away comes
    /// back as somebody else.
    fn finish_course(&mut self, number: AgentNumber) {
        let Some(agent) = self.agents.get_mut(&number) else { return };
        if !agent.running.is_empty() {
            return;
        }
        match agent.course {
            Course::Stays | Course::SaidSo => {}
            Course::Leaves => self.agent_ends(number),
            Course::Renews => {
                let connection = agent.connection.take();
                agent.course = Course::Stays;
                agent.welcomed = false;
                if let Some(connection) = connection {
                    self.close_from_agent(connection);
                }
                self.at(self.now, Event::Connect(number));
            }
        }
    }

    pub fn leave(&mut self, number: AgentNumber) {
        let Some(agent) = self.agents.get_mut(&number) else { return };
        if agent.course != Course::Stays || agent.process != Process::Runs {
            return;
        }
        agent.course = Course::SaidSo;
        if let Some(connection) = agent.connection {
            self.send_up(connection, Uplink::Leaving);
        }
        self.at(self.now + LEAVE_ANYWAY_MS, Event::LeaveAnyway(number));
    }

    pub fn leave_anyway(&mut self, number: AgentNumber) {
        if self.awake(number, || Event::LeaveAnyway(number)).is_some() {
            self.end_all(number, Course::Leaves);
        }
    }

    /// The agent's process ends, killed or by itself; its machine starts another one later.
    pub fn agent_ends(&mut self, number: AgentNumber) {
        let Some(agent) = self.agents.get_mut(&number) else { return };
        agent.process = Process::Dead;
        let (machine, connection) = (agent.machine, agent.connection.take());
        let running = std::mem::take(&mut agent.running);
        self.machines[machine].agent = None;
        if let Some(connection) = connection {
            self.close_from_agent(connection);
        }
        for execution in running {
            self.agent_gone(execution);
        }
        let back_ms = self.network_rng.between(100, 10_000);
        self.at(self.now + back_ms, Event::AgentStarts(machine));
    }

    pub fn agent_continues(&mut self, number: AgentNumber) {
        let Some(agent) = self.agents.get_mut(&number) else { return };
        if agent.process != Process::Stopped {
            return;
        }
        agent.process = Process::Runs;
        for event in std::mem::take(&mut agent.missed) {
            self.at(self.now, event);
        }
    }

    /// A machine that was cut off can be reached again; its agent finds its connection broken.
    pub fn reachable(&mut self, machine: usize) {
        self.machines[machine].reachable = true;
        let Some(number) = self.machines[machine].agent else { return };
        if let Some(connection) = self.agents.get(&number).and_then(|agent| agent.connection) {
            self.cut(connection);
        }
    }
}

fn member_uuid(number: u64) -> MemberUuid {
    let text = format!("00000000-0000-4000-8000-{number:012x}");
    text.parse().unwrap_or_else(|error| unreachable!("twelve hex digits make a UUID: {error}"))
}

fn record(uuid: MemberUuid, machine: usize, slots: u32) -> MemberRecord {
    MemberRecord {
        uuid,
        host: format!("machine-{machine}"),
        // The same for every agent of a machine: an address is no identity.
        address: format!("machine-{machine}:5801"),
        pid: 1,
        slots,
        tags: BTreeMap::new(),
        version: "simulated".to_owned(),
        feature_level: FEATURE_LEVEL,
        registered: Timestamp::default(),
        lost: None,
        draining: false,
    }
}
