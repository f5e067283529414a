//! The engine's state and the one way to change it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use steadfast_ledger::{JobLedger, Redo, Watermarks};
use steadfast_model::{
    ExecutionId, JobId, LedgerRevision, MemberEventSeq, MemberStatus, MemberUuid, PipelineId,
    RequestId, TermNonce, Timestamp,
};

use crate::containers::Containers;
use crate::draft::Draft;
use crate::input::Input;
use crate::membership::Members;
use crate::planned_leave::Registration;
use crate::records::{HistoryRecord, JobRecord, MemberEvent, MemberRecord};
use crate::settings::Settings;
use crate::step::{JobStep, JobWrites, MemberWrite, Step};
use crate::suspicion::SelfSuspicion;

/// One job in memory.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub record: JobRecord,
    pub ledger: Ledger,
    /// The revision at which the ledger's record was last written; `None` where it was not, or where the next
    /// change is to be written, whatever it is.
    pub stored_ledger: Option<LedgerRevision>,
    /// The revision of the closed episodes that the store was last given; 0 where it was given none, or
    /// may not have taken them.
    pub stored_episodes: LedgerRevision,
    /// How often in a row the store refused its ledger's part.
    pub refusals: u32,
}

/// A job's ledger, as far as there is one.
#[derive(Clone, Debug)]
pub(crate) enum Ledger {
    /// Not asked for.
    Off,
    /// Kept; in the place of a stored one that could not be read it is one that says so.
    Kept(Box<JobLedger>),
}

impl Ledger {
    pub fn kept(&self) -> Option<&JobLedger> {
        match self {
            Self::Kept(ledger) => Some(ledger),
            Self::Off => None,
        }
    }

    pub fn kept_mut(&mut self) -> Option<&mut JobLedger> {
        match self {
            Self::Kept(ledger) => Some(ledger),
            Self::Off => None,
        }
    }
}

/// Things worth a metric that change no state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reports about containers that are not the present ones, or that were known already.
    pub redundant_notifications: u64,
    /// Leases that ran out: at a container that got no "yes" in time, or of an old copy whose end nobody
    /// could prove.
    pub leases_expired: u64,
}

/// A member as the engine sees it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Its durable record.
    pub record: MemberRecord,
    /// How it stands.
    pub status: MemberStatus,
    /// Slots that are taken, old copies that are not proven gone included.
    pub used_slots: u32,
    /// When it was last heard.
    pub last_seen: Timestamp,
}

/// The pure core of a coordinator's term.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) nonce: TermNonce,
    pub(crate) began: Timestamp,
    pub(crate) jobs_made: u64,
    pub(crate) seq: MemberEventSeq,
    /// The newest member events, for jobs that lag.
    pub(crate) journal: VecDeque<MemberEvent>,
    /// The event up to which every job had been processed when the term began.
    pub(crate) processed: MemberEventSeq,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) members: Members,
    pub(crate) containers: Containers,
    /// What operators asked for, the expired included.
    pub(crate) requests: BTreeMap<RequestId, Registration>,
    /// Pipelines that lack nothing but slots, oldest job first.
    pub(crate) ready: BTreeSet<(Timestamp, JobId, PipelineId)>,
    /// Whether slots came free, or a pipeline became ready, since the last placement.
    pub(crate) place_again: bool,
    pub(crate) alarms: BTreeMap<Timestamp, BTreeSet<(JobId, PipelineId)>>,
    /// Kept apart from the pipelines' alarms: a ledger's time must move no pipeline.
    pub(crate) ledger_alarms: BTreeMap<Timestamp, BTreeSet<JobId>>,
    pub(crate) finished: BTreeSet<(Timestamp, JobId)>,
    pub(crate) counters: Counters,
}

impl Engine {
    /// Takes one input at `now` and says what to remember and what to do. An earlier `now` than the last
    /// one counts as the last one.
    pub fn step(&mut self, now: Timestamp, input: Input) -> Step {
        // A refused ledger is nothing that happened outside. It must not even move the listening clock: an
        // untracked job has no such step, and the label would move the declaration of a loss by
        // milliseconds.
        let time_passes = !matches!(input, Input::LedgerRefused { .. });
        let now = if time_passes { self.members.advance(now) } else { self.members.instant(now) };
        let mut draft = Draft::new(now);
        let d = &mut draft;
        match input {
            Input::TookOver => self.took_over(d),
            Input::Deadline => {}
            Input::Submit { ticket, spec } => self.submit(ticket, *spec, d),
            Input::Stop { ticket, job } => self.stop(ticket, job, d),
            Input::Hello { connection, member, welcomed, containers } => {
                self.hello(connection, *member, welcomed, &containers, d);
            }
            Input::Heard { member, connection } => self.heard(member, connection, d),
            Input::Disconnected { member, connection, by_us } => {
                let _ = self.members.disconnect(member, connection, by_us);
            }
            Input::Leaving { member, connection } => self.leaving(member, connection, d),
            Input::PlanLeave { ticket, request } => self.plan_leave(ticket, request, d),
            Input::Container { execution, event, reporter } => {
                self.container_event(execution, event, reporter, d);
            }
            Input::LastAnswers(answers) => self.last_answers(&answers, d),
            Input::LedgerRefused { job, durable } => {
                self.ledger_refused(job, durable.as_ref(), d);
            }
        }
        if time_passes {
            self.look_at_the_clock(d);
            self.place_ready(d);
        }
        self.conclude(draft)
    }

