//! `steadfast exec`: a lease around any program (05).
//!
//! The main thread owns everything that decides, as two values without I/O: the ladder and the
//! poll. It takes one event at a time from threads that only wait: for signals, for the agent,
//! for a coordinator's answer, for the next instant. Beside it, and independent of it, stands the
//! deadline thread; and where the program can be enclosed in a pid namespace, the first process of that.
//! The program is forked by the main thread, which lives until nothing of it is left, because the kernel
//! binds the program's life to that thread.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid};
use rustix::thread::gettid;
use signal_hook::consts::{
    SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, TERM_SIGNALS,
};
use signal_hook::iterator::Signals;
use steadfast_api::{AgentMessage, ContainerEnded, WrapperMessage};
use steadfast_model::{Outcome, Proof, ValidatorKind};

use self::agent_link::AgentLink;
use self::enclosure::Enclosure;
use self::ladder::{Action, Ladder};
use self::output::{Logs, Pumps};
use self::program::{Program, Streams};
use self::progress::Progress;
use crate::Settings;
use crate::clock::{self, Alarm, BootTime};
use crate::complaint::Complaints;
use crate::deadline::Deadline;
use crate::http::Http;
use crate::poll::{self, Heard, Poll, Question, Reply, Started};

mod agent_link;
mod cgroup;
mod descendants;
mod enclosure;
mod good_bye;
mod init;
mod ladder;
mod namespace;
mod output;
mod program;
mod progress;
mod spawn;

/// What `steadfast exec` was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOptions {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Standard input is a Unix stream socket to the agent ([`steadfast_api::WrapperMessage`]).
    pub agent_on_stdin: bool,
    /// Where `stdout.log` and `stderr.log` go; without it the program inherits both untouched, and
    /// standard input too unless that is the agent's.
    pub log_dir: Option<PathBuf>,
}

/// Everything that the main thread is woken by.
#[derive(Debug)]
enum Event {
    /// An instant that somebody waits for has come.
    Tick,
    /// This process got a signal.
    Signal(i32),
    /// The agent said something.
    Agent(AgentMessage),
    /// The agent's end of the socket closed.
    AgentGone,
    /// The question in flight was answered, or not.
    Reply {
        /// Who was asked.
        coordinator: String,
        /// What came back.
        reply: Reply,
    },
}

/// Runs a program under a lease until nothing of it is left, and says how it ended; the caller exits
/// with [`Outcome::exit_code`]. Identity, coordinators and lease come from the environment
/// ([`Settings`]), which the program gets too.
///
/// To be called on the main thread of a process that does nothing else: it takes over the signals and
/// reaps every child. Where it can make a pid namespace it starts its own executable once more, with its
/// own arguments, as the namespace's first process, and does not return there: whatever `main` does
/// before this call it does twice.
pub fn exec(options: ExecOptions) -> Outcome {
    if init::is_wanted() {
        init::be()
    }
    let progress = Progress::open();
    let (sender, events) = mpsc::channel();
    let agent = if options.agent_on_stdin {
        match AgentLink::on_stdin(sender.clone()) {
            Ok(agent) => Some(agent),
            Err(error) => {
                return not_started(format!("standard input is no socket of an agent: {error}"));
            }
        }
    } else {
        None
    };
    let prepared =
        progress.map_err(refused).and_then(|progress| Wrapper::new(options, progress, &sender));
    match prepared {
        Ok(wrapper) => wrapper.run(&events, agent),
        Err(error) => {
            tracing::error!(%error, "the program is not started");
            let outcome = not_started(error);
            if let Some(agent) = agent {
                good_bye::to_agent(&agent, &events, &outcome, Proof::NeverStarted);
            }
            outcome
        }
    }
}

fn refused(error: io::Error) -> String {
    format!("the system refuses what a wrapper needs: {error}")
}

fn not_started(error: String) -> Outcome {
    Outcome::NotStarted { error }
}

/// What the main thread owns.
struct Wrapper {
    options: ExecOptions,
    settings: Settings,
    ladder: Ladder,
    poll: Poll,
    program: Program,
    logs: Option<Logs>,
    pumps: Option<Pumps>,
    progress: Progress,
    agent: Option<AgentLink>,
    http: Http,
    questions: Sender<Question>,
    alarm: Alarm,
    deadline: Deadline,
    main_seen: LastSeen,
    complaints: Complaints,
}

