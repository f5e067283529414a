//! Jobs: taking them in, stopping them, ending them.

use steadfast_ledger::{JobLedger, Redo};
use steadfast_model::{
    FEATURE_LEVEL, FencingToken, InvalidReason, JobId, JobSpec, JobStatus, LedgerRevision,
    PipelineId, PipelineSpec, PipelineStatus, TaskGroupId, TaskGroupStatus,
};

use crate::draft::Draft;
use crate::engine::{Engine, Job, Ledger};
use crate::input::Ticket;
use crate::records::{JobRecord, PipelineRecord, RestoreCounts, TaskGroupRecord};
use crate::step::{Effect, Reply};

impl Engine {
    /// Takes a checked job in. Its ledger is durable in the same commit, before anything is scheduled.
    pub(crate) fn submit(&mut self, ticket: Ticket, spec: JobSpec, d: &mut Draft) {
        if let Some(why) = self.lagging_members(&spec) {
            d.reply(ticket, Reply::Refused(why));
            return;
        }
        let Some(id) = JobId::of_term(self.nonce, self.jobs_made) else {
            let why = "this coordinator's term has handed out all of its job ids: restart it";
            d.reply(ticket, Reply::Refused(why.to_owned()));
            return;
        };
        self.jobs_made += 1;
        let ledger = match spec.tracking_threshold() {
            None => Ledger::Off,
            Some(threshold) => {
                let size = self.settings.event_history_size;
                Ledger::Kept(Box::new(JobLedger::new(threshold, self.seq, size)))
            }
        };
        let mut record = JobRecord {
            id,
            pipelines: pipelines_of(&spec),
            spec: spec.into(),
            status: JobStatus::Created,
            created: d.now,
            finished: None,
            cancel_requested: None,
            error: None,
            counts: RestoreCounts::default(),
            dirty_since: None,
            ledger_revision: None,
            redo: Redo::default(),
            owed_since: None,
            restored: false,
        };
        record.enter(JobStatus::Pending);
        let pipelines: Vec<PipelineId> = record.pipelines.iter().map(|p| p.id).collect();
        let stored_episodes = LedgerRevision::default();
        self.jobs
            .insert(id, Job { record, ledger, stored_ledger: None, stored_episodes, refusals: 0 });
        d.job(id).effects.push(Effect::Reply(ticket, Reply::Submitted(id)));
        for pipeline in pipelines {
            self.advance(id, pipeline, d);
        }
    }

    /// Why tracking cannot be enabled yet: members that do not know it, by name. A mixed cluster could not
    /// keep the promise of a complete count.
    fn lagging_members(&self, spec: &JobSpec) -> Option<String> {
        spec.tracking_threshold()?;
        let present = self.members.iter().filter(|member| !member.is_lost());
        let lagging: Vec<String> = present
            .map(|member| &member.record)
            .filter(|record| record.feature_level < FEATURE_LEVEL)
            .map(|record| {
                format!("{} on {} (version {})", record.uuid, record.host, record.version)
            })
            .collect();
        let who = lagging.join(", ");
        (!lagging.is_empty()).then(|| {
            format!(
                "job.dirty-task.threshold needs members of feature level {FEATURE_LEVEL}: upgrade {who}, \
                 or submit without it"
            )
        })
    }

    /// Makes the wish that a job ends durable. It wins over restore.
    pub(crate) fn stop(&mut self, ticket: Ticket, id: JobId, d: &mut Draft) {
        self.catch_up(id, d);
        let Some(job) = self.jobs.get_mut(&id) else {
            let ended = self.finished.iter().any(|(_, finished)| *finished == id);
            d.reply(ticket, if ended { Reply::Ended } else { Reply::UnknownJob });
            return;
        };
        let already = matches!(job.record.status, JobStatus::Failing | JobStatus::Canceling);
        if !already {
            job.record.cancel_requested = Some(d.now);
            job.record.enter(JobStatus::Canceling);
            if let Some(ledger) = job.ledger.kept_mut() {
                let _ = ledger.abort("the job was cancelled", d.now);
            }
        }
        let status = job.record.status;
        d.job(id).effects.push(Effect::Reply(ticket, Reply::Stopping(status)));
        if !already {
            self.wind_down(id, None, InvalidReason::Canceled, d);
        }
    }

    /// A pipeline can no longer be restored: the job fails, and the other pipelines are stopped.
    pub(crate) fn fail_job(&mut self, id: JobId, failed: PipelineId, error: String, d: &mut Draft) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.record.enter(JobStatus::Failing);
        job.record.error = Some(error);
        if let Some(ledger) = job.ledger.kept_mut() {
            let _ = ledger.abort("the job can no longer restore", d.now);
        }
        d.job(id);
        self.wind_down(id, Some(failed), InvalidReason::JobEnded, d);
    }

    /// Stops every pipeline that has not ended; the job ends when nothing of them is left. The one that
    /// failed for good stays `FAILING` until then.
    fn wind_down(
        &mut self,
        id: JobId,
        failed: Option<PipelineId>,
        reason: InvalidReason,
        d: &mut Draft,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let mut open = Vec::new();
        for pipeline in &mut job.record.pipelines {
            if pipeline.status.is_terminal() {
                continue;
            }
            if Some(pipeline.id) != failed && pipeline.status != PipelineStatus::Canceling {
                pipeline.enter(PipelineStatus::Canceling);
            }
            pipeline.not_before = None;
            pipeline.recovery = None;
            open.push(pipeline.id);
        }
        self.ready.retain(|(_, job, _)| *job != id);
        for pipeline in open {
            self.revoke_pipeline(id, pipeline, reason, d);
            self.advance(id, pipeline, d);
        }
    }

    /// Ends the job when its last pipeline has ended: history and removal are one transaction.
    pub(crate) fn end_job_if_done(&mut self, id: JobId, d: &mut Draft) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if !job.record.pipelines.iter().all(|pipeline| pipeline.status.is_terminal()) {
            return;
        }
        let end = match job.record.status {
            JobStatus::Canceling => JobStatus::Canceled,
            JobStatus::Failing => JobStatus::Failed,
            _ => JobStatus::Finished,
        };
        job.record.enter(end);
        job.record.finished = Some(d.now);
        if let Some(ledger) = job.ledger.kept_mut() {
            let _ = ledger.abort("the job ended", d.now);
        }
        self.archive(id, d);
    }
}

fn pipelines_of(spec: &JobSpec) -> Vec<PipelineRecord> {
    let mut next_group = TaskGroupId::new(1);
    let mut pipelines = Vec::with_capacity(spec.pipelines.len());
    for (number, pipeline) in (1..).zip(&spec.pipelines) {
        pipelines.push(PipelineRecord {
            id: PipelineId::new(number),
            status: PipelineStatus::Created,
            attempt: 0,
            restores: 0,
            budget_used: 0,
            not_before: None,
            recovery: None,
            losses: Vec::new(),
            fenced: None,
            running_since: None,
            failures: Vec::new(),
            task_groups: task_groups_of(pipeline, &mut next_group),
        });
    }
    pipelines
}

fn task_groups_of(pipeline: &PipelineSpec, next: &mut TaskGroupId) -> Vec<TaskGroupRecord> {
    let mut groups = Vec::new();
    for (task, spec) in (0..).zip(&pipeline.tasks) {
        for index in 0..spec.parallelism {
            groups.push(TaskGroupRecord {
                id: *next,
                task,
                index,
                status: TaskGroupStatus::Created,
                token: FencingToken::new(0),
                container: None,
                leftovers: Vec::new(),
                last_error: None,
            });
            *next = next.next();
        }
    }
    groups
}