    /// When the engine wants to be stepped with [`Input::Deadline`] at the latest.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let alarm = self.alarms.keys().next().copied();
        // While there are members the engine is stepped twice a second anyhow. A step for a ledger's sake
        // would move the listening clock, and with it, by milliseconds, the declaration of a loss.
        let ledger_alarm = self.ledger_alarms.keys().next().copied();
        let ledger_alarm = ledger_alarm.filter(|_| !self.members.ticks());
        [alarm, ledger_alarm, self.members.next_deadline()].into_iter().flatten().min()
    }

    /// Whatever the input was, what time has brought about is seen to in the same step. One member is
    /// declared lost a step; where more are due, `next_deadline` lies in the past.
    fn look_at_the_clock(&mut self, d: &mut Draft) {
        self.members.suspect_self(d.now);
        if d.step.member_event.is_none()
            && let Some(due) = self.members.due()
        {
            self.declare_lost(due.member, due.cause, due.evidence, d);
        }
        self.apply_holds(d);
        for member in self.members.to_unlist(d.now) {
            self.members.remove(member);
            d.step.members.push(MemberWrite::Remove(member));
        }
        while let Some(entry) = self.alarms.first_entry() {
            if *entry.key() > d.now {
                break;
            }
            for (job, pipeline) in entry.remove() {
                self.advance(job, pipeline, d);
            }
        }
        while let Some(entry) = self.ledger_alarms.first_entry() {
            if *entry.key() > d.now {
                break;
            }
            for job in entry.remove() {
                self.catch_up(job, d);
                self.write_what_was_refused(job, d);
                self.park_expired(job, d);
            }
        }
    }

    /// Asks for [`Engine::advance`] of a pipeline at a moment.
    pub(crate) fn alarm(&mut self, at: Timestamp, job: JobId, pipeline: PipelineId) {
        self.alarms.entry(at).or_default().insert((job, pipeline));
    }

    /// Asks for a look at a job's ledger at a moment.
    pub(crate) fn ledger_alarm(&mut self, at: Timestamp, job: JobId) {
        self.ledger_alarms.entry(at).or_default().insert(job);
    }

    fn conclude(&mut self, mut draft: Draft) -> Step {
        let greeting = draft.take_greeting();
        let Draft { mut step, jobs, .. } = draft;
        for (id, touched) in jobs {
            let mut writes = JobWrites { tokens: touched.tokens, ..JobWrites::default() };
            if let Some(ended) = touched.ended {
                writes.ended = Some(ended);
            } else if let Some(job) = self.jobs.get_mut(&id) {
                if job.record.expects(job.ledger.kept()) {
                    // What was written last was taken.
                    job.refusals = 0;
                } else if let Some(ledger) = job.ledger.kept_mut() {
                    job.record.ledger_revision = Some(ledger.revision());
                    job.record.dirty_since = job.record.dirty_since.or(ledger.dirty_since());
                    if !job.record.redo.leads_to(ledger) {
                        job.record.redo = Redo::default();
                        job.stored_ledger = self.settings.redo.then(|| ledger.revision());
                        writes.episodes = ledger.closed_episodes_to_store(job.stored_episodes);
                        job.stored_episodes = ledger.history().revision();
                    }
                    writes.ledger = Some(Arc::new(ledger.clone()));
                }
                writes.record = Some(Arc::new(job.record.clone()));
            }
            step.jobs.push(JobStep {
                job: id,
                writes,
                index: touched.index,
                effects: touched.effects,
            });
        }
        let first = step.jobs.first_mut().map_or(&mut step.effects, |job| &mut job.effects);
        first.splice(0..0, greeting);
        step
    }

    /// Turns a job that has ended into history.
    pub(crate) fn archive(&mut self, id: JobId, d: &mut Draft) {
        let Some(mut job) = self.jobs.remove(&id) else { return };
        // The history holds the ledger as it is.
        job.record.redo = Redo::default();
        if let Some(ledger) = job.ledger.kept() {
            job.record.ledger_revision = Some(ledger.revision());
            job.record.dirty_since = job.record.dirty_since.or(ledger.dirty_since());
        }
        let evaluation = job.record.evaluation(job.ledger.kept(), self.watermarks());
        let finished = job.record.finished.unwrap_or(d.now);
        let ledger = job.ledger.kept().cloned();
        let history = HistoryRecord { job: job.record, ledger, evaluation: Some(evaluation) };
        d.job(id).ended = Some(Arc::new(history));
        self.finished.insert((finished, id));
        while self.finished.len() > self.settings.finished_jobs {
            let oldest = self.finished.pop_first();
            d.step.forgotten.extend(oldest.map(|(_, job)| job));
        }
    }

    /// How far the journal goes. A step takes an event to every job that has to know of it, so a job that
    /// owes nothing is processed up to it.
    pub fn watermarks(&self) -> Watermarks {
        Watermarks { cluster: self.seq, processed: self.seq, owes: false }
    }

    /// Every job that has not ended, with its ledger.
    pub fn jobs(&self) -> impl Iterator<Item = (&JobRecord, Option<&JobLedger>)> {
        self.jobs.values().map(|job| (&job.record, job.ledger.kept()))
    }

    /// Every member of the table, in order of UUID.
    pub fn member_views(&self) -> impl Iterator<Item = MemberView> {
        self.members.iter().map(|member| MemberView {
            record: member.record.clone(),
            status: self.members.status(member),
            used_slots: member.used_slots(),
            last_seen: member.last_seen,
        })
    }

    /// Present while declarations of loss are held because most members went at once.
    pub fn self_suspicion(&self) -> Option<SelfSuspicion> {
        self.members.suspicion
    }

    /// Things worth a metric.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The member on which a container runs, or may still run.
    pub fn member_of(&self, execution: ExecutionId) -> Option<MemberUuid> {
        self.containers.get(execution).map(|container| container.member)
    }
}
