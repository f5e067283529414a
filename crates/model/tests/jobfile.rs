//! Job files as people and programs write them: what is read, and what is refused at which place.
//!
//! Refusals are a table of a document and the answer to it. A document is built around one that is
//! right, so that each row has exactly the mistakes that it shows.

use std::collections::BTreeMap;

use steadfast_model::jobfile::{self, JobFile};
use steadfast_model::{JobMode, LeaseTerms, ValidatorKind};

const WORDCOUNT: &str = include_str!("../../../examples/wordcount.conf");

/// A job with nothing but what it must have.
const SMALLEST: &str = r#"env { job.name = "j" }
pipelines = [{ name = "p", tasks = [{ name = "t", command = ["true"] }] }]"#;

fn read_with(text: &str, variables: &[(&str, &str)]) -> Result<JobFile, Vec<String>> {
    let variables: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    jobfile::read(text.as_bytes(), &variables).map_err(|problems| {
        problems
            .into_iter()
            .map(|problem| {
                let key = problem.key.map_or(String::new(), |key| format!("{key}: "));
                format!("{}:{} {key}{}", problem.at.line, problem.at.column, problem.message)
            })
            .collect()
    })
}

fn read(text: &str) -> JobFile {
    read_with(text, &[]).unwrap()
}

/// Checks that the problems are as many as expected and begin with the place and key, and that each
/// contains every one of the fragments after the `|`.
fn assert_refused(text: &str, variables: &[(&str, &str)], expected: &[&str]) {
    let problems = read_with(text, variables).expect_err(text);
    assert_eq!(problems.len(), expected.len(), "{text}\n{problems:#?}");
    for (problem, expected) in problems.iter().zip(expected) {
        let mut parts = expected.split('|').map(str::trim);
        let place = parts.next().unwrap();
        assert!(problem.starts_with(&format!("{place} ")), "{text}\n{problem}\nat {place}");
        for part in parts {
            assert!(problem.contains(part), "{text}\n{problem}\nlacks {part}");
        }
    }
}

/// The document with `env` on line 1 and one more setting on line 2.
fn with_setting(setting: &str) -> String {
    format!(
        "env {{ job.name = j\n{setting} }}\npipelines = [{{ name = p, tasks = [{{ name = t, command = [\"true\"] }}] }}]"
    )
}

/// The document with one more line, 3, in its only task.
fn with_task(line: &str) -> String {
    format!(
        "env.job.name = j\npipelines = [{{ name = p, tasks = [{{ name = t, command = [\"true\"]\n{line} }}] }}]"
    )
}

#[test]
fn what_is_left_out_has_the_published_default() {
    let spec = read(SMALLEST).spec;
    assert_eq!((spec.name.as_str(), spec.mode), ("j", JobMode::Streaming));
    assert_eq!((spec.retry.times, spec.retry.count_member_loss), (3, true));
    assert_eq!((spec.retry.reset_after_minutes, spec.retry.interval_seconds), (0, 3));
    assert_eq!((spec.dirty_threshold, spec.tracking_threshold()), (-1, None));
    assert!(spec.container.validator_enabled);
    assert!(!spec.container.samza);
    let lease = LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 };
    assert_eq!(spec.container.lease, lease);
    let [pipeline] = spec.pipelines.as_slice() else { panic!("{spec:?}") };
    let [task] = pipeline.tasks.as_slice() else { panic!("{spec:?}") };
    assert!(pipeline.member_tags.is_empty() && task.environment.is_empty());
    assert_eq!((task.parallelism, task.progress_timeout_ms), (1, 0));
    assert_eq!(task.validator, ValidatorKind::Wrapper);
    assert_eq!(task.command, ["true"]);
}

