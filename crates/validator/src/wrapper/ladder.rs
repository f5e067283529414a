//! How a container ends, as a value: inputs and `now` go in, at most one action comes out. Nothing here
//! signals, waits or asks, so every order of events can be tested.
//!
//! ```text
//! Waiting ── first yes ──▶ Running ── no, stop, lease over, program ended ──▶ Ending ── no child left ──▶ Over
//!    └────────── no, stop, agent gone, no yes within L, cannot be started ─────────────────────────────────▲
//! ```

use steadfast_model::{InvalidReason, LeaseTerms, Outcome, Proof, StopCause};

use crate::clock::BootTime;
use crate::lease::Lease;

/// After SIGKILL: how often what is left is looked for and killed again. A child that a killed parent
/// leaves behind comes to the wrapper only then.
const KILL_AGAIN_MS: u64 = 50;
const SIGKILL: i32 = 9;

/// What the wrapper must do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Start the program; if that fails, say [`Ladder::not_started`].
    Start,
    /// SIGTERM to the program's group, or, when the program has ended, to every descendant.
    Terminate,
    /// SIGKILL to the group and to every descendant.
    Kill,
}

/// How the program's own process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramEnd {
    /// With an exit code.
    Exited(i32),
    /// By a signal.
    Signaled(i32),
}

/// What waiting for children brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reaped {
    /// The program was among them.
    pub(super) program: Option<ProgramEnd>,
    /// The enclosure's own deadline killed whoever was left, before the ladder came to it.
    pub(super) rest_killed: bool,
    /// The system says `ECHILD`: nothing of the container is left.
    pub(super) no_child_left: bool,
}

/// The state of one container.
#[derive(Clone, Debug)]
pub(super) struct Ladder {
    terms: LeaseTerms,
    /// `None`: the validator is disabled.
    lease: Option<Lease>,
    /// When waiting for a first "yes" ends.
    give_up_at: BootTime,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    Waiting,
    Running,
    Ending {
        cause: Cause,
        kill_at: BootTime,
        /// Once SIGKILL was sent: when to kill what is left again.
        kill_again_at: Option<BootTime>,
    },
    Over(Outcome, Proof),
}

/// Who began the end.
#[derive(Clone, Debug)]
enum Cause {
    Ladder(StopCause),
    Program(Outcome),
}

impl Ladder {
    /// A container that waits for its first "yes", or, with the validator disabled, for its first
    /// [`Ladder::tick`].
    pub(super) fn new(now: BootTime, terms: LeaseTerms, validator_enabled: bool) -> Self {
        Self {
            terms,
            lease: validator_enabled.then(|| Lease::new(terms)),
            give_up_at: now.plus(terms.lease_ms),
            phase: Phase::Waiting,
        }
    }

    /// Looks at the deadlines. To be called on every waking, before anything else is believed.
    pub(super) fn tick(&mut self, now: BootTime) -> Option<Action> {
        let stop_at = self.stop_at();
        match &mut self.phase {
            Phase::Waiting if self.lease.is_none() => {
                self.phase = Phase::Running;
                Some(Action::Start)
            }
            Phase::Waiting if now >= self.give_up_at => {
                let lease_ms = self.terms.lease_ms;
                self.never_start(format!("no coordinator said yes within {lease_ms} ms"))
            }
            Phase::Running if now >= stop_at => {
                self.stop(now, StopCause::LeaseExpired, self.terms.grace_ms)
            }
            Phase::Ending { kill_at, kill_again_at, .. }
                if now >= kill_again_at.unwrap_or(*kill_at) =>
            {
                *kill_again_at = Some(now.plus(KILL_AGAIN_MS));
                Some(Action::Kill)
            }
            Phase::Waiting | Phase::Running | Phase::Ending { .. } | Phase::Over(..) => None,
        }
    }

