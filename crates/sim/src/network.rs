//! What carries messages: connections that keep their order and break, and requests that get lost.

use steadfast_engine::{AgentMessage, Connection, Input, Reporter};
use steadfast_model::{ContainerEvent, ExecutionId, MemberUuid};

use crate::agents::AgentNumber;
use crate::durable::TermNumber;
use crate::world::{Event, World};

/// An agent leaves a connection that carried nothing for so long.
const SILENCE_MS: u64 = 5_000;

/// What an agent says.
#[derive(Clone, Debug)]
pub(crate) enum Uplink {
    Hello(Box<Input>),
    Beat,
    Report(ExecutionId, ContainerEvent),
    Leaving,
    /// The end of the connection, in its place among the messages.
    Closed,
}

/// One agent's connection. Each direction keeps its order.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub agent: AgentNumber,
    /// The term that it leads to.
    pub term: TermNumber,
    /// Who the agent said it is on this connection.
    pub member: MemberUuid,
    /// Whether what the agent sends can still arrive.
    pub up: bool,
    /// Whether what is sent to the agent can still arrive.
    pub down: bool,
    up_last: u64,
    down_last: u64,
}

impl Link {
    pub fn new(agent: AgentNumber, term: TermNumber, member: MemberUuid) -> Self {
        Self { agent, term, member, up: true, down: true, up_last: 0, down_last: 0 }
    }
}

impl World {
    /// How long a message takes.
    pub fn latency(&mut self) -> u64 {
        let slow = self.faulty && self.network_rng.chance(self.plan.odds.slow);
        let most = if slow { 4_000 } else { 8 };
        self.network_rng.between(0, most)
    }

    /// Whether a request, or its answer, is lost.
    pub fn is_lost(&mut self) -> bool {
        self.network_rng.chance(if self.faulty { self.plan.odds.lost } else { 0 })
    }

    pub fn send_up(&mut self, connection: Connection, message: Uplink) {
        let latency = self.latency();
        let Some(link) = self.links.get_mut(&connection).filter(|link| link.up) else { return };
        link.up_last = link.up_last.max(self.now + latency);
        let at = link.up_last;
        self.at(at, Event::Uplink(connection, Box::new(message)));
    }

    pub fn send_down(&mut self, connection: Connection, message: AgentMessage) {
        let latency = self.latency();
        let Some(link) = self.links.get_mut(&connection).filter(|link| link.down) else { return };
        link.down_last = link.down_last.max(self.now + latency);
        let at = link.down_last;
        self.at(at, Event::Downlink(connection, Box::new(message)));
    }

    /// Breaks a connection at once: what is under way on it is lost, and each end learns of it later.
    pub fn cut(&mut self, connection: Connection) {
        let most = if self.network_rng.chance(200) { 2_000 } else { 20 };
        let (here, there) = (self.network_rng.between(0, most), self.network_rng.between(0, most));
        let Some(link) = self.links.get_mut(&connection) else { return };
        link.up = false;
        link.down = false;
        let agent = link.agent;
        self.at(self.now + here, Event::Uplink(connection, Box::new(Uplink::Closed)));
        self.at(self.now + there, Event::AgentSeesClosed(agent, connection));
    }

    /// The agent's process ended, or closes: what it has sent still arrives, then the end.
    pub fn close_from_agent(&mut self, connection: Connection) {
        self.send_up(connection, Uplink::Closed);
        if let Some(link) = self.links.get_mut(&connection) {
            link.down = false;
        }
    }

    /// The coordinator's end of a term's connections closes, with the term or with its process. Of several
    /// coordinators it is known what they leave behind: what was sent before still arrives, late perhaps.
    pub fn links_break(&mut self, term: TermNumber) {
        let of_term = self.links.iter().filter(|(_, link)| link.term == term);
        let of_term: Vec<Connection> = of_term.map(|(connection, _)| *connection).collect();
        for connection in of_term {
            let latency = self.network_rng.between(0, 30);
            let Some(link) = self.links.get_mut(&connection) else { continue };
            link.up = false;
            let (agent, last) = (link.agent, link.down_last);
            if self.plan.etcd.is_some() {
                self.at(last.max(self.now + latency), Event::AgentSeesClosed(agent, connection));
            } else {
                self.links.remove(&connection);
                self.at(self.now + latency, Event::AgentSeesClosed(agent, connection));
            }
        }
    }

    /// A coordinator that is stopped says nothing; where there are others, its agents turn to them.
    pub fn links_go_silent(&mut self, term: TermNumber) {
        if self.plan.etcd.is_none() {
            return;
        }
        let of_term = self.links.iter().filter(|(_, link)| link.term == term);
        let of_term: Vec<Connection> = of_term.map(|(connection, _)| *connection).collect();
        for connection in of_term {
            // It was last heard up to a second ago.
            let heard_ms = self.network_rng.between(0, 1_000);
            self.at(self.now + SILENCE_MS - heard_ms, Event::LinkSilent(connection));
        }
    }

    pub fn uplink_arrives(&mut self, connection: Connection, message: Uplink) {
        let Some(link) = self.links.get(&connection) else { return };
        let closed = matches!(message, Uplink::Closed);
        if !link.up && !closed {
            return;
        }
        let (member, term) = (link.member, link.term);
        let input = match message {
            Uplink::Hello(input) => *input,
            Uplink::Beat => Input::Heard { member, connection },
            Uplink::Report(execution, event) => {
                let reporter = Reporter::Agent(member, connection);
                Input::Container { execution, event, reporter }
            }
            Uplink::Leaving => Input::Leaving { member, connection },
            Uplink::Closed => {
                self.links.remove(&connection);
                Input::Disconnected { member, connection, by_us: false }
            }
        };
        if let Some(c) = self.coordinator_of(term) {
            self.hear(c, input);
        }
    }
}
