//! A pipeline's way through failure, waiting and deployment.
//!
//! `RUNNING → FAILING → CREATED → SCHEDULED → DEPLOYING → RUNNING`: it restores as a whole. It enters
//! `FAILING` with its restore prepared and its containers revoked; it leaves it when the validity index
//! has told every last answer; it waits in `SCHEDULED` for the pause, the old copies' end and slots.

use steadfast_ledger::Confirmed;
use steadfast_model::{
    ExecutionId, InvalidReason, JobId, JobStatus, MemberUuid, PipelineId, PipelineStatus,
    TaskGroupStatus,
};

use crate::causes::FirstCause;
use crate::containers::{Answer, Container, Obstacle};
use crate::draft::Draft;
use crate::engine::Engine;
use crate::placement::place;
use crate::records::{
    ContainerRecord, Failure, FailureKind, JobRecord, PipelineRecord, TaskGroupRecord,
};
use crate::step::{AgentMessage, Effect, IndexChange, Launch};

impl Engine {
    /// An attempt failed: prepare the restore, within the limit, or fail the job. Does nothing to a
    /// pipeline that is not deployed: its attempt has failed, or is being cancelled, already.
    pub(crate) fn fail_pipeline(
        &mut self,
        job_id: JobId,
        pipeline_id: PipelineId,
        first: &FirstCause,
        d: &mut Draft,
    ) {
        self.catch_up(job_id, d);
        let Some(job) = self.jobs.get_mut(&job_id) else { return };
        let retry = job.record.spec.retry.clone();
        if let Some(ledger) = job.ledger.kept_mut() {
            ledger.attempt_failed(pipeline_id, &first.cause);
        }
        let Some(pipeline) = job.pipeline(pipeline_id) else { return };
        if !matches!(pipeline.status, PipelineStatus::Deploying | PipelineStatus::Running) {
            return;
        }
        d.job(job_id);
        let attempt = pipeline.attempt;
        pipeline.note_failure(Failure {
            attempt,
            at: d.now,
            kind: first.kind,
            cause: first.cause.clone(),
            recovery: pipeline.recovery,
            waits_for: first.waits_for,
        });
        pipeline.enter(PipelineStatus::Failing);
        let counted = match first.kind {
            FailureKind::Program | FailureKind::Ladder => true,
            FailureKind::MemberLoss => retry.count_member_loss,
            FailureKind::Planned => false,
        };
        if counted && pipeline.budget_used >= retry.times {
            let limit = retry.times;
            let error =
                format!("pipeline {pipeline_id}: {first} (job.retry.times = {limit} is used up)");
            self.fail_job(job_id, pipeline_id, error, d);
            return;
        }
        pipeline.budget_used += u32::from(counted);
        pipeline.restores += 1;
        pipeline.fenced = None;
        pipeline.not_before = match first.kind {
            FailureKind::MemberLoss | FailureKind::Planned => None,
            _ => Some(d.now + retry.interval_seconds * 1_000),
        };
        let counts = &mut job.record.counts;
        match first.kind {
            FailureKind::MemberLoss => counts.member_loss += 1,
            FailureKind::Program => counts.program += 1,
            FailureKind::Ladder => counts.ladder += 1,
            FailureKind::Planned => counts.planned += 1,
        }
        let (redo, stored) = (&mut job.record.redo, job.stored_ledger);
        let ledger = job.ledger.kept_mut();
        let prepared = ledger.and_then(|ledger| redo.prepare(ledger, stored, pipeline_id));
        if let Some(pipeline) = job.pipeline(pipeline_id) {
            pipeline.recovery = prepared;
        }
        self.revoke_pipeline(job_id, pipeline_id, InvalidReason::Superseded, d);
        self.advance(job_id, pipeline_id, d);
    }

    /// Revokes what the pipeline has deployed. Containers of lost members are told so.
    pub(crate) fn revoke_pipeline(
        &mut self,
        job: JobId,
        pipeline: PipelineId,
        reason: InvalidReason,
        d: &mut Draft,
    ) {
        let Some(record) = self.jobs.get_mut(&job).and_then(|job| job.pipeline(pipeline)) else {
            return;
        };
        let mut present = Vec::new();
        for group in &mut record.task_groups {
            match &group.container {
                Some(container) if container.gone => group.container = None,
                Some(container) => {
                    present.push((container.id, container.member));
                    if matches!(group.status, TaskGroupStatus::Deploying | TaskGroupStatus::Running)
                    {
                        group.enter(TaskGroupStatus::Canceling);
                    }
                }
                None => {}
            }
        }
        for (execution, member) in present {
            let lost = !self.members.is_present(member);
            let reason = if lost { InvalidReason::MemberLost } else { reason };
            self.revoke(execution, reason, d);
        }
    }

