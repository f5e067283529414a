//! How long restores take: from the failure that took a pipeline away to the moment in which all of it runs
//! again, told by comparing a job's record with the one before it.
//!
//! Nothing is remembered for it. The records say when a pipeline last ran and how it failed since then, so
//! a restore that outlives its coordinator is told in full by the next one.

use steadfast_engine::Step;
use steadfast_engine::records::{Failure, FailureKind, JobRecord, PipelineRecord};
use steadfast_model::{PipelineStatus, Timestamp};

use crate::view::View;

/// A restore that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restored {
    /// Who was to blame for the failure that it began with.
    pub kind: FailureKind,
    pub took_ms: u64,
}

/// The restores that a step completes; `view` is what was before it.
pub(crate) fn completed(view: &View, step: &Step) -> Vec<Restored> {
    let jobs = step.jobs.iter().filter_map(|job| {
        let before = &view.jobs.get(&job.job)?.record;
        Some((before, job.writes.record.as_ref()?))
    });
    jobs.flat_map(|(before, now)| of_job(before, now)).collect()
}

fn of_job(before: &JobRecord, now: &JobRecord) -> Vec<Restored> {
    before.pipelines.iter().zip(&now.pipelines).filter_map(|(b, n)| of_pipeline(b, n)).collect()
}

fn of_pipeline(before: &PipelineRecord, now: &PipelineRecord) -> Option<Restored> {
    let runs = |pipeline: &PipelineRecord| pipeline.status == PipelineStatus::Running;
    if runs(before) || !runs(now) {
        return None;
    }
    // A failed deployment on the way belongs to the restore that it was part of.
    let ran_at = before.running_since.unwrap_or_default();
    let Failure { at, kind, .. } = before.failures.iter().find(|failure| failure.at >= ran_at)?;
    let runs_at: Timestamp = now.running_since?;
    Some(Restored { kind: *kind, took_ms: runs_at.millis_since(*at) })
}

#[cfg(test)]
mod tests {
    use steadfast_model::Cause;
    use steadfast_store::conformance::samples;

    use super::*;

    fn at(ms: u64) -> Timestamp {
        samples::job(1).created + ms
    }

    fn failure(ms: u64, kind: FailureKind) -> Failure {
        let cause = Cause::Seen("something".to_owned());
        Failure { attempt: 1, at: at(ms), kind, cause, recovery: None, waits_for: None }
    }

    /// A job whose one pipeline stands so.
    fn job(status: PipelineStatus, running_since: Option<u64>, failures: &[Failure]) -> JobRecord {
        let mut job = samples::job(1);
        job.pipelines[0].status = status;
        job.pipelines[0].running_since = running_since.map(at);
        job.pipelines[0].failures = failures.to_vec();
        job
    }

    #[test]
    fn a_restore_lasts_from_the_first_failure_since_it_ran_until_it_runs() {
        let failures = [
            failure(100, FailureKind::Program),
            failure(5_000, FailureKind::MemberLoss),
            failure(6_000, FailureKind::Program),
        ];
        let deploying = job(PipelineStatus::Deploying, Some(1_000), &failures);
        let running = job(PipelineStatus::Running, Some(7_500), &failures);
        let restored = Restored { kind: FailureKind::MemberLoss, took_ms: 2_500 };
        assert_eq!(of_job(&deploying, &running), [restored]);
        // Also where it ran within the millisecond in which it had failed.
        let at_once = [failure(7_500, FailureKind::Program)];
        for failures in [&failures[..], &at_once] {
            let running = job(PipelineStatus::Running, Some(7_500), failures);
            assert_eq!(of_job(&running, &running), [], "it is told once");
        }
        assert_eq!(of_job(&deploying, &deploying), []);
    }

    #[test]
    fn a_first_deployment_restores_nothing_unless_it_failed_before() {
        let running = |failures: &[Failure]| job(PipelineStatus::Running, Some(900), failures);
        let first = job(PipelineStatus::Deploying, None, &[]);
        assert_eq!(of_job(&first, &running(&[])), []);
        let failed = [failure(400, FailureKind::Program)];
        let again = job(PipelineStatus::Deploying, None, &failed);
        let restored = Restored { kind: FailureKind::Program, took_ms: 500 };
        assert_eq!(of_job(&again, &running(&failed)), [restored]);
    }
}
