//! A program that keeps its own lease loses the thread that asks for it, and nobody notices: neither its
//! wrapper, which is heard and has it run on, nor the coordinator. The lease that it keeps runs down.

use serde_json::json;
use steadfast_e2e::{
    Cluster, Container, Detector, Lease, Manner, PATIENCE, Signal, binary, wait_until,
};

use super::{assert_story_says, wait_until_gone};

#[test]
fn a_program_whose_poller_panics_ends_with_its_lease_or_is_ended() {
    let cluster = Cluster::start(2, 4);
    let program = binary("examples/poller_panics");
    let around = [program.to_str().expect("it has a plain name")];
    let library = || json!({ "validator": "library" });
    let jobs = [(Manner::Polite, 71), (Manner::Ignores, 72)].map(|(manner, code)| {
        let (id, detector) =
            Detector::submit_in(&cluster, 2, manner, Lease::SHORT, &around, library());
        (id, detector, code)
    });
    let before = [0, 1].map(|at: usize| {
        let job = cluster.wait_until_runs(&jobs[at].0, 1);
        Container::all(&cluster, &job)
    });

    // For a moment there is nobody who could give a verdict: the traps are sprung, and the wrappers go on.
    let old = cluster.coordinator();
    cluster.dev().signal(Signal::STOP);
    old.signal(Signal::KILL);
    wait_until(PATIENCE, "every poller to panic", || {
        let said = |one: &Container| one.said(&cluster, "stderr.log");
        before.iter().flatten().all(|one| said(one).contains("on purpose")).then_some(())
    });
    cluster.dev().signal(Signal::CONT);
    cluster.wait_until_led_again(old);
    for ((id, detector, code), containers) in jobs.iter().zip(&before) {
        let again = cluster.wait_until_runs(id, 2);
        let counts = &again.counts;
        assert_eq!((counts.member_loss, counts.program, counts.ladder), (0, 1, 0));
        for container in containers {
            wait_until_gone(&cluster, container);
        }
        assert_story_says(&cluster, id, &format!("the program exited with code {code}"));
        detector.finish(&cluster, id);
    }
}
