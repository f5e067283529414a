//! Jobs: submit, stop, lists, one job, its episodes and its story.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, JsonRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use steadfast_api::{
    ErrorDetail, JobSummary, RecoveryEpisodes, StopJobAnswer, StopJobRequest, SubmitAnswer,
};
use steadfast_engine::records::HistoryRecord;
use steadfast_engine::{Input, Reply};
use steadfast_model::{EvaluationStatus, JobId, JobSpec, JobStatus, jobfile};

use super::respond::{Failure, ask, json, leading, unexpected};
use crate::index::Standing;
use crate::shared::{Shared, Term};
use crate::view::JobView;
use crate::{convert, explain as story};

/// Rows of a list when nothing else is asked for, and at most.
const DEFAULT_ROWS: usize = 100;
const MAX_ROWS: usize = 1_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SubmitQuery {
    job_name: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

/// A body that is a job file, HOCON or JSON, with nothing left to substitute.
pub(crate) async fn submit(
    State(shared): State<Arc<Shared>>,
    query: Result<Query<SubmitQuery>, axum::extract::rejection::QueryRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Failure> {
    let body = body.map_err(|refused| Failure::bad_body(&refused))?;
    let Query(query) = query.map_err(|refused| Failure::bad_request(refused.body_text()))?;
    let term = leading(&shared)?;
    let mut spec = check(&body)?;
    if let Some(name) = query.job_name {
        spec.name = name;
    }
    let job_name = spec.name.clone();
    if query.dry_run {
        return Ok(json(StatusCode::OK, &SubmitAnswer { job_id: None, job_name }));
    }
    let spec = Box::new(spec);
    match ask(&shared, &term, |ticket| Input::Submit { ticket, spec }).await? {
        Reply::Submitted(job) => {
            Ok(json(StatusCode::OK, &SubmitAnswer { job_id: Some(job), job_name }))
        }
        Reply::Refused(why) => Err(Failure::bad_request(why)),
        other => Err(unexpected(&other)),
    }
}

fn check(body: &[u8]) -> Result<JobSpec, Failure> {
    let read = jobfile::read(body, &BTreeMap::new());
    read.map(|file| file.spec).map_err(|problems| {
        let details: Vec<ErrorDetail> = problems
            .into_iter()
            .map(|problem| ErrorDetail {
                file: None,
                line: Some(problem.at.line),
                column: Some(problem.at.column),
                key: problem.key,
                message: problem.message,
            })
            .collect();
        let message = match details.as_slice() {
            [one] => format!("the job file was refused: {}", one.message),
            all => format!("the job file was refused: {} problems", all.len()),
        };
        Failure::bad_document(message, details)
    })
}

pub(crate) async fn stop(
    State(shared): State<Arc<Shared>>,
    body: Result<Json<StopJobRequest>, JsonRejection>,
) -> Result<Response, Failure> {
    let Json(StopJobRequest { job_id }) =
        body.map_err(|refused| Failure::bad_request(refused.body_text()))?;
    let term = leading(&shared)?;
    let (job_status, message) =
        match ask(&shared, &term, |ticket| Input::Stop { ticket, job: job_id }).await? {
            Reply::Stopping(status) => (status, "the job is being stopped".to_owned()),
            Reply::Ended => {
                let summary = term.view.borrow().finished_job(job_id).cloned();
                let status = summary.map_or(JobStatus::Finished, |summary| summary.status);
                (status, format!("the job had ended: {status}"))
            }
            Reply::UnknownJob => return Err(no_such_job(job_id)),
            other => return Err(unexpected(&other)),
        };
    Ok(json(StatusCode::ACCEPTED, &StopJobAnswer { job_id, job_status, message }))
}

pub(super) fn no_such_job(job: JobId) -> Failure {
    Failure::not_found(format!("there is no job {job}: neither running nor in the history"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// From 1.
    page: Option<usize>,
    rows: Option<usize>,
    evaluation_status: Option<EvaluationStatus>,
}

impl ListQuery {
    fn cut(&self, all: impl Iterator<Item = JobSummary>) -> Vec<JobSummary> {
        let rows = self.rows.unwrap_or(DEFAULT_ROWS).clamp(1, MAX_ROWS);
        let skipped = self.page.unwrap_or(1).saturating_sub(1).saturating_mul(rows);
        all.filter(|summary| self.wants(summary)).skip(skipped).take(rows).collect()
    }

    fn wants(&self, summary: &JobSummary) -> bool {
        self.evaluation_status.is_none_or(|wanted| {
            summary.dirty_task.as_ref().is_some_and(|label| label.evaluation_status == wanted)
        })
    }
}

type ListQueryResult = Result<Query<ListQuery>, axum::extract::rejection::QueryRejection>;

pub(crate) async fn running(
    State(shared): State<Arc<Shared>>,
    query: ListQueryResult,
) -> Result<Response, Failure> {
    let Query(query) = query.map_err(|refused| Failure::bad_request(refused.body_text()))?;
    let term = leading(&shared)?;
    let view = term.view.borrow().clone();
    let mut newest: Vec<&JobView> = view.jobs.values().collect();
    newest.sort_by_key(|job| std::cmp::Reverse((job.record.created, job.record.id)));
    let all = newest
        .into_iter()
        .map(|job| convert::summary(&job.record, Some(&job.evaluation(view.watermarks))));
    Ok(json(StatusCode::OK, &query.cut(all)))
}

pub(crate) async fn finished(
    state: State<Arc<Shared>>,
    query: ListQueryResult,
) -> Result<Response, Failure> {
    list_finished(state, query, None)
}

pub(crate) async fn finished_in_state(
    state: State<Arc<Shared>>,
    Path(wanted): Path<String>,
    query: ListQueryResult,
) -> Result<Response, Failure> {
    let wanted: JobStatus = wanted.to_uppercase().parse().map_err(Failure::bad_request)?;
    list_finished(state, query, Some(wanted))
}

fn list_finished(
    State(shared): State<Arc<Shared>>,
    query: ListQueryResult,
    wanted: Option<JobStatus>,
) -> Result<Response, Failure> {
    let Query(query) = query.map_err(|refused| Failure::bad_request(refused.body_text()))?;
    let term = leading(&shared)?;
    let finished = term.view.borrow().finished.clone();
    let in_state = finished
        .values()
        .filter(|summary| wanted.is_none_or(|wanted| summary.status == wanted))
        .map(|summary| convert::finished_summary(summary));
    Ok(json(StatusCode::OK, &query.cut(in_state)))
}

/// A job wherever it is.
pub(super) enum Found {
    Running(JobView),
    Finished(Box<HistoryRecord>),
}

pub(super) async fn find(
    shared: &Shared,
    term: &Term,
    job: &str,
) -> Result<(JobId, Found), Failure> {
    let id: JobId = job.parse().map_err(|refused: steadfast_model::ParseIdError| {
        Failure::bad_request(refused.to_string())
    })?;
    let running = term.view.borrow().jobs.get(&id).cloned();
    if let Some(running) = running {
        return Ok((id, Found::Running(running)));
    }
    match shared.store.history(id).await {
        Ok(Some(history)) => Ok((id, Found::Finished(Box::new(history)))),
        Ok(None) => Err(no_such_job(id)),
        Err(error) => Err(Failure::broken(format!("job {id} cannot be read: {error}"))),
    }
}

pub(crate) async fn info(
    State(shared): State<Arc<Shared>>,
    Path(job): Path<String>,
) -> Result<Response, Failure> {
    let term = leading(&shared)?;
    let now = term.clock.now();
    let (_, found) = find(&shared, &term, &job).await?;
    let info = match &found {
        Found::Running(job) => {
            let watermarks = term.view.borrow().watermarks;
            let evaluation = job.evaluation(watermarks);
            let standings = |execution| term.index.standing(execution);
            convert::job_info(&job.record, Some(&evaluation), now, &standings)
        }
        Found::Finished(history) => {
            convert::job_info(&history.job, history.evaluation.as_ref(), now, &|_| {
                Standing::default()
            })
        }
    };
    Ok(json(StatusCode::OK, &info))
}

pub(crate) async fn episodes(
    State(shared): State<Arc<Shared>>,
    Path(job): Path<String>,
) -> Result<Response, Failure> {
    let term = leading(&shared)?;
    let (id, found) = find(&shared, &term, &job).await?;
    let ledger = match &found {
        Found::Running(job) => job.ledger.as_deref(),
        Found::Finished(history) => history.ledger.as_ref(),
    };
    let episodes = ledger
        .map_or_else(RecoveryEpisodes::default, |ledger| convert::recovery_episodes(id, ledger));
    Ok(json(StatusCode::OK, &episodes))
}

pub(crate) async fn explain(
    State(shared): State<Arc<Shared>>,
    Path(job): Path<String>,
) -> Result<Response, Failure> {
    let term = leading(&shared)?;
    let (id, found) = find(&shared, &term, &job).await?;
    let past = term.stalls.past(id);
    let explanation = match &found {
        Found::Running(job) => {
            let standings = |execution| term.index.standing(execution);
            let mut told = story::explain(&job.record, job.ledger.as_deref());
            story::tell_past_stalls(&mut told, &past);
            story::tell_stalled(&mut told, &job.record, term.clock.now(), &standings);
            told
        }
        Found::Finished(history) => {
            let mut told = story::explain(&history.job, history.ledger.as_ref());
            story::tell_past_stalls(&mut told, &past);
            told
        }
    };
    Ok(json(StatusCode::OK, &explanation))
}
