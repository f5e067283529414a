//! What a scenario can ask to see beside what happens: members, a job's failures, its ledger's episodes.

use steadfast_engine::Engine;
use steadfast_engine::records::{FailureKind, JobRecord};
use steadfast_ledger::{Attempt, AttemptOutcome, Episode, EpisodeStatus, JobLedger};
use steadfast_model::JobId;

use super::durable::Durable;
use super::name_of;

/// How each member stands, and how many of its slots are taken.
pub fn members(engine: &Engine) -> Vec<String> {
    let lines = engine.member_views().map(|view| {
        let (name, slots) = (name_of(view.record.uuid), view.record.slots);
        format!("{name} {}, {} of {slots} slots taken", view.status, view.used_slots)
    });
    lines.collect()
}

/// Why each attempt failed, and what was last seen of each task group.
pub fn failures(engine: &Engine, durable: &Durable, id: JobId) -> Vec<String> {
    let Some((job, _)) = find(engine, durable, id) else { return vec!["no such job".to_owned()] };
    let mut lines = Vec::new();
    for pipeline in &job.pipelines {
        for failure in &pipeline.failures {
            let kind = match failure.kind {
                FailureKind::MemberLoss => "member loss",
                FailureKind::Program => "the program",
                FailureKind::Ladder => "the ladder",
                FailureKind::Planned => "planned",
            };
            let (attempt, cause) = (failure.attempt, &failure.cause);
            lines.push(format!("pipeline {}, attempt {attempt}, {kind}: {cause}", pipeline.id));
        }
    }
    lines.extend(job.error.iter().map(|error| format!("the job: {error}")));
    lines
}

/// A job's episodes: what closed, then what is open.
pub fn episodes(engine: &Engine, durable: &Durable, id: JobId) -> Vec<String> {
    let Some((_, Some(ledger))) = find(engine, durable, id) else {
        return vec!["no ledger".to_owned()];
    };
    let open = ledger.active().or(ledger.parked());
    ledger.history().iter().chain(open).flat_map(tell).collect()
}

fn find<'a>(
    engine: &'a Engine,
    durable: &'a Durable,
    id: JobId,
) -> Option<(&'a JobRecord, Option<&'a JobLedger>)> {
    let ended = durable.history.get(&id).map(|ended| (&ended.job, ended.ledger.as_ref()));
    engine.jobs().find(|(job, _)| job.id == id).or(ended)
}

fn tell(episode: &Episode) -> Vec<String> {
    let status = match episode.status {
        EpisodeStatus::Active => "active",
        EpisodeStatus::Completed => "completed",
        EpisodeStatus::Aborted => "aborted",
        EpisodeStatus::Expired => "expired",
    };
    let (number, generation) = (episode.number, episode.generation);
    let mut lines = vec![format!("episode {number} {status}, generation {generation}")];
    for incident in &episode.incidents {
        let name = name_of(incident.member);
        lines.push(format!("  lost {name} at {}, {}", incident.address, incident.classification));
    }
    lines.extend(episode.attempts.iter().map(tell_attempt));
    lines
}

fn tell_attempt(attempt: &Attempt) -> String {
    let fate = match (attempt.confirmed, attempt.outcome) {
        (None, _) => "prepared",
        (_, AttemptOutcome::Pending) => "deployed",
        (_, AttemptOutcome::Recovered) => "recovered",
        (_, AttemptOutcome::Failed) => "failed",
    };
    let because = attempt.cause.iter().map(|cause| format!(": {cause}")).collect::<String>();
    let (pipeline, sequence) = (attempt.id.pipeline, attempt.id.prepare_seq);
    format!("  attempt {sequence} of pipeline {pipeline} {fate}{because}")
}
