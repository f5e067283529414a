//! What happens to the jobs of a `steadfast dev`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use steadfast_client::{Client, ListQuery};
use steadfast_model::{JobId, JobStatus};

use crate::commands::exit_code;
use crate::out::Account;
use crate::progress::{News, Progress};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Tells of every job, whoever submitted it, until these have ended; the answer is the exit code that
/// tells how. Without any it goes on for ever. A coordinator that is away is waited for.
pub async fn jobs(client: &Client, submitted: &[JobId], account: &RefCell<Account>) -> u8 {
    let mut open: BTreeMap<JobId, Progress> =
        submitted.iter().map(|job| (*job, Progress::default())).collect();
    let mut ends: BTreeMap<JobId, JobStatus> = BTreeMap::new();
    loop {
        if let Ok(running) = client.running_jobs(ListQuery::default()).await {
            for job in running.into_iter().map(|job| job.job_id) {
                if !ends.contains_key(&job) {
                    open.entry(job).or_default();
                }
            }
        }
        for job in open.keys().copied().collect::<BTreeSet<_>>() {
            if let Some(end) = look(client, job, &mut open, account).await {
                open.remove(&job);
                ends.insert(job, end);
            }
        }
        let of_submitted: Vec<JobStatus> =
            submitted.iter().filter_map(|job| ends.get(job).copied()).collect();
        if !submitted.is_empty() && of_submitted.len() == submitted.len() {
            tell_of_others(open.len(), account);
            return worst(&of_submitted);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Somebody else's jobs lose their members with this cluster, and it is counted as it is.
fn tell_of_others(running: usize, account: &RefCell<Account>) {
    if running > 0 {
        account.borrow_mut().lasting(&format!(
            "steadfast: {running} other jobs have not ended: they lose their members with this cluster, and go on \
             with the next `steadfast dev` in this folder"
        ));
    }
}

async fn look(
    client: &Client,
    job: JobId,
    open: &mut BTreeMap<JobId, Progress>,
    account: &RefCell<Account>,
) -> Option<JobStatus> {
    let info = client.job_info(job).await.ok()?;
    // Two jobs would write over each other's line.
    let is_alone = open.len() == 1;
    match open.entry(job).or_default().news(&info) {
        Some(News::Lasting(line)) => account.borrow_mut().lasting(&line),
        Some(News::Passing(line)) if is_alone => account.borrow_mut().passing(&line),
        Some(News::Passing(_)) | None => {}
    }
    info.job_status.is_terminal().then_some(info.job_status)
}

/// One exit code for several jobs: a failure before a cancellation before success.
fn worst(ends: &[JobStatus]) -> u8 {
    let rank = |end: &JobStatus| match exit_code(*end) {
        1 => 2,
        0 => 0,
        _ => 1,
    };
    ends.iter().max_by_key(|end| rank(end)).map_or(0, |end| exit_code(*end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_is_not_hidden_by_what_came_after() {
        use JobStatus::{Canceled, Failed, Finished};
        assert_eq!(worst(&[Finished, Failed, Canceled, Finished]), 1);
        assert_eq!(worst(&[Finished, Canceled, Finished]), 3);
        assert_eq!(worst(&[Finished, Finished]), 0);
    }
}
