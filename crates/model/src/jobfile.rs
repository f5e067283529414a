//! Reads a job file (HOCON, or JSON, which is a subset) into a checked [`JobSpec`].
//!
//! A mistake in a job file that is not noticed starts the wrong thing on many machines. So every key is
//! known or refused, every value has a range, and all problems are told in one answer, each with its
//! place. The same function runs twice: in the client, which knows the file and the variables, and in
//! the coordinator, which gets the [`JobFile::json`] of the first run and believes nobody.
//!
//! What was accepted is written again as JSON while it is read, typed: a variable is a text, and only
//! the key that it fills tells that it means a number. The coordinator thus reads what was checked.

mod env;
mod pipelines;
mod samza;
mod section;
mod suggest;

use std::collections::{BTreeMap, BTreeSet};

use steadfast_hocon::{Document, Resolved};
pub use steadfast_hocon::{Position, Problem};

use self::section::{Reading, Section};
use crate::JobSpec;

/// The variable that holds the job file's folder. The client always gives it, so a file need not use it.
pub const JOB_DIR: &str = "JOB_DIR";

/// Task groups that a job can have, and thereby the largest parallelism of a task.
pub const MAX_TASK_GROUPS: u32 = 10_000;

/// Characters of a name.
pub const MAX_NAME_CHARS: usize = 200;

/// A job file that has nothing wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFile {
    /// What it says, with the defaults of what it leaves out.
    pub spec: JobSpec,
    /// What was written, as JSON on one line with nothing left to substitute. Reading it gives `spec`.
    pub json: String,
    /// Where the value of each key stands, by the name that a [`Problem`] gives the key. Whoever checks
    /// the JSON later can only name the key.
    pub places: BTreeMap<String, Position>,
}

/// Reads and checks a job file; `variables` fill its substitutions.
///
/// # Errors
/// Everything that is wrong, in the order of the text, at most a hundred problems; never an empty list.
/// After a syntax error the rest is not judged.
pub fn read(text: &[u8], variables: &BTreeMap<String, String>) -> Result<JobFile, Vec<Problem>> {
    let document = steadfast_hocon::parse(text)?;
    let mut reading = Reading::default();
    let resolved = match document.clone().resolve(variables) {
        Ok(resolved) => resolved,
        Err(problems) => fill_gaps(text, document, variables, &mut reading, problems)?,
    };
    refuse_unused(&resolved.used, variables, &mut reading);
    let mut root = Section::open(&mut reading, "", Position::START, &resolved.root, ROOT_KEYS);
    let env = env::read(&mut reading, &mut root);
    let pipelines = pipelines::read(&mut reading, &mut root);
    samza::refuse_without_wrapper(&mut reading, &env.container, &pipelines);
    let places = reading.finish()?;
    let spec = JobSpec {
        name: env.name,
        mode: env.mode,
        retry: env.retry,
        dirty_threshold: env.dirty_threshold,
        container: env.container,
        pipelines,
    };
    Ok(JobFile { spec, json: root.into_json(), places })
}

const ROOT_KEYS: &[&str] = &["env", "pipelines"];

/// Resolves once more with something in the place of each variable that is missing, so that the answer
/// can name what else is wrong. What stands in a gap is not judged.
fn fill_gaps(
    text: &[u8],
    document: Document,
    variables: &BTreeMap<String, String>,
    reading: &mut Reading,
    problems: Vec<Problem>,
) -> Result<Resolved, Vec<Problem>> {
    let mut filled = variables.clone();
    for problem in &problems {
        if let Some(name) = substitution_at(text, problem.at) {
            filled.entry(name.clone()).or_insert_with(|| "?".to_owned());
            reading.gap(problem.at, name);
        }
    }
    // Where that was not all that hinders, a cycle say, the first answer has to do.
    let resolved = document.resolve(&filled).map_err(|_| problems.clone())?;
    for mut problem in problems {
        if let Some(name) = substitution_at(text, problem.at) {
            problem.message += &format!("; expected --set {name}=…");
        }
        reading.note(problem);
    }
    Ok(resolved)
}

/// The name in the `${name}` that stands at a place of the text.
fn substitution_at(text: &[u8], at: Position) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let line = text.split('\n').nth(at.line.checked_sub(1)? as usize)?;
    let before = at.column.checked_sub(1)? as usize;
    let (start, _) = line.char_indices().nth(before)?;
    let (name, _) = line[start..].strip_prefix("${")?.split_once('}')?;
    Some(name.trim().to_owned())
}

/// A variable that fills nothing is a slip of the pen, and the value that it was to set has another.
fn refuse_unused(
    used: &BTreeSet<String>,
    variables: &BTreeMap<String, String>,
    reading: &mut Reading,
) {
    for name in variables.keys().filter(|name| *name != JOB_DIR && !used.contains(*name)) {
        let wanted: Vec<&str> = reading.gaps().collect();
        let hint = match suggest::closest(name, &wanted) {
            Some(wanted) => format!("; did you mean {wanted}?"),
            None => String::new(),
        };
        let message = format!("--set {name} fills nothing: the file has no ${{{name}}}{hint}");
        reading.note(Problem { at: Position::START, key: None, message });
    }
}
