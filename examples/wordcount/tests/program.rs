//! The program as a whole: a real process, real files, real signals, against a coordinator that
//! does as it is told.

mod fake_coordinator;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use fake_coordinator::{BUSY, FakeCoordinator, Reply, SECRET, TOO_FAST};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// An input and an output folder, and the command lines that go with them.
struct Scene {
    _folder: TempDir,
    input: PathBuf,
    output: PathBuf,
}

impl Scene {
    fn new(input: &[u8]) -> Self {
        let folder = TempDir::new().unwrap();
        let scene = Self {
            input: folder.path().join("input"),
            output: folder.path().join("not/yet/there"),
            _folder: folder,
        };
        fs::write(&scene.input, input).unwrap();
        scene
    }

    /// Container `id` of task group `index` of `count`.
    fn container(&self, urls: &str, id: &str, index: u64, count: u64) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wordcount"));
        command
            .arg("--input")
            .arg(&self.input)
            .arg("--output")
            .arg(&self.output)
            .env_clear()
            .env("STEADFAST_TASK_INDEX", index.to_string())
            .env("STEADFAST_TASK_COUNT", count.to_string())
            .env("STEADFAST_ATTEMPT", "3")
            .env("EXECUTION_RESOURCE_ID", id)
            .env("STEADFAST_COORDINATORS", urls)
            .env("STEADFAST_CONTAINER_SECRET", SECRET)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn only(&self, coordinator: &FakeCoordinator, id: &str) -> Command {
        self.container(&coordinator.url, id, 0, 1)
    }

    fn part(&self, index: u64) -> Option<Value> {
        let bytes = fs::read(self.output.join(format!("part-{index}.json"))).ok()?;
        Some(serde_json::from_slice(&bytes).unwrap())
    }

    /// The events of the log of task group 0, with their execution resource ids.
    fn runs(&self) -> Vec<(String, String)> {
        let log = fs::read_to_string(self.output.join("runs-0.jsonl")).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let line = |line| {
            let line: Value = serde_json::from_str(line).unwrap();
            (text(&line["event"]), text(&line["executionResourceId"]))
        };
        log.lines().map(line).collect()
    }
}

fn events(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|&(event, id)| (event.to_owned(), id.to_owned())).collect()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn assert_finished(output: &Output) {
    assert!(output.status.success(), "{:?}: {}", output.status, stderr(output));
}

/// The three numbers, in the most obvious way.
fn oracle(input: &[u8]) -> [u64; 3] {
    let lines = input.iter().filter(|&&byte| byte == b'\n').count();
    let words = input.split(|byte| b" \t\n\x0b\x0c\r".contains(byte));
    let words = words.filter(|word| !word.is_empty()).count();
    [lines as u64, words as u64, input.len() as u64]
}

fn numbers(part: &Value) -> [u64; 3] {
    assert_eq!(part.as_object().unwrap().len(), 3, "{part}");
    ["lines", "words", "bytes"].map(|name| part[name].as_u64().unwrap())
}

/// Many short lines, CRLF, the last without its end: long enough at `PACED` not to end by itself
/// before the test has done something to it.
fn long_input() -> Vec<u8> {
    let mut text: String = (0..20_000).map(|n| format!("line {n} of\tmany\r\n")).collect();
    text.push_str("the last");
    text.into_bytes()
}

const PACED: [&str; 2] = ["--rate", "100"];

#[test]
fn parts_add_up_to_the_whole_input() {
    let mut huge_line = vec![b'x'; 200_000];
    huge_line.extend_from_slice(b" y\nlast");
    let inputs =
        [Vec::new(), b"a b\r\n\r\nc".to_vec(), b"one line".to_vec(), huge_line, long_input()];
    for input in inputs {
        for count in [1, 4, 9] {
            let scene = Scene::new(&input);
            let mut sum = [0; 3];
            for index in 0..count {
                let id = format!("e-{index}");
                let coordinator = FakeCoordinator::start(&id, &[]);
                let output = scene.container(&coordinator.url, &id, index, count).output().unwrap();
                assert_finished(&output);
                for (sum, part) in sum.iter_mut().zip(numbers(&scene.part(index).unwrap())) {
                    *sum += part;
                }
            }
            assert_eq!(sum, oracle(&input), "{} bytes in {count}", input.len());
        }
    }
}

