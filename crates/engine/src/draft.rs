//! A step while it is being decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use steadfast_model::{ExecutionId, FencingToken, JobId, TaskGroupId, Timestamp};

use crate::input::{Connection, Ticket};
use crate::records::HistoryRecord;
use crate::step::{AgentMessage, Effect, IndexChange, Reply, Step};

/// What one job adds to the step.
#[derive(Default)]
pub(crate) struct JobDraft {
    pub index: Vec<IndexChange>,
    pub effects: Vec<Effect>,
    pub tokens: Vec<(TaskGroupId, FencingToken)>,
    pub ended: Option<Arc<HistoryRecord>>,
}

/// Collects what a step does. A job that is touched is written whole when the step is done.
pub(crate) struct Draft {
    pub now: Timestamp,
    pub step: Step,
    pub jobs: BTreeMap<JobId, JobDraft>,
    greeting: Option<Effect>,
}

impl Draft {
    pub fn new(now: Timestamp) -> Self {
        Self { now, step: Step::default(), jobs: BTreeMap::new(), greeting: None }
    }

    /// The job's record is to be written.
    pub fn job(&mut self, job: JobId) -> &mut JobDraft {
        self.jobs.entry(job).or_default()
    }

    /// The validity index answers "unknown" for this container from before the commit on.
    pub fn freeze(&mut self, execution: ExecutionId) {
        self.step.freeze.push(execution);
    }

    /// An effect of the step itself.
    pub fn send(&mut self, connection: Connection, message: AgentMessage) {
        self.step.effects.push(Effect::Send(connection, message));
    }

    /// The answer to a `Hello`. An agent obeys nothing before it, so it comes before every other effect.
    pub fn greet(&mut self, connection: Connection, message: AgentMessage) {
        self.greeting = Some(Effect::Send(connection, message));
    }

    /// The greeting, for whatever comes first.
    pub fn take_greeting(&mut self) -> Option<Effect> {
        self.greeting.take()
    }

    /// An answer that needs no job's commit.
    pub fn reply(&mut self, ticket: Ticket, reply: Reply) {
        self.step.effects.push(Effect::Reply(ticket, reply));
    }
}
