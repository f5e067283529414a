//! The library's side of a lease: the program asks for itself, is told to shut down, and is ended if it
//! does not.
//!
//! Three threads, because each must go on when the others cannot: one asks, one calls
//! [`Killable::shutdown`] (which may block for as long as it likes), and one waits for the lease's end and
//! leaves the process. A thread that asks no more is a lease that runs down.

use std::fmt;
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use steadfast_model::{FencingToken, InvalidReason, LeaseTerms};

use crate::clock::{self, Alarm, BootTime};
use crate::complaint::Complaints;
use crate::deadline::Deadline;
use crate::http::Http;
use crate::lease::Lease;
use crate::poll::{self, Heard, Poll};
use crate::settings::{Settings, SettingsError};

/// What can be told to shut down (second seed). It is told once, from a thread of its own.
pub trait Killable: Send + Sync + 'static {
    /// Makes the run loop end. It may return before the loop has ended.
    fn shutdown(&self);
}

impl<K: Killable> Killable for Arc<K> {
    fn shutdown(&self) {
        K::shutdown(self);
    }
}

/// Tells the coordinator that the run loop is getting on, and not only that its process is there. Clones
/// count together, from any thread, and cost an addition each.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    steps: Arc<AtomicU64>,
}

impl Progress {
    /// One more step is done, whatever a step is. A container whose task has a
    /// `task.progress.timeout.ms` and that does none for so long is shown as `STALLED`.
    pub fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }
}

/// How a watched run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The program came to its end, and was valid as far as is known.
    Finished,
    /// It was told that it is invalid.
    Invalid(InvalidReason),
    /// Its lease ended without a "yes".
    LeaseExpired,
}

impl Outcome {
    /// 0, 70 and 71 (05). 72 is the exit code of a program that did not end in time and was ended.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Finished => 0,
            Self::Invalid(_) => 70,
            Self::LeaseExpired => 71,
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome.exit_code())
    }
}

/// Why a watch did not begin; the program must not run.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The first verdict was "no".
    #[error("this container is not valid: {0}")]
    Invalid(InvalidReason),
    /// No coordinator said yes within one lease.
    #[error("no coordinator said yes within {} ms", .0.lease_ms)]
    NoYes(LeaseTerms),
    /// The system gave no thread or no timer.
    #[error("the system refuses what a validator needs: {0}")]
    System(#[from] io::Error),
}

impl WatchError {
    /// 70 or 73 (05).
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Invalid(_) => 70,
            Self::NoYes(_) | Self::System(_) => 73,
        }
    }
}

/// A container's validator that has not asked yet.
#[derive(Clone, Debug)]
pub struct Validator {
    settings: Settings,
}

impl Validator {
    /// Takes identity, coordinators and lease from the environment that every container gets.
    ///
    /// # Errors
    /// When this process was not started as a container.
    pub fn from_env() -> Result<Self, SettingsError> {
        Ok(Self::new(Settings::from_env()?))
    }

    /// The same with settings from elsewhere.
    pub const fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// Waits for the first "yes" and then watches: `killable` is told to shut down when this container
    /// is no longer valid or its lease runs out, and the process is ended with exit code 72 if it is
    /// still there when the grace is over.
    ///
    /// # Errors
    /// Without a "yes" there is nothing to run.
    pub fn watch(self, killable: impl Killable) -> Result<Watch, WatchError> {
        let Settings { lease: terms, validator_enabled, .. } = self.settings;
        let deadline = Deadline::watch(|| signal_hook::low_level::exit(72))?;
        let stop = Alarm::new()?;
        let (news, asker) = mpsc::channel();
        let shared = Shared {
            state: Arc::new(Mutex::new(State {
                lease: Lease::new(terms),
                token: None,
                outcome: None,
            })),
            deadline,
            stop,
            grace_ms: terms.grace_ms,
            progress: Progress::default(),
        };
        if validator_enabled {
            let mut asking = Asking::new(&self.settings, shared.clone());
            asking.first_yes()?;
            thread::Builder::new().name("shutdown".into()).spawn({
                let shared = shared.clone();
                move || shared.shut_down_when_due(&killable)
            })?;
            thread::Builder::new().name("asker".into()).spawn(move || asking.go_on(&asker))?;
        }
        Ok(Watch { shared, finished: news })
    }
}

/// A lease that is being kept. Ask it for the outcome when the run loop has ended.
#[must_use = "the exit code comes from `finish`"]
pub struct Watch {
    shared: Shared,
    /// Its closing ends the thread that asks.
    finished: Sender<()>,
}

impl Watch {
    /// The outcome as far as it is decided; it is decided before [`Killable::shutdown`] is called.
    pub fn outcome(&self) -> Option<Outcome> {
        self.shared.lock().outcome
    }

