//! Containers that are heard and do not get on: `STALLED`, a mark that decides nothing (05).

use steadfast_engine::records::{JobRecord, PipelineRecord, TaskGroupRecord};
use steadfast_model::ExecutionId;

use crate::index::Standing;

/// How a container stands, from the validity index.
pub(crate) type Standings<'a> = dyn Fn(ExecutionId) -> Standing + 'a;

/// A task group whose program has told of no step for too long.
pub(crate) struct Stalled<'a> {
    pub pipeline: &'a PipelineRecord,
    pub group: &'a TaskGroupRecord,
    pub quiet_ms: u64,
    pub timeout_ms: u64,
}

/// Whether a program that has told of no step for `quiet_ms` is stalled; a timeout of 0 turns it off.
pub(crate) fn is_stalled(quiet_ms: u64, timeout_ms: u64) -> bool {
    timeout_ms > 0 && quiet_ms >= timeout_ms
}

/// Every stalled task group of a job.
pub(crate) fn stalled<'a>(
    job: &'a JobRecord,
    standings: &'a Standings<'a>,
) -> impl Iterator<Item = Stalled<'a>> {
    let specs = &job.spec.pipelines;
    let with_timeouts = job.pipelines.iter().zip(specs).filter(|(_, spec)| {
        // Most jobs set none; theirs are not looked at one by one.
        spec.tasks.iter().any(|task| task.progress_timeout_ms > 0)
    });
    with_timeouts.flat_map(move |(pipeline, spec)| {
        pipeline.task_groups.iter().filter_map(move |group| {
            let timeout_ms = spec.tasks.get(group.task as usize)?.progress_timeout_ms;
            let quiet_ms = standings(group.container.as_ref()?.id).quiet_ms;
            is_stalled(quiet_ms, timeout_ms).then_some(Stalled {
                pipeline,
                group,
                quiet_ms,
                timeout_ms,
            })
        })
    })
}
