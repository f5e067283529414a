//! What may follow what: one table per machine, and the only functions that change a status.
//!
//! A step that the table does not hold is a fault of the engine, never of its input, and stops the
//! coordinator: going on from a state that cannot be would be worse than a restart from the store.

use steadfast_model::{JobStatus, PipelineStatus, TaskGroupStatus};

use crate::records::{JobRecord, PipelineRecord, TaskGroupRecord};

const fn job_allows(from: JobStatus, to: JobStatus) -> bool {
    use JobStatus::*;
    matches!(
        (from, to),
        (Created, Pending)
            | (Pending, Scheduled | Canceling)
            | (Scheduled, Running | Failing | Canceling)
            | (Running, Finished | Failing | Canceling)
            | (Failing, Failed)
            | (Canceling, Canceled)
    )
}

const fn pipeline_allows(from: PipelineStatus, to: PipelineStatus) -> bool {
    use PipelineStatus::*;
    matches!(
        (from, to),
        (Created, Scheduled | Canceling)
            | (Scheduled, Deploying | Canceling)
            | (Deploying, Running | Failing | Canceling)
            | (Running, Finished | Failing | Canceling)
            | (Failing, Created | Failed | Canceling)
            | (Canceling, Canceled)
    )
}

const fn task_group_allows(from: TaskGroupStatus, to: TaskGroupStatus) -> bool {
    use TaskGroupStatus::*;
    matches!(
        (from, to),
        (Created, Deploying | Canceled)
            | (Deploying, Running | Failing | Canceling)
            | (Running, Finished | Failing | Canceling)
            | (Failing, Created | Failed | Canceled)
            | (Canceling, Created | Canceled)
            // The pipeline restores as a whole: what had finished runs again and finds its checkpoint.
            | (Finished, Created)
    )
}

impl JobRecord {
    pub(crate) fn enter(&mut self, to: JobStatus) {
        assert!(job_allows(self.status, to), "job {}: {} cannot become {to}", self.id, self.status);
        self.status = to;
    }
}

impl PipelineRecord {
    pub(crate) fn enter(&mut self, to: PipelineStatus) {
        let allowed = pipeline_allows(self.status, to);
        assert!(allowed, "pipeline {}: {} cannot become {to}", self.id, self.status);
        self.status = to;
    }
}

impl TaskGroupRecord {
    pub(crate) fn enter(&mut self, to: TaskGroupStatus) {
        let allowed = task_group_allows(self.status, to);
        assert!(allowed, "task group {}: {} cannot become {to}", self.id, self.status);
        self.status = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_follows_a_terminal_status_but_the_restore_of_a_task_group() {
        for from in JobStatus::ALL.iter().filter(|status| status.is_terminal()) {
            assert!(!JobStatus::ALL.iter().any(|to| job_allows(*from, *to)), "{from}");
        }
        for from in PipelineStatus::ALL.iter().filter(|status| status.is_terminal()) {
            assert!(!PipelineStatus::ALL.iter().any(|to| pipeline_allows(*from, *to)), "{from}");
        }
        for from in TaskGroupStatus::ALL.iter().filter(|status| status.is_terminal()) {
            for to in TaskGroupStatus::ALL {
                let restore = (*from, *to) == (TaskGroupStatus::Finished, TaskGroupStatus::Created);
                assert_eq!(task_group_allows(*from, *to), restore, "{from} to {to}");
            }
        }
    }

    #[test]
    fn a_cancelled_job_ends_cancelled_and_nothing_else() {
        let after: Vec<_> =
            JobStatus::ALL.iter().filter(|to| job_allows(JobStatus::Canceling, **to)).collect();
        assert_eq!(after, [&JobStatus::Canceled]);
    }

    #[test]
    fn deploying_is_reached_from_scheduled_alone() {
        let before: Vec<_> = PipelineStatus::ALL
            .iter()
            .filter(|from| pipeline_allows(**from, PipelineStatus::Deploying))
            .collect();
        assert_eq!(before, [&PipelineStatus::Scheduled]);
    }
}
