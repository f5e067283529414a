//! The stage of the golden scenarios: an engine, what it has made durable, and names that people can
//! read. Members are `a`, `b`, …; containers are `c1`, `c2`, … in the order of their deployment; jobs are
//! `j1`, `j2`, ….
//!
//! A coordinator's death is one command, `die`: it names the commit that the death falls on, and how much
//! of that commit is durable. What was not committed has not happened, and of what was, nothing has been
//! said. Nobody listens then until `up`. `reload` is a change of coordinator between two commits.

mod durable;
mod listing;
mod operators;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use steadfast_engine::records::MemberRecord;
use steadfast_engine::{
    AgentMessage, Connection, Counters, Effect, Engine, IndexChange, Input, Reply, Reporter,
    Settings, Step, Ticket,
};
use steadfast_model::{
    ContainerEvent, ExecutionId, JobId, MemberUuid, Outcome, Proof, StopCause, TermNonce, Timestamp,
};

use durable::{Durable, Part};
use words::{Words, job_spec, job_state};

const BEGIN_MS: u64 = 1_000_000;

pub struct Stage {
    engine: Engine,
    settings: Settings,
    durable: Durable,
    now: u64,
    terms: u64,
    connections: BTreeMap<String, Connection>,
    /// Agents that have been told "welcome".
    welcomed: BTreeSet<String>,
    containers: Vec<ExecutionId>,
    jobs: Vec<JobId>,
    answers: BTreeMap<ExecutionId, Timestamp>,
    shown: BTreeMap<JobId, (String, String)>,
    refuse_ledger: bool,
    /// The death that was ordered: after so many more commits, on the next one.
    death: Option<(u64, Part)>,
    is_down: bool,
    suspects_itself: bool,
    out: String,
}

impl Stage {
    pub fn new() -> Self {
        let durable = Durable::default();
        let settings = Settings::default();
        let engine = load(&durable, settings.clone(), 1, BEGIN_MS);
        let mut stage = Self {
            engine,
            settings,
            durable,
            now: BEGIN_MS,
            terms: 1,
            connections: BTreeMap::new(),
            welcomed: BTreeSet::new(),
            containers: Vec::new(),
            jobs: Vec::new(),
            answers: BTreeMap::new(),
            shown: BTreeMap::new(),
            refuse_ledger: false,
            death: None,
            is_down: false,
            suspects_itself: false,
            out: String::new(),
        };
        stage.step(Input::TookOver);
        stage
    }

    /// Plays one command; what happened, a line each.
    pub fn act(&mut self, command: &str) -> String {
        let words = Words::of(command);
        if self.is_down && !matches!(words.verb(), "up" | "wait" | "lose-ledger") {
            self.say("nobody listens".to_owned());
            return std::mem::take(&mut self.out);
        }
        match words.verb() {
            "hello" => self.hello(&words),
            "submit" => {
                self.step(Input::Submit { ticket: Ticket(1), spec: Box::new(job_spec(&words)) });
            }
            "stop" => {
                let job = self.job(words.name(1));
                self.step(Input::Stop { ticket: Ticket(2), job });
            }
            "yes" => {
                // The index answers; the engine hears of it when the entry is revoked.
                for container in words.names() {
                    let execution = self.container(container);
                    self.answers.insert(execution, Timestamp::from_millis(self.now));
                }
            }
            "started" => {
                for container in words.names() {
                    self.report(container, ContainerEvent::Started { pid: 2, wrapper_pid: 1 });
                }
            }
            "ended" => self.ended(&words),
            "closed" => {
                let (member, connection) = (member(words.name(1)), self.connection(words.name(1)));
                let by_us = words.has("by-us");
                self.step(Input::Disconnected { member, connection, by_us });
            }
            "heard" => {
                let (member, connection) = (member(words.name(1)), self.connection(words.name(1)));
                self.step(Input::Heard { member, connection });
            }
            "leaving" => {
                let (member, connection) = (member(words.name(1)), self.connection(words.name(1)));
                self.step(Input::Leaving { member, connection });
            }
            "plan" => self.step(operators::request(&words, false)),
            "drain" => self.step(operators::request(&words, true)),
            "wait" => self.wait(&words),
            "refuse-ledger" => self.refuse_ledger = true,
            // Otherwise the job's record alone says what a loss has told the ledger.
            "write-each-loss" => {
                self.settings.redo = false;
                self.take_over(0);
            }
            "reload" => self.take_over(words.number("back").unwrap_or(0)),
            "die" => self.death = Some(death(&words)),
            "down" => self.is_down = true,
            "up" => self.take_over(0),
            // Members were lost that no job here had anything on.
            "journal-until" => {
                self.durable.journal_until(words.number("event").unwrap_or(0));
                self.take_over(0);
            }
            // What is durable was a backup.
            "restored" => {
                self.durable.was_a_backup();
                self.take_over(0);
            }
            "lose-ledger" => {
                let job = self.job(words.name(1));
                self.durable.ledgers.remove(&job);
            }
            "show" => self.show(),
            "members" => self.say_lines(listing::members(&self.engine)),
            "failures" => {
                let job = self.job(words.name(1));
                self.say_lines(listing::failures(&self.engine, &self.durable, job));
            }
            "episodes" => {
                let job = self.job(words.name(1));
                self.say_lines(listing::episodes(&self.engine, &self.durable, job));
            }
            "counters" => {
                let Counters { redundant_notifications, leases_expired } = self.engine.counters();
                self.say(format!(
                    "{redundant_notifications} redundant notifications, {leases_expired} leases expired"
                ));
            }
            "stored" => self.say_lines(vec![self.durable.to_string()]),
            other => panic!("no such command: {other}"),
        }
        std::mem::take(&mut self.out)
    }