#[test]
fn real_logs_add_up() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    // Beside the checkout, not in it; without it, the made-up inputs above have to do.
    let Ok(input) = fs::read(Path::new(folder).join("Hadoop_2k.log")) else { return };
    let scene = Scene::new(&input);
    let mut sum = [0; 3];
    for index in 0..4 {
        let coordinator = FakeCoordinator::start("e-1", &[]);
        assert_finished(&scene.container(&coordinator.url, "e-1", index, 4).output().unwrap());
        for (sum, part) in sum.iter_mut().zip(numbers(&scene.part(index).unwrap())) {
            *sum += part;
        }
    }
    assert_eq!(sum, [1999, 29_145, 384_948]);
}

#[test]
fn a_run_leaves_its_trace() {
    let scene = Scene::new(b"one line\n");
    let coordinator = FakeCoordinator::start("e-1", &[]);
    let child = scene.only(&coordinator, "e-1").spawn().unwrap();
    let pid = child.id();
    assert_finished(&child.wait_with_output().unwrap());
    let log = fs::read_to_string(scene.output.join("runs-0.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    for (mut line, event) in lines.into_iter().zip(["start", "end"]) {
        let time = line.as_object_mut().unwrap().remove("time").unwrap();
        assert!(time.as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{time}");
        assert_eq!(
            line,
            json!({"event": event, "pid": pid, "executionResourceId": "e-1", "attempt": 3})
        );
    }
    // No draft is left, only the result, the log and the lock.
    let mut names: Vec<_> = fs::read_dir(&scene.output)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".lock-0", "part-0.json", "runs-0.jsonl"]);
}

#[test]
fn a_stopped_container_commits_once_more_and_the_next_goes_on_from_there() {
    let input = long_input();
    let scene = Scene::new(&input);
    // The second PUT gets no answer, so that there surely is something left to commit.
    let script = [Reply::AsUsual, Reply::AsUsual, Reply::Hold];
    let coordinator = FakeCoordinator::start("e-1", &script);
    let child = scene.only(&coordinator, "e-1").args(PACED).spawn().unwrap();
    coordinator.wait_for_puts(2);
    signal(&child, Signal::TERM);
    coordinator.let_go();
    let stopped = child.wait_with_output().unwrap();
    assert_eq!(stopped.status.code(), Some(143), "{}", stderr(&stopped));
    let puts = coordinator.puts();
    assert_eq!(puts.len(), 3, "{puts:?}");
    assert_eq!(puts[2].status, 204);
    assert_eq!(puts[2].body, puts[1].body);
    assert_ne!(puts[1].body, puts[0].body);
    assert_eq!(scene.part(0), None);

    coordinator.newest_is("e-2");
    let output = scene.only(&coordinator, "e-2").output().unwrap();
    assert_finished(&output);
    assert_eq!(numbers(&scene.part(0).unwrap()), oracle(&input));
    let bytes = |body: &[u8]| {
        let checkpoint: Value = serde_json::from_slice(body).unwrap();
        checkpoint["counts"]["bytes"].as_u64().unwrap()
    };
    assert!(stderr(&output).contains(&format!("from byte {}", bytes(&puts[2].body))));
    let runs = [("start", "e-1"), ("end", "e-1"), ("start", "e-2"), ("end", "e-2")];
    assert_eq!(scene.runs(), events(&runs));
}