    /// Moves a pipeline as far as it can go now, and sets an alarm for when it may go further.
    pub(crate) fn advance(&mut self, job_id: JobId, pipeline_id: PipelineId, d: &mut Draft) {
        self.catch_up(job_id, d);
        let Some(job) = self.jobs.get_mut(&job_id) else { return };
        let winding_down = matches!(job.record.status, JobStatus::Failing | JobStatus::Canceling);
        let Some(pipeline) = job.pipeline(pipeline_id) else { return };
        match pipeline.status {
            PipelineStatus::Deploying if Self::all_started(pipeline) => {
                self.runs(job_id, pipeline_id, d);
            }
            PipelineStatus::Running => self.running(job_id, pipeline_id, d),
            PipelineStatus::Failing | PipelineStatus::Canceling if winding_down => {
                self.end_when_gone(job_id, pipeline_id, d);
            }
            PipelineStatus::Failing => self.schedule_when_told(job_id, pipeline_id, d),
            PipelineStatus::Created => self.schedule(job_id, pipeline_id, d),
            PipelineStatus::Scheduled => self.wait(job_id, pipeline_id, d),
            _ => {}
        }
    }

    fn end_when_gone(&mut self, job: JobId, pipeline: PipelineId, d: &mut Draft) {
        if self.old_copies_gone(job, pipeline, d) {
            self.end_pipeline(job, pipeline, d);
        }
    }

    fn schedule_when_told(&mut self, job: JobId, pipeline: PipelineId, d: &mut Draft) {
        if self.last_answers_known(job, pipeline) {
            self.schedule(job, pipeline, d);
        }
    }

    fn last_answers_known(&self, job: JobId, pipeline: PipelineId) -> bool {
        let record = self.jobs.get(&job).and_then(|job| job.record.pipeline(pipeline));
        record.is_some_and(|pipeline| {
            pipeline.leftovers().all(|leftover| {
                let at = self.containers.get(leftover.id);
                at.is_none_or(|at| matches!(at.answer, Answer::Told(_)))
            })
        })
    }

    /// `FAILING → CREATED → SCHEDULED`: the old attempt is revoked, the next one begins to wait.
    pub(crate) fn schedule(&mut self, job_id: JobId, pipeline_id: PipelineId, d: &mut Draft) {
        let Some(job) = self.jobs.get_mut(&job_id) else { return };
        let Some(pipeline) = job.pipeline(pipeline_id) else { return };
        if pipeline.status == PipelineStatus::Failing {
            pipeline.enter(PipelineStatus::Created);
        }
        for group in &mut pipeline.task_groups {
            if group.status != TaskGroupStatus::Created {
                group.enter(TaskGroupStatus::Created);
            }
        }
        pipeline.enter(PipelineStatus::Scheduled);
        d.job(job_id);
        self.wait(job_id, pipeline_id, d);
    }

    fn wait(&mut self, job_id: JobId, pipeline_id: PipelineId, d: &mut Draft) {
        if !self.old_copies_gone(job_id, pipeline_id, d) {
            return;
        }
        let Some(job) = self.jobs.get_mut(&job_id) else { return };
        let created = job.record.created;
        let Some(pipeline) = job.pipeline(pipeline_id) else { return };
        pipeline.fenced.get_or_insert(d.now);
        match pipeline.not_before {
            Some(not_before) if not_before > d.now => self.alarm(not_before, job_id, pipeline_id),
            _ => {
                self.ready.insert((created, job_id, pipeline_id));
                self.place_again = true;
            }
        }
    }

    /// Whether no old copy stands in the way; removes those whose lease is over, asks again for proof of
    /// those whose agent is healthy, and sets alarms for the rest.
    fn old_copies_gone(&mut self, job_id: JobId, pipeline_id: PipelineId, d: &mut Draft) -> bool {
        let Some(job) = self.jobs.get(&job_id) else { return false };
        let Some(record) = job.record.pipeline(pipeline_id) else { return false };
        let has_leases = job.record.spec.container.validator_enabled;
        let leftovers: Vec<ContainerRecord> = record.leftovers().cloned().collect();
        let mut gone = true;
        for leftover in &leftovers {
            let Some(at) = self.containers.get(leftover.id) else { continue };
            match self.obstacle(leftover, d.now) {
                None => {
                    let waited = has_leases && matches!(at.answer, Answer::Told(Some(_)));
                    self.counters.leases_expired += u64::from(waited);
                    self.remove_leftover(leftover.id, at, d);
                    continue;
                }
                Some(Obstacle::LastAnswer | Obstacle::Doubt) => {}
                Some(Obstacle::Lease { until }) => self.alarm(until, job_id, pipeline_id),
                Some(Obstacle::Proof { again }) => {
                    self.ask_for_proof(leftover, at, d);
                    self.alarm(again, job_id, pipeline_id);
                }
            }
            gone = false;
        }
        gone
    }

