//! `steadfast stop ID`: the durable wish that a job ends.

use steadfast_api::StopJobAnswer;
use steadfast_client::Client;

use super::show::show;
use crate::arguments::JobArguments;
use crate::connect::Coordinators;

/// # Errors
/// No coordinator can be asked, or there is no such job.
pub fn run(arguments: &JobArguments, coordinators: &Coordinators) -> anyhow::Result<u8> {
    let ask = async |client: &Client| client.stop_job(arguments.job).await;
    show(coordinators, arguments.json, ask, render)
}

fn render(answer: &StopJobAnswer) -> String {
    let StopJobAnswer { job_id, job_status, message } = answer;
    format!("job {job_id}: {job_status} ({message})")
}
