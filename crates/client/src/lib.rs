//! The typed HTTP client of the agent and the command line: one method per call of the REST interface.
//!
//! A client knows several coordinators and does not care which of them leads: it asks the next one on a
//! connection error or 503, follows a standby's 307, and gives up after a bounded number of tries with
//! an error that names whom it asked and what each said. Every wait has a deadline.

mod error;
mod logs;
mod token;
mod transport;
mod url;

use bytes::Bytes;
use hyper::Method;
use steadfast_api::{
    CoordinatorStanding, Explanation, JobInfo, JobSummary, MemberInfo, Overview, PlannedLeave,
    PlannedLeaveRequest, Readiness, RecoveryEpisodes, StopJobAnswer, StopJobRequest, SubmitAnswer,
    paths,
};
use steadfast_model::{EvaluationStatus, JobId, JobStatus, MemberUuid, TaskGroupId};

pub use error::ClientError;
pub use hyper::StatusCode;
pub use logs::{LogsQuery, Output};
pub use token::{ReadTokenError, Token};
pub use url::{BaseUrl, ParseUrlError};

use transport::{Call, Repeat, Transport};

/// How a job file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobFormat {
    /// `application/hocon`, with nothing left to substitute.
    Hocon,
    /// `application/json`.
    Json,
}

impl JobFormat {
    /// The media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Hocon => "application/hocon",
            Self::Json => "application/json",
        }
    }
}

/// Which part of a list of jobs; the default is the server's first page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// From 1.
    pub page: Option<u32>,
    /// Jobs a page.
    pub rows: Option<u32>,
    /// Only jobs with this evaluation.
    pub evaluation_status: Option<EvaluationStatus>,
}

/// A client of one cluster. Cheap to keep, usable from many tasks at once.
pub struct Client {
    transport: Transport,
}

impl Client {
    /// A client that asks these coordinators, each `http://HOST:PORT` with or without a slash. Connects
    /// to nobody yet.
    pub fn new<S: AsRef<str>>(
        coordinators: impl IntoIterator<Item = S>,
    ) -> Result<Self, ClientError> {
        let mut urls: Vec<BaseUrl> = Vec::new();
        for text in coordinators {
            let url = text.as_ref().parse()?;
            if !urls.contains(&url) {
                urls.push(url);
            }
        }
        if urls.is_empty() {
            return Err(ClientError::NoCoordinators);
        }
        Ok(Self { transport: Transport::new(urls) })
    }

    /// The same client, which shows this token with every call.
    #[must_use]
    pub fn with_token(mut self, token: &Token) -> Self {
        self.transport.show(token);
        self
    }

    /// `GET /overview`.
    pub async fn overview(&self) -> Result<Overview, ClientError> {
        self.transport.ask(&Call::get(paths::OVERVIEW, "the overview")).await
    }

    /// `POST /submit-job`. `job_name` overrides the file's; a dry run stores nothing and answers
    /// without an id. Never sent twice: where the answer is lost, the error says so.
    pub async fn submit_job(
        &self,
        body: impl Into<Bytes>,
        format: JobFormat,
        job_name: Option<&str>,
        dry_run: bool,
    ) -> Result<SubmitAnswer, ClientError> {
        let mut query = Query::default();
        query.add("jobName", job_name);
        query.add("dryRun", dry_run.then_some("true"));
        let call = Call {
            method: Method::POST,
            path_and_query: query.after(paths::SUBMIT_JOB),
            content_type: Some(format.content_type()),
            body: body.into(),
            repeat: if dry_run { Repeat::Safe } else { Repeat::Never },
            leave_open: false,
            expected: "the new job's id",
        };
        self.transport.ask(&call).await
    }

    /// `POST /stop-job`. Stopping a job that has ended is no error; the answer says so.
    pub async fn stop_job(&self, job: JobId) -> Result<StopJobAnswer, ClientError> {
        let request = StopJobRequest { job_id: job };
        self.transport.ask(&Call::safe_post(paths::STOP_JOB, &request, "the job's status")).await
    }

    /// `GET /running-jobs`: newest first.
    pub async fn running_jobs(&self, query: ListQuery) -> Result<Vec<JobSummary>, ClientError> {
        self.list(paths::RUNNING_JOBS, query).await
    }

    /// `GET /finished-jobs[/:state]`: newest first; `None` lists every final status.
    pub async fn finished_jobs(
        &self,
        state: Option<JobStatus>,
        query: ListQuery,
    ) -> Result<Vec<JobSummary>, ClientError> {
        match state {
            None => self.list(paths::FINISHED_JOBS, query).await,
            Some(state) => self.list(&format!("{}/{state}", paths::FINISHED_JOBS), query).await,
        }
    }

