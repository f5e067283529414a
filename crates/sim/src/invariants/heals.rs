//! **It heals when the faults stop**: nobody waits for ever. Some time after the last fault, with room
//! for everybody, each agent is a member, each job has ended or runs in all of its pipelines; and when then every job is
//! cancelled, each ends, no program is left, and nothing of them stays in the validity index.
//!
//! Seen to fail on `LastAnswersUntold` (pipelines wait in `FAILING` for answers that never come).

use steadfast_model::{JobMode, JobStatus, MemberStatus, PipelineStatus};

use crate::world::World;

/// # Errors
/// What still waits.
pub(crate) fn has_healed(world: &World) -> Result<(), String> {
    let Some((_, term)) = world.leading() else {
        return Err("no coordinator leads".to_owned());
    };
    let engine = &term.engine;
    if !term.is_idle() {
        return Err("the coordinator is busy".to_owned());
    }
    if world.submitted.iter().any(Option::is_none) {
        return Err("a submission was never answered".to_owned());
    }
    for machine in &world.machines {
        let agent = machine.agent.and_then(|number| world.agents.get(&number));
        let Some(agent) = agent else { return Err("a machine has no agent".to_owned()) };
        let mut members = engine.member_views();
        let alive = members
            .any(|view| view.record.uuid == agent.member && view.status != MemberStatus::Lost);
        if !alive {
            return Err(format!("agent {} runs and is no member", agent.member));
        }
    }
    for (record, _) in engine.jobs() {
        let batch = record.spec.mode == JobMode::Batch;
        let running = record.status == JobStatus::Running
            && record.pipelines.iter().all(|pipeline| {
                matches!(pipeline.status, PipelineStatus::Running | PipelineStatus::Finished)
            });
        if batch || !running {
            let pipelines: Vec<String> =
                record.pipelines.iter().map(|pipeline| pipeline.status.to_string()).collect();
            let pipelines = pipelines.join(", ");
            return Err(format!("job {} is {} with {pipelines}", record.id, record.status));
        }
    }
    Ok(())
}

/// # Errors
/// What is left.
pub(crate) fn has_ended(world: &World) -> Result<(), String> {
    if let Some(record) = world.durable.jobs.values().next() {
        return Err(format!("job {} was cancelled and is {}", record.id, record.status));
    }
    // Without its validator a container whose agent was killed has nobody left to end it: that is the
    // promise which such a job gave up.
    let left =
        world.containers.iter().find(|(_, container)| container.leased && !container.is_over());
    if let Some((execution, container)) = left {
        let (job, group) = (container.job, container.group);
        return Err(format!("{execution} still runs task group {group} of job {job}"));
    }
    match world.leading().and_then(|(_, term)| term.index.known().next()) {
        None => Ok(()),
        Some(left) => Err(format!("the validity index still knows {left}")),
    }
}
