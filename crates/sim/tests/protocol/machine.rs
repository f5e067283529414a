//! The machine of the old container: agent, wrapper and program, under one clock.

use std::hash::{Hash, Hasher};

use steadfast_model::{InvalidReason, Timestamp};

use super::{Action, Bounds, Mistake, Who};
use crate::clock::BootTime;
use crate::ladder::{Action as LadderAction, Ladder, ProgramEnd, Reaped};
use crate::rung::{Rung, Step};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Launch {
    UnderWay,
    Arrived,
    /// The agent was told to stop it, and said that it never started.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Process {
    Awake,
    Stopped,
    Dead,
}

/// The real ladder, which can be compared by what can be seen of it: two that look alike go on alike.
#[derive(Clone, Debug)]
pub struct SeenLadder(pub Ladder);

impl SeenLadder {
    fn key(&self) -> (Option<u64>, u64, u64, bool, bool) {
        let ladder = &self.0;
        (
            ladder.lease_until().map(BootTime::as_millis),
            ladder.next_deadline().as_millis(),
            ladder.kill_at().as_millis(),
            ladder.wants_verdicts(),
            ladder.over().is_some(),
        )
    }
}

impl PartialEq for SeenLadder {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for SeenLadder {}

impl Hash for SeenLadder {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.key().hash(hasher);
    }
}

/// Where a question is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flight {
    /// On its way to the coordinator.
    Out,
    /// A handler has looked at the clock, and found that it leads.
    Checked { now: Timestamp },
    /// On its way back: a "yes" with the lease it grants, or a "no".
    Back { yes: Option<u64> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    pub to: usize,
    sent_at_ms: u64,
    pub flight: Flight,
}

/// All instants are milliseconds of the machine's clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    pub launch: Launch,
    pub launched_at_ms: Option<u64>,
    pub ladder: Option<SeenLadder>,
    pub wrapper: Process,
    pub agent: Process,
    /// Something of the program runs.
    pub alive: bool,
    pub question: Option<Question>,
    pub questions_left: u8,
    pub highest_epoch: usize,
    /// The end of the longest lease that the agent was told of.
    told_until_ms: Option<u64>,
    /// What the agent is still to be told.
    untold_until_ms: Option<u64>,
    /// The end of the longest lease that a "yes" granted: what ladder and rung are judged by.
    pub granted_until_ms: Option<u64>,
    /// How many of them counted.
    pub yeses: u8,
}

fn at(ms: u64) -> BootTime {
    BootTime::from_millis(ms)
}

impl Machine {
    pub fn new(questions: u8) -> Self {
        Self {
            launch: Launch::UnderWay,
            launched_at_ms: None,
            ladder: None,
            wrapper: Process::Awake,
            agent: Process::Awake,
            alive: false,
            question: None,
            questions_left: questions,
            highest_epoch: 0,
            told_until_ms: None,
            untold_until_ms: None,
            granted_until_ms: None,
            yeses: 0,
        }
    }

    pub fn process(&mut self, who: Who) -> &mut Process {
        match who {
            Who::Wrapper => &mut self.wrapper,
            Who::Agent => &mut self.agent,
        }
    }

    fn ladder(&self) -> Option<&Ladder> {
        self.ladder.as_ref().map(|ladder| &ladder.0)
    }

    pub fn wants_verdicts(&self) -> bool {
        self.ladder().is_some_and(Ladder::wants_verdicts)
    }

    pub fn is_ending(&self) -> bool {
        self.ladder().is_some_and(|ladder| !ladder.wants_verdicts() && ladder.over().is_none())
    }

    /// The wrapper has said that nothing is left, or the agent that there never was anything.
    pub fn is_proven_gone(&self) -> bool {
        self.launch == Launch::Refused
            || self.ladder().is_some_and(|ladder| ladder.over().is_some())
    }

    /// Nothing of the old container can ever run again.
    pub fn is_over(&self) -> bool {
        let can_start = self.launch == Launch::UnderWay
            || self.wrapper != Process::Dead && !self.is_proven_gone();
        !self.alive && !can_start
    }

    /// The rung of crates/agent, made from what it was told.
    fn rung(&self, bounds: &Bounds) -> Rung {
        let launched_ms = self.launched_at_ms.unwrap_or(0);
        let armed = !bounds.makes(Mistake::RungWaitsToBeTold);
        let mut rung = Rung::new(launched_ms, bounds.machine_terms(), armed);
        if let Some(until_ms) = self.told_until_ms {
            rung.extended(until_ms);
        }
        rung
    }

    /// `Watch::judge` and the end of `Watch::run` of crates/agent/src/container.rs.
    pub fn agent_must_kill(&self, bounds: &Bounds, now: u64) -> bool {
        let due =
            self.wrapper == Process::Dead || self.rung(bounds).step(now) == Some(Step::KillProgram);
        self.agent == Process::Awake && self.alive && due
    }

    /// What must happen before time goes on: nobody who is awake oversleeps.
    pub fn urgent(&self, bounds: &Bounds, now: u64, actions: &mut Vec<Action>) {
        if self.wrapper == Process::Awake {
            if self.ladder().is_some_and(|ladder| at(now) >= ladder.next_deadline()) {
                actions.push(Action::WrapperActs);
            }
            if self.untold_until_ms.is_some() {
                actions.push(Action::TellAgent);
            }
        }
        if self.agent_must_kill(bounds, now) {
            actions.push(Action::AgentKills);
        }
    }

