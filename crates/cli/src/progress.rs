//! One job in one line, and whether it says something new.

use steadfast_api::{DirtyTask, JobInfo};
use steadfast_model::{EvaluationStatus, TaskGroupStatus};

/// What was last said of a job.
#[derive(Debug, Default)]
pub struct Progress {
    headline: String,
    line: String,
    /// The last line that stays told of task groups that do not run.
    waits: bool,
}

/// What there is to say.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// Status, restores, label, and that everything runs again: worth a line that stays.
    Lasting(String),
    /// Only how many task groups run.
    Passing(String),
}

impl Progress {
    /// Compares a job with what was last said of it.
    pub fn news(&mut self, job: &JobInfo) -> Option<News> {
        let headline = headline(job);
        let line = format!("{headline}{}", task_groups(job));
        let waits = !everything_runs(job);
        if headline != self.headline || (self.waits && !waits) {
            *self = Self { headline, line: line.clone(), waits };
            return Some(News::Lasting(line));
        }
        if line != self.line {
            self.line.clone_from(&line);
            return Some(News::Passing(line));
        }
        None
    }
}

fn headline(job: &JobInfo) -> String {
    let JobInfo { job_id, job_name, job_status, pipelines, dirty_task, error_msg, .. } = job;
    let mut line = format!("job {job_id} {job_name}: {job_status}");
    let restores: u32 = pipelines.iter().map(|pipeline| pipeline.restores).sum();
    if restores > 0 {
        line += &format!(", restored {}", times(restores.into()));
    }
    if let Some(label) = dirty_task.as_ref().and_then(label) {
        line += &format!(", {label}");
    }
    if let Some(error) = error_msg {
        line += &format!(": {error}");
    }
    line
}

/// "CLEAN with 1 recovery (DIRTY from 2)"; nothing where tracking is off.
pub fn label(dirty: &DirtyTask) -> Option<String> {
    let recoveries = match dirty.recovery_attempt_count {
        1 => "1 recovery".to_owned(),
        count => format!("{count} recoveries"),
    };
    match dirty.evaluation_status {
        EvaluationStatus::Disabled => None,
        EvaluationStatus::Clean => {
            Some(format!("CLEAN with {recoveries} (DIRTY from {})", dirty.threshold))
        }
        EvaluationStatus::Dirty if dirty.tracking_complete => {
            Some(format!("DIRTY with {recoveries}"))
        }
        EvaluationStatus::Dirty => Some(format!("DIRTY, {recoveries} known of")),
        EvaluationStatus::Unknown => Some(format!("UNKNOWN, {recoveries} known of")),
    }
}

fn everything_runs(job: &JobInfo) -> bool {
    let mut groups = job.pipelines.iter().flat_map(|pipeline| &pipeline.task_groups);
    groups.all(|group| matches!(group.status, TaskGroupStatus::Running | TaskGroupStatus::Finished))
}

fn task_groups(job: &JobInfo) -> String {
    if job.job_status.is_terminal() {
        return String::new();
    }
    let all = || job.pipelines.iter().flat_map(|pipeline| &pipeline.task_groups);
    let count = |status| all().filter(|group| group.status == status).count();
    let mut line =
        format!("; {} of {} task groups run", count(TaskGroupStatus::Running), all().count());
    let finished = count(TaskGroupStatus::Finished);
    if finished > 0 {
        line += &format!(", {finished} finished");
    }
    for pipeline in &job.pipelines {
        if let Some(what) = &pipeline.waits_for {
            line += &format!("; pipeline {} waits for {what}", pipeline.name);
        }
    }
    line
}

/// "once", "twice", "3 times".
pub fn times(count: u64) -> String {
    match count {
        1 => "once".into(),
        2 => "twice".into(),
        _ => format!("{count} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(status: &str, groups: [&str; 2], restores: u32, recoveries: u64) -> JobInfo {
        let group = |status: &str, id: u32| {
            serde_json::json!({
                "taskGroupId": id, "task": "t", "index": id - 1, "status": status, "attempt": 1,
                "executionResourceId": null, "memberUuid": null, "pid": null, "wrapperPid": null,
                "fencingToken": null, "leaseEnds": null, "lastError": null
            })
        };
        let evaluation = if recoveries < 2 { "CLEAN" } else { "DIRTY" };
        serde_json::from_value(serde_json::json!({
            "jobId": "7", "jobName": "j", "jobStatus": status,
            "createTime": "2026-11-30T09:31:02.123Z", "finishTime": null, "envOptions": {},
            "errorMsg": null,
            "counts": { "memberLoss": restores, "program": 0, "ladder": 0, "planned": 0 },
            "pipelines": [{
                "pipelineId": 1, "name": "p", "pipelineStatus": "RUNNING", "restores": restores,
                "attempt": 1, "waitsFor": null,
                "taskGroups": [group(groups[0], 1), group(groups[1], 2)]
            }],
            "dirtyTask": {
                "dirty": recoveries >= 2, "evaluationStatus": evaluation, "trackingComplete": true,
                "threshold": 2, "recoveryAttemptCount": recoveries, "recoveryEpisodeCount": 0,
                "memberLossIncidentCount": 0, "activeEpisodeId": null,
                "lastLeaveClassification": null, "lastLostMemberUuid": null,
                "lastLostAddress": null, "lastCountedTime": null
            }
        }))
        .unwrap()
    }

    #[test]
    fn a_job_is_told_as_it_changes() {
        let mut progress = Progress::default();
        let lasting = |text: &str| Some(News::Lasting(text.to_owned()));
        assert_eq!(
            progress.news(&job("PENDING", ["CREATED", "CREATED"], 0, 0)),
            lasting(
                "job 7 j: PENDING, CLEAN with 0 recoveries (DIRTY from 2); 0 of 2 task groups run"
            )
        );
        let running = job("RUNNING", ["RUNNING", "RUNNING"], 0, 0);
        let line =
            "job 7 j: RUNNING, CLEAN with 0 recoveries (DIRTY from 2); 2 of 2 task groups run";
        assert_eq!(progress.news(&running), lasting(line));
        assert_eq!(progress.news(&running), None);
        let line = "job 7 j: RUNNING, CLEAN with 0 recoveries (DIRTY from 2); 1 of 2 task groups run, 1 finished";
        assert_eq!(
            progress.news(&job("RUNNING", ["RUNNING", "FINISHED"], 0, 0)),
            Some(News::Passing(line.to_owned()))
        );
        let line = "job 7 j: RUNNING, restored once, CLEAN with 1 recovery (DIRTY from 2); 1 of 2 task groups run";
        assert_eq!(progress.news(&job("RUNNING", ["RUNNING", "DEPLOYING"], 1, 1)), lasting(line));
        let line = "job 7 j: RUNNING, restored once, CLEAN with 1 recovery (DIRTY from 2); 2 of 2 task groups run";
        assert_eq!(progress.news(&job("RUNNING", ["RUNNING", "RUNNING"], 1, 1)), lasting(line));
        let line = "job 7 j: FINISHED, restored twice, DIRTY with 2 recoveries";
        assert_eq!(progress.news(&job("FINISHED", ["FINISHED", "FINISHED"], 2, 2)), lasting(line));
    }
}