    fn hello(&mut self, words: &Words) {
        let name = words.name(1).to_owned();
        let connection = Connection(self.connections.values().map(|c| c.0).max().unwrap_or(0) + 1);
        self.connections.insert(name.clone(), connection);
        let welcomed = self.welcomed.contains(&name);
        let started = ContainerEvent::Started { pid: 2, wrapper_pid: 1 };
        let outcome = Some(Outcome::Exited { code: 0 });
        let ended = ContainerEvent::Ended { outcome, proof: Some(Proof::NoChildLeft) };
        let seen = |key, event: &ContainerEvent| -> Vec<_> {
            let names = words.list(key);
            names.iter().map(|name| (self.container(name), Some(event.clone()))).collect()
        };
        let containers = [seen("runs", &started), seen("ended", &ended)].concat();
        let record = MemberRecord {
            uuid: member(&name),
            host: name.clone(),
            address: words.value("at").unwrap_or("10.0.0.1:5801").to_owned(),
            pid: 1,
            slots: words.number("slots").unwrap_or(4) as u32,
            tags: BTreeMap::new(),
            version: "test".to_owned(),
            feature_level: words.number("level").unwrap_or(1) as u32,
            registered: Timestamp::default(),
            lost: None,
            draining: false,
        };
        let member = Box::new(record);
        self.step(Input::Hello { connection, member, welcomed, containers });
    }

    /// `ended c1 code=1`, `signal=9`, `not-started`, `expired` (by its validator), `told` (by the ladder),
    /// `unproven`; with `awaited`
    /// the reporter waits for the acknowledgement and would say it again without.
    fn ended(&mut self, words: &Words) {
        let proven = !words.has("unproven");
        let outcome = match (words.number("code"), words.number("signal")) {
            (Some(code), _) => Some(Outcome::Exited { code: code as i32 }),
            (_, Some(signal)) => Some(Outcome::Signaled { signal: signal as i32 }),
            _ if words.has("expired") => {
                Some(Outcome::Ended { why: StopCause::LeaseExpired, killed: false })
            }
            _ if words.has("not-started") => {
                Some(Outcome::NotStarted { error: "no such file".to_owned() })
            }
            _ => None,
        };
        let ticket = words.has("awaited").then_some(Ticket(3));
        let proof = proven.then_some(Proof::NoChildLeft);
        for container in words.names().filter(|name| name.starts_with('c')) {
            let event = ContainerEvent::Ended { outcome: outcome.clone(), proof };
            self.report_by(Reporter::Wrapper(ticket), container, event);
        }
    }

    fn report(&mut self, container: &str, event: ContainerEvent) {
        self.report_by(Reporter::Wrapper(None), container, event);
    }

    fn report_by(&mut self, reporter: Reporter, container: &str, event: ContainerEvent) {
        let execution = self.container(container);
        let before = self.engine.counters().redundant_notifications;
        self.step(Input::Container { execution, event, reporter });
        if self.engine.counters().redundant_notifications > before {
            self.say("redundant".to_owned());
        }
    }

    /// Lets time pass, as a coordinator that is awake; `heard=a,b` speak every second meanwhile.
    fn wait(&mut self, words: &Words) {
        let end = self.now + words.number("ms").unwrap_or(0);
        let speakers: Vec<String> = words.list("heard");
        let mut beat = self.now;
        loop {
            if self.is_down {
                self.now = end;
                return;
            }
            let deadline = self.engine.next_deadline().map_or(end, Timestamp::as_millis);
            let next = deadline.max(self.now).min(beat).min(end);
            self.now = next;
            if next == beat {
                beat += 1_000;
                for speaker in &speakers {
                    let (member, connection) = (member(speaker), self.connection(speaker));
                    self.step(Input::Heard { member, connection });
                }
            }
            let due = |stage: &Self| {
                stage.engine.next_deadline().is_some_and(|at| at.as_millis() <= stage.now)
            };
            while due(self) {
                self.step(Input::Deadline);
            }
            if self.now == end {
                return;
            }
        }
    }