    /// Every instant at which the wrapper or the agent has something to do.
    pub fn deadlines(&self, bounds: &Bounds, now: u64) -> [Option<u64>; 3] {
        let of_ladder = |deadline: BootTime| {
            Some(deadline).filter(|at| *at != BootTime::NEVER).map(BootTime::as_millis)
        };
        let ladder = self.ladder();
        let rung = self.rung(bounds).wait_ms(now);
        [
            ladder.and_then(|ladder| of_ladder(ladder.next_deadline())),
            ladder.and_then(|ladder| of_ladder(ladder.kill_at())),
            self.alive.then(|| now.checked_add(rung)).flatten(),
        ]
    }

    pub fn launch_arrives(&mut self, bounds: &Bounds, now: u64) {
        self.launch = Launch::Arrived;
        self.launched_at_ms = Some(now);
        self.ladder = Some(SeenLadder(Ladder::new(at(now), bounds.machine_terms(), true)));
        if bounds.makes(Mistake::StartsWithoutYes) {
            self.hear_yes(now, now, bounds.terms.lease_ms);
        }
    }

    pub fn ask(&mut self, now: u64, to: usize) {
        self.questions_left -= 1;
        self.question = Some(Question { to, sent_at_ms: now, flight: Flight::Out });
    }

    /// `Wrapper::turn` of crates/validator/src/wrapper/mod.rs: the deadline first, then what was said.
    pub fn hear(&mut self, bounds: &Bounds, now: u64) {
        self.wrapper_acts(now);
        let Some(Question { to, sent_at_ms, flight: Flight::Back { yes } }) = self.question.take()
        else {
            return;
        };
        // `Poll::verdict` of crates/validator/src/poll.rs. Answers to questions that it no longer waits
        // for have another nonce, and do not come here.
        let epoch = to + 1;
        if epoch < self.highest_epoch {
            return;
        }
        self.highest_epoch = epoch;
        match yes {
            Some(lease_ms) if bounds.makes(Mistake::RunsFromTheAnswer) => {
                self.hear_yes(now, now, lease_ms);
            }
            Some(lease_ms) => self.hear_yes(now, sent_at_ms, lease_ms),
            None => {
                let no = |ladder: &mut Ladder| ladder.no(at(now), InvalidReason::Superseded);
                self.drive(now, no);
            }
        }
    }

    /// `Wrapper::hear`. The message to the agent is sent from a thread of its own: the program may run before
    /// it is written.
    fn hear_yes(&mut self, now: u64, sent_at_ms: u64, lease_ms: u64) {
        let before = self.lease_until_ms();
        self.drive(now, |ladder| ladder.yes(at(now), at(sent_at_ms), lease_ms));
        let until_ms = self.lease_until_ms();
        if self.alive && until_ms != before {
            self.yeses += 1;
            self.granted_until_ms = self.granted_until_ms.max(Some(sent_at_ms + lease_ms));
            self.untold_until_ms = until_ms;
        }
    }

    fn lease_until_ms(&self) -> Option<u64> {
        self.ladder().and_then(Ladder::lease_until).map(BootTime::as_millis)
    }

    pub fn tell_agent(&mut self) {
        self.told_until_ms = self.told_until_ms.max(self.untold_until_ms.take());
    }

    pub fn wrapper_acts(&mut self, now: u64) {
        self.drive(now, |ladder| ladder.tick(at(now)));
    }

    fn drive(&mut self, now: u64, input: impl FnOnce(&mut Ladder) -> Option<LadderAction>) {
        let Some(SeenLadder(ladder)) = &mut self.ladder else { return };
        match input(ladder) {
            Some(LadderAction::Start) => self.alive = true,
            Some(LadderAction::Kill) => self.program_ends(now, true),
            // Whether the program obeys is its own business.
            Some(LadderAction::Terminate) | None => {}
        }
    }

    /// The program and all that it left behind have ended. A wrapper that is awake sees it at once.
    pub fn program_ends(&mut self, now: u64, killed: bool) {
        const SIGKILL: i32 = 9;
        self.alive = false;
        let end = if killed { ProgramEnd::Signaled(SIGKILL) } else { ProgramEnd::Exited(0) };
        if self.wrapper == Process::Awake
            && let Some(SeenLadder(ladder)) = &mut self.ladder
        {
            let reaped = Reaped { program: Some(end), no_child_left: true, rest_killed: killed };
            let _ = ladder.reaped(at(now), reaped);
        }
    }

    /// What waits for it on waking: its children, then the deadline, then the agent's death.
    pub fn wrapper_wakes(&mut self, now: u64) {
        if !self.alive && self.granted_until_ms.is_some() {
            self.program_ends(now, true);
        }
        self.wrapper_acts(now);
        self.notice_the_agent();
    }

    pub fn agent_dies(&mut self) {
        self.agent = Process::Dead;
        self.notice_the_agent();
    }

    fn notice_the_agent(&mut self) {
        if self.agent == Process::Dead
            && self.wrapper == Process::Awake
            && let Some(SeenLadder(ladder)) = &mut self.ladder
        {
            let _ = ladder.agent_gone();
        }
    }

    /// The kernel ends the program with its wrapper, but for what has left its group and session.
    pub fn wrapper_dies(&mut self, leaves_descendant: bool) {
        self.wrapper = Process::Dead;
        self.question = None;
        self.untold_until_ms = None;
        self.alive &= leaves_descendant;
    }
}
