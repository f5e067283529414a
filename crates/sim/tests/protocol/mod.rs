//! The lease protocol in the small: one task group, its old and its new container, and what happens to
//! them.

mod bounds;
pub mod coordinator;
pub mod machine;

pub use bounds::{Bounds, Clocks, Mistake};
use bounds::{reading, when};
use coordinator::{Coordinator, Life, Stage};
use machine::{Flight, Launch, Machine, Process, Question};

/// True time at which everything begins; far from 0, so that no difference is cut off there.
pub const BEGIN_MS: u64 = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Wrapper,
    Agent,
}

/// One step of somebody, or of time. Where it has a number, it is the coordinator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Time goes on to the next instant.
    Wait,
    LaunchArrives,
    LaunchRefused,
    Ask(usize),
    /// A handler looks at the clock and at its leadership.
    Check,
    /// It answers from the index.
    Answer,
    /// The wrapper hears the answer.
    Hear,
    WrapperActs,
    TellAgent,
    ProgramObeys,
    AgentKills,
    Stop(Who),
    Continue(Who),
    KillAgent,
    KillWrapper {
        leaves_descendant: bool,
    },
    Depose,
    TakeOver,
    Hold(usize),
    Release(usize),
    /// To revoke the old container: frozen from here on.
    Decide(usize),
    Commit(usize),
    /// The swap after the commit.
    Apply(usize),
    /// The commit of the new container.
    Mint(usize),
    /// The new container gets its first "yes".
    StartNew(usize),
}

/// Whether the old container is revoked, durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Old {
    Present,
    RevokedBy(usize),
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub now_ms: u64,
    pub clocks: Clocks,
    /// Who leads, by the store.
    pub leader: usize,
    pub old: Old,
    /// Which term minted the new container.
    pub new_by: Option<usize>,
    pub new_runs: bool,
    pub coordinators: [Coordinator; 2],
    pub machine: Machine,
    pub faults_left: u8,
    /// The old copy outlived its lease while nobody could end it (05, limits).
    pub excused: bool,
    /// A term said "yes" after it had durably revoked.
    pub late_yes: bool,
    /// The new container was minted on proof, not at the end of a lease.
    pub proof_used: bool,
    pub rung_killed: bool,
}

impl World {
    pub fn new(bounds: &Bounds, clocks: Clocks) -> Self {
        Self {
            now_ms: BEGIN_MS,
            clocks,
            leader: 0,
            old: Old::Present,
            new_by: None,
            new_runs: false,
            coordinators: [Coordinator::leading(), Coordinator::standby()],
            machine: Machine::new(bounds.questions),
            faults_left: bounds.faults,
            excused: false,
            late_yes: false,
            proof_used: false,
            rung_killed: false,
        }
    }

    pub fn overlaps(&self) -> bool {
        self.machine.alive && self.new_runs
    }

    /// The machine's clock.
    fn boot_ms(&self) -> u64 {
        reading(self.clocks.machine, self.now_ms)
    }

    fn nobody_can_end_it(&self) -> bool {
        self.machine.wrapper != Process::Awake && self.machine.agent != Process::Awake
    }

    /// A container that has no "yes", or has one no longer, ends, unless nobody is there to end it.
    pub fn ends_in_time(&self, bounds: &Bounds) -> bool {
        let machine = &self.machine;
        let now = self.boot_ms();
        let waits_in_vain = machine.wrapper == Process::Awake
            && machine.launched_at_ms.is_some_and(|at| now > at + bounds.machine_terms().lease_ms)
            && machine.wants_verdicts()
            && machine.granted_until_ms.is_none();
        let lives_on = machine.alive
            && !self.nobody_can_end_it()
            && machine.granted_until_ms.is_none_or(|until| now >= until);
        !waits_in_vain && !lives_on
    }

    pub fn actions(&self, bounds: &Bounds, actions: &mut Vec<Action>) {
        if self.new_runs {
            return;
        }
        if self.machine.is_over() {
            if self.waits_for_a_lease() && self.now_ms < self.ends_at(bounds) {
                actions.push(Action::Wait);
            }
            return self.leaders_actions(bounds, actions);
        }
        let machine = &self.machine;
        let urgent = actions.len();
        machine.urgent(bounds, self.boot_ms(), actions);
        let must_act = actions.len() > urgent;
        if !must_act && self.now_ms < self.ends_at(bounds) {
            actions.push(Action::Wait);
        }
        self.machines_actions(bounds, actions);
        self.leaders_actions(bounds, actions);
    }