    /// The lease is over though the member is healthy: its agent is told to kill, and to prove it.
    fn ask_for_proof(&self, leftover: &ContainerRecord, at: Container, d: &mut Draft) {
        let Some(job) = self.jobs.get(&at.job) else { return };
        let Answer::Told(Some(last)) = at.answer else { return };
        let over = last + job.record.spec.container.lease.replace_after_ms() <= d.now;
        let connection = self.members.get(at.member).and_then(|member| member.connection());
        if let Some(connection) = connection.filter(|_| over) {
            let reason = leftover.revoked.unwrap_or(InvalidReason::Superseded);
            let stop = AgentMessage::Stop { execution: leftover.id, reason, grace_ms: 0 };
            d.send(connection, stop);
        }
    }

    /// Deploys what is ready, oldest job first. A pipeline that does not fit delays no other.
    pub(crate) fn place_ready(&mut self, d: &mut Draft) {
        if !std::mem::take(&mut self.place_again) {
            return;
        }
        let takers = self.members.iter().filter(|member| member.takes_containers());
        let mut free_slots: u64 = takers.map(|member| u64::from(member.free_slots())).sum();
        for (created, job_id, pipeline_id) in self.ready.clone() {
            if free_slots == 0 {
                break;
            }
            let Some(job) = self.jobs.get(&job_id) else { continue };
            let number = pipeline_id.get() as usize;
            let Some(spec) = number.checked_sub(1).and_then(|at| job.record.spec.pipelines.get(at))
            else {
                continue;
            };
            if u64::from(spec.task_group_count()) > free_slots {
                continue;
            }
            if let Some(members) = place(&self.members, spec) {
                free_slots -= members.len() as u64;
                self.ready.remove(&(created, job_id, pipeline_id));
                self.deploy(job_id, pipeline_id, &members, d);
            }
        }
        // A pipeline that finished at once, or failed, may have freed what another waits for; that comes
        // with its own input.
        self.place_again = false;
    }

    /// Moves the pipeline to `DEPLOYING`, mints its tokens and confirms its recovery attempt: one commit.
    fn deploy(
        &mut self,
        job_id: JobId,
        pipeline_id: PipelineId,
        members: &[MemberUuid],
        d: &mut Draft,
    ) {
        self.catch_up(job_id, d);
        let executions: Vec<ExecutionId> = members
            .iter()
            .map(|_| ExecutionId::of_term(self.nonce, self.containers.next_number()))
            .collect();
        let Some(job) = self.jobs.get_mut(&job_id) else { return };
        let Some(pipeline) = job.pipeline(pipeline_id) else { return };
        pipeline.enter(PipelineStatus::Deploying);
        pipeline.attempt += 1;
        pipeline.not_before = None;
        pipeline.losses.clear();
        let (attempt, recovery) = (pipeline.attempt, pipeline.recovery);
        let fenced = pipeline.fenced.unwrap_or(d.now);
        for ((group, member), id) in pipeline.task_groups.iter_mut().zip(members).zip(&executions) {
            group.enter(TaskGroupStatus::Deploying);
            group.token = group.token.next();
            group.container = Some(ContainerRecord {
                id: *id,
                member: *member,
                attempt,
                token: group.token,
                started: None,
                revoked: None,
                ended_unproven: false,
                gone: false,
            });
        }
        if let (Some(recovery), Some(ledger)) = (recovery, job.ledger.kept_mut()) {
            let confirmed = ledger.confirm(recovery, fenced, d.now);
            debug_assert!(!matches!(confirmed, Confirmed::AlreadyCounted), "{recovery:?}");
        }
        if job.record.status == JobStatus::Pending {
            job.record.enter(JobStatus::Scheduled);
        }
        self.launch(job_id, pipeline_id, d);
    }

