//! The task that writes. What it wrote is reviewed as a diff before it is committed, the golden
//! files above all: a rewritten expectation is a claim about behaviour.

use anyhow::Result;

use crate::cargo::{cargo, run as run_command};

/// Tests that find this variable set write what they got instead of comparing it.
pub const REWRITE: &str = "UPDATE_EXPECT";

/// Applies clippy's suggestions, formats, and rewrites the golden files, in this order: the later
/// ones tidy up after the earlier ones.
///
/// # Errors
/// When one of the commands fails.
pub fn run() -> Result<()> {
    run_command(&mut cargo("clippy --fix --allow-dirty --allow-staged --workspace --all-targets"))?;
    run_command(&mut cargo("fmt --all"))?;
    run_command(cargo("test --workspace --exclude steadfast-e2e --tests").env(REWRITE, "1"))?;
    println!("Read the diff before you commit it: `git diff`.");
    Ok(())
}
