//! Containers: a wrapper that asks whether it may go on, and a program that works, fails, or does not
//! listen.
//!
//! The wrapper is the one of the design: it starts nothing before a "yes", asks on schedule, begins to
//! stop at `L − G − m` after *sending* the last request that got a yes and kills at `L − m`; a yes after
//! the stop began moves nothing.

use steadfast_engine::{Input, Launch, Reporter};
use steadfast_model::{
    ContainerEvent, ExecutionId, InvalidReason, JobId, LeaseTerms, Outcome, Proof, StopCause,
    TaskGroupId,
};

use crate::agents::{AgentNumber, Process};
use crate::coordinator::CoordinatorNumber;
use crate::durable::TermNumber;
use crate::index::Answer;
use crate::sights::Sight;
use crate::world::{Event, Waiter, World};

const GOOD_BYE_AGAIN_MS: u64 = 1_000;
/// A question that nobody answers is given up after this.
const LONGEST_ANSWER_MS: u64 = 2_000;
const SIGKILL: i32 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running,
    Ending { kill_at: u64 },
    Over,
}

/// One container, from its launch to long after its end.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub job: JobId,
    pub group: TaskGroupId,
    pub machine: usize,
    agent: AgentNumber,
    /// The coordinator that it asks first.
    pub asks: CoordinatorNumber,
    token: u64,
    terms: LeaseTerms,
    pub leased: bool,
    work_ms: Option<u64>,
    phase: Phase,
    /// When waiting for a first "yes" ends.
    give_up_at: u64,
    /// When the lease ends, by the last request that got a "yes".
    lease_until: u64,
    /// The question that is in flight, or the next one.
    question: u64,
    asked_at: u64,
    program_since: Option<u64>,
    why: Option<StopCause>,
    /// Its end, as it is to be reported.
    pub end: Option<ContainerEvent>,
    wrapper_dead: bool,
    good_bye_noted: bool,
}

impl Container {
    pub fn runs(&self) -> bool {
        self.phase == Phase::Running
    }

    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    pub fn has_program(&self) -> bool {
        self.program_since.is_some() && !self.is_over() && !self.wrapper_dead
    }

    pub fn token(&self) -> u64 {
        self.token
    }

    pub fn started_event(&self) -> Option<ContainerEvent> {
        self.program_since.map(|_| ContainerEvent::Started { pid: 2, wrapper_pid: 1 })
    }

    fn stop_at(&self) -> u64 {
        self.lease_until.saturating_sub(self.terms.grace_ms + self.terms.margin_ms())
    }

    fn kill_at(&self) -> u64 {
        if self.leased { self.lease_until.saturating_sub(self.terms.margin_ms()) } else { u64::MAX }
    }
}

impl World {
    pub fn container_starts(&mut self, agent: AgentNumber, machine: usize, launch: &Launch) {
        let planned = launch.job_name.strip_prefix("job-").and_then(|number| number.parse().ok());
        let planned = planned.and_then(|number: usize| self.plan.jobs.get(number));
        let container = Container {
            job: launch.job,
            group: launch.task_group,
            machine,
            agent,
            asks: 0,
            token: launch.token.get(),
            terms: launch.lease,
            leased: launch.validator_enabled,
            work_ms: planned.and_then(|job| job.work_ms),
            phase: Phase::Waiting,
            give_up_at: self.now + launch.lease.lease_ms,
            lease_until: 0,
            question: 0,
            asked_at: 0,
            program_since: None,
            why: None,
            end: None,
            wrapper_dead: false,
            good_bye_noted: false,
        };
        self.containers.insert(launch.execution, container);
        if launch.validator_enabled {
            let first = self.network_rng.between(0, 30);
            self.at(self.now + first, Event::Poll(launch.execution, 0));
            self.look_at(launch.execution);
        } else {
            self.start_program(launch.execution);
        }
    }

