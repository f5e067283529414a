//! The rules of the house that no compiler knows, one small module each. A rule is a function from
//! the files (or from what cargo says of the packages) to findings; it reads nothing itself, so its
//! tests show it red on an example made up on the spot.
//!
//! Every finding says what to do instead: whoever meets a rule first meets it here.

mod acceptance;
mod arrows;
mod async_traits;
mod headers;
mod machine_paths;
mod purity;
mod runtimes;
mod size;
mod words;

use std::fmt;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::{output, root, workspace};
use crate::source::SourceFile;

/// Something that a rule refuses, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// A path from the root of the checkout, or the name of a package.
    place: String,
    /// From 1; none where the finding is about the whole.
    line: Option<usize>,
    message: String,
}

impl Finding {
    fn of(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), line: None, message: message.into() }
    }

    fn at(file: &SourceFile, byte: usize, message: impl Into<String>) -> Self {
        let line = Some(file.line(byte));
        Self { place: file.path.clone(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.place, self.message),
            None => write!(f, "{}: {}", self.place, self.message),
        }
    }
}

/// Checks every rule and reports all findings at once.
///
/// # Errors
/// When a rule is broken, or the project cannot be read.
pub fn run() -> Result<()> {
    let files = files()?;
    let workspace = workspace()?;
    let findings: Vec<Finding> = [
        arrows::check(&workspace),
        runtimes::check()?,
        purity::check(&files),
        size::check(&files),
        headers::check(&files),
        words::check(&files),
        acceptance::check(&files),
        async_traits::check(&files),
        machine_paths::check(&files),
    ]
    .into_iter()
    .flatten()
    .collect();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files keep the rules.", files.len());
            Ok(())
        }
        count => bail!("tidy: {count} findings, see above"),
    }
}

/// The text files that belong to the project: those that git knows, and those that it would add, so
/// that a rule speaks before the commit and not after it.
fn files() -> Result<Vec<SourceFile>> {
    let root = root();
    let listed = output(Command::new("git").current_dir(&root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let mut files = Vec::new();
    for path in listed.split_terminator('\0') {
        let whole = root.join(path);
        if !whole.is_file() {
            continue; // removed, but the removal is not committed yet; or a link
        }
        let bytes = fs::read(&whole).with_context(|| format!("cannot read {path}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(SourceFile::new(path, text));
        }
    }
    Ok(files)
}