    /// What the program may hand to its sinks, so that they refuse an older copy; `None` where the
    /// validator is disabled.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.shared.lock().token
    }

    /// To be told of each step of the work.
    pub fn progress(&self) -> Progress {
        self.shared.progress.clone()
    }

    /// The run loop has ended and everything is cleaned up: takes the deadline away and says how it
    /// ended. [`Outcome::Finished`] only if no stop had begun.
    pub fn finish(self) -> Outcome {
        let Self { shared, finished } = self;
        let outcome = shared.decide(Outcome::Finished);
        shared.deadline.set(BootTime::NEVER);
        // The thread that waits to shut down looks once more, sees that all is decided, and ends.
        shared.stop.set(clock::now());
        drop(finished);
        outcome
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("state", &*self.shared.lock()).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct State {
    lease: Lease,
    token: Option<FencingToken>,
    /// Decided once.
    outcome: Option<Outcome>,
}

/// What the threads have in common.
#[derive(Clone)]
struct Shared {
    state: Arc<Mutex<State>>,
    deadline: Deadline,
    stop: Alarm,
    grace_ms: u64,
    progress: Progress,
}

impl Shared {
    /// Nothing that holds the lock can leave the state half changed, so a panic elsewhere is no reason
    /// to give up the lease's end as well.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the outcome unless one stands; returns the one that stands.
    fn decide(&self, outcome: Outcome) -> Outcome {
        *self.lock().outcome.get_or_insert(outcome)
    }

    /// Takes note of a "yes"; whether it counts.
    fn extend(&self, now: BootTime, sent_at: BootTime, lease_ms: u64, token: FencingToken) -> bool {
        let mut state = self.lock();
        if state.outcome.is_some() || !state.lease.extend(now, sent_at, lease_ms) {
            return false;
        }
        state.token = Some(token);
        self.deadline.set(state.lease.kill_at());
        self.stop.set(state.lease.stop_at());
        true
    }

    /// Takes note of a "no": the grace begins, within what is left of the lease.
    fn stop(&self, now: BootTime, outcome: Outcome) {
        let mut state = self.lock();
        if state.outcome.is_none() {
            state.outcome = Some(outcome);
            self.deadline.set(now.plus(self.grace_ms).min(state.lease.kill_at()));
            self.stop.set(now);
        }
    }

    fn shut_down_when_due(&self, killable: &impl Killable) {
        while self.stop.wait().is_ok() {
            let outcome = {
                let mut state = self.lock();
                // The alarm may have been moved after it rang.
                if state.outcome.is_none() && clock::now() >= state.lease.stop_at() {
                    state.outcome = Some(Outcome::LeaseExpired);
                }
                state.outcome
            };
            match outcome {
                None => {}
                Some(Outcome::Finished) => return,
                Some(Outcome::Invalid(_) | Outcome::LeaseExpired) => return killable.shutdown(),
            }
        }
    }
}

/// What the thread that asks owns.
struct Asking {
    terms: LeaseTerms,
    poll: Poll,
    http: Http,
    complaints: Complaints,
    shared: Shared,
}

impl Asking {
    fn new(settings: &Settings, shared: Shared) -> Self {
        let coordinators = settings.coordinators.clone();
        Self {
            terms: settings.lease,
            poll: Poll::new(clock::now(), coordinators, settings.lease, poll::seed()),
            http: Http::new(settings),
            complaints: Complaints::default(),
            shared,
        }
    }

    /// No yes, no start: asks on the caller's thread for the length of one lease.
    fn first_yes(&mut self) -> Result<(), WatchError> {
        let give_up_at = clock::now().plus(self.terms.lease_ms);
        loop {
            let now = clock::now();
            if now >= give_up_at {
                return Err(WatchError::NoYes(self.terms));
            }
            match self.ask(now, give_up_at) {
                Heard::Yes { sent_at, lease_ms, token } => {
                    if self.shared.extend(clock::now(), sent_at, lease_ms, token) {
                        return Ok(());
                    }
                }
                Heard::No(reason) => return Err(WatchError::Invalid(reason)),
                Heard::Nothing => thread::sleep(
                    self.pause().min(Duration::from_millis(give_up_at.millis_since(clock::now()))),
                ),
            }
        }
    }

    /// Asks until the program has finished or a verdict has ended it.
    fn go_on(mut self, finished: &Receiver<()>) {
        while finished.recv_timeout(self.pause()) == Err(RecvTimeoutError::Timeout) {
            let now = clock::now();
            let stop_at = self.shared.lock().lease.stop_at();
            match self.ask(now, stop_at) {
                Heard::Yes { sent_at, lease_ms, token } => {
                    if !self.shared.extend(clock::now(), sent_at, lease_ms, token) {
                        return;
                    }
                }
                Heard::No(reason) => {
                    return self.shared.stop(clock::now(), Outcome::Invalid(reason));
                }
                Heard::Nothing => {}
            }
        }
    }

    /// Asks if it is time to.
    fn ask(&mut self, now: BootTime, give_up_at: BootTime) -> Heard {
        self.poll.progress_is(self.shared.progress.steps());
        let Some(question) = self.poll.due(now) else { return Heard::Nothing };
        let reply = self.http.ask(&question);
        let heard = self.poll.heard(clock::now(), &reply, give_up_at);
        if let Some(line) = self.complaints.heard(now, &question.coordinator, &reply, heard) {
            line.log();
        }
        heard
    }

    /// How long until the next question; nothing is in flight between two of them.
    fn pause(&self) -> Duration {
        let next_at = self.poll.next_at().unwrap_or(BootTime::NEVER);
        Duration::from_millis(next_at.millis_since(clock::now()))
    }
}
