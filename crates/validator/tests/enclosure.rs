//! What the system lets a wrapper enclose its program in: a pid namespace and a cgroup, or neither. Each
//! promise is tried in both; the second is had by running as nobody. Without root there is only the
//! second, and a test of the namespace says so and has nothing to show.

mod support;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Signal, geteuid};
use steadfast_api::{AgentMessage, WrapperMessage};
use steadfast_model::{InvalidReason, Outcome, Proof, StopCause};
use support::wrapped::{DEAF, GOES_ON, Start, Wrapped, assert_ended, ended, signal_to};
use support::{FakeCoordinator, SHORT_GRACE, SHORT_LEASE, Says, eventually, runs, yes};

const NOBODY: Vec<u32> = Vec::new();

/// Everything that a program does to get away: a session of its own, a double fork, deaf ears, a
/// grandchild without the container's environment, one that is stopped, and one in the group. Each
/// writes its pid.
const ESCAPES: &str = "
    setsid sh -c 'echo $$ > session; exec sleep 1000' &
    (setsid sh -c 'trap \"\" TERM HUP; echo $$ > deaf; while :; do sleep 0.05; done' &)
    (setsid env -i sh -c 'trap \"\" TERM; echo $$ > nameless; while :; do sleep 0.05; done' &)
    setsid sh -c 'echo $$ > stopped; kill -STOP $$' &
    sleep 1000 & echo $! > group
    for name in session deaf nameless stopped group; do
        while ! [ -s $name ]; do sleep 0.01; done
    done
    echo $$ > pid";

fn both<'a>(coordinators: &'a [&'a FakeCoordinator]) -> [Start<'a>; 2] {
    [Start::with_agent(coordinators), Start::with_agent(coordinators).unprivileged()]
}

/// Whether the system lets root make a pid namespace, which a container that is itself confined may not.
fn namespaces_are_to_be_had() -> bool {
    let made = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "true"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if geteuid().is_root() && made() {
        return true;
    }
    // Not by the macro: a message that the test harness holds back explains nothing.
    let why = b"not shown: no pid namespace is to be had here (it takes root)\n";
    std::io::stderr().write_all(why).unwrap();
    false
}

/// All that lives in the pid namespace of this process, in this test's numbering.
fn inhabitants(init: u32) -> Vec<u32> {
    let namespace = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let Some(wanted) = namespace(init) else { return NOBODY };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| namespace(*pid).as_ref() == Some(&wanted)).collect()
}

fn enclosed(wrapped: &Wrapped) -> (Option<PathBuf>, Option<u32>) {
    wrapped.agent().waits_for("the enclosure", |message| match message {
        WrapperMessage::Enclosed { cgroup, init_pid } => {
            Some((cgroup.clone().map(PathBuf::from), *init_pid))
        }
        _ => None,
    })
}

fn leave(wrapped: &mut Wrapped) -> i32 {
    wrapped.agent().tell(&AgentMessage::EndSeen);
    wrapped.code()
}

#[test]
fn nobody_escapes_the_programs_own_end() {
    let coordinator = FakeCoordinator::start(yes());
    for start in both(&[&coordinator]) {
        let mut wrapped = start.with(SHORT_GRACE).sh(&format!("{ESCAPES}; exit 3"));
        let end = wrapped.agent().waits_for_the_end();
        assert_eq!(end, (Outcome::Exited { code: 3 }, Proof::NoChildLeft));
        assert_eq!(wrapped.living(), NOBODY);
        assert_eq!(leave(&mut wrapped), 3);
    }
}

#[test]
fn nobody_escapes_a_stop() {
    let coordinator = FakeCoordinator::start(yes());
    for start in both(&[&coordinator]) {
        let mut wrapped = start
            .with(SHORT_GRACE)
            .sh(&format!("{ESCAPES}; trap 'exit 0' TERM; while :; do sleep 0.02; done"));
        let all = eventually("all of them", || {
            wrapped.path("pid").exists().then(|| wrapped.living()).filter(|all| all.len() > 3)
        });
        let reason = InvalidReason::Canceled;
        wrapped.agent().tell(&AgentMessage::Stop { reason, grace_ms: 300 });
        let (outcome, proof) = wrapped.agent().waits_for_the_end();
        assert_eq!((outcome, proof), (ended(StopCause::Told(reason), true), Proof::NoChildLeft));
        assert!(all.iter().all(|pid| !runs(*pid)));
        assert_eq!(wrapped.living(), NOBODY);
        assert_eq!(leave(&mut wrapped), 72);
    }
}