impl Wrapper {
    /// Prepares everything that can fail, so that after the first "yes" only the command itself can.
    fn new(
        options: ExecOptions,
        progress: Progress,
        events: &Sender<Event>,
    ) -> Result<Self, String> {
        if gettid() != getpid() {
            return Err("the wrapper must run on the main thread".into());
        }
        let settings = Settings::from_env().map_err(|error| error.to_string())?;
        let logs = options.log_dir.as_deref().map(Logs::open).transpose()?;
        program::become_subreaper().map_err(refused)?;
        hear_signals_on_a_thread(events.clone()).map_err(refused)?;
        let program = Program::new(Enclosure::build(settings.execution_resource_id));
        let main_seen = LastSeen::default();
        let deadline = Deadline::watch({
            let (program, main_seen) = (program.clone(), main_seen.clone());
            move || last_resort(&program, &main_seen)
        })
        .map_err(refused)?;
        let http = Http::new(&settings);
        let now = clock::now();
        let coordinators = settings.coordinators.clone();
        Ok(Self {
            ladder: Ladder::new(now, settings.lease, settings.validator_enabled),
            poll: Poll::new(now, coordinators, settings.lease, poll::seed()),
            questions: ask_on_a_thread(http.clone(), events.clone()).map_err(refused)?,
            alarm: ring_on_a_thread(events.clone()).map_err(refused)?,
            pumps: None,
            progress,
            agent: None,
            complaints: Complaints::default(),
            options,
            settings,
            program,
            logs,
            http,
            deadline,
            main_seen,
        })
    }

    fn run(mut self, events: &Receiver<Event>, agent: Option<AgentLink>) -> Outcome {
        self.agent = agent;
        let mut event = Event::Tick;
        let (outcome, proof) = loop {
            self.turn(event);
            if let Some((outcome, proof)) = self.ladder.over() {
                break (outcome.clone(), proof);
            }
            // The threads hold their senders for as long as the process lives, so this never fails.
            event = events.recv().unwrap_or(Event::Tick);
        };
        self.main_seen.for_ever();
        self.deadline.set(BootTime::NEVER);
        self.program.clear();
        if let Some(pumps) = self.pumps.take() {
            pumps.finish();
        }
        tracing::info!(?outcome, %proof, "nothing of the container is left");
        let told = self
            .agent
            .as_ref()
            .is_some_and(|agent| good_bye::to_agent(agent, events, &outcome, proof));
        if !told {
            let end = ContainerEnded {
                execution_resource_id: self.settings.execution_resource_id,
                outcome: outcome.clone(),
                proof: Some(proof),
            };
            good_bye::to_coordinators(&self.http, &self.poll.coordinators(), events, &end);
        }
        outcome
    }

    /// One waking.
    fn turn(&mut self, event: Event) {
        let now = clock::now();
        self.main_seen.at(now);
        // Children first: who has ended by itself was not ended by the ladder. Then the deadline, before
        // anything that was said is believed.
        let reaped = self.program.reap();
        let action = self.ladder.reaped(now, reaped);
        self.act(action);
        let action = self.ladder.tick(now);
        self.act(action);
        self.handle(now, event);
        self.ask(now);
        self.arm();
    }

