//! `steadfast explain ID`: what happened to a job, in order.

use crate::arguments::JobArguments;
use crate::connect::Coordinators;
use crate::{out, runtime};

/// # Errors
/// No coordinator can be asked, or there is no such job.
pub fn run(arguments: &JobArguments, coordinators: &Coordinators) -> anyhow::Result<u8> {
    let client = coordinators.client()?;
    let story = runtime::light(async {
        client.explain(arguments.job).await.map_err(|error| coordinators.explain(error))
    })?;
    if arguments.json {
        out::json(&story)?;
        return Ok(0);
    }
    if story.sentences.is_empty() {
        out::line("nothing has happened to this job yet");
    }
    for sentence in &story.sentences {
        out::line(&format!("{} {}", sentence.time, sentence.text));
    }
    Ok(0)
}
