//! Operators: they plan leaves and drain members, ask again under the same id when nobody answers, use an
//! id twice by mistake, and then end the agent, in one way or another, soon or late or not at all.

use steadfast_engine::{Input, LeaveRequest, Reply};

use crate::agents::AgentNumber;
use crate::world::{Event, Waiter, World};

/// How long an operator waits for an answer.
const PATIENCE_MS: u64 = 1_500;
/// How often one asks.
const TRIES: u32 = 3;

/// Something that an operator is after.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    request: LeaveRequest,
    agent: AgentNumber,
    asked: u32,
    answered: bool,
}

impl Errand {
    /// Nobody was asked yet.
    pub fn new(request: LeaveRequest, agent: AgentNumber) -> Self {
        Self { request, agent, asked: 0, answered: false }
    }
}

impl World {
    /// An operator sets out, and another one will after this one.
    pub fn set_out(&mut self) {
        let Some(every_ms) = self.plan.leave_every_ms.filter(|_| self.faulty) else { return };
        let next_ms = self.operator_rng.between(1, 2 * every_ms);
        self.at(self.now + next_ms, Event::SetOut);
        let Some(number) = self.some_agent_of_an_operator() else { return };
        let Some(agent) = self.agents.get(&number) else { return };
        let member = agent.member;
        let rng = &mut self.operator_rng;
        let (first, last) = (1, self.errands.len() as u64 + 1);
        let id = if rng.chance(100) { rng.between(first, last) } else { last };
        let valid_ms = rng.pick(&[1_000, 3_000, 10_000, 600_000]).unwrap_or(1_000);
        let request = LeaveRequest {
            id: format!("request-{id}").parse().unwrap_or_else(|error| unreachable!("{error}")),
            member,
            actor: "on-call".to_owned(),
            reason: "a new kernel".to_owned(),
            valid_ms,
            drain: rng.chance(500),
        };
        self.errands.push(Errand::new(request, number));
        self.ask_for_leave(self.errands.len() - 1);
    }

    fn some_agent_of_an_operator(&mut self) -> Option<AgentNumber> {
        let agents: Vec<AgentNumber> =
            self.machines.iter().filter_map(|machine| machine.agent).collect();
        self.operator_rng.pick(&agents)
    }

    /// Asks, and asks again where no answer came.
    pub fn ask_for_leave(&mut self, number: usize) {
        let errand = &mut self.errands[number];
        if errand.answered || errand.asked == TRIES || !self.faulty {
            return;
        }
        errand.asked += 1;
        let request = errand.request.clone();
        self.at(self.now + PATIENCE_MS, Event::AskForLeave(number));
        if let Some(c) = self.serving()
            && !self.is_lost()
        {
            let waiter = Waiter::Operator(number);
            self.request(c, waiter, |ticket| Input::PlanLeave { ticket, request });
        }
    }

    pub fn leave_answered(&mut self, number: usize, reply: Reply) {
        let rng = &mut self.operator_rng;
        let (soon, goes_ms) = (rng.chance(400), rng.between(0, 9_000));
        self.errands[number].answered = true;
        if let Reply::LeavePlanned(request) = reply {
            self.planned.entry(request.id.clone()).or_default().push(request);
            let goes_ms = if soon { goes_ms / 20 } else { goes_ms };
            self.at(self.now + goes_ms, Event::Depart(number));
        }
    }

    /// The time has come for which the leave was planned.
    pub fn depart(&mut self, number: usize) {
        if !self.faulty {
            return;
        }
        let agent = self.errands[number].agent;
        let how = self.operator_rng.between(0, 9);
        if self.agents.get(&agent).is_none_or(|agent| agent.is_dead()) {
            return;
        }
        self.trace.note(self.now, || format!("operator: agent {agent} goes, {how}"));
        match how {
            0..=4 => self.leave(agent),
            5..=6 => self.agent_ends(agent),
            7..=8 => self.stop_agent(agent, 20_000),
            // Something came up.
            _ => {}
        }
    }
}
