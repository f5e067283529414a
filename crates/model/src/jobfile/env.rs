//! `env`: what is true of the job as a whole (03, the table of keys).

use steadfast_hocon::{Object, Position};

use super::samza::SAMZA;
use super::section::{Reading, Section, one_of};
use crate::{ContainerPolicy, JobMode, LeaseTerms, RetryPolicy};

const KEYS: &[&str] = &[
    NAME,
    MODE,
    "job.retry.times",
    "job.retry.count-member-loss",
    "job.retry.reset.after.minutes",
    "job.retry.interval.seconds",
    "job.dirty-task.threshold",
    "job.container.validator.enabled",
    SCHEDULE,
    LEASE,
    GRACE,
    SAMZA,
];
const NAME: &str = "job.name";
const MODE: &str = "job.mode";
const SCHEDULE: &str = "job.container.validator.schedule.ms";
const LEASE: &str = "job.container.lease.ms";
const GRACE: &str = "job.container.shutdown.grace.ms";

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// More often than this a container would do little else, and a coordinator less.
const SHORTEST_SCHEDULE_MS: u64 = 10;

/// Beyond this a threshold is a slip of the pen. Below 0 it means the same as 0.
const BILLION: i64 = 1_000_000_000;

/// What `env` says, with its defaults.
pub(super) struct Env {
    pub(super) name: String,
    pub(super) mode: JobMode,
    pub(super) retry: RetryPolicy,
    pub(super) dirty_threshold: i64,
    pub(super) container: ContainerPolicy,
}

/// Reads `env`. Where something is refused, a default stands in its place, and the result is not used.
pub(super) fn read(reading: &mut Reading, root: &mut Section<'_>) -> Env {
    let nothing = Object::default();
    let (at, object) = match root.get("env") {
        None => (Position::START, &nothing),
        Some(value) => match value.as_object() {
            Some(object) => (value.at, object),
            None => {
                reading.refuse_value("env", value, "an object { job.name = … }");
                return defaults();
            }
        },
    };
    let mut env = Section::open(reading, "env", at, object, KEYS);
    let read = Env {
        name: env.name(reading, NAME),
        mode: mode(reading, &mut env).unwrap_or(defaults().mode),
        retry: retry(reading, &mut env),
        dirty_threshold: env
            .integer(reading, "job.dirty-task.threshold", -BILLION..=BILLION)
            .unwrap_or(defaults().dirty_threshold),
        container: container(reading, &mut env),
    };
    root.write("env", env.into_json());
    read
}

/// The defaults of the table.
fn defaults() -> Env {
    Env {
        name: String::new(),
        mode: JobMode::Streaming,
        retry: RetryPolicy {
            times: 3,
            count_member_loss: true,
            reset_after_minutes: 0,
            interval_seconds: 3,
        },
        dirty_threshold: -1,
        container: ContainerPolicy {
            validator_enabled: true,
            lease: LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 },
            samza: false,
        },
    }
}

fn mode(reading: &mut Reading, env: &mut Section<'_>) -> Option<JobMode> {
    env.text(reading, MODE, one_of(JobMode::ALL), |text| text.parse().ok())
}

fn retry(reading: &mut Reading, env: &mut Section<'_>) -> RetryPolicy {
    let default = defaults().retry;
    RetryPolicy {
        times: env.integer(reading, "job.retry.times", 0..=1_000_000).unwrap_or(default.times),
        count_member_loss: env
            .boolean(reading, "job.retry.count-member-loss")
            .unwrap_or(default.count_member_loss),
        reset_after_minutes: env
            .integer(reading, "job.retry.reset.after.minutes", 0..=365 * 24 * 60)
            .unwrap_or(default.reset_after_minutes),
        interval_seconds: env
            .integer(reading, "job.retry.interval.seconds", 0..=24 * 60 * 60)
            .unwrap_or(default.interval_seconds),
    }
}

fn container(reading: &mut Reading, env: &mut Section<'_>) -> ContainerPolicy {
    let default = defaults().container;
    ContainerPolicy {
        validator_enabled: env
            .boolean(reading, "job.container.validator.enabled")
            .unwrap_or(default.validator_enabled),
        lease: lease(reading, env, default.lease),
        samza: env.boolean(reading, SAMZA).unwrap_or(default.samza),
    }
}

/// Each number in its range, and then the three together.
fn lease(reading: &mut Reading, env: &mut Section<'_>, default: LeaseTerms) -> LeaseTerms {
    let mut number = |key, range, default| match env.get(key) {
        None => Some(default),
        Some(_) => env.integer(reading, key, range),
    };
    let schedule_ms = number(SCHEDULE, SHORTEST_SCHEDULE_MS..=DAY_MS, default.schedule_ms);
    let lease_ms = number(LEASE, 1..=DAY_MS, default.lease_ms);
    let grace_ms = number(GRACE, 0..=DAY_MS, default.grace_ms);
    let (Some(schedule_ms), Some(lease_ms), Some(grace_ms)) = (schedule_ms, lease_ms, grace_ms)
    else {
        return default;
    };
    let terms = LeaseTerms { lease_ms, grace_ms, schedule_ms };
    if !terms.holds_three_polls() {
        let key = [LEASE, GRACE, SCHEDULE].into_iter().find(|key| env.get(key).is_some());
        let key = key.unwrap_or(LEASE);
        let message = format!(
            "a lease of {lease_ms} ms less the grace ({GRACE}) of {grace_ms} ms and the margin of \
             {} ms leaves {} ms, which is shorter than three polls ({SCHEDULE}) of {schedule_ms} ms: \
             expected a lease of at least {} ms, or less of the others",
            terms.margin_ms(),
            terms.stop_after_ms(),
            shortest_lease_ms(terms),
        );
        reading.refuse(env.place(key), env.key(key), message);
    }
    terms
}

/// The shortest lease that holds three polls with this grace and schedule.
fn shortest_lease_ms(terms: LeaseTerms) -> u64 {
    let lease = |lease_ms| LeaseTerms { lease_ms, ..terms };
    let without_margin = terms.grace_ms + 3 * terms.schedule_ms + 100;
    // The margin takes a fiftieth, rounded down, so this is at most a few milliseconds too short.
    let mut shortest = without_margin + without_margin / 49;
    while shortest > 0 && lease(shortest - 1).holds_three_polls() {
        shortest -= 1;
    }
    while !lease(shortest).holds_three_polls() {
        shortest += 1;
    }
    shortest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_in_the_document() {
        let document = include_str!("../../../../docs/job-file.md");
        let keys = KEYS.iter().chain(super::super::pipelines::PIPELINE_KEYS);
        for key in keys.chain(super::super::pipelines::TASK_KEYS) {
            assert!(document.contains(&format!("\n| `{key}` | ")), "{key}");
        }
    }

    #[test]
    fn the_shortest_lease_is_sharp() {
        for (grace_ms, schedule_ms) in [(1_000, 1_000), (5_000, 1_000), (0, 10), (DAY_MS, DAY_MS)] {
            let terms = LeaseTerms { lease_ms: 0, grace_ms, schedule_ms };
            let lease_ms = shortest_lease_ms(terms);
            assert!(LeaseTerms { lease_ms, ..terms }.holds_three_polls());
            assert!(!LeaseTerms { lease_ms: lease_ms - 1, ..terms }.holds_three_polls());
        }
    }
}