#[test]
fn every_key_is_read() {
    let text = r#"
        env {
          job.name = "wordcount", job.mode = "BATCH"
          job.retry { times = 7, count-member-loss = false, reset.after.minutes = 60, interval.seconds = 0 }
          job.dirty-task.threshold = 2
          job.container {
            validator { enabled = false, schedule.ms = 500, samza = false }
            lease.ms = 20000
            shutdown.grace.ms = 4000
          }
        }
        pipelines = [{
          name = "count"
          member-tags { zone = "a", rack = 7, topology.kind = big }
          tasks = [
            { name = "reader", parallelism = 2, command = ["./reader", "--input", ${INPUT}]
              environment { LANG = "C", LEVEL = 1.50, FAST = true }
              validator = "library", task.progress.timeout.ms = 30000 },
            { name = "writer", command = [writer] }
          ]
        }]"#;
    let file = read_with(text, &[("INPUT", "/data/x y"), ("JOB_DIR", "/jobs")]).unwrap();
    let spec = &file.spec;
    assert_eq!((spec.name.as_str(), spec.mode), ("wordcount", JobMode::Batch));
    assert_eq!((spec.retry.times, spec.retry.count_member_loss), (7, false));
    assert_eq!((spec.retry.reset_after_minutes, spec.retry.interval_seconds), (60, 0));
    assert_eq!(spec.tracking_threshold(), Some(2));
    assert!(!spec.container.validator_enabled);
    assert!(!spec.container.samza);
    let lease = LeaseTerms { lease_ms: 20_000, grace_ms: 4_000, schedule_ms: 500 };
    assert_eq!(spec.container.lease, lease);
    let pipeline = &spec.pipelines[0];
    let texts = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    };
    let tags = texts(&[("zone", "a"), ("rack", "7"), ("topology.kind", "big")]);
    assert_eq!(pipeline.member_tags, tags);
    let reader = &pipeline.tasks[0];
    assert_eq!(reader.command, ["./reader", "--input", "/data/x y"]);
    // A number is the text that was written, not the shortest one of the same value.
    let environment = texts(&[("LANG", "C"), ("LEVEL", "1.50"), ("FAST", "true")]);
    assert_eq!(reader.environment, environment);
    assert_eq!((reader.parallelism, reader.progress_timeout_ms), (2, 30_000));
    assert_eq!(reader.validator, ValidatorKind::Library);
    assert_eq!(spec.task_group_count(), 3);

    // The document that is sent on says the same, and fills nothing from anywhere.
    let again = read(&file.json);
    assert_eq!(again.spec, file.spec);
    assert_eq!(again.json, file.json);
}

#[test]
fn a_key_can_be_one_name_a_path_or_objects() {
    let pipelines = r#""pipelines":[{"name":"p","tasks":[{"name":"t","command":["c"],"#;
    let quoted = r#"{"env":{"job.name":"j","job.retry.times":9},"#.to_owned()
        + pipelines
        + r#""task.progress.timeout.ms":5}]}]}"#;
    let nested = r#"{"env":{"job":{"name":"j","retry":{"times":9}}},"#.to_owned()
        + pipelines
        + r#""task":{"progress":{"timeout":{"ms":5}}}}]}]}"#;
    let mixed = r#"{"env":{"job":{"name":"j","retry.times":9}},"#.to_owned()
        + pipelines
        + r#""task":{"progress.timeout.ms":5}}]}]}"#;
    let spec = read(&quoted).spec;
    assert_eq!((spec.retry.times, spec.pipelines[0].tasks[0].progress_timeout_ms), (9, 5));
    assert_eq!(read(&nested).spec, spec);
    assert_eq!(read(&mixed).spec, spec);
}

#[test]
fn a_variable_is_read_as_the_type_that_its_key_needs() {
    let text =
        with_setting("job.retry { times = ${N}, count-member-loss = ${B} }, job.mode = ${M}");
    let file = read_with(&text, &[("N", "12"), ("B", "false"), ("M", "BATCH")]).unwrap();
    assert_eq!((file.spec.retry.times, file.spec.retry.count_member_loss), (12, false));
    assert_eq!(file.spec.mode, JobMode::Batch);
    assert_eq!(read(&file.json).spec, file.spec);
    assert_refused(
        &text,
        &[("N", "twelve"), ("B", "no"), ("M", "7")],
        &[
            "2:21 env.job.retry.times: | whole number | \"twelve\" (from a variable)",
            "2:47 env.job.retry.count-member-loss: | true or false | \"no\"",
            "2:66 env.job.mode: | \"BATCH\" or \"STREAMING\" | \"7\"",
        ],
    );
    // A text in the file stays one.
    assert_refused(
        &with_setting("job.retry.times = \"12\""),
        &[],
        &["2:19 env.job.retry.times: | the text \"12\""],
    );
}

