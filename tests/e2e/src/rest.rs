//! The calls of the REST interface that the tests make. Reads give `None` where nobody answers: a
//! coordinator that was killed a moment ago is a thing to wait for, not an error.

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::shapes::{Episodes, Explanation};
use crate::{Episode, Job, JobSummary, Member, Overview, PATIENCE, Sentence, wait_until};

/// How long one call may take.
const CALL: Duration = Duration::from_secs(5);

/// A status and a body.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body, as it came.
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        self.read()
    }

    #[track_caller]
    fn read<T: DeserializeOwned>(&self) -> T {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("answer {} {}: {error}", self.status, self.body))
    }
}

/// A coordinator's interface.
#[derive(Clone, Debug)]
pub struct Rest {
    url: String,
    token: Option<String>,
    agent: ureq::Agent,
}

impl Rest {
    /// Speaks to the coordinator at this base URL.
    pub fn new(url: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(CALL))
            // A connection to a process that is about to be killed is not worth keeping.
            .max_idle_connections(0)
            .build();
        Self { url: url.trim_end_matches('/').to_owned(), token: None, agent: config.into() }
    }

    /// The same interface, with every call of a person's made with this token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// The base URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `GET`; `None` where nobody answers.
    pub fn get(&self, path: &str) -> Option<Answer> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        received(request.call()).ok()
    }

    /// `POST`.
    ///
    /// # Panics
    /// When nobody answers.
    #[track_caller]
    pub fn post(&self, path: &str, content_type: &str, body: &[u8]) -> Answer {
        let mut request =
            self.agent.post(format!("{}{path}", self.url)).header("Content-Type", content_type);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        answer(request.send(body))
    }

    /// What a container gets to hear that asks whether it may go on.
    ///
    /// # Panics
    /// When nobody answers.
    #[track_caller]
    pub fn is_container_valid(&self, id: &str, secret: &str) -> Answer {
        let path = format!("{}/isContainerValid?execution_resource_id={id}", self.url);
        let request = self.agent.get(path).header("Authorization", format!("Bearer {secret}"));
        answer(request.call())
    }

    /// What a container gets to hear that wants to commit.
    ///
    /// # Panics
    /// When nobody answers.
    #[track_caller]
    pub fn put_checkpoint(&self, id: &str, secret: &str, value: &[u8]) -> Answer {
        let path = format!("{}/checkpoint?execution_resource_id={id}", self.url);
        let request = self.agent.put(path).header("Authorization", format!("Bearer {secret}"));
        answer(request.send(value))
    }

    /// Whether the coordinator leads and has reconciled.
    pub fn is_ready(&self) -> bool {
        self.get("/health/ready").is_some_and(|answer| answer.status == 200)
    }

    /// One job; `None` where nobody answers, or the answer is "not now".
    ///
    /// # Panics
    /// When the coordinator does not know the job.
    #[track_caller]
    pub fn job_now(&self, id: &str) -> Option<Job> {
        self.read_now(&format!("/job-info/{id}"))
    }

    /// One job, as soon as somebody answers.
    #[track_caller]
    pub fn job(&self, id: &str) -> Job {
        self.read(&format!("/job-info/{id}"))
    }

    /// Waits until a job is as wanted.
    ///
    /// # Panics
    /// When it does not come to that.
    #[track_caller]
    pub fn wait_for_job(&self, id: &str, what: &str, wanted: impl Fn(&Job) -> bool) -> Job {
        wait_until(PATIENCE, &format!("job {id}: {what}"), || self.job_now(id).filter(&wanted))
    }

    /// The episodes of a job, oldest first.
    #[track_caller]
    pub fn episodes(&self, id: &str) -> Vec<Episode> {
        self.read::<Episodes>(&format!("/job-info/{id}/recovery-episodes")).episodes
    }

    /// The story of a job.
    #[track_caller]
    pub fn explain(&self, id: &str) -> Vec<Sentence> {
        self.read::<Explanation>(&format!("/job-info/{id}/explain")).sentences
    }

    /// The members, lost ones included.
    #[track_caller]
    pub fn members(&self) -> Vec<Member> {
        self.read("/members")
    }

    /// The members; `None` where nobody answers.
    pub fn members_now(&self) -> Option<Vec<Member>> {
        self.read_now("/members")
    }

    /// The cluster at a glance.
    #[track_caller]
    pub fn overview(&self) -> Overview {
        self.read("/overview")
    }

    /// The cluster at a glance; `None` where nobody answers.
    pub fn overview_now(&self) -> Option<Overview> {
        self.read_now("/overview")
    }

    /// Jobs that have not ended.
    #[track_caller]
    pub fn running_jobs(&self) -> Vec<JobSummary> {
        self.read("/running-jobs")
    }

    /// Jobs that have ended.
    #[track_caller]
    pub fn finished_jobs(&self) -> Vec<JobSummary> {
        self.read("/finished-jobs")
    }

    #[track_caller]
    fn read<T: DeserializeOwned>(&self, path: &str) -> T {
        wait_until(PATIENCE, &format!("an answer to {path}"), || self.read_now(path))
    }

    #[track_caller]
    fn read_now<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        let answer = self.get(path)?;
        match answer.status {
            200 => Some(answer.read()),
            // It starts, or is about to end.
            503 => None,
            status => panic!("GET {path}: {status} {}", answer.body),
        }
    }
}

#[track_caller]
fn answer(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Answer {
    received(response).unwrap_or_else(|error| panic!("no answer: {error}"))
}

fn received(
    response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<Answer, ureq::Error> {
    let mut response = response?;
    let status = response.status().as_u16();
    Ok(Answer { status, body: response.body_mut().read_to_string()? })
}
