//! Who was alive when, told by nobody but the programs themselves: each appends a line every 20 ms
//! (`programs/beating.py`), and no line of a copy may stand behind one of a later copy.
//!
//! Unlike the lock of the example, which a process keeps that is merely stopped, this tells apart who
//! *is there* and who *does something*; that is what a zombie is judged by. The same programs count the
//! input, so the sums are checked beside.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Cluster, Job, Output};

/// How a program takes a SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It ends.
    Polite,
    /// It ignores it, and counts on.
    Ignores,
    /// It catches every signal and every error.
    Catches,
    /// It ends, but has left a descendant in a session of its own.
    LeavesADescendant,
}

/// A lease's three numbers.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// `L`.
    pub lease_ms: u64,
    /// `G`.
    pub grace_ms: u64,
    /// How often a container asks.
    pub schedule_ms: u64,
}

impl Lease {
    /// What a job gets that asks for nothing else.
    pub const DEFAULT: Self = Self { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 };
    /// Short enough to wait for its end, long enough for a machine that does other things too.
    pub const SHORT: Self = Self { lease_ms: 4_000, grace_ms: 1_000, schedule_ms: 500 };
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Beat {
    /// The program itself, or what it left behind.
    pub who: Who,
    /// The deployment that it belongs to.
    pub attempt: u32,
    /// Its container.
    pub id: String,
    /// `CLOCK_BOOTTIME`, just before the line was written.
    pub boottime_ms: u64,
}

/// Who wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    /// The program.
    Program,
    /// What it left behind.
    Descendant,
}

/// A job of programs that say that they live.
#[derive(Clone, Debug)]
pub struct Detector {
    folder: PathBuf,
    output: Output,
}

impl Detector {
    /// Submits a job of so many task groups, which do not come to their end before [`Detector::release`].
    #[track_caller]
    pub fn submit(
        cluster: &Cluster,
        parallelism: u32,
        manner: Manner,
        lease: Lease,
    ) -> (String, Self) {
        Self::submit_in(cluster, parallelism, manner, lease, &[], json!({}))
    }

    /// The same with words in front of the command, and with more keys of the task.
    #[track_caller]
    pub fn submit_in(
        cluster: &Cluster,
        parallelism: u32,
        manner: Manner,
        lease: Lease,
        around: &[&str],
        more: Value,
    ) -> (String, Self) {
        let folder = cluster.new_folder("detector");
        let detector = Self { output: Output::new(folder.join("output")), folder };
        fs::write(detector.hold(), "").expect("the cluster's folder can be written");
        let words = around.iter().map(|word| json!(word));
        let program = [json!(python()), json!(program())];
        let arguments = [
            json!("--input"),
            json!(cluster.input()),
            json!("--output"),
            json!(detector.output.path()),
        ];
        // Samza's client extends no lease, so only who has a wrapper may have it.
        let has_wrapper = more.get("validator").is_none();
        let mut task = json!({
            "name": "beating",
            "parallelism": parallelism,
            "command": words.chain(program).chain(arguments).collect::<Vec<_>>(),
            "environment": {
                "BEATS": detector.folder,
                "HOLD": detector.hold(),
                "MANNER": match manner {
                    Manner::Polite => "polite",
                    Manner::Ignores => "ignores",
                    Manner::Catches => "catches",
                    Manner::LeavesADescendant => "descendant",
                },
            },
        });
        let (task_keys, more) = (task.as_object_mut(), more.as_object().cloned());
        task_keys.expect("it is an object").extend(more.unwrap_or_default());
        let job = json!({
            "env": {
                "job.name": format!("beating-{manner:?}"),
                "job.mode": "BATCH",
                "job.retry.times": 20,
                "job.retry.interval.seconds": 0,
                "job.dirty-task.threshold": 2,
                "job.container.validator.samza": has_wrapper,
                "job.container.validator.schedule.ms": lease.schedule_ms,
                "job.container.lease.ms": lease.lease_ms,
                "job.container.shutdown.grace.ms": lease.grace_ms,
            },
            "pipelines": [{ "name": "p", "tasks": [task] }],
        });
        (cluster.submit_text("job.json", &job.to_string()), detector)
    }

