//! The library inside a program, against a coordinator that says what a test wants.

mod support;

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

use steadfast_model::{FencingToken, InvalidReason, LeaseTerms, ValidatorKind};
use steadfast_validator::{Killable, Outcome, Settings, Validator, Watch, WatchError};
use support::{
    FakeCoordinator, SECRET, SHORT_GRACE, SHORT_LEASE, Says, environment, eventually, yes,
};

const LONG: LeaseTerms = LeaseTerms { lease_ms: 30_000, grace_ms: 5_000, schedule_ms: 50 };
/// Stops after 6,000 − 4,000 − 220 = 1,780 ms. The grace is long: a busy machine must not let the deadline
/// end this test process.
const SHORT: LeaseTerms = LeaseTerms { lease_ms: 6_000, grace_ms: 4_000, schedule_ms: 50 };
/// Over, the kill included, before the one above comes to its stop.
const SHORTER: LeaseTerms = LeaseTerms { lease_ms: 1_500, grace_ms: 300, schedule_ms: 50 };

/// Counts, and says when it was told.
struct RunLoop {
    told: Mutex<Sender<()>>,
    times: AtomicU32,
}

impl RunLoop {
    fn new() -> (Arc<Self>, Receiver<()>) {
        let (sender, told) = mpsc::channel();
        (Arc::new(Self { told: Mutex::new(sender), times: AtomicU32::new(0) }), told)
    }
}

impl Killable for RunLoop {
    fn shutdown(&self) {
        self.times.fetch_add(1, Ordering::SeqCst);
        self.told.lock().unwrap().send(()).unwrap();
    }
}

fn validator(coordinator: &FakeCoordinator, lease: LeaseTerms) -> Validator {
    Validator::new(Settings {
        execution_resource_id: coordinator.id.parse().unwrap(),
        secret: SECRET.into(),
        coordinators: vec![coordinator.url.clone()],
        lease,
        validator_enabled: true,
        validator: ValidatorKind::Library,
    })
}

fn watch(coordinator: &FakeCoordinator, lease: LeaseTerms) -> (Watch, Arc<RunLoop>, Receiver<()>) {
    let (run_loop, told) = RunLoop::new();
    let watch = validator(coordinator, lease).watch(Arc::clone(&run_loop)).unwrap();
    (watch, run_loop, told)
}

#[test]
fn told_invalid_the_outcome_stands_before_the_loop_is_told_and_it_is_told_once() {
    let coordinator = FakeCoordinator::start(yes());
    let (watch, run_loop, told) = watch(&coordinator, LONG);
    assert_eq!(watch.outcome(), None);
    assert_eq!(watch.fencing_token(), Some(FencingToken::new(7)));
    coordinator.says(Says::No { epoch: 3 });
    told.recv().unwrap();
    let invalid = Outcome::Invalid(InvalidReason::Superseded);
    assert_eq!(watch.outcome(), Some(invalid), "a fast loop cannot exit with 0");
    assert_eq!(watch.finish(), invalid);
    assert_eq!(invalid.exit_code(), 70);
    assert_eq!(run_loop.times.load(Ordering::SeqCst), 1);
}

#[test]
fn without_a_yes_the_lease_runs_out() {
    let coordinator = FakeCoordinator::start(yes());
    let (watch, run_loop, told) = watch(&coordinator, SHORT);
    coordinator.says(Says::Page(500, String::new()));
    told.recv().unwrap();
    assert_eq!(watch.finish(), Outcome::LeaseExpired);
    assert_eq!(Outcome::LeaseExpired.exit_code(), 71);
    assert_eq!(run_loop.times.load(Ordering::SeqCst), 1);
}

#[test]
fn a_finished_program_is_left_alone() {
    let coordinator = FakeCoordinator::start(yes());
    let (watch, run_loop, told) = watch(&coordinator, SHORTER);
    assert_eq!(watch.finish(), Outcome::Finished);
    eventually("no thread holds the loop", || (Arc::strong_count(&run_loop) == 1).then_some(()));
    assert!(told.try_recv().is_err());
    // Its deadline would have ended this process by the time that another lease runs out.
    let other = FakeCoordinator::start(yes());
    let (watch, _, told) = self::watch(&other, SHORT);
    other.says(Says::Nothing);
    told.recv().unwrap();
    watch.finish();
}

#[test]
fn no_yes_no_start() {
    let coordinator = FakeCoordinator::start(Says::Page(503, String::new()));
    let (run_loop, _told) = RunLoop::new();
    let error = validator(&coordinator, SHORT).watch(run_loop).unwrap_err();
    assert!(matches!(error, WatchError::NoYes(_)), "{error}");
    assert_eq!(error.exit_code(), 73);
    assert!(coordinator.polls().len() > 1);
}

#[test]
fn told_invalid_at_the_first_question_there_is_nothing_to_watch() {
    let coordinator = FakeCoordinator::start(Says::No { epoch: 3 });
    let (run_loop, _told) = RunLoop::new();
    let error = validator(&coordinator, LONG).watch(run_loop).unwrap_err();
    assert!(matches!(error, WatchError::Invalid(InvalidReason::Superseded)), "{error}");
    assert_eq!(error.exit_code(), 70);
}

#[test]
fn questions_carry_the_steps_that_the_loop_has_done() {
    let coordinator = FakeCoordinator::start(yes());
    let (watch, _run_loop, _told) = watch(&coordinator, LONG);
    let progress = watch.progress();
    for _ in 0..41 {
        progress.step();
    }
    std::thread::spawn({
        let progress = progress.clone();
        move || progress.step()
    })
    .join()
    .unwrap();
    eventually("a question with all of them", || {
        coordinator.polls().iter().any(|poll| poll.target.ends_with("&progress=42")).then_some(())
    });
    assert_eq!(watch.finish(), Outcome::Finished);
}

/// Set for the process that [`a_loop_that_does_not_end_is_ended_with_its_process`] starts.
const STUCK: &str = "VALIDATOR_TEST_STUCK";

/// A program that goes on for ever, when it runs as the process of the test below: its shutdown blocks,
/// or is not heard by its loop, or panics.
#[test]
fn stuck_program() {
    struct Stuck(String);
    impl Killable for Stuck {
        fn shutdown(&self) {
            match self.0.as_str() {
                "blocks" => park(),
                "panics" => panic!("on purpose"),
                _ => {}
            }
        }
    }
    if let Ok(how) = std::env::var(STUCK) {
        let _watch = Validator::from_env().unwrap().watch(Stuck(how)).unwrap();
        park();
    }
}

fn park() {
    loop {
        std::thread::park();
    }
}

#[test]
fn a_loop_that_does_not_end_is_ended_with_its_process() {
    for (how, then) in [
        ("blocks", Says::Nothing),
        ("blocks", Says::No { epoch: 3 }),
        ("ignores", Says::No { epoch: 3 }),
        ("panics", Says::No { epoch: 3 }),
    ] {
        let coordinator = FakeCoordinator::start(yes());
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stuck_program", "--nocapture"])
            .env(STUCK, how)
            .envs(environment(&[&coordinator]))
            .envs([SHORT_LEASE, SHORT_GRACE])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        eventually("a second question", || (coordinator.polls().len() > 1).then_some(()));
        coordinator.says(then);
        let status = eventually("the process's end", || process.try_wait().unwrap());
        assert_eq!(status.code(), Some(72), "{how}");
    }
}