    fn launch(&mut self, job_id: JobId, pipeline_id: PipelineId, d: &mut Draft) {
        let Some(job) = self.jobs.get(&job_id) else { return };
        let Some(pipeline) = job.record.pipeline(pipeline_id) else { return };
        let draft = d.job(job_id);
        for group in &pipeline.task_groups {
            let Some(container) = &group.container else { continue };
            let at = Container {
                job: job_id,
                pipeline: pipeline_id,
                group: group.id,
                member: container.member,
                answer: Answer::Live,
            };
            self.containers.insert(container.id, at);
            draft.tokens.push((group.id, group.token));
            draft
                .index
                .push(IndexChange::Live(container.id, container.entry(&job.record, group.id)));
            if let Some(member) = self.members.get_mut(container.member) {
                member.containers.insert(container.id);
                if let Some(connection) = member.connection() {
                    let launch = Box::new(launch_of(&job.record, pipeline, group, container));
                    draft.effects.push(Effect::Send(connection, AgentMessage::Launch(launch)));
                }
            }
        }
    }

    /// Every task group of the attempt was reported started: the pipeline runs, and has recovered.
    fn runs(&mut self, job_id: JobId, pipeline_id: PipelineId, d: &mut Draft) {
        let Some(job) = self.jobs.get_mut(&job_id) else { return };
        let Some(pipeline) = job.pipeline(pipeline_id) else { return };
        pipeline.enter(PipelineStatus::Running);
        pipeline.running_since = Some(d.now);
        pipeline.recovery = None;
        if let Some(ledger) = job.ledger.kept_mut() {
            let _ = ledger.recovered(pipeline_id, d.now);
        }
        let all_ran = job.record.pipelines.iter().all(|pipeline| {
            matches!(pipeline.status, PipelineStatus::Running | PipelineStatus::Finished)
        });
        if job.record.status == JobStatus::Scheduled && all_ran {
            job.record.enter(JobStatus::Running);
        }
        d.job(job_id);
        self.running(job_id, pipeline_id, d);
    }

    /// What a running pipeline has to see to: that it has finished, or that its budget comes back.
    fn running(&mut self, job_id: JobId, pipeline_id: PipelineId, d: &mut Draft) {
        let Some(job) = self.jobs.get_mut(&job_id) else { return };
        let reset_after_ms = job.record.spec.retry.reset_after_minutes * 60_000;
        let Some(pipeline) = job.pipeline(pipeline_id) else { return };
        if pipeline.task_groups.iter().all(|group| group.status == TaskGroupStatus::Finished) {
            pipeline.enter(PipelineStatus::Finished);
            d.job(job_id);
            self.end_job_if_done(job_id, d);
            return;
        }
        if reset_after_ms > 0 && pipeline.budget_used > 0 {
            let back_at = pipeline.running_since.unwrap_or(d.now) + reset_after_ms;
            if back_at > d.now {
                self.alarm(back_at, job_id, pipeline_id);
            } else {
                pipeline.budget_used = 0;
                d.job(job_id);
            }
        }
    }

    /// `FAILING → FAILED` or `CANCELING → CANCELED`, once nothing of it is left.
    fn end_pipeline(&mut self, job_id: JobId, pipeline_id: PipelineId, d: &mut Draft) {
        let Some(job) = self.jobs.get_mut(&job_id) else { return };
        let Some(pipeline) = job.pipeline(pipeline_id) else { return };
        let failed = pipeline.status == PipelineStatus::Failing;
        pipeline.enter(if failed { PipelineStatus::Failed } else { PipelineStatus::Canceled });
        for group in &mut pipeline.task_groups {
            match group.status {
                TaskGroupStatus::Finished => {}
                TaskGroupStatus::Failing => group.enter(TaskGroupStatus::Failed),
                _ => group.enter(TaskGroupStatus::Canceled),
            }
        }
        d.job(job_id);
        self.end_job_if_done(job_id, d);
    }
}

/// All that an agent needs to run a container.
pub(crate) fn launch_of(
    job: &JobRecord,
    pipeline: &PipelineRecord,
    group: &TaskGroupRecord,
    container: &ContainerRecord,
) -> Launch {
    let spec = &job.spec.pipelines[pipeline.id.get() as usize - 1];
    let task = &spec.tasks[group.task as usize];
    Launch {
        execution: container.id,
        job: job.id,
        job_name: job.spec.name.clone(),
        pipeline: pipeline.id,
        pipeline_name: spec.name.clone(),
        task: task.name.clone(),
        task_group: group.id,
        index: group.index,
        count: task.parallelism,
        attempt: container.attempt,
        token: container.token,
        command: task.command.clone(),
        environment: task.environment.clone(),
        lease: job.spec.container.lease,
        validator: task.validator,
        validator_enabled: job.spec.container.validator_enabled,
    }
}