    /// Lets the programs come to their end.
    pub fn release(&self) {
        // Twice is once.
        let _ = fs::remove_file(self.hold());
    }

    /// Every line so far, by task index.
    #[track_caller]
    pub fn beats(&self) -> BTreeMap<u32, Vec<Beat>> {
        let mut beats = BTreeMap::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let index =
                name.to_str().and_then(|it| it.strip_prefix("beats-")?.strip_suffix(".jsonl"));
            let Some(index) = index.and_then(|index| index.parse().ok()) else { continue };
            let text = fs::read_to_string(entry.path()).expect("the programs write text");
            // The last one may be half written at this moment.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            beats.insert(index, whole.lines().map(parse).collect());
        }
        beats
    }

    /// Every line of one container so far.
    #[track_caller]
    pub fn beats_of(&self, container: &str) -> Vec<Beat> {
        self.beats().into_values().flatten().filter(|beat| beat.id == container).collect()
    }

    /// Every place at which a copy of a task group did something after a later one had begun, with the
    /// lines around it.
    #[track_caller]
    pub fn overlaps(&self) -> Vec<Vec<Beat>> {
        let mut overlaps = Vec::new();
        for beats in self.beats().into_values() {
            for at in 1..beats.len() {
                if beats[at].attempt < beats[at - 1].attempt {
                    overlaps.push(beats[at.saturating_sub(3)..(at + 3).min(beats.len())].to_vec());
                }
            }
        }
        overlaps
    }

    /// Checks that no copy of a task group did anything after a later one had begun.
    ///
    /// # Panics
    /// With the lines that show it.
    #[track_caller]
    pub fn assert_one_at_a_time(&self) {
        let has_any = self.beats().values().any(|lines| !lines.is_empty());
        assert!(has_any, "nobody has said that it lives");
        let overlaps = self.overlaps();
        assert!(overlaps.is_empty(), "an old copy lived on beside a new one: {overlaps:#?}");
    }

    /// Releases the programs, waits for the job's end, and checks that the sums are right and that at no
    /// time two copies of a task group were alive.
    #[track_caller]
    pub fn finish(&self, cluster: &Cluster, id: &str) -> Job {
        let job = self.wait_until_sums_are_right(cluster, id);
        self.assert_one_at_a_time();
        job
    }

    /// Releases the programs, waits for the job's end, and checks that the sums are right.
    #[track_caller]
    pub fn wait_until_sums_are_right(&self, cluster: &Cluster, id: &str) -> Job {
        self.release();
        cluster.wait_until_sums_are_right(id, &self.output)
    }

    fn hold(&self) -> PathBuf {
        self.folder.join("hold")
    }
}

/// Python's own file: what stands in `PATH` may be a script that looks for it first.
///
/// # Panics
/// When there is none.
#[track_caller]
pub fn python() -> String {
    let told = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let told = told.expect("`python3` is needed for the detector (Debian: python3)");
    assert!(told.status.success(), "{told:?}");
    String::from_utf8_lossy(&told.stdout).trim().to_owned()
}

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/beating.py")
}

#[track_caller]
fn parse(line: &str) -> Beat {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(attempts: &[u32]) -> std::thread::Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let line = |attempt: &u32| {
            format!(r#"{{"who":"program","attempt":{attempt},"id":"e-{attempt}","boottimeMs":1}}"#)
        };
        let lines: Vec<String> = attempts.iter().map(line).collect();
        let text = lines.join("\n") + "\n{\"who\":\"pro";
        fs::write(folder.path().join("beats-0.jsonl"), text).unwrap();
        let output = Output::new(folder.path().join("output"));
        let detector = Detector { folder: folder.path().to_owned(), output };
        std::panic::catch_unwind(|| detector.assert_one_at_a_time())
    }

    #[test]
    fn copies_one_after_the_other_are_right() {
        check(&[1, 1, 2, 2, 4]).unwrap();
    }

    #[test]
    fn a_line_of_an_old_copy_behind_a_new_ones_is_found() {
        check(&[1, 2, 1]).unwrap_err();
        check(&[1, 2, 2, 1, 2]).unwrap_err();
        check(&[]).unwrap_err();
    }
}