    pub fn poll(&mut self, execution: ExecutionId, number: u64) {
        let lost = self.is_lost();
        let latency = self.latency();
        let Some(container) = self.containers.get_mut(&execution) else { return };
        let asks = matches!(container.phase, Phase::Waiting | Phase::Running);
        if !asks || container.question != number || container.wrapper_dead {
            return;
        }
        container.question += 1;
        container.asked_at = self.now;
        let (question, started) = (container.question, container.program_since.is_some());
        let first = container.asks;
        let timeout_ms = (container.terms.stop_after_ms() / 3).clamp(100, LONGEST_ANSWER_MS);
        let reachable = self.machines[container.machine].reachable;
        if reachable && !lost {
            self.at(self.now + latency, Event::Asked(execution, question, started, first));
        }
        self.at(self.now + timeout_ms, Event::Poll(execution, question));
    }

    pub fn asked(
        &mut self,
        execution: ExecutionId,
        number: u64,
        started: bool,
        first: CoordinatorNumber,
    ) {
        let answer = self.coordinators_answer(execution, number, started, first);
        let Some(answer) = answer else { return };
        let (lost, latency) = (self.is_lost(), self.latency());
        let container = self.containers.get(&execution);
        let machine = container.map(|container| container.machine);
        if let (Answer::Valid(lease_ms), Some(container)) = (answer, container) {
            self.checks.zombies.granted(execution, self.now, lease_ms, container.terms);
        }
        if !lost && machine.is_some_and(|machine| self.machines[machine].reachable) {
            let term = self.lead.map_or(0, |lead| lead.term);
            self.at(self.now + latency, Event::Answered(execution, number, answer, term));
        }
    }

    pub fn answered(
        &mut self,
        execution: ExecutionId,
        number: u64,
        answer: Answer,
        term: TermNumber,
    ) {
        let now = self.now;
        let Some(container) = self.containers.get_mut(&execution) else { return };
        if container.question != number || container.wrapper_dead {
            return;
        }
        container.question += 1;
        let (question, schedule_ms) = (container.question, container.terms.schedule_ms);
        self.at(now + schedule_ms, Event::Poll(execution, question));
        match answer {
            Answer::Unknown => {}
            Answer::Invalid(reason) => {
                let Some(container) = self.containers.get(&execution) else { return };
                let grace_ms = container.terms.grace_ms;
                self.checks.zombies.must_be_over(execution, now + grace_ms);
                self.end_container(execution, StopCause::Invalid(reason), grace_ms);
            }
            Answer::Valid(lease_ms) => {
                if self.lead.is_some_and(|lead| lead.term > term) {
                    self.sees(Sight::LateVerdict);
                }
                self.extend(execution, lease_ms);
            }
        }
    }

    fn extend(&mut self, execution: ExecutionId, lease_ms: u64) {
        let now = self.now;
        let Some(container) = self.containers.get_mut(&execution) else { return };
        // Woken past its deadline, a wrapper looks at that first.
        if container.phase == Phase::Running && now >= container.stop_at() {
            return;
        }
        container.lease_until = container.lease_until.max(container.asked_at + lease_ms);
        let starts = container.phase == Phase::Waiting
            && now < container.give_up_at
            && now < container.stop_at();
        if starts {
            self.start_program(execution);
        }
        self.look_at(execution);
    }

    /// Sets an alarm for the container's next deadline.
    fn look_at(&mut self, execution: ExecutionId) {
        let Some(container) = self.containers.get(&execution) else { return };
        let at = match container.phase {
            Phase::Waiting => container.give_up_at,
            Phase::Running if container.leased => container.stop_at(),
            Phase::Ending { kill_at } => kill_at,
            Phase::Running | Phase::Over => return,
        };
        if at != u64::MAX {
            self.at(at, Event::Look(execution));
        }
    }

    pub fn look(&mut self, execution: ExecutionId) {
        let now = self.now;
        let Some(container) = self.containers.get(&execution) else { return };
        match container.phase {
            Phase::Waiting if now >= container.give_up_at => {
                self.never_started(execution, "no coordinator said yes");
            }
            Phase::Running if container.leased && now >= container.stop_at() => {
                let grace_ms = container.terms.grace_ms;
                self.end_container(execution, StopCause::LeaseExpired, grace_ms);
            }
            Phase::Ending { kill_at } if now >= kill_at => self.is_killed(execution),
            _ => {}
        }
    }

