//! The one place where stored records become wire shapes. Conversions destructure without `..`, so that a
//! new field has to be decided on here.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use steadfast_api as api;
use steadfast_engine::MemberView;
use steadfast_engine::records::{
    ContainerRecord, JobRecord, MemberRecord, OperatorRequest, PipelineRecord, RestoreCounts,
    TaskGroupRecord,
};
use steadfast_ledger::{
    Attempt, AttemptOutcome, Episode, EpisodeStatus, Evaluation, Incident, JobLedger, Marks,
};
use steadfast_model::{
    Cause, EpisodeNumber, JobId, JobSpec, LeaseTerms, PipelineSpec, PipelineStatus, RetryPolicy,
    TaskSpec, Timestamp,
};
use steadfast_store::HistorySummary;

use crate::stalled::{Standings, is_stalled};

/// `"<jobId>-<n>"`.
pub(crate) fn episode_id(job: JobId, episode: EpisodeNumber) -> String {
    format!("{job}-{episode}")
}

pub(crate) fn dirty_task(job: JobId, evaluation: &Evaluation) -> api::DirtyTask {
    let Evaluation {
        status,
        dirty,
        tracking_complete,
        threshold,
        recovery_attempt_count,
        episode_count,
        incident_count,
        active_episode,
        last_classification,
        last_member,
        last_address,
        last_counted,
    } = evaluation.clone();
    api::DirtyTask {
        dirty,
        evaluation_status: status,
        tracking_complete,
        threshold: threshold.map_or(-1, |threshold| i64::try_from(threshold).unwrap_or(i64::MAX)),
        recovery_attempt_count,
        recovery_episode_count: episode_count,
        member_loss_incident_count: incident_count,
        active_episode_id: active_episode.map(|episode| episode_id(job, episode)),
        last_leave_classification: last_classification,
        last_lost_member_uuid: last_member,
        last_lost_address: last_address,
        last_counted_time: last_counted.map(Timestamp::as_millis),
    }
}

fn dirty_summary(evaluation: &Evaluation) -> api::DirtyTaskSummary {
    api::DirtyTaskSummary {
        dirty: evaluation.dirty,
        evaluation_status: evaluation.status,
        recovery_attempt_count: evaluation.recovery_attempt_count,
    }
}

pub(crate) fn summary(job: &JobRecord, evaluation: Option<&Evaluation>) -> api::JobSummary {
    api::JobSummary {
        job_id: job.id,
        job_name: job.spec.name.clone(),
        job_status: job.status,
        create_time: job.created.into(),
        finish_time: job.finished.map(Into::into),
        dirty_task: evaluation.map(dirty_summary),
    }
}

pub(crate) fn finished_summary(summary: &HistorySummary) -> api::JobSummary {
    let HistorySummary { job, name, status, created, finished, evaluation } = summary;
    api::JobSummary {
        job_id: *job,
        job_name: name.clone(),
        job_status: *status,
        create_time: (*created).into(),
        finish_time: Some((*finished).into()),
        dirty_task: evaluation.as_ref().map(dirty_summary),
    }
}

/// One job in full. `standings` asks the validity index; a finished job's containers have no lease.
pub(crate) fn job_info(
    job: &JobRecord,
    evaluation: Option<&Evaluation>,
    now: Timestamp,
    standings: &Standings<'_>,
) -> api::JobInfo {
    let JobRecord {
        id,
        spec,
        status,
        created,
        finished,
        cancel_requested: _,
        error,
        counts,
        dirty_since: _,
        ledger_revision: _,
        redo: _,
        owed_since: _,
        restored: _,
        pipelines,
    } = job;
    api::JobInfo {
        job_id: *id,
        job_name: spec.name.clone(),
        job_status: *status,
        create_time: (*created).into(),
        finish_time: finished.map(Into::into),
        env_options: env_options(spec),
        error_msg: error.clone(),
        counts: restore_counts(*counts),
        pipelines: pipelines.iter().map(|p| pipeline_info(spec, p, now, standings)).collect(),
        dirty_task: evaluation.map(|evaluation| dirty_task(*id, evaluation)),
    }
}

fn restore_counts(counts: RestoreCounts) -> api::RestoreCounts {
    let RestoreCounts { member_loss, program, ladder, planned } = counts;
    api::RestoreCounts { member_loss, program, ladder, planned }
}

