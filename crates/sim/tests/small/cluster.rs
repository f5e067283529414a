//! The states of the model: what is durable, the coordinator's engine with what it has decided and not
//! yet carried out, and the agents with their containers.
//!
//! A coordinator's change drops all of the second and loads it from the first. Containers run on, and
//! agents say again what was not acknowledged to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use steadfast_engine::records::{DurableLedger, HistoryRecord, JobRecord, MemberRecord, Snapshot};
use steadfast_engine::{
    AgentMessage, Connection, Effect, Engine, IndexChange, Input, JobStep, MemberWrite, Reporter,
    Settings, Step, Ticket,
};
use steadfast_ledger::{Evaluation, JobLedger, Watermarks, journal};
use steadfast_model::{
    ContainerEvent, ExecutionId, JobId, MemberUuid, Outcome, Proof, TermNonce, Timestamp,
};

use crate::small::reference::{Fact, Reference, facts};
use crate::small::{BEGIN, job, member, member_record, settings};

/// A mistake in what surrounds the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The ledger is durable one commit later than its job, so that a deployment is confirmed outside of
    /// the transaction that it happens in.
    LedgerLater,
    /// The same, and the job's record does not say which ledger it expects.
    LedgerLaterUnsaid,
    /// A loss is said to have been taken to every job before it was.
    ProcessedFirst,
}

/// What is durable.
#[derive(Clone, Debug, Default)]
pub struct Durable {
    pub snapshot: Snapshot,
    pub history: Option<HistoryRecord>,
    /// The ledger's record: the snapshot holds what it has become by what stands in the job's record.
    stored: Option<Arc<JobLedger>>,
    /// A ledger that is later than its job: the next commit writes it.
    late: Option<Arc<JobLedger>>,
}

/// A transaction of a commit that is split, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Journal,
    Job,
    Processed,
}

pub const PARTS: [Part; 3] = [Part::Journal, Part::Job, Part::Processed];

impl Durable {
    pub fn record(&self) -> Option<&JobRecord> {
        self.snapshot.jobs.first()
    }

    pub fn ledger(&self) -> Option<&JobLedger> {
        self.snapshot.ledgers.values().next()?.as_ref().ok()
    }

    /// Whether every loss has been taken to the job.
    pub fn is_processed(&self) -> bool {
        self.snapshot.processed >= self.snapshot.member_event_seq
    }

    /// What a reader is shown of a job that runs, and whether its ledger is the one that its record
    /// expects, owing nothing.
    pub fn shown(&self) -> Option<(Evaluation, bool)> {
        let record = self.record()?;
        let watermarks = Watermarks {
            cluster: self.snapshot.member_event_seq,
            processed: self.snapshot.processed,
            owes: false,
        };
        let agrees = record.expects(self.ledger());
        let shown = record.evaluation(self.ledger(), watermarks);
        Some((shown, agrees && record.owed_since.is_none()))
    }

    /// A commit begins: what was late is not any longer.
    fn write_late(&mut self) {
        if let Some(ledger) = self.late.take() {
            self.stored = Some(ledger);
            self.tell();
        }
    }

    /// Brings the snapshot's ledger up to date.
    fn tell(&mut self) {
        let Some((stored, record)) = self.stored.as_ref().zip(self.snapshot.jobs.first()) else {
            return;
        };
        let told = record.redo.apply(stored, &journal(&self.snapshot.journal));
        let ledger = told.unwrap_or_else(|| JobLedger::clone(stored));
        self.snapshot.ledgers.insert(record.id, Ok(ledger));
    }

    pub fn durable_ledger(&self) -> Option<DurableLedger> {
        Some(self.record()?.durable_ledger(Arc::new(self.ledger()?.clone())))
    }

    /// Makes one part of these steps durable. A refused ledger is left out, and the job's record says
    /// what it owes.
    fn write(&mut self, steps: &[Decided], part: Part, refused: bool, mistake: Option<Mistake>) {
        for decided in steps {
            match part {
                Part::Journal => self.write_journal(&decided.step),
                Part::Job => self.write_job(&decided.step, refused, mistake),
                Part::Processed => {
                    let processed = decided.step.processed.unwrap_or_default();
                    self.snapshot.processed = self.snapshot.processed.max(processed);
                }
            }
        }
    }

