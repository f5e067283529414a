//! `GET /job-info/:jobId/logs/:taskGroup`: what a container has written, byte for byte.
//!
//! The coordinator keeps nothing of it: it asks the member that does, a part at a time and only as fast as
//! the reader takes them. The job's record names the container of the present attempt; containers of
//! earlier attempts, and those whose member came back under another UUID, are found by asking all members
//! what they keep. Bytes that were set aside before the reader came to them end the answer as broken: what
//! it was given is always one piece, and it can ask again from where it stopped.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use futures_util::stream::try_unfold;
use serde::Deserialize;
use steadfast_api::{LogAnswer, LogOwner, LogPosition, LogQuestion, LogStream, paths};
use steadfast_engine::records::{ContainerRecord, JobRecord, PipelineRecord, TaskGroupRecord};
use steadfast_engine::{Connection, MemberView};
use steadfast_model::{ExecutionId, MemberStatus, MemberUuid, ParseIdError, TaskGroupId};
use tokio::sync::OwnedSemaphorePermit;

use super::jobs::{Found, find};
use super::respond::{Failure, leading};
use crate::outputs::{NoAnswer, Told};
use crate::shared::{Shared, Term};

/// Between two looks at an output that is followed to its end.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Members that are named where nobody keeps an output.
const NAMED_MEMBERS: usize = 5;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LogsQuery {
    /// The deployment, from 1; without it the present one.
    attempt: Option<u32>,
    #[serde(default)]
    stream: LogStream,
    /// Only so many last lines.
    tail: Option<u64>,
    /// From this byte of the output on.
    offset: Option<u64>,
    /// Go on until the container has ended.
    #[serde(default)]
    follow: bool,
}

impl LogsQuery {
    fn from(&self) -> Result<LogPosition, Failure> {
        if self.attempt == Some(0) {
            return Err(Failure::bad_request("attempt counts from 1"));
        }
        match (self.tail, self.offset) {
            (Some(_), Some(_)) => Err(Failure::bad_request("give tail or offset, not both")),
            (Some(lines), None) => Ok(LogPosition::TailLines(lines)),
            (None, offset) => Ok(LogPosition::Offset(offset.unwrap_or(0))),
        }
    }
}

pub(crate) async fn logs(
    State(shared): State<Arc<Shared>>,
    Path((job, task_group)): Path<(String, String)>,
    query: Result<Query<LogsQuery>, QueryRejection>,
) -> Result<Response, Failure> {
    let Query(query) = query.map_err(|refused| Failure::bad_request(refused.body_text()))?;
    let from = query.from()?;
    let task_group: TaskGroupId = task_group
        .parse()
        .map_err(|refused: ParseIdError| Failure::bad_request(refused.to_string()))?;
    let term = leading(&shared)?;
    let turn = Arc::clone(&shared.log_readers).try_acquire_owned().map_err(|_| {
        Failure::too_many("as many outputs are being read as can be at once; ask again later")
    })?;
    let (_, found) = find(&shared, &term, &job).await?;
    let record = match &found {
        Found::Running(job) => &*job.record,
        Found::Finished(history) => &history.job,
    };
    let wanted = Wanted::of(record, task_group, query.attempt)?;
    let (source, first) = wanted.open(&term, query.stream, from).await?;
    if let Some(offset) = query.offset.filter(|offset| *offset > first.size) {
        let message = format!("offset {offset} is behind the output's end at {}", first.size);
        return Err(Failure::bad_request(message));
    }
    let head = [
        (paths::LOG_ATTEMPT, source.owner.attempt.to_string()),
        (paths::LOG_CONTAINER, source.owner.execution_resource_id.to_string()),
        (paths::LOG_MEMBER, source.member.to_string()),
        (paths::LOG_OFFSET, first.offset.to_string()),
    ];
    let pull = Pull::new(term, source, query.follow, first, turn);
    let body = Body::from_stream(try_unfold(pull, Pull::next));
    let mut response = (
        [(header::CONTENT_TYPE, "application/octet-stream"), (header::CACHE_CONTROL, "no-store")],
        body,
    )
        .into_response();
    for (name, value) in head {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    Ok(response)
}

/// A task group's output, as it was asked for.
struct Wanted<'a> {
    group: &'a TaskGroupRecord,
    attempt: Option<u32>,
    job: &'a JobRecord,
    /// The newest attempt.
    newest: u32,
    /// The container, where the record names it.
    named: Option<&'a ContainerRecord>,
}

