//! The wrapper against real processes and a coordinator that says what a test wants.
//!
//! What is asserted is order and outcome, never time; leases and graces are short only where a test
//! waits for their end. Programs are shell scripts, since what they do with signals and sessions is the
//! point. They run in whatever the system lets the wrapper enclose them; `enclosure.rs` has what depends
//! on that.

mod support;

use std::io::{Read, Write};
use std::process::Stdio;

use rustix::process::Signal;
use steadfast_api::{AgentMessage, WrapperMessage};
use steadfast_model::{InvalidReason, Outcome, Proof, StopCause};
use support::wrapped::{DEAF, GOES_ON, Start, assert_ended, ended, good_bye, signal_to};
use support::{FakeCoordinator, SECRET, SHORT_GRACE, SHORT_LEASE, Says, eventually, runs, yes};

const SUPERSEDED: InvalidReason = InvalidReason::Superseded;

// ---------------------------------------------------------------- before the start

#[test]
fn no_yes_no_start() {
    let unknown = FakeCoordinator::start(Says::Page(503, "{}".into()));
    let mut wrapped = Start::alone(&[&unknown]).with(SHORT_LEASE).with(SHORT_GRACE).sh("touch ran");
    assert_eq!(wrapped.code(), 73);
    assert!(!wrapped.path("ran").exists());
    assert!(unknown.polls().len() > 1, "it asked again and again");
    let end = good_bye(&unknown);
    assert!(matches!(end.outcome, Outcome::NotStarted { .. }), "{end:?}");
    assert_eq!(end.proof, Some(Proof::NeverStarted));
}

#[test]
fn nothing_but_a_yes_starts_a_program() {
    let garbage = "<html>It works!</html>".to_owned();
    let bare = r#"{"isValid":true}"#.to_owned();
    let redirect = Says::Page(307, String::new());
    for says in [
        Says::YesToSomebodyElse,
        Says::NoToSomebodyElse,
        Says::Page(200, garbage),
        Says::Page(200, bare),
        Says::Page(404, String::new()),
        Says::Page(500, String::new()),
        redirect,
        Says::Hangs,
    ] {
        let coordinator = FakeCoordinator::start(says.clone());
        let mut wrapped = Start::alone(&[&coordinator]).sh("touch ran");
        eventually("a second question", || (coordinator.polls().len() > 1).then_some(()));
        assert!(!wrapped.path("ran").exists(), "{says:?}");
        coordinator.says(yes());
        assert_eq!(wrapped.code(), 0, "a first yes may come late, after {says:?}");
        assert!(wrapped.path("ran").exists());
    }
}

#[test]
fn told_invalid_before_the_start_it_never_starts() {
    let coordinator = FakeCoordinator::start(Says::No { epoch: 3 });
    let mut wrapped = Start::alone(&[&coordinator]).sh("touch ran");
    assert_eq!(wrapped.code(), 70);
    assert!(!wrapped.path("ran").exists());
    let end = good_bye(&coordinator);
    assert_eq!(end.outcome, ended(StopCause::Invalid(SUPERSEDED), false));
    assert_eq!(end.proof, Some(Proof::NeverStarted));
    assert_eq!(coordinator.polls().len(), 1, "a no is final");
}

#[test]
fn an_agent_that_dies_before_the_start_starts_nothing() {
    let coordinator = FakeCoordinator::start(Says::Page(503, String::new()));
    let mut wrapped = Start::with_agent(&[&coordinator]).sh("touch ran");
    eventually("a question", || (!coordinator.polls().is_empty()).then_some(()));
    wrapped.agent().dies();
    assert_eq!(wrapped.code(), 73);
    assert!(!wrapped.path("ran").exists());
    assert!(matches!(good_bye(&coordinator).outcome, Outcome::NotStarted { .. }));
}

#[test]
fn a_command_that_cannot_be_started_says_what_was_tried() {
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped = Start::with_agent(&[&coordinator]).command(&["/no/such/program"]);
    let (outcome, proof) = wrapped.agent().waits_for_the_end();
    let Outcome::NotStarted { error } = outcome else { panic!("{outcome:?}") };
    assert!(error.contains("/no/such/program") && error.contains("os error 2"), "{error}");
    assert_eq!(proof, Proof::NeverStarted);
    wrapped.agent().tell(&AgentMessage::EndSeen);
    assert_eq!(wrapped.code(), 73);
}

