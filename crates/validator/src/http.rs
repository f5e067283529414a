//! Questions and good-byes over HTTP, blocking, each with an end in sight. No proxy is taken from the
//! environment: the environment is the job's, and the answer decides about life and death.

use std::time::Duration;

use serde::Deserialize;
use steadfast_api::{ContainerEnded, ValidityAnswer, paths};

use crate::Settings;
use crate::poll::{Question, Reply};

/// An answer is a few hundred bytes; what is longer is another page.
const LONGEST_BODY: u64 = 64 * 1024;
const GOOD_BYE_TIMEOUT: Duration = Duration::from_secs(2);

/// The requests of one container.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    agent: ureq::Agent,
    execution_resource_id: String,
    authorization: String,
}

/// The part of a 503's body that helps.
#[derive(Deserialize)]
struct Elsewhere {
    #[serde(default)]
    coordinators: Vec<String>,
}

impl Http {
    pub(crate) fn new(settings: &Settings) -> Self {
        let config = ureq::Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            // A redirect would take the question away from whoever can be believed.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("steadfast/", env!("CARGO_PKG_VERSION")))
            .build();
        Self {
            agent: ureq::Agent::new_with_config(config),
            execution_resource_id: settings.execution_resource_id.to_string(),
            authorization: format!("Bearer {}", settings.secret),
        }
    }

    /// Asks one coordinator. Whatever goes wrong is a reply that is no verdict.
    pub(crate) fn ask(&self, question: &Question) -> Reply {
        self.try_to_ask(question).unwrap_or_else(|error| Reply::Useless(error.to_string()))
    }

    fn try_to_ask(&self, question: &Question) -> Result<Reply, ureq::Error> {
        let url = format!("{}{}", question.coordinator, paths::IS_CONTAINER_VALID);
        let mut request = self
            .agent
            .get(url)
            .query("execution_resource_id", &self.execution_resource_id)
            .query("nonce", question.nonce.to_string())
            .header("authorization", &self.authorization);
        if let Some(started) = question.started {
            request = request
                .query("state", "started")
                .query("pid", started.pid.to_string())
                .query("wrapperPid", started.wrapper_pid.to_string());
        }
        if let Some(steps) = question.progress {
            request = request.query("progress", steps.to_string());
        }
        let timeout = Duration::from_millis(question.timeout_ms);
        let mut answer = request.config().timeout_global(Some(timeout)).build().call()?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(LONGEST_BODY).read_to_vec()?;
        Ok(match status {
            200 => match serde_json::from_slice::<ValidityAnswer>(&body) {
                Ok(answer) => Reply::Answer(answer),
                Err(error) => Reply::Page { status, why: format!(", {error}") },
            },
            503 => {
                let elsewhere = serde_json::from_slice(&body);
                let Elsewhere { coordinators } =
                    elsewhere.unwrap_or(Elsewhere { coordinators: Vec::new() });
                Reply::Unavailable { coordinators }
            }
            status => Reply::Page { status, why: String::new() },
        })
    }

    /// Tells one coordinator of the end; whether it has taken note.
    pub(crate) fn say_good_bye(&self, coordinator: &str, end: &ContainerEnded) -> bool {
        let answer = self
            .agent
            .post(format!("{coordinator}{}", paths::CONTAINER_ENDED))
            .header("authorization", &self.authorization)
            .config()
            .timeout_global(Some(GOOD_BYE_TIMEOUT))
            .build()
            .send_json(end);
        answer.is_ok_and(|answer| answer.status().as_u16() == 200)
    }
}
