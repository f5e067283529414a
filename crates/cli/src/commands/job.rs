//! `steadfast job ID`: one job, its task groups and its label.

use std::fmt::Write;

use comfy_table::Table;
use steadfast_api::{JobInfo, PipelineInfo};
use steadfast_client::Client;

use super::show::show;
use crate::arguments::JobArguments;
use crate::connect::Coordinators;
use crate::progress::{label, times};
use crate::tables::{columns, or_dash, table, text};

/// # Errors
/// No coordinator can be asked, or there is no such job.
pub fn run(arguments: &JobArguments, coordinators: &Coordinators) -> anyhow::Result<u8> {
    let ask = async |client: &Client| client.job_info(arguments.job).await;
    show(coordinators, arguments.json, ask, render)
}

fn render(job: &JobInfo) -> String {
    let mut page = text(&facts(job));
    for pipeline in &job.pipelines {
        let restored = match pipeline.restores {
            0 => "never restored".into(),
            restores => format!("restored {}", times(restores.into())),
        };
        let waits = pipeline.waits_for.as_ref().map(|what| format!(", waits for {what}"));
        // Writing to a String does not fail.
        let _ = write!(
            page,
            "\n\npipeline {} {}: {}, attempt {}, {restored}{}\n{}",
            pipeline.pipeline_id,
            pipeline.name,
            pipeline.pipeline_status,
            pipeline.attempt,
            waits.unwrap_or_default(),
            text(&task_groups(pipeline))
        );
    }
    page
}

fn facts(job: &JobInfo) -> Table {
    let mut facts = columns();
    let label = job.dirty_task.as_ref().and_then(label);
    let restores = format!(
        "{} after member loss, {} after a failure of the program, {} by the lease's ladder, {} planned",
        job.counts.member_loss, job.counts.program, job.counts.ladder, job.counts.planned
    );
    for (name, value) in [
        ("job", format!("{} {}", job.job_id, job.job_name)),
        ("status", job.job_status.to_string()),
        ("label", label.unwrap_or_else(|| "recoveries are not tracked".into())),
        ("restores", restores),
        ("submitted", job.create_time.to_string()),
        ("ended", or_dash(job.finish_time)),
    ] {
        facts.add_row([name, &value]);
    }
    if let Some(error) = &job.error_msg {
        facts.add_row(["error", error]);
    }
    facts
}

fn task_groups(pipeline: &PipelineInfo) -> Table {
    let mut rows = table(&[
        "GROUP",
        "TASK",
        "INDEX",
        "STATUS",
        "ATTEMPT",
        "MEMBER",
        "PID",
        "LEASE ENDS",
        "LAST ERROR",
    ]);
    for group in &pipeline.task_groups {
        rows.add_row([
            group.task_group_id.to_string(),
            group.task.clone(),
            group.index.to_string(),
            if group.stalled {
                format!("{} STALLED", group.status)
            } else {
                group.status.to_string()
            },
            group.attempt.to_string(),
            or_dash(group.member_uuid),
            or_dash(group.pid),
            or_dash(group.lease_ends),
            or_dash(group.last_error.as_ref()),
        ]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_does_not_get_on_is_marked() {
        let job = |stalled: bool| -> JobInfo {
            serde_json::from_value(serde_json::json!({
                "jobId": "7", "jobName": "j", "jobStatus": "RUNNING",
                "createTime": "2026-11-30T09:31:02.123Z", "finishTime": null, "envOptions": {},
                "errorMsg": null,
                "counts": {"memberLoss": 0, "program": 0, "ladder": 0, "planned": 0},
                "pipelines": [{
                    "pipelineId": 1, "name": "p", "pipelineStatus": "RUNNING", "restores": 0,
                    "attempt": 1, "waitsFor": null,
                    "taskGroups": [{
                        "taskGroupId": 1, "task": "t", "index": 0, "status": "RUNNING", "attempt": 1,
                        "executionResourceId": null, "memberUuid": null, "pid": null,
                        "wrapperPid": null, "fencingToken": null, "leaseEnds": null,
                        "stalled": stalled, "lastError": null
                    }]
                }]
            }))
            .unwrap()
        };
        assert!(render(&job(true)).contains("RUNNING STALLED"));
        assert!(!render(&job(false)).contains("STALLED"));
    }
}
