//! `steadfast logs ID [TASK_GROUP]`: what a container has written, to the byte.
//!
//! Standard output carries the program's bytes and nothing else; whatever is said about them goes to
//! standard error. Who follows an output does not see when a coordinator goes and another one comes: it is
//! asked for what comes next.

use std::time::Duration;

use anyhow::{Context, bail};
use steadfast_api::{JobInfo, LogStream, TaskGroupInfo};
use steadfast_client::{Client, ClientError, LogsQuery, Output};
use steadfast_model::{JobId, TaskGroupId};

use crate::arguments::LogsArguments;
use crate::connect::Coordinators;
use crate::{out, runtime};

/// A connection that carried nothing for so long may be dead without anybody having noticed: it is opened
/// anew, which costs a program that is merely silent nothing.
const SILENCE: Duration = Duration::from_secs(60);
/// Between two tries at an output that is followed and cannot be read.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// # Errors
/// No coordinator can be asked, there is no such job or task group, or nobody keeps its output.
pub fn run(arguments: &LogsArguments, coordinators: &Coordinators) -> anyhow::Result<u8> {
    let client = coordinators.client()?;
    runtime::light(async {
        let task_group = choose(&client, arguments, coordinators).await?;
        let query = LogsQuery {
            attempt: arguments.attempt,
            stream: stream(arguments),
            tail: arguments.tail,
            offset: None,
            follow: arguments.follow,
        };
        let mut reading = Reading { client: &client, job: arguments.job, task_group, query };
        match reading.print_all().await {
            Ok(()) => Ok(0),
            Err(NotRead::NoAnswer(error)) => Err(coordinators.explain(error)),
            Err(NotRead::NotWritten(error)) => {
                Err(error).context("the output cannot be written to standard output")
            }
        }
    })
}

fn stream(arguments: &LogsArguments) -> LogStream {
    match (arguments.stderr, arguments.wrapper) {
        (true, _) => LogStream::Stderr,
        (_, true) => LogStream::Wrapper,
        _ => LogStream::Stdout,
    }
}

/// The task group that is meant. A number is one; for anything else the job is asked.
async fn choose(
    client: &Client,
    arguments: &LogsArguments,
    coordinators: &Coordinators,
) -> anyhow::Result<TaskGroupId> {
    let wanted = arguments.task_group.as_deref();
    if let Some(Ok(number)) = wanted.map(str::parse) {
        return Ok(number);
    }
    let job = client.job_info(arguments.job).await;
    named(&job.map_err(|error| coordinators.explain(error))?, wanted)
}

fn named(job: &JobInfo, wanted: Option<&str>) -> anyhow::Result<TaskGroupId> {
    let groups = || job.pipelines.iter().flat_map(|pipeline| &pipeline.task_groups);
    let is_wanted = |group: &&TaskGroupInfo| match wanted {
        None => true,
        Some(wanted) => match wanted.rsplit_once('/') {
            Some((task, index)) => task == group.task && Ok(group.index) == index.parse(),
            None => wanted == group.task,
        },
    };
    let found: Vec<&TaskGroupInfo> = groups().filter(is_wanted).collect();
    if let [one] = found.as_slice() {
        return Ok(one.task_group_id);
    }
    let all: Vec<String> = groups()
        .map(|group| format!("{} ({}/{})", group.task_group_id, group.task, group.index))
        .collect();
    let all = all.join(", ");
    match wanted {
        None => bail!("job {} has several task groups; name one of them: {all}", job.job_id),
        Some(wanted) if found.is_empty() => {
            bail!("job {} has no task group {wanted}; it has: {all}", job.job_id)
        }
        Some(wanted) => {
            bail!("job {} has several task groups {wanted}; name one of: {all}", job.job_id)
        }
    }
}

enum NotRead {
    NoAnswer(ClientError),
    NotWritten(std::io::Error),
}

/// How reading an open output ended.
enum End {
    /// There is no more, or nobody who wants it.
    Done,
    /// It goes on in another answer.
    Interrupted(Option<ClientError>),
}

struct Reading<'a> {
    client: &'a Client,
    job: JobId,
    task_group: TaskGroupId,
    query: LogsQuery,
}