#[test]
fn a_killed_container_is_taken_up_from_its_last_checkpoint() {
    let input = long_input();
    let scene = Scene::new(&input);
    let coordinator = FakeCoordinator::start("e-1", &[]);
    for (n, id) in ["e-1", "e-2", "e-3"].into_iter().enumerate() {
        coordinator.newest_is(id);
        let mut child = scene.only(&coordinator, id).args(PACED).spawn().unwrap();
        coordinator.wait_for_puts(2 * (n + 1));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(scene.part(0), None);
    coordinator.newest_is("e-4");
    assert_finished(&scene.only(&coordinator, "e-4").output().unwrap());
    assert_eq!(numbers(&scene.part(0).unwrap()), oracle(&input));
    // Killed ones note no end; and the kernel freed their locks, so there is no overlap.
    let runs =
        [("start", "e-1"), ("start", "e-2"), ("start", "e-3"), ("start", "e-4"), ("end", "e-4")];
    assert_eq!(scene.runs(), events(&runs));
}

#[test]
fn a_slow_pace_leaves_no_line_uncommitted() {
    let scene = Scene::new(b"first\nsecond\n");
    let coordinator = FakeCoordinator::start("e-1", &[]);
    // The second line is due in three hours.
    let mut command = scene.only(&coordinator, "e-1");
    let child = command.args(["--rate", "0.0001"]).spawn().unwrap();
    coordinator.wait_for_puts(1);
    signal(&child, Signal::TERM);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
    let checkpoint: Value = serde_json::from_slice(&coordinator.checkpoint().unwrap()).unwrap();
    assert_eq!(checkpoint["counts"], json!({"lines": 1, "words": 1, "bytes": 6}));
    // All is committed, so there is nothing left for a last checkpoint.
    assert_eq!(coordinator.puts().len(), 1);
}

#[test]
fn a_container_that_is_superseded_stops_and_writes_no_result() {
    let scene = Scene::new(&long_input());
    let coordinator = FakeCoordinator::start("e-1", &[]);
    let child = scene.only(&coordinator, "e-1").args(PACED).spawn().unwrap();
    coordinator.wait_for_puts(1);
    coordinator.newest_is("e-2");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("token is now 7"), "{}", stderr(&output));
    assert_eq!(coordinator.statuses().last(), Some(&409));
    assert_eq!(coordinator.statuses().iter().filter(|&&status| status == 409).count(), 1);
    assert_eq!(scene.part(0), None);

    // One that is superseded before it has read anything, too.
    let output = scene.only(&coordinator, "e-1").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(scene.part(0), None);
}

#[test]
fn the_result_waits_for_the_final_checkpoint() {
    let scene = Scene::new(b"a b\nc");
    // A coordinator that is unreachable, one that is in doubt, and one that wants it slower.
    let script = [BUSY, Reply::AsUsual, BUSY, TOO_FAST, BUSY, Reply::Hold];
    let coordinator = FakeCoordinator::start("e-1", &script);
    let urls = format!("http://127.0.0.1:1,{}", coordinator.url);
    let child = scene.container(&urls, "e-1", 0, 1).spawn().unwrap();
    coordinator.wait_for_puts(4);
    assert_eq!(scene.part(0), None);
    coordinator.let_go();
    let output = child.wait_with_output().unwrap();
    assert_finished(&output);
    assert_eq!(coordinator.statuses(), [503, 204, 503, 429, 503, 0, 204]);
    assert_eq!(scene.part(0), Some(json!({"lines": 1, "words": 3, "bytes": 5})));
}

#[test]
fn a_finished_task_group_that_runs_again_writes_the_same_part() {
    let scene = Scene::new(b"one two\nthree\n");
    let coordinator = FakeCoordinator::start("e-1", &[]);
    assert_finished(&scene.only(&coordinator, "e-1").output().unwrap());
    let part = scene.output.join("part-0.json");
    let first = fs::read(&part).unwrap();
    fs::remove_file(&part).unwrap();
    coordinator.newest_is("e-2");
    assert_finished(&scene.only(&coordinator, "e-2").output().unwrap());
    assert_eq!(fs::read(&part).unwrap(), first);
    assert_eq!(coordinator.puts().len(), 1);
}

#[test]
fn a_second_copy_is_noted_and_ends() {
    let scene = Scene::new(b"one line\n");
    let coordinator = FakeCoordinator::start("e-1", &[]);
    fs::create_dir_all(&scene.output).unwrap();
    let held = File::create(scene.output.join(".lock-0")).unwrap();
    flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
    let output = scene.only(&coordinator, "e-1").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("another copy of task group 0"), "{}", stderr(&output));
    assert_eq!(scene.runs(), events(&[("overlap", "e-1")]));
    assert_eq!(scene.part(0), None);
    assert!(coordinator.seen().is_empty());

    drop(held);
    assert_finished(&scene.only(&coordinator, "e-1").output().unwrap());
}

