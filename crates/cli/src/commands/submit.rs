//! `steadfast submit FILE`: submits a job and, unless it is told not to, waits for its end.

use anyhow::Context;
use steadfast_api::{ErrorBody, SubmitAnswer};
use steadfast_client::{Client, ClientError, JobFormat};
use steadfast_model::JobId;

use super::{COULD_NOT, exit_code};
use crate::arguments::SubmitArguments;
use crate::connect::Coordinators;
use crate::job_document::{JobDocument, render};
use crate::out::Account;
use crate::runtime::{DETACHED, unless_asked_to_end};
use crate::{follow, out, runtime};

/// # Errors
/// No coordinator can be asked. A refused file is no error but an answer, [`COULD_NOT`].
pub fn run(arguments: &SubmitArguments, coordinators: &Coordinators) -> anyhow::Result<u8> {
    let document = match JobDocument::load(&arguments.file, &arguments.variables.by_name()?) {
        Ok(document) => document,
        Err(refusal) => return refuse(&refusal, arguments.json),
    };
    let client = coordinators.client()?;
    runtime::light(async {
        if arguments.check {
            return check(&client, &document, arguments, coordinators).await;
        }
        let answer = match send(&client, &document, false).await {
            Ok(answer) => answer,
            Err(NotSubmitted::Refused(refusal)) => return refuse(&refusal, arguments.json),
            Err(NotSubmitted::NoAnswer(error)) => return Err(coordinators.explain(error)),
        };
        let job = answer.job_id.context("the coordinator took the job and gave it no id")?;
        if arguments.json {
            out::json(&answer)?;
        } else {
            out::line(&format!("submitted {} as job {job}", answer.job_name));
        }
        if arguments.detach {
            return Ok(0);
        }
        wait(&client, job, arguments.json).await.map_err(|error| coordinators.explain(error))
    })
}

/// Why there is no job.
pub enum NotSubmitted {
    /// The document was refused, with the places in the file.
    Refused(ErrorBody),
    /// Nobody could answer.
    NoAnswer(ClientError),
}

/// Sends a document, for good or (`dry_run`) to have it checked.
pub async fn send(
    client: &Client,
    document: &JobDocument,
    dry_run: bool,
) -> Result<SubmitAnswer, NotSubmitted> {
    let json = document.json.clone();
    match client.submit_job(json, JobFormat::Json, None, dry_run).await {
        Ok(answer) => Ok(answer),
        Err(ClientError::Refused { body, .. }) => {
            Err(NotSubmitted::Refused(document.with_places(*body)))
        }
        Err(error) => Err(NotSubmitted::NoAnswer(error)),
    }
}

/// Says what is wrong as far as it can be known: a file can be checked where no cluster runs.
async fn check(
    client: &Client,
    document: &JobDocument,
    arguments: &SubmitArguments,
    coordinators: &Coordinators,
) -> anyhow::Result<u8> {
    let answer = match send(client, document, true).await {
        Ok(answer) => answer,
        Err(NotSubmitted::Refused(refusal)) => return refuse(&refusal, arguments.json),
        Err(NotSubmitted::NoAnswer(ClientError::Unreachable { .. })) => {
            out::notice("no coordinator answers, so the file was checked by this program alone");
            SubmitAnswer { job_id: None, job_name: document.name.clone() }
        }
        Err(NotSubmitted::NoAnswer(error)) => return Err(coordinators.explain(error)),
    };
    if arguments.json {
        out::json(&answer)?;
    } else {
        let file = arguments.file.display();
        out::line(&format!("{file} is right: job {}, not submitted", answer.job_name));
    }
    Ok(0)
}

fn refuse(refusal: &ErrorBody, as_json: bool) -> anyhow::Result<u8> {
    if as_json {
        out::json(refusal)?;
    } else {
        out::notice(&format!("error: {}", render(refusal)));
    }
    Ok(COULD_NOT)
}

async fn wait(client: &Client, job: JobId, as_json: bool) -> Result<u8, ClientError> {
    let mut account = if as_json { Account::on_stderr() } else { Account::on_stdout() };
    let ended =
        unless_asked_to_end(follow::to_the_end(client, job, &mut account)).await.transpose()?;
    account.close();
    let Some(ended) = ended else {
        out::notice(&format!(
            "detached: job {job} goes on. `steadfast job {job}` shows it, `steadfast stop {job}` \
             stops it"
        ));
        return Ok(DETACHED);
    };
    Ok(exit_code(ended))
}
