//! From the engine's messages to what goes over an agent's connection: the one place that knows what a
//! container is told (03, "What a container is told").

use std::collections::BTreeMap;

use steadfast_api::{LaunchOrder, TaskGroupAttempt, ToAgent};
use steadfast_engine::{AgentMessage, Launch};
use steadfast_model::Epoch;

use crate::secrets::Secrets;

/// What every container of this term is told besides its own.
pub(crate) struct Announcement<'a> {
    pub epoch: Epoch,
    pub urls: &'a [String],
    pub secrets: &'a Secrets,
}

impl Announcement<'_> {
    /// The message as it goes over the wire.
    pub fn wire(&self, message: AgentMessage) -> ToAgent {
        let epoch = self.epoch;
        match message {
            AgentMessage::Welcome => ToAgent::Welcome {
                epoch,
                coordinators: self.urls.to_vec(),
                cluster: Some(self.secrets.cluster()),
            },
            AgentMessage::RegisterAnew => ToAgent::RegisterAnew,
            AgentMessage::Launch(launch) => ToAgent::Launch(self.order(*launch)),
            AgentMessage::Stop { execution, reason, grace_ms } => {
                ToAgent::Stop { epoch, execution_resource_id: execution, reason, grace_ms }
            }
            AgentMessage::Acknowledge(execution) => {
                ToAgent::Acknowledge { execution_resource_id: execution }
            }
            AgentMessage::LeaveAcknowledged => ToAgent::LeaveAcknowledged,
        }
    }

    fn order(&self, launch: Launch) -> LaunchOrder {
        let environment = self.environment(&launch);
        LaunchOrder {
            epoch: self.epoch,
            execution_resource_id: launch.execution,
            runs: Some(TaskGroupAttempt {
                job_id: launch.job,
                task_group_id: launch.task_group,
                attempt: launch.attempt,
            }),
            command: launch.command,
            environment,
            lease: launch.lease,
            validator: launch.validator,
            validator_enabled: launch.validator_enabled,
        }
    }

    fn environment(&self, launch: &Launch) -> BTreeMap<String, String> {
        let samza_url = self.urls.first().map(|url| format!("{url}/")).unwrap_or_default();
        let told = [
            ("STEADFAST_JOB_ID", launch.job.to_string()),
            ("STEADFAST_JOB_NAME", launch.job_name.clone()),
            ("STEADFAST_PIPELINE", launch.pipeline_name.clone()),
            ("STEADFAST_TASK", launch.task.clone()),
            ("STEADFAST_TASK_GROUP_ID", launch.task_group.to_string()),
            ("STEADFAST_TASK_INDEX", launch.index.to_string()),
            ("STEADFAST_TASK_COUNT", launch.count.to_string()),
            ("STEADFAST_ATTEMPT", launch.attempt.to_string()),
            ("STEADFAST_FENCING_TOKEN", launch.token.to_string()),
            ("EXECUTION_RESOURCE_ID", launch.execution.to_string()),
            ("STEADFAST_COORDINATORS", self.urls.join(",")),
            ("STEADFAST_CONTAINER_SECRET", self.secrets.of(launch.execution)),
            ("STEADFAST_SCHEDULE_MS", launch.lease.schedule_ms.to_string()),
            ("STEADFAST_LEASE_MS", launch.lease.lease_ms.to_string()),
            ("STEADFAST_GRACE_MS", launch.lease.grace_ms.to_string()),
            ("STEADFAST_VALIDATOR_ENABLED", launch.validator_enabled.to_string()),
            ("SAMZA_COORDINATOR_URL", samza_url),
            ("EXECUTION_ENV_CONTAINER_ID", launch.execution.to_string()),
        ];
        let mut environment = launch.environment.clone();
        environment.extend(told.map(|(name, value)| (name.to_owned(), value)));
        environment
    }
}
