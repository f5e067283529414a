//! `steadfast explain ID`: what happened to a job, in order.

use steadfast_api::Explanation;
use steadfast_client::Client;

use super::show::show;
use crate::arguments::JobArguments;
use crate::connect::Coordinators;

/// # Errors
/// No coordinator can be asked, or there is no such job.
pub fn run(arguments: &JobArguments, coordinators: &Coordinators) -> anyhow::Result<u8> {
    let ask = async |client: &Client| client.explain(arguments.job).await;
    show(coordinators, arguments.json, ask, render)
}

fn render(story: &Explanation) -> String {
    if story.sentences.is_empty() {
        return "nothing has happened to this job yet".into();
    }
    let lines =
        story.sentences.iter().map(|sentence| format!("{} {}", sentence.time, sentence.text));
    lines.collect::<Vec<_>>().join("\n")
}
