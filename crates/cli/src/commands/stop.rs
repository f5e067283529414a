//! `steadfast stop ID`: the durable wish that a job ends.

use crate::arguments::JobArguments;
use crate::connect::Coordinators;
use crate::{out, runtime};

/// # Errors
/// No coordinator can be asked, or there is no such job.
pub fn run(arguments: &JobArguments, coordinators: &Coordinators) -> anyhow::Result<u8> {
    let client = coordinators.client()?;
    let answer = runtime::light(async {
        client.stop_job(arguments.job).await.map_err(|error| coordinators.explain(error))
    })?;
    if arguments.json {
        out::json(&answer)?;
    } else {
        out::line(&format!("job {}: {} ({})", answer.job_id, answer.job_status, answer.message));
    }
    Ok(0)
}