#[test]
fn without_a_containers_environment_the_agent_is_told_what_is_missing() {
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped =
        Start::with_agent(&[&coordinator]).with(("STEADFAST_LEASE_MS", "soon")).sh("touch ran");
    let (outcome, _) = wrapped.agent().waits_for_the_end();
    let Outcome::NotStarted { error } = outcome else { panic!("{outcome:?}") };
    assert!(error.contains("STEADFAST_LEASE_MS"), "{error}");
    wrapped.agent().tell(&AgentMessage::EndSeen);
    assert_eq!(wrapped.code(), 73);
}

#[test]
fn disabled_it_asks_nobody() {
    let coordinator = FakeCoordinator::start(Says::No { epoch: 3 });
    let mut wrapped =
        Start::alone(&[&coordinator]).with(("STEADFAST_VALIDATOR_ENABLED", "false")).sh("exit 5");
    assert_eq!(wrapped.code(), 5);
    assert!(coordinator.polls().is_empty());
}

// ---------------------------------------------------------------- the program's own end

#[test]
fn the_programs_own_end_is_passed_on_and_told_apart_from_the_ladders() {
    let coordinator = |script: &str| {
        let coordinator = FakeCoordinator::start(yes());
        let code = Start::alone(&[&coordinator]).sh(script).code();
        (code, good_bye(&coordinator).outcome)
    };
    assert_eq!(coordinator("exit 0"), (0, Outcome::Exited { code: 0 }));
    // The ladder's own numbers, which sysexits(3) gives to programs too.
    for code in 70..=73 {
        assert_eq!(coordinator(&format!("exit {code}")), (code, Outcome::Exited { code }));
    }
    assert_eq!(coordinator("kill -KILL $$"), (137, Outcome::Signaled { signal: 9 }));
    assert_eq!(coordinator("kill -USR1 $$"), (138, Outcome::Signaled { signal: 10 }));
}

#[test]
fn an_end_that_leaves_nobody_behind_waits_for_no_grace() {
    // The grace is over long after this test has failed.
    let coordinator =
        FakeCoordinator::start(Says::Yes { lease_ms: 600_000, next_poll_ms: 250_000, epoch: 3 });
    let mut wrapped = Start::alone(&[&coordinator])
        .with(("STEADFAST_LEASE_MS", "600000"))
        .with(("STEADFAST_GRACE_MS", "60000"))
        .sh("exit 8");
    assert_eq!(wrapped.code(), 8);
}

#[test]
fn without_a_log_folder_output_is_untouched() {
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped = Start::alone(&[&coordinator]).sh("printf 'a\\000b'; exit 0");
    assert_eq!(wrapped.code(), 0);
    let mut out = Vec::new();
    wrapped.child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
    assert_eq!(out, b"a\0b");
}

#[test]
fn without_a_log_folder_a_megabyte_goes_through_a_filter_as_it_is() {
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped = Start::alone(&[&coordinator]).with_stdin(Stdio::piped()).sh("cat; exit 9");
    let sent: Vec<u8> = (0..1_000_003_u32).map(|nth| (nth % 251) as u8).collect();
    let mut stdin = wrapped.child.stdin.take().unwrap();
    let mut stdout = wrapped.child.stdout.take().unwrap();
    let feeder = std::thread::spawn({
        let sent = sent.clone();
        // Dropped at the end, which is how the program learns of it.
        move || stdin.write_all(&sent).unwrap()
    });
    let mut came = Vec::new();
    stdout.read_to_end(&mut came).unwrap();
    feeder.join().unwrap();
    assert!(came == sent, "{} bytes of {}", came.len(), sent.len());
    assert_eq!(wrapped.code(), 9);
}

