//! A program is stopped (SIGSTOP) and cannot hear anything. Its wrapper can.

use serde_json::json;
use steadfast_e2e::{Cluster, Container, Detector, Lease, Manner, PATIENCE, Signal, wait_until};

use super::{assert_story_says, wait_until_gone};

/// It is of no use, but it is nobody's zombie: the lease goes on, and the stop is shown.
#[test]
fn a_stopped_program_whose_wrapper_is_heard_is_shown_as_stalled_and_goes_on_when_it_is_continued() {
    let cluster = Cluster::start(2, 2);
    let more = json!({ "task.progress.timeout.ms": 1_000 });
    let (id, detector) = Detector::submit_in(&cluster, 2, Manner::Polite, Lease::SHORT, &[], more);
    let before = cluster.wait_until_runs(&id, 1);
    let [stopped, _] = &Container::all(&cluster, &before)[..] else { panic!("{before:#?}") };

    stopped.signal_programs(&cluster, Signal::STOP);
    let lines = detector.beats_of(&stopped.id).len();
    let is_stalled = |job: &steadfast_e2e::Job| {
        let mut groups = job.task_groups();
        groups.any(|one| one.stalled && one.execution_resource_id.as_ref() == Some(&stopped.id))
    };
    cluster.rest().wait_for_job(&id, "the stopped program is STALLED", is_stalled);
    // Beyond what its last "yes" before the stop was worth, by its neighbour's lines.
    let neighbour = |detector: &Detector| {
        let beats = detector.beats().into_values().flatten();
        beats.filter(|beat| beat.id != stopped.id).map(|beat| beat.boottime_ms).max()
    };
    let since = neighbour(&detector).expect("it runs");
    wait_until(PATIENCE, "the lease of before the stop to be over", || {
        (neighbour(&detector)? > since + Lease::SHORT.lease_ms).then_some(())
    });
    assert!(stopped.program.is_stopped(), "nobody has continued it");
    assert!(detector.beats_of(&stopped.id).len() <= lines + 1, "it does nothing");

    stopped.signal_programs(&cluster, Signal::CONT);
    cluster.rest().wait_for_job(&id, "it gets on again", |job| !is_stalled(job));
    assert_eq!(cluster.rest().job(&id).containers(), before.containers(), "nothing is restarted");
    let finished = detector.finish(&cluster, &id);
    let counts = &finished.counts;
    assert_eq!((counts.member_loss, counts.program, counts.ladder), (0, 0, 0));
}

/// Nobody says "yes" any more: the others end themselves, and what is stopped is killed without being
/// continued first.
#[test]
fn a_stopped_program_is_killed_by_its_wrapper_when_its_lease_ends() {
    let cluster = Cluster::start(2, 2);
    let (id, detector) = Detector::submit(&cluster, 2, Manner::Polite, Lease::SHORT);
    let before = cluster.wait_until_runs(&id, 1);
    let [stopped, running] = &Container::all(&cluster, &before)[..] else { panic!("{before:#?}") };
    let coordinator = cluster.coordinator();

    coordinator.signal(Signal::STOP);
    stopped.signal_programs(&cluster, Signal::STOP);
    let lines = detector.beats_of(&stopped.id).len();
    for (container, end) in [(stopped, "killed: true"), (running, "killed: false")] {
        let said = wait_until_gone(&cluster, container).expect("its wrapper has lived").0;
        assert!(said.contains("LeaseExpired") && said.contains(end), "{said}");
    }
    assert!(detector.beats_of(&stopped.id).len() <= lines + 1, "never continued");

    coordinator.signal(Signal::CONT);
    let again = cluster.wait_until_runs(&id, 2);
    assert_eq!((again.counts.member_loss, again.counts.program, again.counts.ladder), (0, 0, 1));
    assert_story_says(&cluster, &id, "by its validator: LeaseExpired");
    detector.finish(&cluster, &id);
}
