//! Samza's client extends no lease (05): whoever brings it along needs the wrapper, which holds the lease.

use super::section::Reading;
use crate::{ContainerPolicy, PipelineSpec, ValidatorKind};

/// The key that asks for it.
pub(super) const SAMZA: &str = "job.container.validator.samza";

/// Refuses a job that asks for Samza's heartbeat where no wrapper holds the lease.
pub(super) fn refuse_without_wrapper(
    reading: &mut Reading,
    container: &ContainerPolicy,
    pipelines: &[PipelineSpec],
) {
    if !container.samza {
        return;
    }
    let samza = format!("env.{SAMZA}");
    if !container.validator_enabled {
        let message = "Samza's heartbeat extends no lease, so it needs the wrapper's validator: expected \
                       job.container.validator.enabled = true, or samza = false";
        reading.refuse(reading.place(&samza), samza.as_str(), message);
    }
    for (at, pipeline) in pipelines.iter().enumerate() {
        for (index, task) in pipeline.tasks.iter().enumerate() {
            if task.validator == ValidatorKind::Library {
                let key = format!("pipelines[{at}].tasks[{index}].validator");
                let message = format!(
                    "Samza's heartbeat ({SAMZA} = true) extends no lease, so the program has to run \
                     under the wrapper: expected \"wrapper\", found \"library\""
                );
                reading.refuse(reading.place(&key), key, message);
            }
        }
    }
}
