//! What `examples/` has for other languages: the stubs in Python and in shell, against the same
//! coordinator as the library and the wrapper, and the wordcount in Python under the wrapper. Where there is no `python3` or no `curl` there is nothing to run, and the test says so.

mod support;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use steadfast_api::WrapperMessage;
use support::wrapped::Start;
use support::{
    FakeCoordinator, SECRET, SHORT_GRACE, SHORT_LEASE, Says, environment, eventually, yes,
};

/// A program that uses the stub, in a folder of its own. Each notes `ran` when it begins and `told` at
/// each request to shut down; then it ends, or, `deaf`, does not. `quick` ends by itself.
struct Stubbed {
    process: Child,
    folder: tempfile::TempDir,
}

const PYTHON: &str = r#"
import os, sys, threading
import validator
done = threading.Event()
def stop():
    open("told", "a").write("x")
    done.set()
watch = validator.Watch(stop)
open("ran", "a").write("x")
for _ in range(5):
    watch.step()
if sys.argv[1] != "quick":
    done.wait()
if sys.argv[1] == "deaf":
    threading.Event().wait()
sys.exit(watch.finish())
"#;

const SHELL: &str = r#"
if [ "$1" = deaf ]; then then=:; else then='exit 0'; fi
trap "printf x >> told; $then" TERM
printf x >> ran
[ "$1" = quick ] && exit 0
while :; do sleep 0.02; done"#;

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        // Not by the macro: a message that the test harness holds back explains nothing.
        let why = format!("not shown: there is no {program} here\n");
        std::io::stderr().write_all(why.as_bytes()).unwrap();
    }
    found
}

fn examples() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap()
}