#[test]
fn the_example_reads() {
    let variables = [("INPUT", "/in"), ("OUTPUT", "/out")];
    let spec = read_with(WORDCOUNT, &variables).unwrap().spec;
    let task = &spec.pipelines[0].tasks[0];
    assert_eq!((spec.name.as_str(), spec.mode), ("wordcount", JobMode::Batch));
    assert_eq!(spec.tracking_threshold(), Some(2));
    assert_eq!(task.command, ["wordcount", "--input", "/in", "--output", "/out"]);
    assert_eq!((task.parallelism, task.environment["RATE"].as_str()), (4, "0"));

    let more = [variables.as_slice(), &[("RATE", "10"), ("PARALLELISM", "8")]].concat();
    let file = read_with(WORDCOUNT, &more).unwrap();
    let task = &file.spec.pipelines[0].tasks[0];
    assert_eq!((task.parallelism, task.environment["RATE"].as_str()), (8, "10"));
    assert_eq!(read(&file.json).spec, file.spec);
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let text = r#"env {
  job.retry.tims = 3
  job.mode = "FAST"
  job.retry.times = ${N}
}
pipelines = [
  { name = "p", tasks = [
      { name = "t", parallelism = 0, command = [] }
      { name = "t", command = [${INPUT}], colour = red }
  ] }
  { name = "p", tasks = [] }
]
"#;
    assert_refused(
        text,
        &[("INPTU", "/x"), ("N", "-1"), ("JOB_DIR", "/unused/without/harm")],
        &[
            "1:1 --set INPTU | fills nothing | ${INPTU} | did you mean INPUT?",
            "1:5 env.job.name: | missing | 1 to 200 characters",
            "2:13 env.job.retry.tims: | did you mean job.retry.times? | job.name, job.mode, job.retry.times,",
            "3:14 env.job.mode: | \"BATCH\" or \"STREAMING\" | \"FAST\"",
            "4:21 env.job.retry.times: | from 0 to 1000000 | \"-1\"",
            "8:35 pipelines[0].tasks[0].parallelism: | from 1 to 10000 | the number 0",
            "8:48 pipelines[0].tasks[0].command: | empty list",
            "9:16 pipelines[0].tasks[1].name: | the name \"t\" | line 8, column 16",
            "9:32 pipelines[0].tasks[1].command[0]: | ${INPUT} | expected --set INPUT=…",
            "9:43 pipelines[0].tasks[1].colour: | unknown key; accepted here: name, parallelism, command,",
            "11:12 pipelines[1].name: | the name \"p\" | line 7, column 12",
            "11:25 pipelines[1].tasks: | at least one task | empty list",
        ],
    );
}

#[test]
fn a_document_that_is_none_is_refused_at_its_place() {
    for (text, expected) in [
        ("{}", &["1:1 env.job.name: | missing", "1:1 pipelines: | missing"][..]),
        (
            "env = 5\npipelines = {}",
            &["1:7 env: | an object | the number 5", "2:13 pipelines: | a list | found an object"],
        ),
        (
            "env { job.name = j }\npipelines = [x]",
            &["2:14 pipelines[0]: | an object | the text \"x\""],
        ),
        (
            "env { job.name = j }\npipelines = []",
            &["2:13 pipelines: | at least one pipeline | empty list"],
        ),
        (
            "envv { job.name = j }\npipelines = []",
            &[
                "1:1 env.job.name: | missing",
                "1:1 envv: | did you mean env? | env, pipelines",
                "2:13 pipelines:",
            ],
        ),
    ] {
        assert_refused(text, &[], expected);
    }
    // The parser has tests of its own; here it only has to be heard.
    let open = SMALLEST.strip_suffix('}').unwrap_or(SMALLEST).replace("env {", "env { x {");
    assert!(read_with(&open, &[]).is_err());
    assert!(read_with("", &[]).is_err());
    assert!(jobfile::read(b"\xff\xfe\x00binary", &BTreeMap::new()).is_err());
    assert!(read_with(&"[".repeat(100_000), &[]).is_err());
}