impl<'a> Wanted<'a> {
    fn of(
        job: &'a JobRecord,
        task_group: TaskGroupId,
        attempt: Option<u32>,
    ) -> Result<Self, Failure> {
        let groups =
            || job.pipelines.iter().flat_map(|it| it.task_groups.iter().map(move |g| (it, g)));
        let found: Option<(&PipelineRecord, &TaskGroupRecord)> =
            groups().find(|(_, group)| group.id == task_group);
        let Some((pipeline, group)) = found else {
            let count = groups().count();
            let message =
                format!("job {} has no task group {task_group}: it has 1 to {count}", job.id);
            return Err(Failure::not_found(message));
        };
        let newest = pipeline.attempt;
        if newest == 0 {
            let message = format!("task group {task_group} has not been started yet");
            return Err(Failure::conflict(message));
        }
        if let Some(attempt) = attempt.filter(|attempt| *attempt > newest) {
            let message = format!(
                "task group {task_group} has had no attempt {attempt}: the newest is {newest}"
            );
            return Err(Failure::not_found(message));
        }
        let known = group.container.iter().chain(&group.leftovers);
        let of_attempt = known.filter(|it| attempt.unwrap_or(newest) == it.attempt);
        let named = of_attempt.max_by_key(|it| it.attempt);
        Ok(Self { group, attempt, job, newest, named })
    }

    /// The output and its first part, from whichever member keeps it.
    async fn open(
        &self,
        term: &Arc<Term>,
        stream: LogStream,
        from: LogPosition,
    ) -> Result<(Source, Part), Failure> {
        let connected = term.connected();
        if let Some(source) = self.named_source(stream, &connected)
            && let Some(first) = source.part(term, from).await?
        {
            return Ok((source, first));
        }
        let kept = self.search(term, &connected).await;
        let wanted = kept.iter().find(|(_, _, owner)| self.wants(owner));
        if let Some((member, connection, owner)) = wanted.copied() {
            let source = Source { member, connection, owner, stream };
            if let Some(first) = source.part(term, from).await? {
                return Ok((source, first));
            }
        }
        let mut attempts: Vec<u32> = kept.iter().map(|(_, _, owner)| owner.attempt).collect();
        attempts.sort_unstable();
        Err(self.nobody_keeps_it(term, &connected, &attempts))
    }

    fn named_source(
        &self,
        stream: LogStream,
        connected: &BTreeMap<MemberUuid, Connection>,
    ) -> Option<Source> {
        let ContainerRecord { id, member, attempt, .. } = *self.named?;
        let connection = *connected.get(&member)?;
        let owner = LogOwner { execution_resource_id: id, attempt };
        Some(Source { member, connection, owner, stream })
    }

    /// A container that the record names is wanted whoever keeps its output now, and no other.
    fn wants(&self, owner: &LogOwner) -> bool {
        match self.named {
            Some(named) => named.id == owner.execution_resource_id,
            None => self.attempt.unwrap_or(self.newest) == owner.attempt,
        }
    }

