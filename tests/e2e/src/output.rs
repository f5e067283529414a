//! What the example program leaves behind: the parts, which must add up, and the log of its runs, which
//! must show no overlap.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Add;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Lines (newline characters), words and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Newline characters.
    pub lines: u64,
    /// Runs of characters other than white space.
    pub words: u64,
    /// All.
    pub bytes: u64,
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            lines: self.lines + other.lines,
            words: self.words + other.words,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// A line of `runs-<index>.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Run {
    /// What happened.
    pub event: RunEvent,
    /// The program's pid.
    pub pid: u32,
    /// Its container.
    pub execution_resource_id: String,
    /// The how-many-th deployment it belonged to, from 1.
    pub attempt: u32,
    /// RFC 3339.
    pub time: String,
}

/// What a line of `runs-<index>.jsonl` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunEvent {
    /// The program has its lock and begins.
    Start,
    /// It ends by itself.
    End,
    /// It found another copy of itself running.
    Overlap,
}

/// One job's output folder.
#[derive(Clone, Debug)]
pub struct Output(PathBuf);

impl Output {
    /// A folder, which the program makes if it is missing.
    pub fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The sum of all parts that are there.
    pub fn sum(&self) -> Counts {
        self.files("part-", ".json")
            .values()
            .map(|text| parse(text))
            .fold(Counts::default(), Add::add)
    }

    /// Every line of every run log, by task index.
    pub fn runs(&self) -> BTreeMap<u32, Vec<Run>> {
        let logs = self.files("runs-", ".jsonl").into_iter();
        logs.map(|(index, text)| (index, text.lines().map(parse).collect())).collect()
    }

    /// The starts of one task index, in order.
    pub fn starts(&self, index: u32) -> Vec<Run> {
        let runs = self.runs().remove(&index).unwrap_or_default();
        runs.into_iter().filter(|run| run.event == RunEvent::Start).collect()
    }

    /// Checks that no two copies of a task group ran at the same time, by what the programs themselves
    /// have seen: no lock was ever found held, no container started twice, and attempts only grow.
    ///
    /// # Panics
    /// With the log that shows it.
    #[track_caller]
    pub fn assert_no_overlap(&self) {
        for (index, runs) in self.runs() {
            let mut newest = 0;
            let mut running: Option<&Run> = None;
            for run in &runs {
                match run.event {
                    RunEvent::Overlap => panic!("task {index} overlapped: {runs:#?}"),
                    RunEvent::Start => {
                        assert!(run.attempt > newest, "task {index} started twice: {runs:#?}");
                        newest = run.attempt;
                        running = Some(run);
                    }
                    RunEvent::End => {
                        let own = running.take().map(|start| &start.execution_resource_id);
                        let expected = Some(&run.execution_resource_id);
                        assert_eq!(own, expected, "task {index}: another copy's end: {runs:#?}");
                    }
                }
            }
        }
    }

    fn files(&self, prefix: &str, suffix: &str) -> BTreeMap<u32, String> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let index =
                name.to_str().and_then(|name| name.strip_prefix(prefix)?.strip_suffix(suffix));
            let Some(index) = index.and_then(|index| index.parse().ok()) else { continue };
            let text = fs::read_to_string(entry.path())
                .unwrap_or_else(|error| panic!("{}: {error}", entry.path().display()));
            files.insert(index, text);
        }
        files
    }
}

#[track_caller]
fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> T {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[(&str, &str, u32)]) -> std::thread::Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<String> = lines
            .iter()
            .map(|(event, id, attempt)| {
                format!(
                    r#"{{"event":"{event}","pid":1,"executionResourceId":"{id}","attempt":{attempt},"time":""}}"#
                )
            })
            .collect();
        fs::write(folder.path().join("runs-0.jsonl"), lines.join("\n")).unwrap();
        let output = Output::new(folder.path().to_owned());
        std::panic::catch_unwind(|| output.assert_no_overlap())
    }

    #[test]
    fn runs_one_after_the_other_are_right_and_a_killed_one_has_no_end() {
        check(&[("start", "a", 1), ("start", "b", 2), ("end", "b", 2), ("start", "c", 4)]).unwrap();
    }

    #[test]
    fn two_at_a_time_are_found() {
        for lines in [
            &[("start", "a", 1), ("overlap", "b", 2)][..],
            &[("start", "a", 1), ("start", "b", 1)],
            &[("start", "b", 2), ("start", "a", 1)],
            &[("start", "a", 1), ("start", "b", 2), ("end", "a", 1)],
        ] {
            check(lines).unwrap_err();
        }
    }

    #[test]
    fn parts_are_added() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("part-0.json"), r#"{"lines":1,"words":2,"bytes":3}"#).unwrap();
        fs::write(folder.path().join("part-12.json"), r#"{"lines":4,"words":5,"bytes":6}"#)
            .unwrap();
        let sum = Output::new(folder.path().to_owned()).sum();
        assert_eq!(sum, Counts { lines: 5, words: 7, bytes: 9 });
    }
}