#[test]
fn settings_are_refused_at_their_place() {
    for (setting, expected) in [
        (
            "job.retry.times = three",
            "2:19 env.job.retry.times: | whole number | the text \"three\"",
        ),
        ("job.retry.times = 2.0", "2:19 env.job.retry.times: | whole number | 2.0"),
        (
            "job.retry.times = 99999999999999999999",
            "2:19 env.job.retry.times: | 99999999999999999999",
        ),
        ("job.retry.times = null", "2:19 env.job.retry.times: | found null"),
        (
            "job.retry.interval.seconds = -3",
            "2:30 env.job.retry.interval.seconds: | from 0 to 86400 | -3",
        ),
        (
            "job.retry.reset.after.minutes = 525601",
            "2:33 env.job.retry.reset.after.minutes: | 525600",
        ),
        (
            "job.retry.count-member-loss = yes",
            "2:31 env.job.retry.count-member-loss: | true or false | \"yes\"",
        ),
        ("job.mode = batch", "2:12 env.job.mode: | \"BATCH\" or \"STREAMING\""),
        ("job.dirty-task.threshold = 2e9", "2:28 env.job.dirty-task.threshold: | whole number"),
        ("job.container.lease.ms = 86400001", "2:26 env.job.container.lease.ms: | 86400000"),
        (
            "job.container.validator.schedule.ms = 0",
            "2:39 env.job.container.validator.schedule.ms: | from 10",
        ),
        ("job.container { lease.ms = [1] }", "2:28 env.job.container.lease.ms: | found a list"),
        (
            "job.container { leese { ms = 1 } }",
            "2:17 env.job.container.leese.ms: | did you mean job.container.lease.ms?",
        ),
        ("job.name { first = a }", "2:10 env.job.name: | 1 to 200 characters | an object"),
        ("job.name = \"\"", "2:12 env.job.name: | 1 to 200 characters"),
        ("job.name = \"a\\nb\"", "2:12 env.job.name: | control characters"),
        (
            "\"job.mode\" = BATCH, job.mode = BATCH",
            "2:32 env.job.mode: | written twice | line 2, column 14",
        ),
        ("\"a b\" = 1", "2:1 env.\"a b\": | unknown key"),
    ] {
        assert_refused(&with_setting(setting), &[], &[expected]);
    }
    let long = "x".repeat(201);
    assert_refused(
        &with_setting(&format!("job.name = {long}")),
        &[],
        &["2:12 env.job.name: | 200"],
    );
    assert_eq!(read(&with_setting(&format!("job.name = {}", &long[1..]))).spec.name.len(), 200);
    assert_eq!(
        read(&with_setting("job.dirty-task.threshold = -5")).spec.tracking_threshold(),
        None
    );
}

#[test]
fn a_lease_must_hold_three_polls() {
    let lease = "job.container { lease.ms = 4182, shutdown.grace.ms = 1000 }";
    assert_refused(
        &with_setting(lease),
        &[],
        &[
            "2:28 env.job.container.lease.ms: | 4182 ms | 1000 ms | 183 ms | 2999 ms | at least 4183 ms",
        ],
    );
    assert_eq!(
        read(&with_setting(&lease.replace("4182", "4183"))).spec.container.lease.lease_ms,
        4183
    );
    // Whichever of the three was written is the one that is pointed at.
    assert_refused(
        &with_setting("job.container.shutdown.grace.ms = 11601"),
        &[],
        &["2:35 env.job.container.shutdown.grace.ms: | 11601"],
    );
    assert_refused(
        &with_setting("job.container.validator.schedule.ms = 3201"),
        &[],
        &["2:39 env.job.container.validator.schedule.ms: | 9600 ms"],
    );
}

