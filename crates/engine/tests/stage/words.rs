//! The words of a scenario: a command's own, and those in which a job's state is told.

use std::collections::BTreeMap;

use steadfast_engine::Engine;
use steadfast_engine::records::JobRecord;
use steadfast_ledger::Evaluation;
use steadfast_model::{
    ContainerPolicy, JobId, JobMode, JobSpec, LeaseTerms, PipelineSpec, RetryPolicy, TaskSpec,
    ValidatorKind,
};

use super::durable::Durable;

/// One command.
pub struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    pub fn of(command: &'a str) -> Self {
        Self(command.split_whitespace().collect())
    }

    pub fn verb(&self) -> &'a str {
        self.0[0]
    }

    pub fn name(&self, at: usize) -> &'a str {
        self.0.get(at).copied().unwrap_or_else(|| panic!("a name is missing: {:?}", self.0))
    }

    /// The words after the verb that are no `key=value`.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.0.iter().skip(1).copied().filter(|word| !word.contains('='))
    }

    pub fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    pub fn value(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    pub fn number(&self, key: &str) -> Option<u64> {
        self.value(key).map(|value| value.parse().unwrap_or_else(|_| panic!("{key}={value}")))
    }

    pub fn list(&self, key: &str) -> Vec<String> {
        let value = self.value(key).unwrap_or_default();
        value.split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }
}

/// `submit NAME pipelines=2,1 threshold=2 retries=3`: a number of task groups for each pipeline.
pub fn job_spec(words: &Words<'_>) -> JobSpec {
    let pipelines = words.list("pipelines");
    let threshold = words.number("threshold").map_or(-1, |threshold| threshold as i64);
    JobSpec {
        name: words.name(1).to_owned(),
        mode: JobMode::Streaming,
        retry: RetryPolicy {
            times: words.number("retries").unwrap_or(3) as u32,
            count_member_loss: !words.has("free-member-loss"),
            reset_after_minutes: 0,
            interval_seconds: 3,
        },
        dirty_threshold: threshold,
        container: ContainerPolicy {
            validator_enabled: !words.has("no-validator"),
            lease: LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 },
            samza: false,
        },
        pipelines: (1..).zip(&pipelines).map(|(number, size)| pipeline(number, size)).collect(),
    }
}

fn pipeline(number: u32, task_groups: &str) -> PipelineSpec {
    PipelineSpec {
        name: format!("pipeline-{number}"),
        member_tags: BTreeMap::new(),
        tasks: vec![TaskSpec {
            name: "task".to_owned(),
            parallelism: task_groups.parse().unwrap(),
            command: vec!["program".to_owned()],
            environment: BTreeMap::new(),
            validator: ValidatorKind::Wrapper,
            progress_timeout_ms: 0,
        }],
    }
}

/// How a job stands, and what its ledger amounts to.
pub fn job_state(engine: &Engine, durable: &Durable, id: JobId) -> (String, String) {
    if let Some((record, ledger)) = engine.jobs().find(|(record, _)| record.id == id) {
        let evaluation = record.evaluation(ledger, engine.watermarks());
        return (state(record), numbers(&evaluation));
    }
    let Some(history) = durable.history.get(&id) else {
        return ("is gone".to_owned(), String::new());
    };
    let evaluation = history.evaluation.as_ref().map(numbers);
    (format!("{}, in the history", state(&history.job)), evaluation.unwrap_or_default())
}

fn state(record: &JobRecord) -> String {
    let pipelines = record.pipelines.iter().map(|pipeline| {
        let waits = pipeline.leftovers().count();
        let waits = if waits == 0 { String::new() } else { format!(", {waits} old") };
        let (id, status) = (pipeline.id, pipeline.status);
        let (attempt, used) = (pipeline.attempt, pipeline.budget_used);
        format!(
            " | pipeline {id} {status}, attempt {attempt}, {used} of {} used{waits}",
            record.spec.retry.times
        )
    });
    format!("{}{}", record.status, pipelines.collect::<String>())
}

fn numbers(evaluation: &Evaluation) -> String {
    format!(
        "{} attempts, {} episodes, {} incidents: {}{}",
        evaluation.recovery_attempt_count,
        evaluation.episode_count,
        evaluation.incident_count,
        evaluation.status,
        if evaluation.active_episode.is_some() { ", recovering" } else { "" }
    )
}
