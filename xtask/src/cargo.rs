//! Child processes. Every task is a cargo command in the end, and what it prints is shown as it
//! comes: a gate that swallows the output of the tests cannot be believed.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand};

/// The root of the workspace, whatever directory the task was called from.
pub fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// A cargo command at the workspace's root, with the words of `line` as its arguments.
pub fn cargo(line: &str) -> Command {
    // The cargo that runs this program, so that a `+toolchain` on the outside holds inside as well.
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root()).args(line.split_whitespace());
    if env::var_os("CI").is_some() {
        // A fresh clone is compiled once; what incremental compilation would save is never used.
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Runs a command with its output shown, and turns a failure into an error that names it.
///
/// # Errors
/// When the command cannot be started or does not end with 0.
pub fn run(command: &mut Command) -> Result<()> {
    let line = describe(command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Runs a command and gives what it wrote to its standard output; its errors are shown.
///
/// # Errors
/// When the command cannot be started, does not end with 0, or writes something else than UTF-8.
pub fn output(command: &mut Command) -> Result<String> {
    let line = describe(command);
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed ({})", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` did not write UTF-8"))
}

/// What the workspace's own manifests say, without resolving a dependency.
///
/// # Errors
/// When a manifest cannot be read.
pub fn workspace() -> Result<Metadata> {
    MetadataCommand::new()
        .current_dir(root())
        .no_deps()
        .exec()
        .context("cannot read the manifests of the workspace")
}

/// Whether `package` has a target (library, binary, example, …) of this name.
pub fn has_target(workspace: &Metadata, package: &str, target: &str) -> bool {
    workspace
        .packages
        .iter()
        .filter(|candidate| candidate.name == package)
        .any(|candidate| candidate.targets.iter().any(|known| known.name == target))
}

fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    let mut line = String::new();
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            line += &format!("{}={:?} ", key.to_string_lossy(), value.to_string_lossy());
        }
    }
    line += &name;
    for argument in command.get_args() {
        line.push(' ');
        line += &argument.to_string_lossy();
    }
    line
}