    /// When to call [`Ladder::tick`] if nothing else happens.
    pub(super) fn next_deadline(&self) -> BootTime {
        match &self.phase {
            Phase::Waiting => self.give_up_at,
            Phase::Running => self.stop_at(),
            Phase::Ending { kill_at, kill_again_at, .. } => kill_again_at.unwrap_or(*kill_at),
            Phase::Over(..) => BootTime::NEVER,
        }
    }

    /// When everything must be dead, for the deadline thread; it is set before the program starts and
    /// taken away only when nothing is left.
    pub(super) fn kill_at(&self) -> BootTime {
        match &self.phase {
            Phase::Running => self.lease_kill_at(),
            Phase::Ending { kill_at, .. } => *kill_at,
            Phase::Waiting | Phase::Over(..) => BootTime::NEVER,
        }
    }

    /// When a "yes" comes too late.
    pub(super) fn give_up_at(&self) -> BootTime {
        if matches!(self.phase, Phase::Waiting) { self.give_up_at } else { self.stop_at() }
    }

    /// When `L` ends; `None` without a lease.
    pub(super) fn lease_until(&self) -> Option<BootTime> {
        self.lease.as_ref().and_then(Lease::until)
    }

    /// Whether verdicts still change anything.
    pub(super) fn wants_verdicts(&self) -> bool {
        self.lease.is_some() && matches!(self.phase, Phase::Waiting | Phase::Running)
    }

    /// How it ended, when nothing of it is left.
    pub(super) fn over(&self) -> Option<(&Outcome, Proof)> {
        match &self.phase {
            Phase::Over(outcome, proof) => Some((outcome, *proof)),
            Phase::Waiting | Phase::Running | Phase::Ending { .. } => None,
        }
    }

    /// "Valid", to the question sent at `sent_at`. The first one starts the program.
    pub(super) fn yes(
        &mut self,
        now: BootTime,
        sent_at: BootTime,
        lease_ms: u64,
    ) -> Option<Action> {
        let lease = self.lease.as_mut()?;
        match self.phase {
            Phase::Waiting if now < self.give_up_at && lease.extend(now, sent_at, lease_ms) => {
                self.phase = Phase::Running;
                Some(Action::Start)
            }
            Phase::Running => {
                lease.extend(now, sent_at, lease_ms);
                None
            }
            Phase::Waiting | Phase::Ending { .. } | Phase::Over(..) => None,
        }
    }

    /// "Invalid".
    pub(super) fn no(&mut self, now: BootTime, reason: InvalidReason) -> Option<Action> {
        self.stop(now, StopCause::Invalid(reason), self.terms.grace_ms)
    }

    /// The agent passed on a stop.
    pub(super) fn told(
        &mut self,
        now: BootTime,
        reason: InvalidReason,
        grace_ms: u64,
    ) -> Option<Action> {
        self.stop(now, StopCause::Told(reason), grace_ms)
    }

    /// The agent died. Without it nobody would learn of a start.
    pub(super) fn agent_gone(&mut self) -> Option<Action> {
        if !matches!(self.phase, Phase::Waiting) {
            return None;
        }
        self.never_start("its agent ended before the first yes".into())
    }

    /// Somebody asked the wrapper to end before there was a program to pass the signal on to.
    pub(super) fn interrupted(&mut self, signal: i32) -> Option<Action> {
        if !matches!(self.phase, Phase::Waiting) {
            return None;
        }
        self.never_start(format!("signal {signal} came before the first yes"))
    }

    /// [`Action::Start`] failed.
    pub(super) fn not_started(&mut self, error: String) {
        self.never_start(error);
    }