fn env_options(spec: &JobSpec) -> BTreeMap<String, Value> {
    let JobSpec { name, mode, retry, dirty_threshold, container, pipelines: _ } = spec;
    let RetryPolicy { times, count_member_loss, reset_after_minutes, interval_seconds } = retry;
    let LeaseTerms { lease_ms, grace_ms, schedule_ms } = container.lease;
    BTreeMap::from(
        [
            ("job.name", json!(name)),
            ("job.mode", json!(mode)),
            ("job.retry.times", json!(times)),
            ("job.retry.count-member-loss", json!(count_member_loss)),
            ("job.retry.reset.after.minutes", json!(reset_after_minutes)),
            ("job.retry.interval.seconds", json!(interval_seconds)),
            ("job.dirty-task.threshold", json!(dirty_threshold)),
            ("job.container.validator.enabled", json!(container.validator_enabled)),
            ("job.container.validator.schedule.ms", json!(schedule_ms)),
            ("job.container.validator.samza", json!(container.samza)),
            ("job.container.lease.ms", json!(lease_ms)),
            ("job.container.shutdown.grace.ms", json!(grace_ms)),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    )
}

fn pipeline_info(
    spec: &JobSpec,
    pipeline: &PipelineRecord,
    now: Timestamp,
    standings: &Standings<'_>,
) -> api::PipelineInfo {
    let PipelineRecord {
        id,
        status,
        attempt,
        restores,
        budget_used: _,
        not_before,
        recovery: _,
        losses: _,
        fenced: _,
        running_since: _,
        failures: _,
        task_groups,
    } = pipeline;
    let spec = spec.pipelines.get((id.get() as usize).saturating_sub(1));
    let task = |group: &TaskGroupRecord| spec.and_then(|spec| spec.tasks.get(group.task as usize));
    let groups = task_groups.iter();
    api::PipelineInfo {
        pipeline_id: *id,
        name: spec.map(|spec| spec.name.clone()).unwrap_or_default(),
        pipeline_status: *status,
        restores: *restores,
        attempt: *attempt,
        waits_for: waits_for(pipeline, spec, *not_before, now),
        task_groups: groups
            .map(|group| task_group_info(group, task(group), *attempt, standings))
            .collect(),
    }
}

/// What a pipeline waits for, in words; `None` when it does not wait.
fn waits_for(
    pipeline: &PipelineRecord,
    spec: Option<&PipelineSpec>,
    not_before: Option<Timestamp>,
    now: Timestamp,
) -> Option<String> {
    let old = pipeline.leftovers().count();
    match pipeline.status {
        PipelineStatus::Scheduled | PipelineStatus::Failing | PipelineStatus::Canceling
            if old > 0 =>
        {
            Some(format!("the proven end, or the end of the lease, of {old} old containers"))
        }
        PipelineStatus::Scheduled => Some(match not_before.filter(|at| *at > now) {
            Some(at) => {
                let seconds = at.millis_since(now).div_ceil(1_000);
                format!("the end of its pause, in {seconds} s")
            }
            None => free_slots(pipeline.task_groups.len(), spec),
        }),
        PipelineStatus::Deploying => {
            let all = &pipeline.task_groups;
            let groups = all.iter().filter_map(|group| group.container.as_ref());
            let started = groups.filter(|container| container.started.is_some()).count();
            Some(format!("containers to start: {started} of {} have", all.len()))
        }
        _ => None,
    }
}

fn free_slots(count: usize, spec: Option<&PipelineSpec>) -> String {
    let tags = spec.into_iter().flat_map(|spec| &spec.member_tags);
    let tags: Vec<String> = tags.map(|(key, value)| format!("{key}={value}")).collect();
    if tags.is_empty() {
        format!("{count} free slots")
    } else {
        format!("{count} free slots on members with {}", tags.join(", "))
    }
}

fn task_group_info(
    group: &TaskGroupRecord,
    task: Option<&TaskSpec>,
    pipeline_attempt: u32,
    standings: &Standings<'_>,
) -> api::TaskGroupInfo {
    let TaskGroupRecord { id, task: _, index, status, token: _, container, leftovers, last_error } =
        group;
    let shown = container.as_ref().or(leftovers.last());
    let alive = |container: &&ContainerRecord| !container.gone && !container.ended_unproven;
    let pids = shown.filter(alive).and_then(|container| container.started);
    let standing = shown.filter(alive).map(|container| standings(container.id));
    let standing = standing.unwrap_or_default();
    let timeout_ms = task.map_or(0, |task| task.progress_timeout_ms);
    api::TaskGroupInfo {
        task_group_id: *id,
        task: task.map(|task| task.name.clone()).unwrap_or_default(),
        index: *index,
        status: *status,
        attempt: shown.map_or(pipeline_attempt, |container| container.attempt),
        execution_resource_id: shown.map(|container| container.id),
        member_uuid: shown.map(|container| container.member),
        pid: pids.map(|pids| pids.program),
        wrapper_pid: pids.map(|pids| pids.wrapper),
        fencing_token: shown.map(|container| container.token),
        lease_ends: standing.lease_ends.map(Into::into),
        stalled: is_stalled(standing.quiet_ms, timeout_ms),
        last_error: last_error.clone(),
    }
}

pub(crate) fn member_info(view: &MemberView) -> api::MemberInfo {
    let MemberView { record, status, used_slots, last_seen } = view;
    let MemberRecord {
        uuid,
        host,
        address,
        pid,
        slots,
        tags,
        version,
        feature_level,
        registered: _,
        lost: _,
        draining: _,
    } = record;
    api::MemberInfo {
        uuid: *uuid,
        host: host.clone(),
        address: address.clone(),
        pid: *pid,
        status: *status,
        slots: *slots,
        used_slots: *used_slots,
        last_seen: (*last_seen).into(),
        version: version.clone(),
        feature_level: *feature_level,
        tags: tags.clone(),
    }
}

pub(crate) fn planned_leave(request: OperatorRequest) -> api::PlannedLeave {
    let OperatorRequest { id, member, actor, reason, registered, expires, drain } = request;
    api::PlannedLeave {
        member_uuid: member,
        request_id: id,
        actor,
        reason,
        registered: registered.into(),
        expires: expires.into(),
        draining: drain,
    }
}

pub(crate) fn recovery_episodes(job: JobId, ledger: &JobLedger) -> api::RecoveryEpisodes {
    let episodes = ledger.history().iter().chain(ledger.active()).chain(ledger.parked());
    api::RecoveryEpisodes {
        episodes: episodes.map(|episode| episode_info(job, episode)).collect(),
        dropped_episodes: ledger.history().dropped(),
    }
}

fn episode_info(job: JobId, episode: &Episode) -> api::EpisodeInfo {
    let incident = |incident: &Incident| api::IncidentInfo {
        member_uuid: incident.member,
        address: incident.address.clone(),
        sequence: incident.seq,
        classification: incident.classification,
        cause: incident.cause,
        evidence: incident.evidence.clone(),
        time: incident.declared.into(),
    };
    api::EpisodeInfo {
        episode_id: episode_id(job, episode.number),
        status: match episode.status {
            EpisodeStatus::Active => api::EpisodeStatus::Active,
            EpisodeStatus::Completed => api::EpisodeStatus::Completed,
            EpisodeStatus::Aborted => api::EpisodeStatus::Aborted,
            EpisodeStatus::Expired => api::EpisodeStatus::Expired,
        },
        generation: episode.generation,
        start_time: episode.marks.declared.into(),
        end_time: episode.ended.map(Into::into),
        incidents: episode.incidents.iter().map(incident).collect(),
        incident_count: episode.incident_count,
        attempts: episode.attempts.iter().map(|attempt| attempt_info(job, attempt)).collect(),
        latency_ms: latencies(episode.marks),
    }
}

fn attempt_info(job: JobId, attempt: &Attempt) -> api::AttemptInfo {
    let Attempt { id, confirmed, outcome, cause } = attempt;
    api::AttemptInfo {
        attempt_id: format!("{}/{}/{}", episode_id(job, id.episode), id.pipeline, id.prepare_seq),
        pipeline_id: id.pipeline,
        confirmed_time: confirmed.map(Into::into),
        outcome: match outcome {
            AttemptOutcome::Pending => api::AttemptOutcome::Pending,
            AttemptOutcome::Recovered => api::AttemptOutcome::Recovered,
            AttemptOutcome::Failed => api::AttemptOutcome::Failed,
        },
        cause: cause.as_ref().map(Cause::to_string),
    }
}

fn latencies(marks: Marks) -> api::Latencies {
    let Marks { last_seen, declared, reopened: _, fenced, deployed, recovered } = marks;
    let since = |at: Timestamp| at.millis_since(last_seen);
    api::Latencies {
        detected: Some(since(declared)),
        fenced: fenced.map(since),
        deployed: deployed.map(since),
        recovered: recovered.map(since),
    }
}
