//! What must hold at every moment, one file for each, judged from outside.

mod containers;
mod count;
mod forever;
mod heals;
mod kept;
mod restores;
mod twin;

use std::collections::BTreeSet;

use steadfast_engine::{Engine, Input, Step};
use steadfast_model::JobId;

use crate::durable::Durable;
use crate::story::Story;

pub(crate) use containers::OneContainer;
use count::CountEqualsOracle;
use forever::Forever;
pub(crate) use heals::{has_ended, has_healed};
use kept::Kept;
use restores::RestoresWithinLimit;
pub use twin::JobTrace;
pub(crate) use twin::compare;

/// What a reader of the coordinator would be shown, and what it is compared with.
pub(crate) struct View<'a> {
    pub engine: &'a Engine,
    pub durable: &'a Durable,
    /// Jobs whose ledger the store refused at least once.
    pub refused: &'a BTreeSet<JobId>,
    /// Jobs whose cancelling was acknowledged.
    pub stopped: &'a BTreeSet<JobId>,
    /// Jobs whose submission was acknowledged.
    pub submitted: &'a [Option<JobId>],
}

/// All of them. The first one that fails is kept.
#[derive(Default)]
pub(crate) struct Checks {
    /// Nothing is judged: to measure what the engine alone costs.
    pub off: bool,
    story: Story,
    count: CountEqualsOracle,
    restores: RestoresWithinLimit,
    forever: Forever,
    kept: Kept,
    pub containers: OneContainer,
    /// What happened to the jobs, for the twin.
    pub jobs: JobTrace,
    failed: Option<String>,
}

impl Checks {
    /// A step is durable.
    pub fn committed(&mut self, now: u64, input: &Input, step: &Step) {
        if self.off {
            return;
        }
        self.jobs.note(now, step);
        for (job, fact) in self.story.go_on(input, step) {
            self.count.hear(job, &fact);
            let verdict = self.restores.hear(job, &fact);
            self.fail("restores stay within the limit", verdict);
        }
    }

    /// A view was published.
    pub fn view(&mut self, view: &View<'_>) {
        if self.off {
            return;
        }
        let verdict = self.count.judge(view);
        self.fail("the count equals the oracle's", verdict);
        let verdict = self.forever.judge(view);
        self.fail("a count never falls, and dirty is for ever", verdict);
        let verdict = self.kept.judge(view);
        self.fail("what was acknowledged is kept", verdict);
    }

    fn fail(&mut self, name: &str, verdict: Result<(), String>) {
        if let Err(what) = verdict {
            self.failed.get_or_insert(format!("{name}: {what}"));
        }
    }

    /// # Errors
    /// What is wrong, and which invariant says so.
    pub fn verdict(&mut self) -> Result<(), String> {
        if self.off {
            return Ok(());
        }
        let verdict = self.containers.verdict();
        self.fail("at most one live container per task group", verdict);
        self.failed.clone().map_or(Ok(()), Err)
    }
}