    fn machines_actions(&self, bounds: &Bounds, actions: &mut Vec<Action>) {
        let machine = &self.machine;
        if machine.launch == Launch::UnderWay {
            if machine.agent == Process::Awake {
                actions.push(Action::LaunchArrives);
                if self.old != Old::Present {
                    actions.push(Action::LaunchRefused);
                }
            }
            return;
        }
        if machine.wrapper == Process::Awake && machine.wants_verdicts() {
            if machine.questions_left > 0 {
                actions.push(Action::Ask(0));
                if self.coordinators[1].life != Life::Standby {
                    actions.push(Action::Ask(1));
                }
            }
            if let Some(Question { flight: Flight::Back { .. }, .. }) = machine.question {
                actions.push(Action::Hear);
            }
        }
        if let Some(question) = machine.question {
            match question.flight {
                Flight::Out if self.answers(bounds, question.to) => actions.push(Action::Check),
                Flight::Checked { .. } => actions.push(Action::Answer),
                _ => {}
            }
        }
        if machine.alive && machine.is_ending() && machine.wrapper != Process::Dead {
            actions.push(Action::ProgramObeys);
        }
        if self.faults_left > 0 {
            self.faults(actions);
        }
        for (who, process) in [(Who::Wrapper, machine.wrapper), (Who::Agent, machine.agent)] {
            if process == Process::Stopped {
                actions.push(Action::Continue(who));
            }
        }
    }

    fn faults(&self, actions: &mut Vec<Action>) {
        let machine = &self.machine;
        if machine.wrapper == Process::Awake {
            actions.push(Action::Stop(Who::Wrapper));
        }
        if machine.wrapper != Process::Dead {
            actions.push(Action::KillWrapper { leaves_descendant: false });
            actions.push(Action::KillWrapper { leaves_descendant: true });
        }
        if machine.agent == Process::Awake {
            actions.push(Action::Stop(Who::Agent));
        }
        if machine.agent != Process::Dead {
            actions.push(Action::KillAgent);
        }
    }

    fn leaders_actions(&self, bounds: &Bounds, actions: &mut Vec<Action>) {
        if bounds.takeover {
            match self.coordinators[0].life {
                Life::Leads => actions.push(Action::Depose),
                _ if self.leader == 0 => actions.push(Action::TakeOver),
                _ => {}
            }
        }
        for (c, coordinator) in self.coordinators.iter().enumerate() {
            if coordinator.life == Life::Standby {
                continue;
            }
            let leads = coordinator.life == Life::Leads;
            if leads && coordinator.stage == Stage::Valid && self.new_by.is_none() {
                match (c, coordinator.entry.held) {
                    (0, false) if bounds.holds => actions.push(Action::Hold(0)),
                    (1, true) if bounds.holds => actions.push(Action::Release(1)),
                    _ => {}
                }
                actions.push(Action::Decide(c));
            }
            if matches!(coordinator.stage, Stage::Decided { .. }) && self.leader == c {
                actions.push(Action::Commit(c));
            }
            if leads && matches!(coordinator.stage, Stage::Committed { .. }) {
                actions.push(Action::Apply(c));
            }
            let is_free = self.machine.is_proven_gone() || self.lease_is_over(bounds, c);
            if self.leader == c && self.new_by.is_none() && is_free {
                actions.push(Action::Mint(c));
            }
            let starts = bounds.makes(Mistake::StartsWithoutYes) || self.answers(bounds, c);
            let knows = self.new_by.is_some_and(|by| by <= c);
            if starts && knows {
                actions.push(Action::StartNew(c));
            }
        }
    }

    /// The leadership check (05: "its own leadership deadline not passed").
    fn answers(&self, bounds: &Bounds, c: usize) -> bool {
        match self.coordinators[c].life {
            Life::Standby => false,
            Life::Leads => true,
            Life::Deposed => bounds.makes(Mistake::NoLeadershipCheck),
        }
    }

    /// `Engine::obstacle` of crates/engine/src/containers.rs, for a member that is lost.
    fn lease_is_over(&self, bounds: &Bounds, c: usize) -> bool {
        let now = coordinator::clock(c, self.clocks.coordinators, self.now_ms);
        match self.coordinators[c].stage {
            Stage::Told(None) => true,
            Stage::Told(Some(last)) => now >= last + bounds.replace_after_ms(),
            Stage::Valid | Stage::Decided { .. } | Stage::Committed { .. } => false,
        }
    }

    fn waits_for_a_lease(&self) -> bool {
        let told = |c: &Coordinator| matches!(c.stage, Stage::Told(Some(_)));
        self.new_by.is_none() && self.coordinators.iter().any(told)
    }

    fn ends_at(&self, bounds: &Bounds) -> u64 {
        BEGIN_MS + bounds.half_leases * bounds.half_lease_ms()
    }

    /// The next instant at which anything new can happen.
    fn next_instant(&self, bounds: &Bounds) -> u64 {
        let tick = bounds.half_lease_ms();
        let next_tick = BEGIN_MS + ((self.now_ms - BEGIN_MS) / tick + 1) * tick;
        let machine = self.machine.deadlines(bounds, self.boot_ms());
        let machine = machine.into_iter().flatten().map(|at| when(self.clocks.machine, at));
        let replace = self.coordinators.iter().enumerate().filter_map(|(c, coordinator)| {
            let Stage::Told(Some(last)) = coordinator.stage else { return None };
            let due = last + bounds.replace_after_ms();
            Some(coordinator::when_clock(c, self.clocks.coordinators, due))
        });
        let later = machine.chain(replace).filter(|at| *at > self.now_ms);
        later.fold(next_tick, u64::min)
    }