    /// Children were reaped.
    pub(super) fn reaped(&mut self, now: BootTime, reaped: Reaped) -> Option<Action> {
        if matches!(self.phase, Phase::Running) {
            self.program_ended_running(now, reaped);
        } else if let Some(end) = reaped.program {
            self.program_ended_ending(now, end);
        }
        let Phase::Ending { cause, kill_again_at, .. } = &mut self.phase else { return None };
        if reaped.rest_killed {
            kill_again_at.get_or_insert(now.plus(KILL_AGAIN_MS));
        }
        let killed = kill_again_at.is_some();
        if reaped.no_child_left {
            let outcome = match cause {
                Cause::Program(outcome) => outcome.clone(),
                Cause::Ladder(why) => Outcome::Ended { why: *why, killed },
            };
            self.phase = Phase::Over(outcome, Proof::NoChildLeft);
            return None;
        }
        match (killed, reaped.program) {
            (true, _) => Some(Action::Kill),
            // Its group has had the signal; who left the group gets it now.
            (false, Some(_)) => Some(Action::Terminate),
            (false, None) => None,
        }
    }

    /// The program's own end ends the container too: a descendant must not outlive it.
    fn program_ended_running(&mut self, now: BootTime, reaped: Reaped) {
        let end = match (reaped.program, reaped.no_child_left) {
            (Some(end), _) => end,
            (None, false) => return,
            // Nobody else can take a child's status from its parent. Should it happen, it must not pass
            // for a success.
            (None, true) => ProgramEnd::Exited(255),
        };
        let by_deadline = self.is_the_deadlines_doing(now, end, self.lease_kill_at());
        let outcome = match end {
            ProgramEnd::Exited(code) => Outcome::Exited { code },
            ProgramEnd::Signaled(signal) => Outcome::Signaled { signal },
        };
        self.phase = Phase::Ending {
            cause: if by_deadline {
                Cause::Ladder(StopCause::LeaseExpired)
            } else {
                Cause::Program(outcome)
            },
            kill_at: now.plus(self.terms.grace_ms).min(self.lease_kill_at()),
            kill_again_at: by_deadline.then(|| now.plus(KILL_AGAIN_MS)),
        };
    }

    fn program_ended_ending(&mut self, now: BootTime, end: ProgramEnd) {
        let by_deadline = self.is_the_deadlines_doing(now, end, self.kill_at());
        if let Phase::Ending { kill_again_at: again @ None, .. } = &mut self.phase {
            *again = by_deadline.then(|| now.plus(KILL_AGAIN_MS));
        }
    }

    /// A SIGKILL after the kill time that the ladder did not ask for came from the deadline thread,
    /// while whoever drives the ladder was held up.
    fn is_the_deadlines_doing(&self, now: BootTime, end: ProgramEnd, kill_at: BootTime) -> bool {
        end == ProgramEnd::Signaled(SIGKILL) && now >= kill_at
    }

    fn stop(&mut self, now: BootTime, why: StopCause, grace_ms: u64) -> Option<Action> {
        let lease_kill_at = self.lease_kill_at();
        match &mut self.phase {
            Phase::Waiting => {
                let outcome = Outcome::Ended { why, killed: false };
                self.phase = Phase::Over(outcome, Proof::NeverStarted);
                None
            }
            Phase::Running => {
                let kill_at = now.plus(grace_ms).min(lease_kill_at);
                self.phase =
                    Phase::Ending { cause: Cause::Ladder(why), kill_at, kill_again_at: None };
                // Woken past the end there is nothing to be gentle about.
                if now >= kill_at { self.tick(now) } else { Some(Action::Terminate) }
            }
            // The first cause stands, the shortest grace counts.
            Phase::Ending { kill_at, kill_again_at: None, .. } => {
                *kill_at = now.plus(grace_ms).min(*kill_at);
                None
            }
            Phase::Ending { .. } | Phase::Over(..) => None,
        }
    }

    fn never_start(&mut self, error: String) -> Option<Action> {
        self.phase = Phase::Over(Outcome::NotStarted { error }, Proof::NeverStarted);
        None
    }

    fn stop_at(&self) -> BootTime {
        self.lease.as_ref().map_or(BootTime::NEVER, Lease::stop_at)
    }

    fn lease_kill_at(&self) -> BootTime {
        self.lease.as_ref().map_or(BootTime::NEVER, Lease::kill_at)
    }
}

#[cfg(test)]
#[path = "ladder_tests.rs"]
mod tests;