#[test]
fn a_full_disk_loses_output_and_holds_up_nobody() {
    let coordinator = FakeCoordinator::start(yes());
    let script = "yes 0123456789abcde | head -c 3000000; echo heard >&2; exit 6";
    let mut wrapped = Start::with_agent(&[&coordinator]).with_full_disk("stdout.log").sh(script);
    assert_eq!(wrapped.agent().waits_for_the_end().0, Outcome::Exited { code: 6 });
    assert_eq!(std::fs::read(wrapped.path("stderr.log")).unwrap(), b"heard\n");
    wrapped.agent().tell(&AgentMessage::EndSeen);
    assert_eq!(wrapped.code(), 6);
}

#[test]
fn output_goes_to_files_that_rotate() {
    let coordinator = FakeCoordinator::start(yes());
    let script =
        "echo first; echo wrong >&2; yes 0123456789abcde | head -c 20000000; echo last; cat";
    let mut wrapped = Start::with_agent(&[&coordinator]).sh(script);
    let (outcome, _) = wrapped.agent().waits_for_the_end();
    assert_eq!(outcome, Outcome::Exited { code: 0 }, "its standard input is empty");
    let read = |name: &str| std::fs::read(wrapped.path(name)).unwrap();
    assert_eq!(read("stderr.log"), b"wrong\n");
    let names = std::fs::read_dir(wrapped.path("")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let aside: Vec<String> = names.filter(|name| name.starts_with("stdout.log.")).collect();
    assert_eq!(aside.len(), 1, "{aside:?}");
    let (now, earlier) = (read("stdout.log"), read(&aside[0]));
    assert_eq!(aside[0], format!("stdout.log.{}", 20_000_011 - now.len() - earlier.len()));
    assert!(now.ends_with(b"last\n"), "everything is there when the end is told");
    let limit = 8 * 1024 * 1024;
    assert!(now.len() <= limit && earlier.len() <= limit, "{} {}", now.len(), earlier.len());
    // 20,000,011 bytes in parts of almost 8 MiB: the third is open, the second is kept.
    assert!(earlier.len() > limit - 64 * 1024 - 1);
    wrapped.agent().tell(&AgentMessage::EndSeen);
    assert_eq!(wrapped.code(), 0);
}

#[test]
fn nothing_of_the_program_is_left_when_it_says_good_bye() {
    let coordinator = FakeCoordinator::start(yes());
    // One in a session of its own, one doubly forked and deaf, one more in the group; then it ends.
    let script = "
        setsid sh -c 'echo $$ > session; exec sleep 1000' &
        (setsid sh -c 'trap \"\" TERM HUP; echo $$ > deaf; while :; do sleep 0.05; done' &)
        sleep 1000 & echo $! > group
        while ! [ -s session ] || ! [ -s deaf ]; do sleep 0.01; done
        exit 3";
    let mut wrapped = Start::with_agent(&[&coordinator]).with(SHORT_GRACE).sh(script);
    let (outcome, proof) = wrapped.agent().waits_for_the_end();
    assert_eq!(wrapped.living(), Vec::<u32>::new());
    assert_eq!((outcome, proof), (Outcome::Exited { code: 3 }, Proof::NoChildLeft));
    wrapped.agent().tell(&AgentMessage::EndSeen);
    assert_eq!(wrapped.code(), 3);
}

// ---------------------------------------------------------------- the ladder

#[test]
fn told_invalid_it_shuts_down_in_time() {
    let coordinator = FakeCoordinator::start(yes());
    let script =
        "trap 'echo clean > cleaned; exit 0' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let mut wrapped = Start::alone(&[&coordinator]).sh(script);
    wrapped.pid("pid");
    coordinator.says(Says::No { epoch: 3 });
    assert_eq!(wrapped.code(), 70, "its own code was 0, and it is not believed");
    assert!(wrapped.path("cleaned").exists(), "SIGTERM came before SIGKILL");
    assert_ended(&coordinator, ended(StopCause::Invalid(SUPERSEDED), false));
}

#[test]
fn who_ignores_the_stop_is_killed() {
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped = Start::alone(&[&coordinator]).with(SHORT_GRACE).sh(DEAF);
    let pid = wrapped.pid("pid");
    coordinator.says(Says::No { epoch: 3 });
    assert_eq!(wrapped.code(), 72);
    assert!(!runs(pid));
    assert_ended(&coordinator, ended(StopCause::Invalid(SUPERSEDED), true));
}

#[test]
fn without_coordinators_the_lease_runs_out() {
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped = Start::alone(&[&coordinator]).with(SHORT_LEASE).with(SHORT_GRACE).sh(GOES_ON);
    let pid = wrapped.pid("pid");
    coordinator.says(Says::Nothing);
    let before = coordinator.polls().len();
    assert_eq!(wrapped.code(), 71);
    assert!(!runs(pid));
    assert!(coordinator.polls().len() > before + 1, "it asked until the end");
    assert_ended(&coordinator, ended(StopCause::LeaseExpired, false));
}

#[test]
fn no_answer_but_a_no_ends_a_healthy_program() {
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped = Start::alone(&[&coordinator]).sh(GOES_ON);
    let pid = wrapped.pid("pid");
    for says in [
        Says::Page(500, String::new()),
        Says::Page(200, r#"{"isValid":false}"#.into()),
        Says::NoToSomebodyElse,
        Says::No { epoch: 2 },
    ] {
        coordinator.says(says.clone());
        let heard =
            |says: &Says| coordinator.polls().iter().filter(|poll| poll.answered == *says).count();
        eventually("the answer was given", || (heard(&says) > 0).then_some(()));
        coordinator.says(yes());
        let before = heard(&yes());
        // Two more, so that the second was sent after the first was heard.
        eventually("it asks on", || (heard(&yes()) > before + 1).then_some(()));
        assert!(runs(pid), "{says:?}");
    }
    coordinator.says(Says::No { epoch: 3 });
    assert_eq!(wrapped.code(), 70);
}

#[test]
fn the_next_coordinator_is_asked_when_one_does_not_know() {
    let standby = FakeCoordinator::start(Says::Page(503, String::new()));
    let leader = FakeCoordinator::start(yes());
    let mut wrapped = Start::alone(&[&standby, &leader]).sh(GOES_ON);
    wrapped.pid("pid");
    assert_eq!(standby.polls().len(), 1, "whoever answered stays the first to be asked");
    leader.says(Says::Nothing);
    standby.says(Says::No { epoch: 4 });
    assert_eq!(wrapped.code(), 70);
}

#[test]
fn a_stopped_program_whose_lease_is_over_is_killed_and_never_continued() {
    let coordinator = FakeCoordinator::start(yes());
    // It would note its waking, by SIGCONT or by SIGTERM.
    let script =
        "trap 'echo woken > woken; exit 0' TERM CONT; echo $$ > pid; while :; do sleep 0.02; done";
    let mut wrapped = Start::alone(&[&coordinator]).with(SHORT_LEASE).with(SHORT_GRACE).sh(script);
    let pid = wrapped.pid("pid");
    signal_to(pid, Signal::STOP);
    coordinator.says(Says::Nothing);
    assert_eq!(wrapped.code(), 72);
    assert!(!wrapped.path("woken").exists());
    assert!(!runs(pid));
    assert_ended(&coordinator, ended(StopCause::LeaseExpired, true));
}

#[test]
fn a_wrapper_that_wakes_after_the_lease_kills_before_it_believes_anything() {
    let coordinator = FakeCoordinator::start(yes());
    let script =
        "trap 'echo late > gentle; exit 0' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let mut wrapped = Start::alone(&[&coordinator]).with(SHORT_LEASE).with(SHORT_GRACE).sh(script);
    wrapped.pid("pid");
    wrapped.signal(Signal::STOP);
    // The lease of the last answer is over when this one, sent later on the same clock, is.
    let over = boot_ms() + 1_500;
    eventually("the lease's end", || (boot_ms() > over).then_some(()));
    wrapped.signal(Signal::CONT);
    assert_eq!(wrapped.code(), 72);
    assert!(!wrapped.path("gentle").exists(), "no SIGTERM first: the time for it is over");
    assert_ended(&coordinator, ended(StopCause::LeaseExpired, true));
}

fn boot_ms() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap() * 1_000 + u64::try_from(time.tv_nsec).unwrap() / 1_000_000
}

#[test]
fn signals_to_the_wrapper_go_to_the_program_and_the_wrapper_stays_for_the_proof() {
    for (signal, number) in [
        (Signal::TERM, 15),
        (Signal::INT, 2),
        (Signal::HUP, 1),
        (Signal::QUIT, 3),
        (Signal::USR1, 10),
        (Signal::USR2, 12),
    ] {
        let coordinator = FakeCoordinator::start(yes());
        let mut wrapped = Start::alone(&[&coordinator]).sh(GOES_ON);
        let pid = wrapped.pid("pid");
        wrapped.signal(signal);
        assert_eq!(wrapped.code(), 128 + number);
        assert!(!runs(pid));
        assert_ended(&coordinator, Outcome::Signaled { signal: number });
    }
}

// ---------------------------------------------------------------- the agent

#[test]
fn the_agent_hears_the_start_each_extension_and_the_end() {
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped = Start::with_agent(&[&coordinator]).sh(GOES_ON);
    let agent = wrapped.agent();
    let before = boot_ms();
    let (pid, wrapper_pid) = agent.waits_for("the start", |message| match message {
        WrapperMessage::Started { pid, wrapper_pid } => Some((*pid, *wrapper_pid)),
        _ => None,
    });
    assert_eq!((pid, wrapper_pid), (wrapped.pid("pid"), wrapped.child.id()));
    let leases = || -> Vec<u64> {
        let until = |message: &WrapperMessage| match message {
            WrapperMessage::Lease { until_ms } => Some(*until_ms),
            _ => None,
        };
        agent.heard.lock().unwrap().iter().filter_map(until).collect()
    };
    eventually("three extensions", || (leases().len() >= 3).then_some(()));
    assert!(leases().is_sorted());
    assert!(leases()[2] <= boot_ms() + support::LEASE_MS, "counted from the sending");
    assert!(leases()[2] > before, "on the clock that both sides share");

    let reason = InvalidReason::Canceled;
    agent.tell(&AgentMessage::Stop { reason, grace_ms: 5_000 });
    assert_eq!(
        agent.waits_for_the_end(),
        (ended(StopCause::Told(reason), false), Proof::NoChildLeft)
    );
    assert!(!runs(pid));
    agent.tell(&AgentMessage::EndSeen);
    assert_eq!(wrapped.code(), 70);
    assert!(coordinator.good_byes().is_empty(), "the agent has taken note; that is enough");
}

#[test]
fn a_told_stop_has_the_grace_that_it_says() {
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped = Start::with_agent(&[&coordinator]).sh(DEAF);
    wrapped.pid("pid");
    wrapped.agent().tell(&AgentMessage::Stop { reason: InvalidReason::JobEnded, grace_ms: 0 });
    let (outcome, _) = wrapped.agent().waits_for_the_end();
    assert_eq!(outcome, ended(StopCause::Told(InvalidReason::JobEnded), true));
    wrapped.agent().tell(&AgentMessage::EndSeen);
    assert_eq!(wrapped.code(), 72);
}

#[test]
fn questions_say_that_the_program_runs() {
    let coordinator = FakeCoordinator::start(yes());
    let wrapped = Start::alone(&[&coordinator]).sh(GOES_ON);
    let (pid, wrapper_pid) = (wrapped.pid("pid"), wrapped.child.id());
    let polls = eventually("a second question", || {
        let polls = coordinator.polls();
        (polls.len() > 1).then_some(polls)
    });
    let path = format!("/isContainerValid?execution_resource_id={}&nonce=", wrapped.id);
    let state = format!("&state=started&pid={pid}&wrapperPid={wrapper_pid}&progress=0");
    assert!(polls[0].target.starts_with(&path) && !polls[0].target.contains("state"));
    assert!(polls[1].target.starts_with(&path) && polls[1].target.ends_with(&state));
    assert_eq!(polls[1].authorization, format!("Bearer {SECRET}"));
}

#[test]
fn questions_carry_the_steps_that_the_program_has_reported() {
    let coordinator = FakeCoordinator::start(yes());
    // More than a pipe holds: somebody reads it all the while.
    let script = r#"
        for step in 1 2 3; do printf . >&"$STEADFAST_PROGRESS_FD"; done
        head -c 1000000 /dev/zero >&"$STEADFAST_PROGRESS_FD"
        echo $$ > pid; exec sleep 1000"#;
    let mut wrapped = Start::alone(&[&coordinator]).sh(script);
    wrapped.pid("pid");
    let steps = |target: &str| -> Option<u64> {
        let (_, steps) = target.split_once("&progress=")?;
        Some(steps.parse().unwrap())
    };
    let all = || -> Vec<Option<u64>> {
        coordinator.polls().iter().map(|poll| steps(&poll.target)).collect()
    };
    eventually("all of them", || all().contains(&Some(1_000_003)).then_some(()));
    assert_eq!(all()[0], None, "there was no program to do any");
    assert!(all().is_sorted());
    wrapped.signal(Signal::TERM);
    assert_eq!(wrapped.code(), 143);
}

#[test]
fn a_program_with_the_library_inside_gets_no_sigterm_only_the_last_sigkill() {
    let coordinator = FakeCoordinator::start(yes());
    let script =
        "trap 'echo gentle > gentle; exit 0' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let mut wrapped = Start::alone(&[&coordinator])
        .with(("STEADFAST_VALIDATOR", "library"))
        .with(SHORT_GRACE)
        .sh(script);
    wrapped.pid("pid");
    coordinator.says(Says::No { epoch: 3 });
    assert_eq!(wrapped.code(), 72);
    assert!(!wrapped.path("gentle").exists());
    assert_ended(&coordinator, ended(StopCause::Invalid(SUPERSEDED), true));
}

#[test]
fn when_the_agent_dies_a_verdict_is_asked_for_at_once_and_the_program_lives_on() {
    // The next question would come long after this test has failed.
    let rarely = Says::Yes { lease_ms: 600_000, next_poll_ms: 250_000, epoch: 3 };
    let coordinator = FakeCoordinator::start(rarely);
    let mut wrapped = Start::with_agent(&[&coordinator])
        .with(("STEADFAST_LEASE_MS", "600000"))
        .with(("STEADFAST_GRACE_MS", "60000"))
        .sh(GOES_ON);
    let pid = wrapped.pid("pid");
    assert_eq!(coordinator.polls().len(), 1);
    wrapped.agent().dies();
    eventually("a question", || (coordinator.polls().len() == 2).then_some(()));
    assert!(runs(pid), "while a coordinator says yes");
    wrapped.signal(Signal::TERM);
    assert_eq!(wrapped.code(), 143);
    assert_ended(&coordinator, Outcome::Signaled { signal: 15 });
}

#[test]
fn when_the_agent_is_dead_the_good_bye_is_repeated_until_somebody_takes_note() {
    let coordinator = FakeCoordinator::start(yes());
    let other = FakeCoordinator::start(Says::Page(503, String::new()));
    coordinator.acknowledges_good_byes(false);
    other.acknowledges_good_byes(false);
    let mut wrapped = Start::with_agent(&[&coordinator, &other]).sh(GOES_ON);
    wrapped.pid("pid");
    wrapped.agent().dies();
    coordinator.says(Says::No { epoch: 3 });
    eventually("good-byes to both, again", || {
        (coordinator.good_byes().len() > 1 && other.good_byes().len() > 1).then_some(())
    });
    other.acknowledges_good_byes(true);
    assert_eq!(wrapped.code(), 70);
}

#[test]
fn an_agent_that_takes_no_note_does_not_keep_the_coordinator_from_knowing() {
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped = Start::with_agent(&[&coordinator]).sh("exit 4");
    // Connected, and silent as a stopped process is.
    assert_eq!(wrapped.agent().waits_for_the_end().0, Outcome::Exited { code: 4 });
    assert_eq!(wrapped.code(), 4);
    assert_ended(&coordinator, Outcome::Exited { code: 4 });
}
