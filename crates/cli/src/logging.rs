//! The processes' own log: standard error, filtered by `STEADFAST_LOG`.

use std::io::{self, IsTerminal};

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

const VARIABLE: &str = "STEADFAST_LOG";

/// Starts logging. To be called once, before the first event.
///
/// # Errors
/// A filter that cannot be read.
pub fn start() -> anyhow::Result<()> {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .with_env_var(VARIABLE)
        .from_env()
        .with_context(|| {
            format!("{VARIABLE} is no filter; expected for example info or steadfast_agent=debug")
        })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
    Ok(())
}