impl Reading<'_> {
    async fn print_all(&mut self) -> Result<(), NotRead> {
        let mut is_away = false;
        loop {
            let error = match self.open().await {
                Ok(output) => {
                    if std::mem::take(&mut is_away) {
                        out::notice("the output goes on");
                    }
                    match self.copy(output).await? {
                        End::Done => return Ok(()),
                        End::Interrupted(None) => continue,
                        End::Interrupted(Some(error)) => error,
                    }
                }
                Err(error) => error,
            };
            let goes_on = match error {
                // Something has been read, or a mistyped URL would be waited for.
                ClientError::Unreachable { .. } => self.query.follow && self.query.offset.is_some(),
                ClientError::BrokenOff { .. } => true,
                _ => false,
            };
            if !goes_on {
                return Err(NotRead::NoAnswer(error));
            }
            if !std::mem::replace(&mut is_away, true) {
                out::notice(&format!("waiting for the rest of the output: {error}"));
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }

    async fn open(&self) -> Result<Output, ClientError> {
        let output = self.client.logs(self.job, self.task_group, self.query).await?;
        let begins = self.query.offset.unwrap_or(0);
        if self.query.tail.is_none() && output.offset() > begins {
            let missing = output.offset() - begins;
            out::notice(&format!("{missing} bytes before this are not kept any more"));
        }
        Ok(output)
    }

    async fn copy(&mut self, mut output: Output) -> Result<End, NotRead> {
        // From here on it is this attempt, and the byte after the last one.
        self.query.attempt = output.attempt().or(self.query.attempt);
        self.query.tail = None;
        self.query.offset = Some(output.offset());
        loop {
            let next = match tokio::time::timeout(SILENCE, output.next()).await {
                Ok(Ok(next)) => next,
                Ok(Err(error)) => return Ok(End::Interrupted(Some(error))),
                Err(_) => return Ok(End::Interrupted(None)),
            };
            let Some(bytes) = next else {
                if self.query.follow {
                    let attempt = self.query.attempt.unwrap_or_default();
                    let group = self.task_group;
                    out::notice(&format!("attempt {attempt} of task group {group} has ended"));
                }
                return Ok(End::Done);
            };
            if !out::bytes(&bytes).map_err(NotRead::NotWritten)? {
                return Ok(End::Done);
            }
            self.query.offset = Some(output.offset());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(groups: &[(&str, u32)]) -> JobInfo {
        let groups: Vec<serde_json::Value> = (1..)
            .zip(groups)
            .map(|(id, (task, index))| {
                serde_json::json!({
                    "taskGroupId": id, "task": task, "index": index, "status": "RUNNING",
                    "attempt": 1, "executionResourceId": null, "memberUuid": null, "pid": null,
                    "wrapperPid": null, "fencingToken": null, "leaseEnds": null, "lastError": null
                })
            })
            .collect();
        serde_json::from_value(serde_json::json!({
            "jobId": "7", "jobName": "j", "jobStatus": "RUNNING",
            "createTime": "2026-11-30T09:31:02.123Z", "finishTime": null, "envOptions": {},
            "errorMsg": null, "counts": {"memberLoss": 0, "program": 0, "ladder": 0, "planned": 0},
            "pipelines": [{
                "pipelineId": 1, "name": "p", "pipelineStatus": "RUNNING", "restores": 0,
                "attempt": 1, "waitsFor": null, "taskGroups": groups
            }]
        }))
        .unwrap()
    }

    #[test]
    fn a_task_group_is_named_by_its_task_and_where_there_is_one_not_at_all() {
        let one = job(&[("reader", 0)]);
        let two = job(&[("reader", 0), ("reader", 1), ("writer", 0)]);
        let chosen = |job: &JobInfo, wanted| {
            named(job, wanted).map(TaskGroupId::get).map_err(|error| error.to_string())
        };
        assert_eq!(chosen(&one, None), Ok(1));
        assert_eq!(chosen(&one, Some("reader")), Ok(1));
        assert_eq!(chosen(&two, Some("writer")), Ok(3));
        assert_eq!(chosen(&two, Some("reader/1")), Ok(2));
        for wanted in [None, Some("reader"), Some("reader/2"), Some("sink"), Some("reader/x")] {
            let refused = chosen(&two, wanted).unwrap_err();
            assert!(refused.ends_with(": 1 (reader/0), 2 (reader/1), 3 (writer/0)"), "{refused}");
        }
    }
}
