//! `pipelines` and their tasks.

use std::collections::BTreeMap;

use steadfast_hocon::Position;

use super::section::{Reading, Section, one_of, quoted, shortened};
use super::{MAX_NAME_CHARS, MAX_TASK_GROUPS};
use crate::{PipelineSpec, TaskSpec, ValidatorKind};

pub(super) const PIPELINE_KEYS: &[&str] = &["name", "member-tags", "tasks"];
pub(super) const TASK_KEYS: &[&str] =
    &["name", "parallelism", "command", "environment", "validator", PROGRESS_TIMEOUT];
const PROGRESS_TIMEOUT: &str = "task.progress.timeout.ms";
const WEEK_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// Names of a container's environment that steadfast itself fills (03).
const TOLD: &[&str] =
    &["EXECUTION_RESOURCE_ID", "SAMZA_COORDINATOR_URL", "EXECUTION_ENV_CONTAINER_ID"];
const TOLD_PREFIX: &str = "STEADFAST_";

/// Reads `pipelines`. Where something is refused, the result is not used.
pub(super) fn read(reading: &mut Reading, root: &mut Section<'_>) -> Vec<PipelineSpec> {
    let expected = "a list with at least one pipeline { name = …, tasks = […] }";
    let pipelines = sections(reading, root, "pipelines", expected, PIPELINE_KEYS, pipeline);
    let task_groups: u64 = pipelines
        .iter()
        .flat_map(|pipeline| &pipeline.tasks)
        .map(|task| u64::from(task.parallelism))
        .sum();
    if task_groups > u64::from(MAX_TASK_GROUPS) {
        let message = format!(
            "expected at most {MAX_TASK_GROUPS} task groups in a job, found {task_groups}, the \
             parallelism of all tasks together"
        );
        reading.refuse(root.place("pipelines"), "pipelines", message);
    }
    pipelines
}

fn pipeline(reading: &mut Reading, section: &mut Section<'_>) -> PipelineSpec {
    let name = section.name(reading, "name");
    let member_tags = section.texts(reading, "member-tags", refuse_tag);
    let expected = "a list with at least one task { name = …, command = […] }";
    let tasks = sections(reading, section, "tasks", expected, TASK_KEYS, task);
    PipelineSpec { name, member_tags, tasks }
}

fn task(reading: &mut Reading, section: &mut Section<'_>) -> TaskSpec {
    let validator = one_of(ValidatorKind::ALL);
    TaskSpec {
        name: section.name(reading, "name"),
        parallelism: section.integer(reading, "parallelism", 1..=MAX_TASK_GROUPS).unwrap_or(1),
        command: command(reading, section),
        environment: section.texts(reading, "environment", refuse_variable),
        validator: section
            .text(reading, "validator", validator, |text| text.parse().ok())
            .unwrap_or(ValidatorKind::Wrapper),
        progress_timeout_ms: section
            .integer(reading, PROGRESS_TIMEOUT, 0..=WEEK_MS)
            .unwrap_or_default(),
    }
}

fn command(reading: &mut Reading, section: &mut Section<'_>) -> Vec<String> {
    let expected = "a list of texts, the program and its arguments";
    let Some(elements) = section.list(reading, "command", expected) else { return Vec::new() };
    let mut command = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        let accepted = element
            .as_str()
            .filter(|text| !text.contains('\0') && (index > 0 || !text.trim().is_empty()));
        match accepted {
            Some(text) => command.push(text.to_owned()),
            None => {
                let key = format!("{}[{index}]", section.key("command"));
                let expected = match index {
                    0 => "the program's name or path, in quotes",
                    _ => "a text without the character NUL, in quotes",
                };
                reading.refuse_value(&key, element, expected);
            }
        }
    }
    let written: Vec<String> = command.iter().map(|text| quoted(text)).collect();
    section.write("command", format!("[{}]", written.join(",")));
    command
}

/// Reads a list of named objects, each as a section of its own.
fn sections<T>(
    reading: &mut Reading,
    parent: &mut Section<'_>,
    key: &str,
    expected: &str,
    known: &'static [&'static str],
    read: impl Fn(&mut Reading, &mut Section<'_>) -> T,
) -> Vec<T> {
    let Some(elements) = parent.list(reading, key, expected) else { return Vec::new() };
    let mut items = Vec::new();
    let mut written = Vec::new();
    let mut names = BTreeMap::new();
    for (index, element) in elements.iter().enumerate() {
        let place = format!("{}[{index}]", parent.key(key));
        let Some(object) = element.as_object() else {
            reading.refuse_value(&place, element, "an object { … }");
            continue;
        };
        let mut section = Section::open(reading, place, element.at, object, known);
        items.push(read(reading, &mut section));
        refuse_double(reading, &section, key, &mut names);
        written.push(section.into_json());
    }
    parent.write(key, format!("[{}]", written.join(",")));
    items
}

/// Operators tell pipelines and tasks apart by their names.
fn refuse_double<'d>(
    reading: &mut Reading,
    section: &Section<'d>,
    list: &str,
    names: &mut BTreeMap<&'d str, Position>,
) {
    let Some(value) = section.get("name").filter(|value| !reading.is_gap(value)) else { return };
    let Some(name) = value.as_str() else { return };
    if let Some(first) = names.insert(name, value.at) {
        let message = format!(
            "two of these {list} have the name {}, here and at {first}",
            quoted(&shortened(name))
        );
        reading.refuse(value.at, section.key("name"), message);
    }
}

fn refuse_tag(name: &str) -> Option<&'static str> {
    let fits = !name.trim().is_empty()
        && name.chars().count() <= MAX_NAME_CHARS
        && !name.chars().any(char::is_control);
    (!fits).then_some("expected the name of a tag: 1 to 200 characters, none a control character")
}

fn refuse_variable(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.len() > MAX_NAME_CHARS || name.contains(['=', '\0']) {
        return Some("expected a variable's name: 1 to 200 bytes, none of them = or NUL");
    }
    (name.starts_with(TOLD_PREFIX) || TOLD.contains(&name)).then_some(
        "this variable is set by steadfast itself: STEADFAST_…, EXECUTION_RESOURCE_ID, \
         SAMZA_COORDINATOR_URL and EXECUTION_ENV_CONTAINER_ID cannot be set here",
    )
}