    fn is_killed(&mut self, execution: ExecutionId) {
        let Some(container) = self.containers.get(&execution) else { return };
        let outcome = match container.why {
            Some(why) => Outcome::Ended { why, killed: true },
            None => Outcome::Signaled { signal: SIGKILL },
        };
        self.over(execution, outcome, Proof::NoChildLeft);
    }

    fn start_program(&mut self, execution: ExecutionId) {
        let odds = if self.faulty { self.plan.odds.program_fails } else { 0 };
        let cannot_start = self.program_rng.chance(odds / 10);
        let fails = self.program_rng.chance(odds);
        let fails_after_ms = self.program_rng.between(0, 15_000);
        if cannot_start {
            self.never_started(execution, "no such program");
            return;
        }
        let Some(container) = self.containers.get_mut(&execution) else { return };
        container.phase = Phase::Running;
        container.program_since = Some(self.now);
        let (job, group) = (container.job, container.group);
        let worked_ms = self.worked_ms.get(&(job, group)).copied().unwrap_or(0);
        let left_ms = container.work_ms.map(|work_ms| work_ms.saturating_sub(worked_ms));
        let agent = container.agent;
        if container.leased {
            let token = container.token;
            self.checks.containers.program_started((job, group), execution, token);
            self.checks.zombies.program_started(execution);
        }
        self.trace.note(self.now, || format!("{execution} starts the program of {job}/{group}"));
        self.at(self.now, Event::Checkpoint(execution, 1));
        if let Some(left_ms) = left_ms {
            self.at(self.now + left_ms, Event::ProgramEnds(execution, 0));
        }
        if fails {
            self.at(self.now + fails_after_ms, Event::ProgramEnds(execution, 1));
        }
        let alive = self.agents.get(&agent).is_some_and(|agent| agent.running.contains(&execution));
        if alive {
            let started = ContainerEvent::Started { pid: 2, wrapper_pid: 1 };
            self.report(agent, execution, started);
        }
    }

    /// The agent passes on a stop.
    pub fn told(&mut self, execution: ExecutionId, reason: InvalidReason, grace_ms: u64) {
        self.checks.zombies.must_be_over(execution, self.now + grace_ms);
        self.end_container(execution, StopCause::Told(reason), grace_ms);
    }

    fn end_container(&mut self, execution: ExecutionId, why: StopCause, grace_ms: u64) {
        let now = self.now;
        let ignores = self.program_rng.chance(200);
        let Some(container) = self.containers.get_mut(&execution) else { return };
        let kill_at = (now + grace_ms).min(container.kill_at());
        match container.phase {
            Phase::Waiting => {
                self.over(execution, Outcome::Ended { why, killed: false }, Proof::NeverStarted);
            }
            Phase::Running => {
                container.phase = Phase::Ending { kill_at };
                container.why = Some(why);
                self.trace.note(now, || format!("{execution} is ended: {why:?}"));
                if !ignores {
                    let takes_ms = self.program_rng.between(0, 1_500);
                    self.at(now + takes_ms, Event::ProgramEnds(execution, 0));
                }
                self.look_at(execution);
            }
            Phase::Ending { kill_at: earlier } => {
                container.phase = Phase::Ending { kill_at: earlier.min(kill_at) };
                self.look_at(execution);
            }
            Phase::Over => {}
        }
    }

    pub fn program_ends(&mut self, execution: ExecutionId, code: i32) {
        let Some(container) = self.containers.get(&execution) else { return };
        if container.program_since.is_none() || container.phase == Phase::Over {
            return;
        }
        let outcome = match container.why {
            Some(why) => Outcome::Ended { why, killed: false },
            None if code < 0 => Outcome::Signaled { signal: -code },
            None => Outcome::Exited { code },
        };
        self.over(execution, outcome, Proof::NoChildLeft);
    }

    fn never_started(&mut self, execution: ExecutionId, error: &str) {
        let outcome = Outcome::NotStarted { error: error.to_owned() };
        self.over(execution, outcome, Proof::NeverStarted);
    }