#[test]
fn a_stopped_program_past_its_lease_is_killed_and_never_continued() {
    for nth in 0..2 {
        let coordinator = FakeCoordinator::start(yes());
        let coordinators = [&coordinator];
        let [first, second] = both(&coordinators);
        let start = if nth == 0 { first } else { second };
        let script =
            "trap 'echo woken > woken' TERM CONT; echo $$ > pid; while :; do sleep 0.02; done";
        let mut wrapped = start.with(SHORT_LEASE).with(SHORT_GRACE).sh(script);
        let pid = wrapped.pid("pid");
        signal_to(pid, Signal::STOP);
        coordinator.says(Says::Nothing);
        let (outcome, _) = wrapped.agent().waits_for_the_end();
        assert_eq!(outcome, ended(StopCause::LeaseExpired, true));
        assert!(!runs(pid) && !wrapped.path("woken").exists());
        assert_eq!(leave(&mut wrapped), 72);
    }
}

#[test]
fn the_program_dies_with_its_wrapper() {
    let coordinator = FakeCoordinator::start(yes());
    for start in both(&[&coordinator]) {
        let mut wrapped = start.sh(DEAF);
        let pid = wrapped.pid("pid");
        wrapped.signal(Signal::KILL);
        wrapped.status();
        eventually("the program's end", || (!runs(pid)).then_some(()));
    }
}

#[test]
fn a_program_sees_itself_as_it_would_without_a_wrapper() {
    let coordinator = FakeCoordinator::start(yes());
    for start in both(&[&coordinator]) {
        // Its own entry in /proc is its own, it is no first process (a signal without a handler ends it),
        // and it leads its group.
        let script = r#"
            read name < /proc/$$/comm
            [ "$name" = sh ] && [ $$ -ne 1 ] || exit 1
            read pid comm state parent group rest < /proc/self/stat
            [ "$group" = $$ ] || exit 2
            kill -TERM $$; exit 4"#;
        let mut wrapped = start.sh(script);
        assert_eq!(wrapped.agent().waits_for_the_end().0, Outcome::Signaled { signal: 15 });
        assert_eq!(leave(&mut wrapped), 143);
    }
}

#[test]
fn where_nothing_can_be_had_nothing_is_said_about_it() {
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped = Start::with_agent(&[&coordinator]).unprivileged().sh("exit 0");
    wrapped.agent().waits_for_the_end();
    let is_about_walls =
        |message: &WrapperMessage| matches!(message, WrapperMessage::Enclosed { .. });
    assert!(
        !wrapped.agent().heard.lock().unwrap().iter().any(is_about_walls) || !geteuid().is_root()
    );
    assert_eq!(leave(&mut wrapped), 0);
}

// ---------------------------------------------------------------- the namespace

#[test]
fn with_the_wrapper_killed_and_the_agent_dead_nothing_lives_on() {
    if !namespaces_are_to_be_had() {
        return;
    }
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped =
        Start::with_agent(&[&coordinator]).sh(&format!("{ESCAPES}; while :; do sleep 0.05; done"));
    wrapped.pid("pid");
    let init = enclosed(&wrapped).1.expect("root gets a namespace");
    // The nameless one is only to be found in here.
    let all = inhabitants(init);
    assert!(all.len() >= 7, "{all:?}");
    wrapped.signal(Signal::KILL);
    wrapped.agent().dies();
    wrapped.status();
    eventually("their end", || all.iter().all(|pid| !runs(*pid)).then_some(()));
}

#[test]
fn with_the_wrapper_stopped_and_the_agent_dead_the_lease_ends_it() {
    if !namespaces_are_to_be_had() {
        return;
    }
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped = Start::with_agent(&[&coordinator])
        .with(SHORT_LEASE)
        .with(SHORT_GRACE)
        .sh(&format!("{ESCAPES}; while :; do sleep 0.05; done"));
    wrapped.pid("pid");
    let init = enclosed(&wrapped).1.expect("root gets a namespace");
    let mut all = inhabitants(init);
    // The last to go: the kernel has it wait until the wrapper, its program's parent, can reap.
    all.retain(|pid| *pid != init);
    wrapped.signal(Signal::STOP);
    wrapped.agent().dies();
    eventually("their end", || all.iter().all(|pid| !runs(*pid)).then_some(()));
    // It wakes to find that the lease has ended the program.
    wrapped.signal(Signal::CONT);
    assert_eq!(wrapped.code(), 72);
    assert_ended(&coordinator, ended(StopCause::LeaseExpired, true));
}

