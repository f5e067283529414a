//! **Restores stay within the limit**: however often coordinators change, a pipeline is deployed again
//! at most `job.retry.times` times, not counting deployments after a member's loss where the job keeps
//! those out of its budget, nor after a planned one. And no restore is burned without cause.
//!
//! Seen to fail on `BudgetForgotten` (a change of coordinator gives the retries back) and on
//! `DrainBurnsARestore`.

use std::collections::BTreeMap;

use steadfast_engine::Step;
use steadfast_model::{JobId, PipelineId, RetryPolicy};

use crate::story::Fact;

#[derive(Clone, Copy)]
enum Cause {
    Ordinary,
    /// While its restore waited for an old copy, that one's member left as planned.
    OrdinaryThenPlanned,
    MemberLoss,
    Planned,
}

impl Cause {
    fn burns(self, policy: &RetryPolicy) -> u32 {
        match self {
            Self::Ordinary | Self::OrdinaryThenPlanned => 1,
            Self::MemberLoss => u32::from(policy.count_member_loss),
            Self::Planned => 0,
        }
    }

    /// A restore has the cause that it was first seen to have. But a failure that a member's loss joins while
    /// its restore waits is that loss's symptom.
    fn joined_by(self, next: Self) -> Self {
        match (self, next) {
            (Self::Ordinary, Self::MemberLoss) => Self::MemberLoss,
            (Self::Ordinary, Self::Planned) => Self::OrdinaryThenPlanned,
            (first, _) => first,
        }
    }
}

#[derive(Default)]
struct Budget {
    failed: Option<Cause>,
    used: u32,
}

/// What each pipeline has used.
#[derive(Default)]
pub(crate) struct RestoresWithinLimit {
    policies: BTreeMap<JobId, RetryPolicy>,
    budgets: BTreeMap<(JobId, PipelineId), Budget>,
}

impl RestoresWithinLimit {
    /// # Errors
    /// Which pipeline was deployed once too often.
    pub fn hear(&mut self, job: JobId, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Submitted(spec) => {
                self.policies.insert(job, spec.retry.clone());
            }
            Fact::Failed(pipeline) => self.failed(job, *pipeline, Cause::Ordinary),
            Fact::Lost { member: _, pipelines, planned } => {
                let cause = if *planned { Cause::Planned } else { Cause::MemberLoss };
                for pipeline in pipelines {
                    self.failed(job, *pipeline, cause);
                }
            }
            Fact::Deployed(pipeline) => return self.deployed(job, *pipeline),
            Fact::Ran(_) | Fact::Over => {}
        }
        Ok(())
    }

    /// # Errors
    /// Which pipeline has burned a restore that nothing had cost.
    pub fn judge(&self, step: &Step) -> Result<(), String> {
        for record in step.jobs.iter().filter_map(|job| job.writes.record.as_deref()) {
            let Some(policy) = self.policies.get(&record.id) else { continue };
            for pipeline in &record.pipelines {
                let budget = self.budgets.get(&(record.id, pipeline.id));
                let failed = budget.and_then(|budget| budget.failed);
                let used = budget.map_or(0, |budget| budget.used)
                    + failed.map_or(0, |cause| cause.burns(policy));
                if pipeline.budget_used > used {
                    let (burned, id, job) = (pipeline.budget_used, pipeline.id, record.id);
                    return Err(format!(
                        "pipeline {id} of job {job} has burned {burned} restores, and {used} were due"
                    ));
                }
            }
        }
        Ok(())
    }

    fn failed(&mut self, job: JobId, pipeline: PipelineId, cause: Cause) {
        let budget = self.budgets.entry((job, pipeline)).or_default();
        budget.failed = Some(budget.failed.map_or(cause, |first| first.joined_by(cause)));
    }

    fn deployed(&mut self, job: JobId, pipeline: PipelineId) -> Result<(), String> {
        let Some(policy) = self.policies.get(&job) else { return Ok(()) };
        let Some(budget) = self.budgets.get_mut(&(job, pipeline)) else { return Ok(()) };
        budget.used += match budget.failed.take() {
            Some(cause) => cause.burns(policy),
            None => return Err(format!("pipeline {pipeline} of job {job} is deployed twice")),
        };
        if budget.used > policy.times {
            let (used, times) = (budget.used, policy.times);
            return Err(format!(
                "pipeline {pipeline} of job {job} was restored {used} times of {times}"
            ));
        }
        Ok(())
    }
}