type Variables<'a> = &'a [(&'static str, &'static str)];
/// How a stub is started: whom it asks, what the program does, what else it is told.
type Stub = fn(&[&FakeCoordinator], &str, Variables<'_>) -> Stubbed;

fn python(coordinators: &[&FakeCoordinator], how: &str, variables: Variables<'_>) -> Stubbed {
    let mut command = Command::new("python3");
    command.args(["-c", PYTHON, how]).env("PYTHONPATH", examples());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    Stubbed::start(command, coordinators, variables)
}

fn shell(coordinators: &[&FakeCoordinator], how: &str, variables: Variables<'_>) -> Stubbed {
    let mut command = Command::new("sh");
    command.arg(examples().join("validator.sh")).args(["sh", "-c", SHELL, "sh", how]);
    Stubbed::start(command, coordinators, variables)
}

/// Those that can be run here.
fn stubs() -> Vec<Stub> {
    let all: [(&str, Stub); 2] = [("python3", python), ("curl", shell)];
    all.into_iter().filter(|(needs, _)| is_there(needs)).map(|(_, stub)| stub).collect()
}

impl Stubbed {
    fn start(
        mut command: Command,
        coordinators: &[&FakeCoordinator],
        variables: Variables<'_>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        command
            .current_dir(folder.path())
            .envs(environment(coordinators))
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Self { process: command.spawn().unwrap(), folder }
    }

    fn noted(&self, name: &str) -> usize {
        std::fs::read(self.folder.path().join(name)).map_or(0, |notes| notes.len())
    }

    fn runs(&self) {
        eventually("it runs", || (self.noted("ran") == 1).then_some(()));
    }

    fn code(&mut self) -> i32 {
        eventually("its end", || self.process.try_wait().unwrap()).code().expect("it exits")
    }
}

impl Drop for Stubbed {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn stubs_start_nothing_without_a_yes() {
    for stub in stubs() {
        let garbage = Says::Page(200, r#"{"isValid":true}"#.into());
        for (says, code) in [
            (Says::Nothing, 73),
            (Says::YesToSomebodyElse, 73),
            (garbage, 73),
            (Says::No { epoch: 3 }, 70),
        ] {
            let coordinator = FakeCoordinator::start(says.clone());
            let mut stubbed = stub(&[&coordinator], "waits", &[SHORT_LEASE, SHORT_GRACE]);
            assert_eq!((stubbed.code(), stubbed.noted("ran")), (code, 0), "{says:?}");
        }
    }
}

#[test]
fn stubs_pass_on_the_programs_own_end() {
    for stub in stubs() {
        let coordinator = FakeCoordinator::start(yes());
        let mut stubbed = stub(&[&coordinator], "quick", &[]);
        assert_eq!((stubbed.code(), stubbed.noted("told")), (0, 0));
    }
}

#[test]
fn stubs_shut_down_once_when_told_invalid() {
    for stub in stubs() {
        let standby = FakeCoordinator::start(Says::Page(503, String::new()));
        let leader = FakeCoordinator::start(yes());
        let mut stubbed = stub(&[&standby, &leader], "waits", &[]);
        stubbed.runs();
        // Neither is this one's verdict.
        standby.says(Says::NoToSomebodyElse);
        leader.says(Says::No { epoch: 2 });
        let heard = |coordinator: &FakeCoordinator, says: &Says| {
            coordinator.polls().iter().filter(|poll| poll.answered == *says).count()
        };
        eventually("both were heard", || {
            let old = heard(&leader, &Says::No { epoch: 2 });
            (heard(&standby, &Says::NoToSomebodyElse) > 1 && old > 1).then_some(())
        });
        assert_eq!(stubbed.noted("told"), 0);
        leader.says(Says::No { epoch: 3 });
        assert_eq!((stubbed.code(), stubbed.noted("told")), (70, 1));
        assert!(leader.polls().iter().all(|poll| poll.authorization == format!("Bearer {SECRET}")));
    }
}

#[test]
fn stubs_end_with_their_lease() {
    for stub in stubs() {
        let coordinator = FakeCoordinator::start(yes());
        // m = 100 + 2 % of 4,000 = 180, so the stop comes after 1,820 ms and the kill after 3,820.
        let lease = [("STEADFAST_LEASE_MS", "4000"), ("STEADFAST_GRACE_MS", "2000")];
        let mut stubbed = stub(&[&coordinator], "waits", &lease);
        stubbed.runs();
        coordinator.says(Says::Page(500, String::new()));
        assert_eq!((stubbed.code(), stubbed.noted("told")), (71, 1));
    }
}

#[test]
fn stubs_end_who_does_not_hear() {
    for stub in stubs() {
        let coordinator = FakeCoordinator::start(yes());
        let mut stubbed = stub(&[&coordinator], "deaf", &[SHORT_GRACE]);
        stubbed.runs();
        coordinator.says(Says::No { epoch: 3 });
        assert_eq!((stubbed.code(), stubbed.noted("told")), (72, 1));
    }
}

#[test]
fn the_python_stub_counts_steps() {
    if is_there("python3") {
        let coordinator = FakeCoordinator::start(yes());
        let stubbed = python(&[&coordinator], "waits", &[]);
        stubbed.runs();
        eventually("the steps", || {
            let counts = |poll: &support::Request| poll.target.ends_with("&progress=5");
            coordinator.polls().iter().any(counts).then_some(())
        });
    }
}

// ---------------------------------------------------------------- the wordcount in Python

/// What `wc` would say.
fn counts(text: &str) -> String {
    let (lines, words) = (text.matches('\n').count(), text.split_ascii_whitespace().count());
    format!(r#"{{"lines": {lines}, "words": {words}, "bytes": {}}}"#, text.len())
}

#[test]
fn the_wordcount_in_python_counts_every_byte_once_however_it_is_killed() {
    if !is_there("python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("input"), folder.path().join("output"));
    let text: String = (0..60_000).map(|nth| format!("line {nth} of\tsome  words\n")).collect();
    std::fs::write(&input, &text).unwrap();
    let program = examples().join("wordcount.py");
    let shown = [&program, &input, &output].map(|path| path.to_str().unwrap());
    let [program, input, output] = shown;
    let command = ["python3", program, "--input", input, "--output", output];

    // The fake coordinator keeps checkpoints by execution id, so the next container has the same one.
    let coordinator = FakeCoordinator::start(yes());
    let coordinators = [&coordinator];
    let start = |pause| {
        Start::with_agent(&coordinators)
            .with(("STEADFAST_TASK_INDEX", "0"))
            .with(("STEADFAST_TASK_COUNT", "1"))
            .with(("PAUSE", pause))
            .command(&command)
    };
    let mut killed = start("0.15");
    eventually("a checkpoint", || coordinator.checkpoint_of(&killed.id));
    killed.signal(Signal::KILL);
    killed.status();
    eventually("the program's end", || killed.living().is_empty().then_some(()));
    let part = folder.path().join("output/part-0.json");
    assert!(!part.exists(), "it was killed on the way");

    let next = start("0");
    let (outcome, _) = next.agent().waits_for_the_end();
    assert_eq!(outcome, steadfast_model::Outcome::Exited { code: 0 });
    assert_eq!(std::fs::read_to_string(part).unwrap().trim(), counts(&text));
    let has_started = |message: &WrapperMessage| matches!(message, WrapperMessage::Started { .. });
    assert!(next.agent().heard.lock().unwrap().iter().any(has_started));
}
