//! The differences between two views, as events.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_api::{AttemptInfo, Change, EpisodeInfo};
use steadfast_engine::Step;
use steadfast_engine::records::{HistoryRecord, JobRecord};
use steadfast_ledger::{Evaluation, JobLedger};
use steadfast_model::{EvaluationStatus, JobId, JobStatus};

use crate::convert;
use crate::view::{JobView, View};

/// What `steps`, which lie between the two, have changed: members first, then job by job, in each from the job
/// to its task groups, and last what it means for its ledger and label.
pub(crate) fn between(before: &View, after: &View, steps: &[Step]) -> Vec<Change> {
    let mut changes = members(before, after);
    let mut touched: BTreeSet<JobId> =
        steps.iter().flat_map(|step| &step.jobs).map(|job| job.job).collect();
    if before.watermarks != after.watermarks {
        // What is known of all jobs may be complete now, or no longer.
        touched.extend(after.jobs.keys());
    }
    let writes = steps.iter().flat_map(|step| &step.jobs);
    let ended: BTreeMap<JobId, &HistoryRecord> =
        writes.filter_map(|job| Some((job.job, &**job.writes.ended.as_ref()?))).collect();
    for job in touched {
        let old = before.jobs.get(&job).map(|job| State::of_view(job, before));
        let new = match (after.jobs.get(&job), ended.get(&job)) {
            (Some(job), _) => State::of_view(job, after),
            (None, Some(history)) => State::of_history(history),
            (None, None) => continue,
        };
        job_changes(old.as_ref(), &new, &mut changes);
    }
    changes
}

fn members(before: &View, after: &View) -> Vec<Change> {
    let statuses: BTreeMap<_, _> =
        before.members.iter().map(|member| (member.record.uuid, member.status)).collect();
    let changed = after.members.iter().filter_map(|member| {
        let before = statuses.get(&member.record.uuid).copied();
        (before != Some(member.status))
            .then(|| Change::MemberStatus { before, member: convert::member_info(member) })
    });
    changed.collect()
}

/// A job in one of the two views.
struct State<'a> {
    record: &'a JobRecord,
    ledger: Option<&'a JobLedger>,
    evaluation: Option<Evaluation>,
}

impl<'a> State<'a> {
    fn of_view(job: &'a JobView, view: &View) -> Self {
        Self {
            record: &job.record,
            ledger: job.ledger.as_deref(),
            evaluation: Some(job.evaluation(view.watermarks)),
        }
    }

    fn of_history(history: &'a HistoryRecord) -> Self {
        let HistoryRecord { job, ledger, evaluation } = history;
        Self { record: job, ledger: ledger.as_ref(), evaluation: evaluation.clone() }
    }

    fn label(&self) -> EvaluationStatus {
        self.evaluation.as_ref().map_or(EvaluationStatus::Disabled, |evaluation| evaluation.status)
    }
}

fn job_changes(before: Option<&State<'_>>, after: &State<'_>, changes: &mut Vec<Change>) {
    let status: Option<JobStatus> = before.map(|job| job.record.status);
    if status != Some(after.record.status) {
        let job = convert::summary(after.record, after.evaluation.as_ref());
        changes.push(Change::JobStatus { before: status, job });
    }
    pipelines(before.map(|job| job.record), after.record, changes);
    recovery(after.record.id, before.and_then(|job| job.ledger), after.ledger, changes);
    let label = before.map(State::label);
    if label != Some(after.label())
        && let Some(evaluation) = &after.evaluation
    {
        let dirty_task = convert::dirty_task(after.record.id, evaluation);
        changes.push(Change::Evaluation { job_id: after.record.id, before: label, dirty_task });
    }
}

fn pipelines(before: Option<&JobRecord>, after: &JobRecord, changes: &mut Vec<Change>) {
    let job_id = after.id;
    for pipeline in &after.pipelines {
        let old = before.and_then(|job| job.pipelines.iter().find(|old| old.id == pipeline.id));
        let (pipeline_id, status, attempt) = (pipeline.id, pipeline.status, pipeline.attempt);
        if old.is_none_or(|old| (old.status, old.attempt) != (status, attempt)) {
            changes.push(Change::PipelineStatus { job_id, pipeline_id, status, attempt });
        }
        for group in &pipeline.task_groups {
            let old = old.and_then(|old| old.task_groups.iter().find(|old| old.id == group.id));
            let container = group.container.as_ref().map(|it| (it.id, it.member));
            let before =
                old.map(|old| (old.status, old.container.as_ref().map(|container| container.id)));
            if before != Some((group.status, container.map(|(id, _)| id))) {
                changes.push(Change::TaskGroupStatus {
                    job_id,
                    pipeline_id,
                    task_group_id: group.id,
                    status: group.status,
                    execution_resource_id: container.map(|(id, _)| id),
                    member_uuid: container.map(|(_, member)| member),
                });
            }
        }
    }
}

fn recovery(
    job_id: JobId,
    before: Option<&JobLedger>,
    after: Option<&JobLedger>,
    changes: &mut Vec<Change>,
) {
    let Some(after) = after else { return };
    if before.is_some_and(|before| before.revision() == after.revision()) {
        return;
    }
    let episodes = |ledger| convert::recovery_episodes(job_id, ledger).episodes;
    let old: BTreeMap<String, EpisodeInfo> = before
        .map_or_else(Vec::new, episodes)
        .into_iter()
        .map(|episode| (episode.episode_id.clone(), episode))
        .collect();
    for EpisodeInfo { episode_id, incidents, attempts, .. } in episodes(after) {
        let old = old.get(&episode_id);
        let knew = |sequence| {
            old.is_some_and(|old| old.incidents.iter().any(|it| it.sequence == sequence))
        };
        for incident in incidents.into_iter().filter(|incident| !knew(incident.sequence)) {
            let episode_id = episode_id.clone();
            changes.push(Change::Incident { job_id, episode_id, incident });
        }
        let knew = |attempt: &AttemptInfo| old.is_some_and(|old| old.attempts.contains(attempt));
        for attempt in attempts.into_iter().filter(|attempt| !knew(attempt)) {
            changes.push(Change::Attempt { job_id, episode_id: episode_id.clone(), attempt });
        }
    }
}