#[test]
fn samzas_heartbeat_needs_the_wrapper() {
    let samza = SMALLEST.replace("env {", "env { job.container.validator.samza = true,");
    assert!(read(&samza).spec.container.samza);
    let library = samza.replace("command", "validator = library, command");
    let column = 1 + library.lines().nth(1).unwrap().find("library").unwrap();
    let place = format!("2:{column} pipelines[0].tasks[0].validator: | samza = true");
    assert_refused(&library, &[], &[&format!("{place} | expected \"wrapper\"")]);
    let disabled = samza.replace("env {", "env { job.container.validator.enabled = false,");
    let at = 1 + disabled.find("true").unwrap();
    let expected = format!("1:{at} env.job.container.validator.samza: | enabled = true");
    assert_refused(&disabled, &[], &[&expected]);
}

#[test]
fn tasks_are_refused_at_their_place() {
    for (line, expected) in [
        ("parallelism = 10001", "3:15 pipelines[0].tasks[0].parallelism: | from 1 to 10000"),
        ("parallelism = -1", "3:15 pipelines[0].tasks[0].parallelism: | -1"),
        ("command = \"true\"", "3:11 pipelines[0].tasks[0].command: | a list | the text \"true\""),
        (
            "command = [\"sleep\", 5]",
            "3:21 pipelines[0].tasks[0].command[1]: | in quotes | the number 5",
        ),
        ("command = [\"\"]", "3:12 pipelines[0].tasks[0].command[0]: | the program"),
        ("command = [\"a\", \"\\u0000\"]", "3:17 pipelines[0].tasks[0].command[1]: | NUL"),
        ("validator = none", "3:13 pipelines[0].tasks[0].validator: | \"wrapper\" or \"library\""),
        (
            "task.progress.timeout = 5",
            "3:15 pipelines[0].tasks[0].task.progress.timeout: | did you mean task.progress.timeout.ms?",
        ),
        ("environment = [A]", "3:15 pipelines[0].tasks[0].environment: | found a list"),
        ("environment { A = null }", "3:19 pipelines[0].tasks[0].environment.A: | found null"),
        (
            "environment { \"A=B\" = 1 }",
            "3:15 pipelines[0].tasks[0].environment.\"A=B\": | none of them =",
        ),
        (
            "environment { STEADFAST_JOB_ID = 1 }",
            "3:15 pipelines[0].tasks[0].environment.STEADFAST_JOB_ID: | set by steadfast itself",
        ),
        (
            "environment { EXECUTION_RESOURCE_ID = 1 }",
            "3:15 pipelines[0].tasks[0].environment.EXECUTION_RESOURCE_ID: | set by steadfast",
        ),
        (
            "environment { A.B = 1, \"A.B\" = 2 }",
            "3:24 pipelines[0].tasks[0].environment.A.B: | twice",
        ),
    ] {
        assert_refused(&with_task(line), &[], &[expected]);
    }
    let many =
        SMALLEST.replace("tasks = [", "tasks = [{ name = a, parallelism = 10000, command = [c] },");
    assert_refused(&many, &[], &["2:13 pipelines: | at most 10000 | found 10001"]);
}

#[test]
fn places_name_the_line_for_problems_that_only_the_server_finds() {
    let places = read(&with_task("environment.A = 1")).places;
    let place = |key: &str| places.get(key).map(|at| (at.line, at.column));
    assert_eq!(place("env.job.name"), Some((1, 16)));
    assert_eq!(place("pipelines[0].tasks[0].environment.A"), Some((3, 17)));
    assert_eq!(place("pipelines[0].tasks[0].parallelism"), None);
}

#[test]
fn an_answer_is_bounded_whatever_the_document() {
    let unknown: String = (0..1_000).map(|i| format!("k{i} = 1\n")).collect();
    assert_eq!(read_with(&with_setting(&unknown), &[]).unwrap_err().len(), 100);
    // Many keys below a long one would make long names of them.
    let long = format!(
        "{} {{ {} }}",
        "k".repeat(100_000),
        (0..1_000).map(|i| format!("k{i} = 1\n")).collect::<String>()
    );
    let answer = read_with(&with_setting(&long), &[]).unwrap_err().concat();
    assert!(answer.len() < 10_000, "{}", answer.len());
}
