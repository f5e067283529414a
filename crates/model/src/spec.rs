//! A checked job: what `jobfile` makes of a HOCON or JSON document.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::LeaseTerms;
use crate::status::words;

words! {
    /// Names the intent; restore is the same for both.
    JobMode {
        /// Ends when its input ends.
        Batch = "BATCH",
        /// Runs until stopped.
        Streaming = "STREAMING",
    }
}

words! {
    /// Who holds a container's lease.
    ValidatorKind {
        /// `steadfast exec` around the program.
        Wrapper = "wrapper",
        /// The validator library inside the program; the wrapper stays as the last rung.
        Library = "library",
    }
}

/// A whole job, checked: names are unique, commands are not empty, the lease holds three polls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobSpec {
    /// `job.name`.
    pub name: String,
    /// `job.mode`.
    pub mode: JobMode,
    /// `job.retry.*`.
    pub retry: RetryPolicy,
    /// `job.dirty-task.threshold`; 0 or less: no ledger.
    pub dirty_threshold: i64,
    /// `job.container.*`.
    pub container: ContainerPolicy,
    /// At least one.
    pub pipelines: Vec<PipelineSpec>,
}

impl JobSpec {
    /// The threshold, if recovery tracking was asked for.
    pub fn tracking_threshold(&self) -> Option<u64> {
        u64::try_from(self.dirty_threshold).ok().filter(|threshold| *threshold > 0)
    }

    /// How many containers run at once when everything runs; also the slots that it takes.
    pub fn task_group_count(&self) -> u32 {
        self.pipelines.iter().map(PipelineSpec::task_group_count).sum()
    }
}

/// `job.retry.*`: how often and when a pipeline is restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryPolicy {
    /// `job.retry.times`: restores per pipeline, whatever their cause.
    pub times: u32,
    /// `job.retry.count-member-loss`: false keeps infrastructure out of the budget.
    pub count_member_loss: bool,
    /// `job.retry.reset.after.minutes`: a pipeline that has run this long gets its budget back; 0 never.
    pub reset_after_minutes: u64,
    /// `job.retry.interval.seconds`: pause before a restore after an ordinary failure.
    pub interval_seconds: u64,
}

/// `job.container.*`: how its containers stay valid and how they end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerPolicy {
    /// `job.container.validator.enabled`; false gives up the promise of one valid container.
    pub validator_enabled: bool,
    /// `job.container.lease.ms`, `….shutdown.grace.ms`, `….validator.schedule.ms`.
    pub lease: LeaseTerms,
    /// `job.container.validator.samza`: also answer Samza's client in the program.
    pub samza: bool,
}

/// A pipeline: the unit of restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PipelineSpec {
    /// Unique in the job.
    pub name: String,
    /// Only members with all of these tags take its containers.
    pub member_tags: BTreeMap<String, String>,
    /// At least one.
    pub tasks: Vec<TaskSpec>,
}

impl PipelineSpec {
    /// The sum of its tasks' parallelism.
    pub fn task_group_count(&self) -> u32 {
        self.tasks.iter().map(|task| task.parallelism).sum()
    }
}

/// A task: `parallelism` task groups that run the same command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskSpec {
    /// Unique in the pipeline.
    pub name: String,
    /// At least 1.
    pub parallelism: u32,
    /// Program and arguments; not empty.
    pub command: Vec<String>,
    /// Added to the container's environment.
    pub environment: BTreeMap<String, String>,
    /// Who holds the lease.
    pub validator: ValidatorKind,
    /// `task.progress.timeout.ms`; 0: off.
    pub progress_timeout_ms: u64,
}
