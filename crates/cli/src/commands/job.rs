//! `steadfast job ID`: one job, its task groups and its label.

use std::fmt::Write;

use steadfast_api::JobInfo;

use crate::arguments::JobArguments;
use crate::connect::Coordinators;
use crate::progress::label;
use crate::tables::{or_dash, table, text};
use crate::{out, runtime};

/// # Errors
/// No coordinator can be asked, or there is no such job.
pub fn run(arguments: &JobArguments, coordinators: &Coordinators) -> anyhow::Result<u8> {
    let client = coordinators.client()?;
    let job = runtime::light(async {
        client.job_info(arguments.job).await.map_err(|error| coordinators.explain(error))
    })?;
    if arguments.json {
        out::json(&job)?;
    } else {
        out::line(&render(&job));
    }
    Ok(0)
}

fn render(job: &JobInfo) -> String {
    let mut facts = table(&[]);
    let label = job.dirty_task.as_ref().and_then(label);
    let counts = job.counts;
    let restores = format!(
        "{} after member loss, {} after a failure of the program, {} by the lease's ladder, {} planned",
        counts.member_loss, counts.program, counts.ladder, counts.planned
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
    let mut page = text(&facts);
    for pipeline in &job.pipelines {
        let mut rows = table(&[
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
                group.task.clone(),
                group.index.to_string(),
                group.status.to_string(),
                group.attempt.to_string(),
                or_dash(group.member_uuid),
                or_dash(group.pid),
                or_dash(group.lease_ends),
                or_dash(group.last_error.as_ref()),
            ]);
        }
        let waits = pipeline.waits_for.as_ref().map(|what| format!(", waits for {what}"));
        // Writing to a String does not fail.
        let _ = write!(
            page,
            "\n\npipeline {} {}: {}, attempt {}, restored {} times{}\n{}",
            pipeline.pipeline_id,
            pipeline.name,
            pipeline.pipeline_status,
            pipeline.attempt,
            pipeline.restores,
            waits.unwrap_or_default(),
            text(&rows)
        );
    }
    page
}
