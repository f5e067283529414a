//! `steadfast agent`: one member.

use std::collections::BTreeMap;

use anyhow::Context;
use steadfast_agent::{AgentConfig, Timings};

use crate::arguments::AgentArguments;
use crate::connect::Coordinators;
use crate::runtime::EndRequests;
use crate::{logging, runtime};

/// # Errors
/// URLs or a token that cannot be used, a tag that is given twice, a folder that cannot be used.
pub fn run(arguments: AgentArguments, coordinators: Coordinators) -> anyhow::Result<u8> {
    logging::start()?;
    let AgentArguments { data, slots, tags } = arguments;
    let mut by_name = BTreeMap::new();
    for (name, value) in tags {
        anyhow::ensure!(
            !by_name.contains_key(&name),
            "--tag {name}=… is given twice; give it once"
        );
        by_name.insert(name, value);
    }
    let config = AgentConfig {
        token: coordinators.token()?,
        coordinators: coordinators.into_urls(),
        data_dir: data,
        slots,
        tags: by_name,
        executable: std::env::current_exe().context("cannot find this program's own file")?,
        timings: Timings::default(),
    };
    runtime::server(async {
        let mut end = EndRequests::listen()?;
        steadfast_agent::run(config, async move { end.next().await }).await?;
        Ok(0)
    })
}