    fn write_journal(&mut self, step: &Step) {
        if let Some(event) = &step.member_event {
            self.snapshot.member_event_seq = event.seq;
            self.snapshot.journal.push(event.clone());
        }
        for write in &step.members {
            let (MemberWrite::Put(MemberRecord { uuid, .. }) | MemberWrite::Remove(uuid)) = write;
            self.snapshot.members.retain(|member| member.uuid != *uuid);
            if let MemberWrite::Put(record) = write {
                self.snapshot.members.push(record.clone());
            }
        }
        self.snapshot.members.sort_by_key(|member| member.uuid);
    }

    fn write_job(&mut self, step: &Step, refused: bool, mistake: Option<Mistake>) {
        let is_later = matches!(mistake, Some(Mistake::LedgerLater | Mistake::LedgerLaterUnsaid));
        for job in &step.jobs {
            let writes = &job.writes;
            let newest = writes.ledger_to_put();
            if let Some(record) = &writes.record {
                let amended = newest.filter(|_| refused);
                let mut record = match amended {
                    Some(ledger) => record.without_ledger(ledger, self.durable_ledger().as_ref()),
                    None => JobRecord::clone(record),
                };
                if mistake == Some(Mistake::LedgerLaterUnsaid) {
                    record.ledger_revision = self.stored.as_ref().map(|ledger| ledger.revision());
                }
                self.snapshot.jobs = vec![record];
            }
            match newest {
                Some(ledger) if is_later => self.late = Some(Arc::clone(ledger)),
                Some(ledger) if !refused => self.stored = Some(Arc::clone(ledger)),
                _ => {}
            }
            self.tell();
            if let Some(history) = &writes.ended {
                let history = HistoryRecord::clone(history);
                self.history = Some(if refused { history.without_ledger() } else { history });
                self.snapshot.jobs.clear();
                self.snapshot.ledgers.clear();
                self.stored = None;
                self.snapshot.finished = vec![(job.job, BEGIN)];
            }
        }
    }
}

/// A step that is not carried out yet, with what it means for the job.
#[derive(Clone, Debug)]
pub struct Decided {
    pub step: Step,
    facts: Vec<Fact>,
}

impl Decided {
    fn has(&self, part: Part) -> bool {
        match part {
            Part::Journal => self.step.member_event.is_some() || !self.step.members.is_empty(),
            Part::Job => self.step.jobs.iter().any(|job| !job.writes.is_empty()),
            Part::Processed => self.step.processed.is_some(),
        }
    }

    fn has_ledger(&self) -> bool {
        let writes = self.step.jobs.iter().map(|job| &job.writes);
        writes.into_iter().any(|writes| {
            let ended = writes.ended.as_ref().and_then(|history| history.ledger.as_ref());
            writes.ledger_to_put().is_some() || ended.is_some()
        })
    }
}

/// How far what was decided has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing of it is durable; more may be decided.
    Decided,
    /// These parts are still to be committed, this one first.
    Split(Part),
    /// All of it is; none of its effects has happened.
    Durable,
}

/// Where a container is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Launched,
    Runs,
    /// It failed, and nobody acknowledged the report.
    Failed,
}

/// An agent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agent {
    pub connection: Option<Connection>,
    /// It says so until the loss is acknowledged.
    pub leaves: bool,
    pub gone: bool,
}

/// A state.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub durable: Durable,
    pub engine: Engine,
    pub queue: Vec<Decided>,
    pub progress: Progress,
    /// Whether the store refused a ledger in the commit that is under way.
    refused_now: bool,
    /// Whether it ever did.
    pub refused: bool,
    pub agents: BTreeMap<MemberUuid, Agent>,
    pub containers: BTreeMap<ExecutionId, (MemberUuid, Life)>,
    pub reference: Reference,
    now: Timestamp,
    terms: u64,
    /// What may still go wrong.
    pub left: Faults,
    pub mistake: Option<Mistake>,
    settings: Settings,
}

/// How often something goes wrong at most.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub losses: u8,
    pub failures: u8,
    pub changes: u8,
    pub refusals: u8,
}

