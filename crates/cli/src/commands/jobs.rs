//! `steadfast jobs`: what runs, and what has ended, newest first.

use steadfast_api::JobSummary;
use steadfast_client::{Client, ClientError, ListQuery};
use steadfast_model::EvaluationStatus;

use super::show::show;
use crate::arguments::ListArguments;
use crate::connect::Coordinators;
use crate::tables::{or_dash, table, text};

/// # Errors
/// No coordinator can be asked.
pub fn run(arguments: &ListArguments, coordinators: &Coordinators) -> anyhow::Result<u8> {
    show(coordinators, arguments.json, all, |jobs| render(jobs))
}

async fn all(client: &Client) -> Result<Vec<JobSummary>, ClientError> {
    let query = ListQuery::default();
    // In this order a job that ends meanwhile is in both lists, not in none.
    let running = client.running_jobs(query).await?;
    let ended = client.finished_jobs(None, query).await?;
    Ok(merged(running, ended))
}

fn merged(running: Vec<JobSummary>, ended: Vec<JobSummary>) -> Vec<JobSummary> {
    let has_ended = |job: &JobSummary| ended.iter().any(|other| other.job_id == job.job_id);
    let mut jobs: Vec<JobSummary> = running.into_iter().filter(|job| !has_ended(job)).collect();
    jobs.extend(ended);
    jobs
}

fn render(jobs: &[JobSummary]) -> String {
    if jobs.is_empty() {
        return "no jobs; `steadfast submit FILE` submits one".into();
    }
    let mut rows = table(&["JOB", "NAME", "STATUS", "LABEL", "RECOVERIES", "SUBMITTED", "ENDED"]);
    for job in jobs {
        let tracked = job
            .dirty_task
            .as_ref()
            .filter(|label| label.evaluation_status != EvaluationStatus::Disabled);
        rows.add_row([
            job.job_id.to_string(),
            job.job_name.clone(),
            job.job_status.to_string(),
            or_dash(tracked.map(|label| label.evaluation_status)),
            or_dash(tracked.map(|label| label.recovery_attempt_count)),
            job.create_time.to_string(),
            or_dash(job.finish_time),
        ]);
    }
    text(&rows)
}