#[test]
fn an_input_that_changed_is_refused() {
    let scene = Scene::new(&long_input());
    let coordinator = FakeCoordinator::start("e-1", &[]);
    let mut child = scene.only(&coordinator, "e-1").args(PACED).spawn().unwrap();
    coordinator.wait_for_puts(1);
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(&scene.input, b"something shorter\n").unwrap();
    coordinator.newest_is("e-2");
    let output = scene.only(&coordinator, "e-2").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the input has 18 bytes, but had"), "{}", stderr(&output));
    assert_eq!(scene.part(0), None);
}

#[test]
fn an_input_that_changes_while_it_is_counted_is_refused() {
    for (change, complaint) in [(0, "cut short"), (1_000_000, "has 1000000 now")] {
        let input = vec![b'x'; 100_000];
        let scene = Scene::new(&input);
        // Cut between the length and the reading, grown before the end is told.
        let coordinator = FakeCoordinator::start("e-1", &[BUSY, Reply::Hold]);
        let child = scene.only(&coordinator, "e-1").args(PACED).spawn().unwrap();
        coordinator.wait_for(2);
        File::options().write(true).open(&scene.input).unwrap().set_len(change).unwrap();
        coordinator.let_go();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(complaint), "{}", stderr(&output));
        assert_eq!(scene.part(0), None);
    }
}

#[test]
fn sigterm_ends_a_container_that_no_coordinator_answers() {
    let scene = Scene::new(b"a\nb\n");
    for reply in [BUSY, TOO_FAST, Reply::Hold] {
        let coordinator = FakeCoordinator::start("e-1", &[Reply::AsUsual]);
        coordinator.always(reply);
        let child = scene.only(&coordinator, "e-1").spawn().unwrap();
        coordinator.wait_for_puts(1);
        signal(&child, Signal::TERM);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(143), "{}", stderr(&output));
        assert!(stderr(&output).contains("no last checkpoint"), "{}", stderr(&output));
        assert_eq!(scene.part(0), None);
    }
    assert_eq!(scene.runs().len(), 6);
}

#[test]
fn what_is_wrong_is_said() {
    let scene = Scene::new(b"a\n");
    let coordinator = FakeCoordinator::start("e-1", &[]);
    let complaint = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(!output.status.success());
        assert_eq!(scene.part(0), None);
        stderr(&output)
    };
    let bare = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wordcount"));
        command.env_clear();
        command
    };
    assert!(complaint(&mut bare()).contains("--input <PATH>"));
    let by_hand = complaint(bare().args(["--input", "/i", "--output", "/o"]));
    assert!(by_hand.contains("STEADFAST_TASK_INDEX"), "{by_hand}");
    assert!(by_hand.contains("steadfast dev --submit"), "{by_hand}");
    assert!(!Path::new("/o").exists());
    let relative = complaint(bare().args(["--input", "logs/x", "--output", "/o"]));
    assert!(relative.contains("$PWD/logs/x"), "{relative}");

    let slow = complaint(scene.only(&coordinator, "e-1").env("RATE", "-3"));
    assert!(slow.contains("0 or more"), "{slow}");
    let secret = complaint(scene.only(&coordinator, "e-1").env("STEADFAST_CONTAINER_SECRET", "no"));
    assert!(secret.contains("STEADFAST_CONTAINER_SECRET") && secret.contains("401"), "{secret}");
    coordinator.set_checkpoint(b"{}");
    let foreign = complaint(&mut scene.only(&coordinator, "e-1"));
    assert!(foreign.contains("not written by this program"), "{foreign}");

    let folder =
        Scene { input: scene.output.clone(), output: scene.output.clone(), ..Scene::new(b"") };
    assert!(complaint(&mut folder.only(&coordinator, "e-1")).contains("not a regular file"));
    let gone = Scene { input: "/does/not/exist".into(), ..Scene::new(b"") };
    let gone = complaint(&mut gone.only(&coordinator, "e-1"));
    assert!(gone.contains("cannot open /does/not/exist"), "{gone}");
    let file = Scene { output: scene.input.join("below-a-file"), ..Scene::new(b"") };
    let file = complaint(&mut file.only(&coordinator, "e-1"));
    assert!(file.contains("cannot make the output folder"), "{file}");
}