    /// Another coordinator takes over what is durable, with a clock that is so far behind the last one's.
    fn take_over(&mut self, behind_ms: u64) {
        self.is_down = false;
        self.terms += 1;
        self.now = self.now + 1_000 - behind_ms;
        self.engine = load(&self.durable, self.settings.clone(), self.terms, self.now);
        self.answers.clear();
        self.step(Input::TookOver);
    }

    fn show(&mut self) {
        self.shown.clear();
        self.tell_jobs();
    }

    fn step(&mut self, input: Input) {
        if self.is_down {
            return;
        }
        let step = self.engine.step(Timestamp::from_millis(self.now), input);
        if let Some(part) = self.dies_on(&step) {
            self.durable.apply_part(&step, part);
            self.is_down = true;
            self.say(format!("the coordinator dies, {part}"));
            return;
        }
        let refused = self.commit(&step);
        let answers = self.change_index(&step);
        self.tell(&step);
        for job in refused {
            self.say("the store refuses the ledger's part".to_owned());
            let durable = self.durable.durable_ledger(job);
            self.step(Input::LedgerRefused { job, durable });
        }
        if answers.is_empty() {
            self.tell_jobs();
        } else {
            self.tell_jobs();
            self.step(Input::LastAnswers(answers));
        }
    }

    fn dies_on(&mut self, step: &Step) -> Option<Part> {
        let (commits, part) = self.death?;
        if step.writes_nothing() {
            return None;
        }
        self.death = (commits > 0).then(|| (commits - 1, part));
        (commits == 0).then_some(part)
    }

    fn commit(&mut self, step: &Step) -> Vec<JobId> {
        let with_ledger = step.jobs.iter().filter(|job| job.writes.ledger_to_put().is_some());
        let refused: Vec<JobId> = match self.refuse_ledger {
            true => with_ledger.map(|job| job.job).collect(),
            false => Vec::new(),
        };
        self.refuse_ledger &= refused.is_empty();
        self.durable.apply(step, &refused);
        refused
    }

    fn change_index(&mut self, step: &Step) -> Vec<(ExecutionId, Option<Timestamp>)> {
        let mut answers = Vec::new();
        for change in step.index.iter().chain(step.jobs.iter().flat_map(|job| &job.index)) {
            match change {
                IndexChange::Live(id, entry) => {
                    if !self.containers.contains(id) {
                        self.containers.push(*id);
                    }
                    if let Some(at) = entry.assumed_answer {
                        self.answers.insert(*id, at);
                    }
                }
                IndexChange::Invalid(id, _, entry) => {
                    let known = self.answers.get(id).copied();
                    let last = known.or(entry.assumed_answer);
                    self.answers.extend(last.map(|at| (*id, at)));
                    answers.push((*id, last));
                }
                IndexChange::Remove(_) | IndexChange::Hold(..) | IndexChange::Release(_) => {}
            }
        }
        answers
    }

    fn tell(&mut self, step: &Step) {
        let suspicion = self.engine.self_suspicion();
        if self.suspects_itself != suspicion.is_some() {
            self.suspects_itself = suspicion.is_some();
            self.say(suspicion.map_or_else(
                || "the coordinator suspects itself no longer".to_owned(),
                |held| format!("the coordinator suspects itself: {} members at once", held.members),
            ));
        }
        if let Some(event) = &step.member_event {
            self.say(operators::tell_event(event));
        }
        for job in &step.jobs {
            if !self.jobs.contains(&job.job) {
                self.jobs.push(job.job);
            }
        }
        let changes = step.index.iter().chain(step.jobs.iter().flat_map(|job| &job.index));
        for change in changes {
            if let IndexChange::Invalid(id, reason, _) = change {
                self.say(format!("{} is invalid: {reason}", self.name_of_container(*id)));
            }
        }
        let effects = step.jobs.iter().flat_map(|job| &job.effects).chain(&step.effects);
        for effect in effects {
            match effect {
                Effect::Send(connection, message) => self.tell_message(*connection, message),
                Effect::Reply(_, reply) => self.tell_reply(reply),
            }
        }
    }

