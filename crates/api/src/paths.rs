//! Every path of the HTTP interface, once.

/// `GET`: counts of everything.
pub const OVERVIEW: &str = "/overview";
/// `POST`: a job file.
pub const SUBMIT_JOB: &str = "/submit-job";
/// `POST`: the wish that a job ends.
pub const STOP_JOB: &str = "/stop-job";
/// `GET`: jobs that have not ended.
pub const RUNNING_JOBS: &str = "/running-jobs";
/// `GET`: jobs that have ended; `/finished-jobs/:state` filters.
pub const FINISHED_JOBS: &str = "/finished-jobs";
/// `GET`: one job, `/job-info/:jobId`.
pub const JOB_INFO: &str = "/job-info";
/// `GET`: the members.
pub const MEMBERS: &str = "/members";
/// `GET`: a container asks whether it may go on (second seed).
pub const IS_CONTAINER_VALID: &str = "/isContainerValid";
/// `GET`: Samza's client asks whether its container is alive (Samza 1.8).
pub const CONTAINER_HEARTBEAT: &str = "/containerHeartbeat";
/// `POST`: a wrapper's good-bye after it has proved the end.
pub const CONTAINER_ENDED: &str = "/containerEnded";
/// `GET` and `PUT`: a task group's checkpoint.
pub const CHECKPOINT: &str = "/checkpoint";
/// `GET`, upgraded to a WebSocket: an agent's one connection.
pub const AGENT: &str = "/agent";
/// `GET`: numbers for Prometheus.
pub const METRICS: &str = "/metrics";
/// `GET`: what changes, as server-sent events.
pub const EVENTS: &str = "/events";
/// `GET`: the process answers.
pub const HEALTH_LIVE: &str = "/health/live";
/// `GET`: it leads and has reconciled, or stands by and knows who leads.
pub const HEALTH_READY: &str = "/health/ready";

/// Header of an output: the attempt that wrote it.
pub const LOG_ATTEMPT: &str = "steadfast-attempt";
/// Header of an output: the container's execution resource id.
pub const LOG_CONTAINER: &str = "steadfast-execution-resource-id";
/// Header of an output: the UUID of the member that keeps it.
pub const LOG_MEMBER: &str = "steadfast-member-uuid";
/// Header of an output: where its first byte stands in all that was written.
pub const LOG_OFFSET: &str = "steadfast-log-offset";

/// `/members/:uuid/planned-leave`.
pub fn planned_leave(member: steadfast_model::MemberUuid) -> String {
    format!("{MEMBERS}/{member}/planned-leave")
}

/// `/members/:uuid/drain`.
pub fn drain(member: steadfast_model::MemberUuid) -> String {
    format!("{MEMBERS}/{member}/drain")
}

/// `/job-info/:jobId`.
pub fn job_info(job: steadfast_model::JobId) -> String {
    format!("{JOB_INFO}/{job}")
}

/// `/job-info/:jobId/recovery-episodes`.
pub fn recovery_episodes(job: steadfast_model::JobId) -> String {
    format!("{JOB_INFO}/{job}/recovery-episodes")
}

/// `/job-info/:jobId/logs/:taskGroup`.
pub fn logs(job: steadfast_model::JobId, task_group: steadfast_model::TaskGroupId) -> String {
    format!("{JOB_INFO}/{job}/logs/{task_group}")
}

/// `/job-info/:jobId/explain`.
pub fn explain(job: steadfast_model::JobId) -> String {
    format!("{JOB_INFO}/{job}/explain")
}
