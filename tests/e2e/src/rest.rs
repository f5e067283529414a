//! The calls of the REST interface that the tests make. Reads give `None` where nobody answers: a
//! coordinator that was killed a moment ago is a thing to wait for, not an error.
//!
//! Of several coordinators, the one that gave the last answer is asked first, and the next one where it
//! gives none, cannot know or sends elsewhere. Redirects are not followed: who leads is for the tests to
//! see, and a token belongs to nobody but who was asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::shapes::{Episodes, Explanation, Readiness};
use crate::{Episode, Job, JobSummary, Member, Overview, PATIENCE, Sentence, Standing, wait_until};

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

/// The interface of a coordinator, or of whichever of several leads.
#[derive(Clone, Debug)]
pub struct Rest {
    urls: Vec<String>,
    /// Which of them is asked first.
    first: Arc<AtomicUsize>,
    token: Option<String>,
    agent: ureq::Agent,
}

impl Rest {
    /// Speaks to the coordinator at this base URL.
    pub fn new(url: &str) -> Self {
        Self::of_any([url])
    }

    /// Speaks to whichever of the coordinators at these base URLs leads.
    pub fn of_any<'a>(urls: impl IntoIterator<Item = &'a str>) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(CALL))
            // A connection to a process that is about to be killed is not worth keeping.
            .max_idle_connections(0)
            .build();
        let urls = urls.into_iter().map(|url| url.trim_end_matches('/').to_owned()).collect();
        Self { urls, first: Arc::default(), token: None, agent: config.into() }
    }

    /// The same interface, with every call of a person's made with this token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// The same interface, of this coordinator alone.
    #[must_use]
    pub fn at(&self, url: &str) -> Self {
        Self { urls: vec![url.to_owned()], first: Arc::default(), ..self.clone() }
    }

    /// The same interface, of this coordinator too.
    #[must_use]
    pub fn and(&self, url: &str) -> Self {
        let urls = self.urls.iter().cloned().chain([url.to_owned()]).collect();
        Self { urls, first: Arc::default(), ..self.clone() }
    }

    /// The base URL; of several, the first.
    pub fn url(&self) -> &str {
        &self.urls[0]
    }

    /// Every base URL.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// `GET`; `None` where nobody answers.
    pub fn get(&self, path: &str) -> Option<Answer> {
        self.ask(|url| {
            let mut request = self.agent.get(format!("{url}{path}"));
            if let Some(token) = &self.token {
                request = request.header("Authorization", format!("Bearer {token}"));
            }
            request.call()
        })
    }

    /// `POST`; `None` where nobody answers.
    pub fn try_post(&self, path: &str, content_type: &str, body: &[u8]) -> Option<Answer> {
        self.ask(|url| {
            let request = self.agent.post(format!("{url}{path}"));
            let mut request = request.header("Content-Type", content_type);
            if let Some(token) = &self.token {
                request = request.header("Authorization", format!("Bearer {token}"));
            }
            request.send(body)
        })
    }

    /// `POST`.
    ///
    /// # Panics
    /// When nobody answers.
    #[track_caller]
    pub fn post(&self, path: &str, content_type: &str, body: &[u8]) -> Answer {
        let answer = self.try_post(path, content_type, body);
        answer.unwrap_or_else(|| panic!("no answer to POST {path}"))
    }

    /// Asks each one until one knows; else the last answer that there was.
    fn ask(
        &self,
        call: impl Fn(&str) -> Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Option<Answer> {
        let mut answer = None;
        for _ in &self.urls {
            let at = self.first.load(Ordering::Relaxed) % self.urls.len();
            let given = received(call(&self.urls[at])).ok();
            if given.as_ref().is_some_and(|given| ![307, 503].contains(&given.status)) {
                return given;
            }
            // Whoever shares this may have gone on already.
            let (at, next) = (self.first.load(Ordering::Relaxed), at + 1);
            let _ = self.first.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
            answer = given.or(answer);
        }
        answer
    }

    /// What a container gets to hear that asks whether it may go on.
    ///
    /// # Panics
    /// When nobody answers.
    #[track_caller]
    pub fn is_container_valid(&self, id: &str, secret: &str) -> Answer {
        let path = format!("/isContainerValid?execution_resource_id={id}");
        let answer = self.with_token(secret).get(&path);
        answer.unwrap_or_else(|| panic!("no answer to GET {path}"))
    }

    /// What a container gets to hear that wants to commit.
    ///
    /// # Panics
    /// When nobody answers.
    #[track_caller]
    pub fn put_checkpoint(&self, id: &str, secret: &str, value: &[u8]) -> Answer {
        let answer = self.try_put_checkpoint(id, secret, value);
        answer.unwrap_or_else(|| panic!("no answer to a checkpoint of {id}"))
    }

    /// The same; `None` where nobody answers.
    pub fn try_put_checkpoint(&self, id: &str, secret: &str, value: &[u8]) -> Option<Answer> {
        self.ask(|url| {
            let path = format!("{url}/checkpoint?execution_resource_id={id}");
            let request = self.agent.put(path).header("Authorization", format!("Bearer {secret}"));
            request.send(value)
        })
    }

    /// What a container gets to read before it begins.
    ///
    /// # Panics
    /// When it gets nothing in time.
    #[track_caller]
    pub fn checkpoint(&self, id: &str, secret: &str) -> Option<String> {
        let path = format!("/checkpoint?execution_resource_id={id}");
        wait_until(PATIENCE, &format!("an answer to {path}"), || {
            let answer = self.with_token(secret).get(&path)?;
            match answer.status {
                200 => Some(Some(answer.body)),
                204 => Some(None),
                _ => None,
            }
        })
    }

    /// What a coordinator says of itself.
    ///
    /// # Panics
    /// When it says anything else than it may.
    #[track_caller]
    pub fn standing(&self) -> Standing {
        let Some(answer) = self.get("/health/ready") else { return Standing::Silent };
        match answer.status {
            200 => answer.read::<Readiness>().standing(),
            503 => Standing::NotReady,
            status => panic!("GET /health/ready: {status} {}", answer.body),
        }
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
        self.kept_episodes(id).episodes
    }

    /// The same, and how many more there were.
    #[track_caller]
    pub fn kept_episodes(&self, id: &str) -> Episodes {
        self.read(&format!("/job-info/{id}/recovery-episodes"))
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
            // It starts, stands by, or is about to end.
            307 | 503 => None,
            status => panic!("GET {path}: {status} {}", answer.body),
        }
    }
}

fn received(
    response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<Answer, ureq::Error> {
    let mut response = response?;
    let status = response.status().as_u16();
    Ok(Answer { status, body: response.body_mut().read_to_string()? })
}