    fn handle(&mut self, now: BootTime, event: Event) {
        match event {
            // Every turn looks at the clock and at the children.
            Event::Tick | Event::Signal(SIGCHLD) => {}
            Event::Signal(signal) => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    self.program.signal_group(signal);
                }
                if TERM_SIGNALS.contains(&signal) || signal == SIGHUP {
                    let action = self.ladder.interrupted(signal);
                    self.act(action);
                }
            }
            Event::Agent(AgentMessage::Stop { reason, grace_ms }) => {
                let action = self.ladder.told(now, reason, grace_ms);
                self.act(action);
            }
            Event::Agent(AgentMessage::EndSeen) => {}
            Event::AgentGone => {
                tracing::warn!("the agent is gone");
                self.agent = None;
                let action = self.ladder.agent_gone();
                self.act(action);
                self.poll.agent_died(now);
            }
            Event::Reply { coordinator, reply } => self.hear(now, &coordinator, &reply),
        }
    }

    fn hear(&mut self, now: BootTime, coordinator: &str, reply: &Reply) {
        let heard = self.poll.heard(now, reply, self.ladder.give_up_at());
        if let Some(line) = self.complaints.heard(now, coordinator, reply, heard) {
            line.log();
        }
        match heard {
            Heard::Yes { sent_at, lease_ms, token: _ } => {
                let before = self.ladder.lease_until();
                let action = self.ladder.yes(now, sent_at, lease_ms);
                let until = self.ladder.lease_until();
                // Before the program starts, or an agent could have one whose lease it does not know.
                if let Some(until) = until.filter(|_| until != before) {
                    self.tell(WrapperMessage::Lease { until_ms: until.as_millis() });
                }
                self.act(action);
            }
            Heard::No(reason) => {
                tracing::warn!(%reason, "no longer valid");
                let action = self.ladder.no(now, reason);
                self.act(action);
            }
            Heard::Nothing => {}
        }
    }

    fn act(&mut self, action: Option<Action>) {
        match action {
            Some(Action::Start) => self.start(),
            // It has its own news from its own validator, and a shutdown that a signal would cut short.
            Some(Action::Terminate)
                if self.settings.validator == ValidatorKind::Library && self.program.runs() => {}
            Some(Action::Terminate) => self.program.terminate(),
            Some(Action::Kill) => self.program.kill(),
            None => {}
        }
    }

    fn start(&mut self) {
        // Armed before there is anything to kill: starting can hang, in a file system that does.
        self.arm_deadline();
        let logs = self.logs.take();
        let streams = Streams {
            inherit_stdin: !self.options.agent_on_stdin && logs.is_none(),
            pipe_output: logs.is_some(),
            progress: self.progress.take_programs_end(),
        };
        let (pid, pipes) = match self.program.start(&self.options.command, streams) {
            Ok(started) => started,
            Err(error) => {
                tracing::error!(%error, "the program is not started");
                return self.ladder.not_started(error);
            }
        };
        match logs.map(|logs| logs.take(pipes)).transpose() {
            Ok(pumps) => self.pumps = pumps,
            Err(error) => tracing::error!(%error, "the program's output is lost"),
        }
        let wrapper_pid = std::process::id();
        self.poll.program_started(Started { pid, wrapper_pid });
        if let Some(enclosed) = self.program.enclosed(pid) {
            self.tell(enclosed);
        }
        self.tell(WrapperMessage::Started { pid, wrapper_pid });
    }

    fn ask(&mut self, now: BootTime) {
        if let Some(steps) = self.progress.steps() {
            self.poll.progress_is(steps);
        }
        if self.ladder.wants_verdicts()
            && let Some(question) = self.poll.due(now)
            && self.questions.send(question).is_err()
        {
            tracing::error!("the thread that asks has died; the lease runs down");
        }
    }

    fn arm(&mut self) {
        let poll = self.poll.next_at().filter(|_| self.ladder.wants_verdicts());
        self.alarm.set(self.ladder.next_deadline().min(poll.unwrap_or(BootTime::NEVER)));
        self.arm_deadline();
    }

    fn arm_deadline(&self) {
        let kill_at = self.ladder.kill_at();
        self.deadline.set(kill_at);
        self.program.ends_at(kill_at);
    }

    fn tell(&self, message: WrapperMessage) {
        if let Some(agent) = &self.agent {
            agent.tell(message);
        }
    }
}

/// When the main thread last took a turn, for the deadline thread.
#[derive(Clone, Debug, Default)]
struct LastSeen(Arc<AtomicU64>);

impl LastSeen {
    fn at(&self, now: BootTime) {
        self.0.store(now.as_millis(), Ordering::SeqCst);
    }

    /// Nothing is left to watch.
    fn for_ever(&self) {
        self.at(BootTime::NEVER);
    }

    fn is_after(&self, instant: BootTime) -> bool {
        self.0.load(Ordering::SeqCst) > instant.as_millis()
    }
}

/// What the deadline thread does at the lease's end: kill, and if the main thread does not come to take
/// over, go, which ends the program once more by the kernel's hand.
fn last_resort(program: &Program, main_seen: &LastSeen) {
    /// The main thread wakes for the same instant and every 50 ms after it.
    const MAIN_PATIENCE_MS: u64 = 1_000;
    let began = clock::now();
    loop {
        program.kill();
        if main_seen.is_after(began) {
            return;
        }
        if clock::now().millis_since(began) > MAIN_PATIENCE_MS {
            signal_hook::low_level::exit(72);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn ask_on_a_thread(http: Http, events: Sender<Event>) -> io::Result<Sender<Question>> {
    let (questions, asked) = mpsc::channel::<Question>();
    let ask = move || {
        for question in asked {
            let reply = http.ask(&question);
            let coordinator = question.coordinator;
            if events.send(Event::Reply { coordinator, reply }).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("asker".into()).spawn(ask)?;
    Ok(questions)
}

fn ring_on_a_thread(events: Sender<Event>) -> io::Result<Alarm> {
    let alarm = Alarm::new()?;
    let rung = alarm.clone();
    let ring = move || while rung.wait().is_ok() && events.send(Event::Tick).is_ok() {};
    thread::Builder::new().name("alarm".into()).spawn(ring)?;
    Ok(alarm)
}

fn hear_signals_on_a_thread(events: Sender<Event>) -> io::Result<()> {
    let passed_on = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];
    let mut signals = Signals::new(passed_on.into_iter().chain([SIGCHLD]))?;
    let hear = move || {
        for signal in signals.forever() {
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(hear).map(drop)
}
