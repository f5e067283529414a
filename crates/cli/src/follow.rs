//! Waits for a job's end and tells what happens to it on the way.

use std::time::Duration;

use steadfast_client::{Client, ClientError};
use steadfast_model::{JobId, JobStatus};

use crate::out::Account;
use crate::progress::{News, Progress};

/// Between two looks at a job.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Waits until the job has ended. A coordinator that is away is waited for, however long it takes: the
/// job goes on without it, and whoever waits wants to know how it ends.
///
/// # Errors
/// A coordinator that answers and cannot say anything about the job.
pub async fn to_the_end(
    client: &Client,
    job: JobId,
    account: &mut Account,
) -> Result<JobStatus, ClientError> {
    let mut progress = Progress::default();
    let mut is_away = false;
    loop {
        match client.job_info(job).await {
            Ok(info) => {
                if is_away {
                    account.lasting("a coordinator answers again");
                    is_away = false;
                }
                match progress.news(&info) {
                    Some(News::Lasting(line)) => account.lasting(&line),
                    Some(News::Passing(line)) => account.passing(&line),
                    None => {}
                }
                if info.job_status.is_terminal() {
                    return Ok(info.job_status);
                }
            }
            Err(ClientError::Unreachable { .. }) => {
                if !is_away {
                    account.lasting("no coordinator answers: waiting for one (the job goes on)");
                    is_away = true;
                }
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