    /// `GET /job-info/:jobId`: running or finished.
    pub async fn job_info(&self, job: JobId) -> Result<JobInfo, ClientError> {
        self.transport.ask(&Call::get(paths::job_info(job), "a job")).await
    }

    /// `GET /job-info/:jobId/recovery-episodes`.
    pub async fn recovery_episodes(&self, job: JobId) -> Result<RecoveryEpisodes, ClientError> {
        self.transport.ask(&Call::get(paths::recovery_episodes(job), "recovery episodes")).await
    }

    /// `GET /job-info/:jobId/explain`.
    pub async fn explain(&self, job: JobId) -> Result<Explanation, ClientError> {
        self.transport.ask(&Call::get(paths::explain(job), "an explanation")).await
    }

    /// `GET /job-info/:jobId/logs/:taskGroup`: what a container has written.
    pub async fn logs(
        &self,
        job: JobId,
        task_group: TaskGroupId,
        query: LogsQuery,
    ) -> Result<Output, ClientError> {
        let LogsQuery { attempt, stream, tail, offset, follow } = query;
        let mut query = Query::default();
        query.add("attempt", attempt);
        query.add("stream", Some(stream));
        query.add("tail", tail);
        query.add("offset", offset);
        query.add("follow", follow.then_some(true));
        let path = query.after(&paths::logs(job, task_group));
        let call = Call { leave_open: true, ..Call::get(path, "a container's output") };
        let (url, headers, body) = self.transport.open(&call).await?;
        Ok(Output::new(url, &headers, body))
    }

    /// `GET /members`: lost ones stay for ten minutes.
    pub async fn members(&self) -> Result<Vec<MemberInfo>, ClientError> {
        self.transport.ask(&Call::get(paths::MEMBERS, "a list of members")).await
    }

    /// `POST /members/:uuid/planned-leave`. Sent again where the answer is lost: a request that is
    /// registered is answered as the first time.
    pub async fn plan_leave(
        &self,
        member: MemberUuid,
        request: &PlannedLeaveRequest,
    ) -> Result<PlannedLeave, ClientError> {
        let call = Call::safe_post(paths::planned_leave(member), request, "the planned leave");
        self.transport.ask(&call).await
    }

    /// `POST /members/:uuid/drain`. Sent again where the answer is lost, as [`Self::plan_leave`].
    pub async fn drain(
        &self,
        member: MemberUuid,
        request: &PlannedLeaveRequest,
    ) -> Result<PlannedLeave, ClientError> {
        let call = Call::safe_post(paths::drain(member), request, "the drain");
        self.transport.ask(&call).await
    }

    /// `GET /health/ready`: whether one of the coordinators leads, or knows who does. Asks each once, so
    /// that a caller can poll; an error means that none of them could be reached.
    pub async fn health_ready(&self) -> Result<bool, ClientError> {
        self.transport.any_ok(paths::HEALTH_READY).await
    }

    /// `GET /health/ready` of the first coordinator that it was given, whatever the status. Needs no token.
    ///
    /// # Errors
    /// What it answered instead, or why it did not, as a sentence.
    pub async fn readiness(&self) -> Result<Readiness, String> {
        self.transport.readiness_of_first().await
    }

    /// `GET /health/ready` of every coordinator that can be found, from those on that this client knows:
    /// which one leads, and how far each follows. Needs no token.
    pub async fn coordinators(&self) -> Result<Vec<CoordinatorStanding>, ClientError> {
        let standings = self.transport.standings().await;
        Ok(standings)
    }

    async fn list(&self, path: &str, query: ListQuery) -> Result<Vec<JobSummary>, ClientError> {
        let ListQuery { page, rows, evaluation_status } = query;
        let mut query = Query::default();
        query.add("page", page);
        query.add("rows", rows);
        query.add("evaluationStatus", evaluation_status);
        self.transport.ask(&Call::get(query.after(path), "a list of jobs")).await
    }
}

/// Parameters behind a path, percent-encoded.
#[derive(Default)]
struct Query(String);

impl Query {
    fn add(&mut self, name: &str, value: Option<impl ToString>) {
        let Some(value) = value else { return };
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(name);
        self.0.push('=');
        for byte in value.to_string().bytes() {
            match byte {
                // The unreserved characters of RFC 3986.
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    self.0.push(char::from(byte));
                }
                _ => self.0.push_str(&format!("%{byte:02X}")),
            }
        }
    }

    fn after(self, path: &str) -> String {
        format!("{path}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_name_cannot_leave_its_parameter() {
        let mut query = Query::default();
        query.add("jobName", Some("ä &dryRun=true"));
        query.add("page", None::<u32>);
        query.add("rows", Some(5));
        assert_eq!(query.after("/x"), "/x?jobName=%C3%A4%20%26dryRun%3Dtrue&rows=5");
    }
}