    /// Nothing of it is left, and somebody is told.
    fn over(&mut self, execution: ExecutionId, outcome: Outcome, proof: Proof) {
        let Some(container) = self.containers.get_mut(&execution) else { return };
        self.trace.note(self.now, || format!("{execution} is over: {outcome:?}"));
        container.phase = Phase::Over;
        let agent = container.agent;
        let silent = container.wrapper_dead;
        if !silent {
            let proof = Some(proof);
            container.end = Some(ContainerEvent::Ended { outcome: Some(outcome), proof });
        }
        if let Some(since) = container.program_since {
            let worked = self.worked_ms.entry((container.job, container.group)).or_default();
            *worked += self.now - since;
        }
        self.checks.containers.program_ended(execution);
        self.checks.zombies.program_ended(execution);
        if !silent {
            self.at(self.now, Event::AgentSeesEnd(agent, execution));
        }
    }

    /// The wrapper is killed; its program dies with it, a moment later. Its agent sees the end at once,
    /// without proof.
    pub fn wrapper_killed(&mut self, execution: ExecutionId) {
        let dies_ms = self.program_rng.between(0, 100);
        let now = self.now;
        let Some(container) = self.containers.get_mut(&execution) else { return };
        let agent = container.agent;
        container.wrapper_dead = true;
        container.end = Some(ContainerEvent::Ended { outcome: None, proof: None });
        container.phase = Phase::Ending { kill_at: now + dies_ms };
        self.checks.zombies.wrapper_killed(execution, now);
        self.look_at(execution);
        self.at(now, Event::AgentSeesEnd(agent, execution));
    }

    /// The machine is lost, and everything on it.
    pub fn vanish(&mut self, execution: ExecutionId) {
        if self.containers.remove(&execution).is_some() {
            self.checks.containers.program_ended(execution);
            self.checks.zombies.program_ended(execution);
        }
    }

    /// Its agent died: nobody would learn of a start, and a verdict is asked for at once.
    pub fn agent_gone(&mut self, execution: ExecutionId) {
        let Some(container) = self.containers.get_mut(&execution) else { return };
        match container.phase {
            Phase::Waiting => self.never_started(execution, "its agent ended"),
            Phase::Running => {
                container.question += 1;
                let question = container.question;
                self.at(self.now, Event::Poll(execution, question));
            }
            Phase::Ending { .. } | Phase::Over => {}
        }
    }

    pub fn good_bye(&mut self, execution: ExecutionId) {
        let (lost, latency) = (self.is_lost(), self.latency());
        let Some(container) = self.containers.get(&execution) else { return };
        if container.good_bye_noted || container.wrapper_dead {
            return;
        }
        if !lost && self.machines[container.machine].reachable {
            self.at(self.now + latency, Event::GoodByeArrives(execution));
        }
        self.at(self.now + GOOD_BYE_AGAIN_MS, Event::GoodBye(execution));
    }

    pub fn good_bye_arrives(&mut self, execution: ExecutionId) {
        let Some(container) = self.containers.get(&execution) else { return };
        let (first, many) = (container.asks, self.coordinators.len());
        let Some(event) = container.end.clone() else { return };
        for c in (first..first + many).map(|c| c % many) {
            let coordinator = &mut self.coordinators[c];
            if coordinator.process == Process::Stopped && many > 1 {
                // It waits there, and the wrapper says it to the next one.
                coordinator.missed.push(Event::GoodByeArrives(execution));
                return self.asks_next(execution, c + 1);
            }
            if coordinator.term.is_some() {
                let waiter = Waiter::Wrapper(execution);
                return self.request(c, waiter, |ticket| {
                    let reporter = Reporter::Wrapper(Some(ticket));
                    Input::Container { execution, event, reporter }
                });
            }
        }
    }

    pub fn good_bye_noted(&mut self, execution: ExecutionId) {
        if let Some(container) = self.containers.get_mut(&execution) {
            container.good_bye_noted = true;
        }
    }
}