#[test]
fn nobody_outruns_the_end_of_a_namespace() {
    if !namespaces_are_to_be_had() {
        return;
    }
    let coordinator = FakeCoordinator::start(yes());
    // Each one starts its successor and ends, so that a look at it is a look at nobody.
    let script = r#"
        echo 'echo >> alive; setsid sh runner & exit' > runner
        sh runner; while ! [ -s alive ]; do sleep 0.01; done
        exit 3"#;
    let mut wrapped = Start::with_agent(&[&coordinator]).with(SHORT_GRACE).sh(script);
    let end = wrapped.agent().waits_for_the_end();
    assert_eq!(end, (Outcome::Exited { code: 3 }, Proof::NoChildLeft));
    assert_eq!(wrapped.living(), NOBODY);
    assert_eq!(leave(&mut wrapped), 3);
}

#[test]
fn an_init_that_was_stopped_hears_of_extensions_before_it_judges() {
    if !namespaces_are_to_be_had() {
        return;
    }
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped = Start::with_agent(&[&coordinator])
        .with(("STEADFAST_LEASE_MS", "3000"))
        .with(SHORT_GRACE)
        .sh(GOES_ON);
    let pid = wrapped.pid("pid");
    let init = enclosed(&wrapped).1.expect("root gets a namespace");
    signal_to(init, Signal::STOP);
    let stopped_at = coordinator.polls().len();
    // 3,000 ms of lease, a question each 100 ms or more: the deadline that it knows has passed.
    eventually("a whole lease", || (coordinator.polls().len() > stopped_at + 35).then_some(()));
    signal_to(init, Signal::CONT);
    let woken_at = coordinator.polls().len();
    eventually("some more", || (coordinator.polls().len() > woken_at + 3).then_some(()));
    assert!(runs(pid), "it was extended meanwhile");
    wrapped.signal(Signal::TERM);
    wrapped.agent().waits_for_the_end();
    leave(&mut wrapped);
}

#[test]
fn pids_are_the_hosts() {
    if !namespaces_are_to_be_had() {
        return;
    }
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped = Start::with_agent(&[&coordinator]).sh(GOES_ON);
    let pid = wrapped.agent().waits_for("the start", |message| match message {
        WrapperMessage::Started { pid, .. } => Some(*pid),
        _ => None,
    });
    assert_eq!(pid, wrapped.pid("pid"));
    let inner: u32 = std::fs::read_to_string(wrapped.path("pid")).unwrap().trim().parse().unwrap();
    assert_ne!(pid, inner, "it has another name inside");
    wrapped.signal(Signal::TERM);
    wrapped.agent().waits_for_the_end();
    leave(&mut wrapped);
}

// ---------------------------------------------------------------- the cgroup

#[test]
fn a_cgroup_holds_the_program_and_not_the_wrapper_and_goes_with_it() {
    let coordinator = FakeCoordinator::start(yes());
    let mut wrapped = Start::with_agent(&[&coordinator]).with(SHORT_GRACE).sh(DEAF);
    let pid = wrapped.pid("pid");
    let is_told = |message: &WrapperMessage| {
        matches!(message, WrapperMessage::Enclosed { cgroup: Some(_), .. })
    };
    // The start is told after the enclosure.
    wrapped.agent().waits_for("the start", |message| {
        matches!(message, WrapperMessage::Started { .. }).then_some(())
    });
    if wrapped.agent().heard.lock().unwrap().iter().any(is_told) {
        let folder = enclosed(&wrapped).0.unwrap();
        let inside = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap();
        let inside: Vec<&str> = inside.lines().collect();
        assert!(inside.contains(&&*pid.to_string()), "{inside:?}");
        assert!(!inside.contains(&&*wrapped.child.id().to_string()), "{inside:?}");
        // Somebody else's hand, and the wrapper proves the end as ever.
        std::fs::write(folder.join("cgroup.kill"), "1").unwrap();
        let end = wrapped.agent().waits_for_the_end();
        assert_eq!(end, (Outcome::Signaled { signal: 9 }, Proof::NoChildLeft));
        eventually("the cgroup's end", || (!folder.exists()).then_some(()));
        leave(&mut wrapped);
    }
}