    /// What all members keep of the task group. One that does not answer keeps nothing for now.
    async fn search(
        &self,
        term: &Term,
        connected: &BTreeMap<MemberUuid, Connection>,
    ) -> Vec<(MemberUuid, Connection, LogOwner)> {
        let (job_id, task_group_id) = (self.job.id, self.group.id);
        let asked = connected.iter().map(|(member, connection)| async move {
            let question = LogQuestion::Find { job_id, task_group_id };
            match term.ask_agent(*connection, question).await {
                Ok(Told::Found(owners)) => {
                    owners.into_iter().map(|owner| (*member, *connection, owner)).collect()
                }
                _ => Vec::new(),
            }
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// Says where it was, and what to do.
    fn nobody_keeps_it(
        &self,
        term: &Term,
        connected: &BTreeMap<MemberUuid, Connection>,
        kept: &[u32],
    ) -> Failure {
        let members = Arc::clone(&term.view.borrow().members);
        let what = format!(
            "attempt {} of task group {}",
            self.named.map_or(self.attempt.unwrap_or(self.newest), |named| named.attempt),
            self.group.id
        );
        let Some(named) = self.named else {
            let kept: Vec<String> = kept.iter().map(u32::to_string).collect();
            let kept = match kept.as_slice() {
                [] => "none".to_owned(),
                attempts => attempts.join(", "),
            };
            return Failure::not_found(format!(
                "no member that is connected keeps output of {what} (of its attempts they keep: {kept}); \
                 a member keeps that of the containers that ended last{}",
                away(&members)
            ));
        };
        let member = members.iter().find(|member| member.record.uuid == named.member);
        let place = place(named.member, member);
        if connected.contains_key(&named.member) {
            return Failure::not_found(format!(
                "{what} ran on {place}, which keeps its output no more: a member keeps that of the \
                 containers that ended last"
            ));
        }
        match member.map(|member| member.status) {
            Some(MemberStatus::Lost) | None => Failure::conflict(format!(
                "{what} ran on {place}, and only that machine has its output: start an agent there on \
                 the same data folder and ask again, or read containers/{}/ in that folder",
                named.id
            )),
            Some(_) => Failure::unavailable(format!(
                "{what} runs on {place}, which is not connected at the moment; ask again"
            )),
        }
    }
}

/// A member as a person finds it: "member 23cc… (host a, LOST)".
fn place(uuid: MemberUuid, member: Option<&MemberView>) -> String {
    match member {
        Some(member) => {
            format!("member {uuid} (host {}, {})", member.record.host, member.status)
        }
        None => format!("member {uuid}, which is gone"),
    }
}

fn away(members: &[MemberView]) -> String {
    let is_away = |member: &&MemberView| {
        matches!(member.status, MemberStatus::Lost | MemberStatus::Disconnected)
    };
    let away: Vec<String> = members
        .iter()
        .filter(is_away)
        .take(NAMED_MEMBERS)
        .map(|member| place(member.record.uuid, Some(member)))
        .collect();
    if away.is_empty() { String::new() } else { format!("; away: {}", away.join(", ")) }
}

/// Where an output is read.
struct Source {
    member: MemberUuid,
    connection: Connection,
    owner: LogOwner,
    stream: LogStream,
}

/// A part of it.
struct Part {
    offset: u64,
    /// Of the whole output.
    size: u64,
    complete: bool,
    bytes: Bytes,
}

impl Source {
    /// Asks for a part; `None` where the member does not keep the output.
    async fn part(&self, term: &Term, from: LogPosition) -> Result<Option<Part>, Failure> {
        let execution_resource_id: ExecutionId = self.owner.execution_resource_id;
        let question = LogQuestion::Read { execution_resource_id, stream: self.stream, from };
        match term.ask_agent(self.connection, question).await {
            Ok(Told::Part(LogAnswer::Part { offset, size, complete }, bytes)) => {
                Ok(Some(Part { offset, size, complete, bytes: bytes.into() }))
            }
            Ok(Told::Part(LogAnswer::NotHere, _)) => Ok(None),
            Ok(Told::Part(LogAnswer::Unreadable { error }, _)) => Err(Failure::broken(format!(
                "member {} cannot read the output of {execution_resource_id}: {error}",
                self.member
            ))),
            Ok(Told::Found(_)) => Err(self.unanswered(NoAnswer::Confused)),
            Err(why) => Err(self.unanswered(why)),
        }
    }

    fn unanswered(&self, why: NoAnswer) -> Failure {
        let message = format!("member {} did not give the output: {why}; ask again", self.member);
        Failure::unavailable(message)
    }
}

/// An answer on its way: it asks for the next part once the one before has gone out.
struct Pull {
    term: Arc<Term>,
    source: Source,
    follow: bool,
    /// The next byte that goes out.
    at: u64,
    /// Where an output that is not followed ends.
    until: u64,
    ready: Option<Part>,
    _turn: OwnedSemaphorePermit,
}

impl Pull {
    fn new(
        term: Arc<Term>,
        source: Source,
        follow: bool,
        first: Part,
        turn: OwnedSemaphorePermit,
    ) -> Self {
        let until = if follow { u64::MAX } else { first.size };
        Self { term, source, follow, at: first.offset, until, ready: Some(first), _turn: turn }
    }

    async fn next(mut self) -> io::Result<Option<(Bytes, Self)>> {
        while self.at < self.until {
            let Part { offset, size: _, complete, mut bytes } = self.ask().await?;
            if offset != self.at {
                let lost = format!("the output from {} to {offset} is not kept any more", self.at);
                return Err(io::Error::other(lost));
            }
            // The program may have written on since the answer began.
            bytes.truncate(usize::try_from(self.until - self.at).unwrap_or(usize::MAX));
            if !bytes.is_empty() {
                self.at += bytes.len() as u64;
                return Ok(Some((bytes, self)));
            }
            if complete || !self.follow {
                return Ok(None);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(None)
    }

    async fn ask(&mut self) -> io::Result<Part> {
        if let Some(ready) = self.ready.take() {
            return Ok(ready);
        }
        let part = self.source.part(&self.term, LogPosition::Offset(self.at)).await;
        match part {
            Ok(Some(part)) => Ok(part),
            Ok(None) => Err(io::Error::other("the member keeps the output no more")),
            Err(failure) => Err(io::Error::other(failure.message().to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stage::Stage;

    /// The sample job's member is in no table and has no connection.
    #[test]
    fn an_output_whose_member_is_gone_says_which_and_where_it_lies() {
        let stage = Stage::leading();
        let info = stage.get("/job-info/1", None).json();
        let group = &info["pipelines"][0]["taskGroups"][0];
        let text = |key: &str| group[key].as_str().unwrap_or_else(|| panic!("{info}")).to_owned();
        let (member, container) = (text("memberUuid"), text("executionResourceId"));
        let refused = stage.get("/job-info/1/logs/1", None);
        assert_eq!(refused.status, 409, "{refused:?}");
        let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains(&format!("member {member}, which is gone")), "{message}");
        assert!(message.contains(&format!("containers/{container}/")), "{message}");
        assert!(stage.shared.log_readers.available_permits() > 0);
    }

    #[test]
    fn no_more_outputs_are_read_at_once_than_there_are_turns_for() {
        let stage = Stage::leading();
        let readers = &stage.shared.log_readers;
        let all = u32::try_from(readers.available_permits()).unwrap();
        let turns = readers.try_acquire_many(all).unwrap();
        let refused = stage.get("/job-info/1/logs/1", None);
        assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
        drop(turns);
        assert_eq!(stage.get("/job-info/1/logs/1", None).status, 409);
    }
}