    fn tell_message(&mut self, connection: Connection, message: &AgentMessage) {
        let to = self.connections.iter().find(|(_, known)| **known == connection);
        let to = to.map_or("an old connection", |(name, _)| name.as_str()).to_owned();
        let line = match message {
            AgentMessage::Welcome => {
                self.welcomed.insert(to.clone());
                "welcome".to_owned()
            }
            AgentMessage::RegisterAnew => "register anew".to_owned(),
            AgentMessage::Launch(launch) => format!(
                "launch {}: pipeline {}, task group {}, attempt {}, token {}",
                self.name_of_container(launch.execution),
                launch.pipeline,
                launch.task_group,
                launch.attempt,
                launch.token
            ),
            AgentMessage::Stop { execution, reason, .. } => {
                format!("stop {}, {reason}", self.name_of_container(*execution))
            }
            AgentMessage::Acknowledge(execution) => {
                format!("noted the end of {}", self.name_of_container(*execution))
            }
            AgentMessage::LeaveAcknowledged => "go".to_owned(),
        };
        self.say(format!("to {to}: {line}"));
    }

    fn tell_reply(&mut self, reply: &Reply) {
        let line = match reply {
            Reply::Submitted(_) => "submitted".to_owned(),
            Reply::Refused(why) => format!("refused: {why}"),
            Reply::Stopping(status) => format!("stopping, {status}"),
            Reply::Ended => "it had ended".to_owned(),
            Reply::UnknownJob => "no such job".to_owned(),
            Reply::EndNoted => "noted".to_owned(),
            Reply::AskAgain => "say it again".to_owned(),
            Reply::LeavePlanned(request) => operators::tell_registered(request),
            Reply::LeaveRefused(why) => self.with_names(why),
            Reply::UnknownMember => "no such member".to_owned(),
        };
        self.say(format!("answer: {line}"));
    }

    /// Says how each job stands, where that has changed.
    fn tell_jobs(&mut self) {
        for (number, id) in self.jobs.clone().into_iter().enumerate() {
            let (state, ledger) = job_state(&self.engine, &self.durable, id);
            let before = self.shown.insert(id, (state.clone(), ledger.clone()));
            let before = before.unwrap_or_default();
            let name = format!("j{}", number + 1);
            if before.0 != state {
                self.say(format!("{name} {state}"));
            }
            if before.1 != ledger {
                self.say(format!("{name} counts {ledger}"));
            }
        }
    }

    /// A sentence with the members' names in it.
    fn with_names(&self, sentence: &str) -> String {
        let members = self.connections.keys();
        let named = members.fold(sentence.to_owned(), |sentence, name| {
            sentence.replace(&member(name).to_string(), name)
        });
        format!("refused: {named}")
    }

    fn say_lines(&mut self, lines: Vec<String>) {
        lines.into_iter().for_each(|line| self.say(line));
    }

    fn say(&mut self, line: String) {
        let _ = writeln!(self.out, "{line}");
    }

    fn container(&self, name: &str) -> ExecutionId {
        let number = name.strip_prefix('c').and_then(|number| number.parse::<usize>().ok());
        let number = number.unwrap_or_else(|| panic!("{name} is no container"));
        self.containers[number - 1]
    }

    fn name_of_container(&self, id: ExecutionId) -> String {
        let at = self.containers.iter().position(|known| *known == id);
        at.map_or_else(|| id.to_string(), |at| format!("c{}", at + 1))
    }

    fn job(&self, name: &str) -> JobId {
        let number = name.strip_prefix('j').and_then(|number| number.parse::<usize>().ok());
        self.jobs[number.unwrap_or_else(|| panic!("{name} is no job")) - 1]
    }

    fn connection(&self, name: &str) -> Connection {
        *self.connections.get(name).unwrap_or_else(|| panic!("{name} never said hello"))
    }
}

/// `die before`, `die after`, or `die journalled jobs=1`, all on the next commit; on the second with
/// `commit=2`.
fn death(words: &Words<'_>) -> (u64, Part) {
    let part = match words.name(1) {
        "before" => Part::Nothing,
        "journalled" => Part::Journal { jobs: words.number("jobs").unwrap_or(0) as usize },
        "after" => Part::All,
        other => panic!("no such death: {other}"),
    };
    (words.number("commit").unwrap_or(1) - 1, part)
}

fn load(durable: &Durable, settings: Settings, term: u64, now: u64) -> Engine {
    let nonce = TermNonce::new(term);
    Engine::load(durable.snapshot(), settings, nonce, Timestamp::from_millis(now))
}

/// The member with a letter's name.
fn member(name: &str) -> MemberUuid {
    let letter = name.bytes().next().unwrap_or_default();
    format!("00000000-0000-4000-8000-0000000000{letter:02x}").parse().unwrap()
}

fn name_of(member: MemberUuid) -> char {
    let text = member.to_string();
    char::from(u8::from_str_radix(&text[text.len() - 2..], 16).unwrap())
}
