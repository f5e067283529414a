//! **Restores stay within the limit**: however often coordinators change, a pipeline is deployed again
//! at most `job.retry.times` times, not counting deployments after a member's loss where the job keeps
//! those out of its budget.
//!
//! Seen to fail on `BudgetForgotten` (a change of coordinator gives the retries back).

use std::collections::BTreeMap;

use steadfast_model::{JobId, PipelineId, RetryPolicy};

use crate::story::Fact;

#[derive(Clone, Copy)]
enum Cause {
    Ordinary,
    MemberLoss,
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
            Fact::Lost(_, pipelines) => {
                for pipeline in pipelines {
                    self.failed(job, *pipeline, Cause::MemberLoss);
                }
            }
            Fact::Deployed(pipeline) => return self.deployed(job, *pipeline),
            Fact::Ran(_) | Fact::Over => {}
        }
        Ok(())
    }

    fn failed(&mut self, job: JobId, pipeline: PipelineId, cause: Cause) {
        self.budgets.entry((job, pipeline)).or_default().failed = Some(cause);
    }

    fn deployed(&mut self, job: JobId, pipeline: PipelineId) -> Result<(), String> {
        let Some(policy) = self.policies.get(&job) else { return Ok(()) };
        let Some(budget) = self.budgets.get_mut(&(job, pipeline)) else { return Ok(()) };
        budget.used += match budget.failed.take() {
            Some(Cause::Ordinary) => 1,
            Some(Cause::MemberLoss) => u32::from(policy.count_member_loss),
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