impl Cluster {
    /// Every agent is connected, and the job's first deployment is under way.
    pub fn new(
        members: u64,
        retries: u32,
        left: Faults,
        redo: bool,
        mistake: Option<Mistake>,
    ) -> Self {
        let mut cluster = Self::empty(members, left, redo);
        cluster.take_over();
        cluster.settle();
        for number in 1..=members {
            cluster.hello(member(number));
            cluster.settle();
        }
        cluster.submit(retries);
        cluster.settle();
        cluster.mistake = mistake;
        cluster
    }

    /// Nobody is connected, and no coordinator has taken over.
    pub fn empty(members: u64, left: Faults, redo: bool) -> Self {
        let durable = Durable::default();
        let settings = Settings { redo, ..settings() };
        let engine =
            Engine::load(durable.snapshot.clone(), settings.clone(), TermNonce::new(1), BEGIN);
        let agents = (1..=members).map(|number| (member(number), Agent::default())).collect();
        Self {
            durable,
            engine,
            queue: Vec::new(),
            progress: Progress::Decided,
            refused_now: false,
            refused: false,
            agents,
            containers: BTreeMap::new(),
            reference: Reference::default(),
            now: BEGIN,
            terms: 1,
            left,
            mistake: None,
            settings,
        }
    }

    fn settle(&mut self) {
        while !self.queue.is_empty() {
            self.commit();
            self.carry_out();
        }
    }