    pub fn take(&mut self, bounds: &Bounds, action: Action) {
        let now = self.boot_ms();
        match action {
            Action::Wait => self.wait(bounds),
            Action::LaunchArrives => self.machine.launch_arrives(bounds, now),
            Action::LaunchRefused => self.machine.launch = Launch::Refused,
            Action::Ask(to) => self.machine.ask(now, to),
            Action::Check => self.check(),
            Action::Answer => self.answer(bounds),
            Action::Hear => self.machine.hear(bounds, now),
            Action::WrapperActs => self.machine.wrapper_acts(now),
            Action::TellAgent => self.machine.tell_agent(),
            Action::ProgramObeys => self.machine.program_ends(now, false),
            Action::AgentKills => self.agent_kills(now),
            Action::Stop(who) => {
                self.faults_left -= 1;
                *self.machine.process(who) = Process::Stopped;
            }
            Action::Continue(who) => self.continues(bounds, who),
            Action::KillAgent => {
                self.faults_left -= 1;
                self.machine.agent_dies();
            }
            Action::KillWrapper { leaves_descendant } => {
                self.faults_left -= 1;
                self.machine.wrapper_dies(leaves_descendant);
            }
            _ => self.leaders_take(bounds, action),
        }
    }

    fn leaders_take(&mut self, bounds: &Bounds, action: Action) {
        match action {
            Action::Depose => self.coordinators[0].life = Life::Deposed,
            Action::TakeOver => self.take_over(bounds),
            Action::Hold(c) => self.coordinators[c].entry.held = true,
            Action::Release(c) => self.coordinators[c].entry.held = false,
            Action::Decide(c) => self.coordinators[c].decide(bounds),
            Action::Commit(c) => {
                self.old = Old::RevokedBy(c);
                let coordinator = &mut self.coordinators[c];
                if let Stage::Decided { read } = coordinator.stage {
                    coordinator.stage = Stage::Committed { read };
                }
            }
            Action::Apply(c) => self.coordinators[c].apply(bounds),
            Action::Mint(c) => {
                self.proof_used = !self.lease_is_over(bounds, c);
                self.new_by = Some(c);
            }
            Action::StartNew(_) => self.new_runs = true,
            _ => unreachable!("{action:?} is not a leader's"),
        }
    }

    /// From the last rung's deadline on, what nobody can end is excused (05, limits).
    fn wait(&mut self, bounds: &Bounds) {
        self.now_ms = self.next_instant(bounds);
        let margin_ms = bounds.machine_terms().margin_ms();
        let now = self.boot_ms();
        let overdue = |until| now + margin_ms / 2 >= until;
        self.excused |= self.machine.alive
            && self.nobody_can_end_it()
            && self.machine.granted_until_ms.is_some_and(overdue);
    }

    fn check(&mut self) {
        let Some(question) = &mut self.machine.question else { return };
        let now = coordinator::clock(question.to, self.clocks.coordinators, self.now_ms);
        question.flight = Flight::Checked { now };
    }

    fn answer(&mut self, bounds: &Bounds) {
        let Some(question) = &mut self.machine.question else { return };
        let Flight::Checked { now } = question.flight else { return };
        let c = question.to;
        match self.coordinators[c].entry.ask(bounds, now) {
            coordinator::Verdict::Valid { lease_ms } => {
                self.late_yes |= self.old == Old::RevokedBy(c);
                question.flight = Flight::Back { yes: Some(lease_ms) };
            }
            coordinator::Verdict::Invalid => question.flight = Flight::Back { yes: None },
            coordinator::Verdict::Unknown => self.machine.question = None,
        }
    }

    fn agent_kills(&mut self, now: u64) {
        self.rung_killed |= self.machine.alive;
        self.machine.program_ends(now, true);
    }

    /// Looks at the deadline before anything else.
    fn continues(&mut self, bounds: &Bounds, who: Who) {
        *self.machine.process(who) = Process::Awake;
        let now = self.boot_ms();
        match who {
            Who::Wrapper => self.machine.wrapper_wakes(now),
            Who::Agent if self.machine.agent_must_kill(bounds, now) => self.agent_kills(now),
            Who::Agent => {}
        }
    }

    fn take_over(&mut self, bounds: &Bounds) {
        self.leader = 1;
        // Whatever the first one still decides is fenced.
        self.coordinators[0].stage = Stage::Valid;
        let now = coordinator::clock(1, self.clocks.coordinators, self.now_ms);
        let assumed = (!bounds.makes(Mistake::NoTakeoverRest)).then_some(now);
        self.coordinators[1] =
            Coordinator::took_over(assumed, bounds.holds, self.old != Old::Present);
    }
}
