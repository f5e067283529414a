//! Job files that are wrong: refused with the place and the reason, by the command line and by the
//! coordinator, and nothing of them is kept.

use std::fs;

use steadfast_e2e::Cluster;

struct Bad {
    name: &'static str,
    text: Vec<u8>,
    /// From 1; where the mistake is.
    line: u32,
    /// What the message must name.
    says: &'static str,
}

fn bad(name: &'static str, line: u32, says: &'static str, text: impl Into<Vec<u8>>) -> Bad {
    Bad { name, text: text.into(), line, says }
}

/// A good file in which one place is something else.
fn with(place: &str, instead: &str) -> String {
    let changed = GOOD.replace(place, instead);
    assert_ne!(changed, GOOD, "{place:?} is part of the good file");
    changed
}

const GOOD: &str = r#"env {
  job.name = "good"
  job.retry.times = 3
}
pipelines = [{
  name = "p"
  tasks = [{ name = "t", parallelism = 2, command = ["true"] }]
}]
"#;

fn bad_files() -> Vec<Bad> {
    let deep =
        |bracket: &str| format!("env {{ job.name = \"deep\" }}\nx = {}", bracket.repeat(100_000));
    vec![
        bad("wrong-type-number", 3, "job.retry.times", with("times = 3", "times = \"many\"")),
        bad("wrong-type-list", 7, "command", with("[\"true\"]", "\"true\"")),
        bad("wrong-type-object", 1, "env", "env = 7\npipelines = []\n"),
        bad("unknown-key", 3, "job.retry.tmies", with("retry.times", "retry.tmies")),
        bad("unknown-key-of-task", 7, "paralelism", with("parallelism", "paralelism")),
        bad("out-of-range", 7, "parallelism", with("parallelism = 2", "parallelism = 0")),
        bad("missing-substitution", 2, "NAME", with("\"good\"", "${NAME}")),
        // The place of the brace that is left open: where the other one is missing, nobody can know.
        bad("missing-brace", 1, "not closed", with("3\n}", "3\n")),
        bad("deep-braces", 2, "deep", deep("{a:")),
        bad("deep-brackets", 2, "deep", deep("[")),
        bad("binary", 1, "", [0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0xff, 0xfe, 0x80, 0, 0xc3, 0x28]),
        bad("empty", 1, "empty", ""),
        bad("only-a-comment", 1, "env", "# nothing\n"),
    ]
}

#[test]
fn each_is_refused_with_its_place_and_nothing_is_stored() {
    let cluster = Cluster::start(1, 2);
    let before = cluster.rest().overview().coordinator;
    for bad in bad_files() {
        let file = cluster.folder().join(format!("{}.conf", bad.name));
        fs::write(&file, &bad.text).expect("the cluster's folder can be written");
        refused_by_submit(&cluster, &file, &bad);
        refused_by_post(&cluster, &bad);
    }
    assert!(cluster.rest().running_jobs().is_empty(), "nothing is stored");
    assert!(cluster.rest().finished_jobs().is_empty(), "nothing is stored");
    let after = cluster.rest().overview().coordinator;
    assert_eq!((after.pid, after.epoch), (before.pid, before.epoch), "the coordinator as before");

    let file = cluster.folder().join("good.conf");
    fs::write(&file, GOOD).expect("the cluster's folder can be written");
    let good = cluster.run(cluster.steadfast(["submit"]).arg(&file));
    assert_eq!(good.code, Some(0), "{good:?}");
}

#[track_caller]
fn refused_by_submit(cluster: &Cluster, file: &std::path::Path, bad: &Bad) {
    let Bad { name, line, says, .. } = bad;
    let place = format!("{}:{line}", file.display());
    let people = cluster.run(cluster.steadfast(["submit"]).arg(file));
    assert_eq!(people.code, Some(2), "{name}: {people:?}");
    assert!(people.stderr.contains(&place), "{name}: {place} is not in {people:?}");
    assert!(people.stderr.contains(says), "{name}: {says} is not in {people:?}");
    assert_eq!(people.stdout, "", "{name}");

    let scripts = cluster.run(cluster.steadfast(["submit", "--detach", "--json"]).arg(file));
    assert_eq!(scripts.code, Some(2), "{name}: {scripts:?}");
    let body: serde_json::Value = serde_json::from_str(&scripts.stdout)
        .unwrap_or_else(|error| panic!("{name}: {error}: {scripts:?}"));
    assert_eq!(body["status"], "fail", "{name}");
    assert!(
        details(&body).any(|one| one["line"] == *line && one["file"].is_string()),
        "{name}: no problem at line {line} in {body}"
    );
}

#[track_caller]
fn refused_by_post(cluster: &Cluster, bad: &Bad) {
    let Bad { name, text, says, .. } = bad;
    let answer = cluster.rest().post("/submit-job", "application/hocon", text);
    assert_eq!(answer.status, 400, "{name}: {answer:?}");
    let body = answer.json();
    assert_eq!(body["status"], "fail", "{name}");
    assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{name}: {body}");
    assert!(details(&body).next().is_some(), "{name}: no details in {body}");
    assert!(body.to_string().contains(says), "{name}: {says} is not in {body}");
}

fn details(body: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
    body["details"].as_array().into_iter().flatten()
}