    /// The engine's own record and evaluation of the job, as readers are shown it.
    pub fn view(&self) -> Option<Evaluation> {
        let (record, ledger) = self.engine.jobs().next()?;
        Some(record.evaluation(ledger, self.engine.watermarks()))
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn owes(&self) -> bool {
        self.engine.jobs().any(|(record, _)| record.owed_since.is_some())
    }

    pub fn record(&self) -> Option<JobRecord> {
        self.engine.jobs().next().map(|(record, _)| record.clone())
    }

    /// The engine is told something; what it decides waits for its commit.
    fn feed(&mut self, input: Input) {
        let lost_before: Vec<MemberUuid> = match input {
            Input::TookOver => self.unheard(),
            _ => Vec::new(),
        };
        let before = self.record();
        let step = self.engine.step(self.now, input);
        let lost = step.member_event.iter().map(|event| event.member).chain(lost_before);
        let lost: Vec<MemberUuid> = lost.collect();
        let job = step.jobs.first().map(|job| &job.writes);
        let ended = job.and_then(|writes| writes.ended.as_ref()).map(|history| &history.job);
        let after = job.and_then(|writes| writes.record.as_deref()).or(ended);
        let facts = before
            .as_ref()
            .map_or_else(Vec::new, |before| facts(before, after.unwrap_or(before), &lost));
        let nothing = step.writes_nothing() && self.queue.is_empty();
        self.queue.push(Decided { step, facts });
        if nothing {
            self.hear();
            self.progress = Progress::Durable;
            self.carry_out();
        }
    }

    /// Losses in the journal of which the job has not heard, whatever anybody says of how far it was
    /// brought.
    fn unheard(&self) -> Vec<MemberUuid> {
        let lost = self.durable.snapshot.journal.iter().map(|event| event.member);
        lost.filter(|member| !self.reference.has_heard_of(*member)).collect()
    }

    // ---- commits -------------------------------------------------------------------------------

    /// The next part of the commit that has anything in it, from `from` on.
    pub fn next_part(&self, from: Part) -> Option<Part> {
        let has = |part: &Part| self.queue.iter().any(|decided| decided.has(*part));
        PARTS.into_iter().filter(|part| *part >= from).find(has)
    }

    pub fn parts(&self) -> usize {
        PARTS.iter().filter(|part| self.queue.iter().any(|decided| decided.has(**part))).count()
    }

    pub fn has_ledger(&self) -> bool {
        self.queue.iter().any(Decided::has_ledger)
    }

    /// All of it in one transaction.
    pub fn commit(&mut self) {
        self.durable.write_late();
        for part in PARTS {
            self.write(part, false);
        }
        self.progress = Progress::Durable;
    }

    /// One part of it, in a transaction of its own.
    pub fn commit_part(&mut self, part: Part, refuse: bool) {
        if self.progress == Progress::Decided {
            self.durable.write_late();
        }
        self.write(part, refuse);
        let after = PARTS.into_iter().find(|later| *later > part);
        let next = after.and_then(|after| self.next_part(after));
        self.progress = next.map_or(Progress::Durable, Progress::Split);
    }

    fn write(&mut self, part: Part, refuse: bool) {
        let queue = std::mem::take(&mut self.queue);
        self.durable.write(&queue, part, refuse, self.mistake);
        if part == Part::Journal && self.mistake == Some(Mistake::ProcessedFirst) {
            self.durable.write(&queue, Part::Processed, false, self.mistake);
        }
        self.refused_now |= refuse;
        self.refused |= refuse;
        self.queue = queue;
        if part == Part::Job {
            self.hear();
        }
    }

    fn hear(&mut self) {
        for fact in self.queue.iter().flat_map(|decided| &decided.facts) {
            self.reference.hear(fact);
        }
    }

    /// The index is changed and effects happen; what the index was last asked is told to the engine.
    pub fn carry_out(&mut self) {
        let mut answers = Vec::new();
        for Decided { step, .. } in std::mem::take(&mut self.queue) {
            let of_jobs = step.jobs.iter().flat_map(|job| &job.index);
            for change in step.index.iter().chain(of_jobs) {
                if let IndexChange::Invalid(execution, _, entry) = change {
                    answers.push((*execution, entry.assumed_answer));
                }
            }
            let effects = step.jobs.into_iter().flat_map(|job| job.effects);
            for effect in effects.chain(step.effects) {
                self.take_effect(effect);
            }
        }
        self.progress = Progress::Decided;
        if std::mem::take(&mut self.refused_now)
            && let Some(job) = self.record().map(|record| record.id)
        {
            self.refuse(job);
        }
        if !answers.is_empty() {
            self.feed(Input::LastAnswers(answers));
        }
    }

    fn refuse(&mut self, job: JobId) {
        let durable = self.durable.durable_ledger();
        self.feed(Input::LedgerRefused { job, durable });
    }

    fn take_effect(&mut self, effect: Effect) {
        let Effect::Send(connection, message) = effect else { return };
        let agent = self.agents.iter_mut().find(|(_, a)| a.connection == Some(connection));
        let Some((member, agent)) = agent else { return };
        match message {
            AgentMessage::Launch(launch) => {
                self.containers.entry(launch.execution).or_insert((*member, Life::Launched));
            }
            AgentMessage::Stop { execution, .. } | AgentMessage::Acknowledge(execution) => {
                self.containers.remove(&execution);
            }
            AgentMessage::LeaveAcknowledged => {
                *agent = Agent { connection: None, leaves: true, gone: true };
                let member = *member;
                self.containers.retain(|_, (there, _)| *there != member);
            }
            AgentMessage::RegisterAnew => {
                *agent = Agent { gone: true, ..*agent };
            }
            AgentMessage::Welcome => {}
        }
    }

    // ---- what happens --------------------------------------------------------------------------

    /// The coordinator is gone with all that was not durable; another one loads what was.
    pub fn change_coordinator(&mut self) {
        self.terms += 1;
        for agent in self.agents.values_mut() {
            agent.connection = None;
        }
        let snapshot = self.durable.snapshot.clone();
        let settings = self.settings.clone();
        self.engine = Engine::load(snapshot, settings, TermNonce::new(self.terms), self.now);
        self.queue.clear();
        self.progress = Progress::Decided;
        self.refused_now = false;
        self.feed(Input::TookOver);
    }

    /// The first coordinator begins.
    pub fn take_over(&mut self) {
        self.feed(Input::TookOver);
    }

    pub fn submit(&mut self, retries: u32) {
        self.feed(Input::Submit { ticket: Ticket(1), spec: Box::new(job(retries)) });
    }

    pub fn stop(&mut self, job: JobId) {
        self.feed(Input::Stop { ticket: Ticket(2), job });
    }

    pub fn hello(&mut self, member: MemberUuid) {
        let number = self.agents.keys().position(|known| *known == member).unwrap_or_default();
        let connection = Connection(self.terms * 10 + number as u64);
        let here = self.containers.iter().filter(|(_, (there, _))| *there == member);
        let containers = here.map(|(id, (_, life))| (*id, event(*life))).collect();
        if let Some(agent) = self.agents.get_mut(&member) {
            agent.connection = Some(connection);
        }
        let record = Box::new(member_record(member));
        let welcomed = self.durable.snapshot.members.iter().any(|known| known.uuid == member);
        self.feed(Input::Hello { connection, member: record, welcomed, containers });
    }

    pub fn leave(&mut self, member: MemberUuid) {
        let Some(agent) = self.agents.get_mut(&member) else { return };
        agent.leaves = true;
        let Some(connection) = agent.connection else { return };
        self.feed(Input::Leaving { member, connection });
    }

    pub fn report(&mut self, execution: ExecutionId, life: Life) {
        let Some((member, now)) = self.containers.get_mut(&execution) else { return };
        *now = life;
        let member = *member;
        let connection = self.agents.get(&member).and_then(|agent| agent.connection);
        if let (Some(event), Some(connection)) = (event(life), connection) {
            let reporter = Reporter::Agent(member, connection);
            self.feed(Input::Container { execution, event, reporter });
        }
    }

    /// Time passes for a ledger that is to be caught up.
    pub fn wait(&mut self) {
        self.now = self.now + 1_000;
        self.feed(Input::Deadline);
    }

    /// Agents that can be reached and have not been told that their loss is noted.
    pub fn leaving(&self) -> BTreeSet<MemberUuid> {
        let of = |(member, agent): (&MemberUuid, &Agent)| {
            (agent.leaves && !agent.gone && agent.connection.is_some()).then_some(*member)
        };
        self.agents.iter().filter_map(of).collect()
    }

    /// Everything that tells this state from another. What is durable is mostly what the engine has in
    /// memory, and is printed only where it is not.
    pub fn print(&self, out: &mut impl std::fmt::Write) -> std::fmt::Result {
        let Self {
            durable, engine, queue, progress, refused_now, refused, agents, containers, ..
        } = self;
        let Self { reference, now, terms, left, mistake: _, .. } = self;
        write!(out, "{engine:?}{progress:?}{refused_now}{refused}{agents:?}{containers:?}")?;
        write!(out, "{reference:?}{now:?}{terms}{left:?}")?;
        let job = engine.jobs().next();
        let Durable { snapshot, history, stored, late } = durable;
        if durable.record() != job.map(|(record, _)| record) {
            write!(out, "{:?}", snapshot.jobs)?;
        }
        if durable.ledger() != job.and_then(|(_, ledger)| ledger) {
            write!(out, "{:?}", snapshot.ledgers)?;
        }
        let events = snapshot.journal.iter().map(|event| (event.seq, event.member));
        let lost = snapshot.members.iter().map(|member| (member.uuid, member.lost));
        write!(out, "{:?}{:?}", events.collect::<Vec<_>>(), lost.collect::<Vec<_>>())?;
        write!(out, "{:?}{history:?}{late:?}", snapshot.processed)?;
        write!(out, "{:?}", stored.as_ref().map(|ledger| ledger.revision()))?;
        for Decided { step, facts } in queue {
            write!(out, "{facts:?}{:?}{:?}{:?}", step.member_event, step.processed, step.effects)?;
            write!(out, "{:?}{:?}", step.index, step.members)?;
            for JobStep { writes, index, effects, .. } in &step.jobs {
                write!(out, "{index:?}{effects:?}{:?}", writes.ended.is_some())?;
                let written = (writes.record.as_deref(), writes.ledger.as_deref());
                let (record, ledger) = written;
                let is_newest = record == job.map(|(record, _)| record)
                    && ledger.is_none_or(|ledger| Some(ledger) == job.and_then(|job| job.1));
                if is_newest {
                    write!(out, "{}", ledger.is_some())?;
                } else {
                    write!(out, "{written:?}")?;
                }
            }
        }
        Ok(())
    }
}

fn event(life: Life) -> Option<ContainerEvent> {
    match life {
        Life::Launched => None,
        Life::Runs => Some(ContainerEvent::Started { pid: 2, wrapper_pid: 1 }),
        Life::Failed => Some(ContainerEvent::Ended {
            outcome: Some(Outcome::Exited { code: 1 }),
            proof: Some(Proof::NoChildLeft),
        }),
    }
}
