//! An agent is killed, and its machine lives: the containers are told that they are no longer valid, and
//! end whatever their programs make of that.

use steadfast_e2e::{Cluster, Container, Detector, Lease, Manner, Signal};

use super::wait_until_gone;

/// Each with what its wrapper says in the end.
const MANNERS: [(Manner, &str); 4] = [
    (Manner::Polite, "killed: false"),
    (Manner::Catches, "killed: true"),
    (Manner::Ignores, "killed: true"),
    (Manner::LeavesADescendant, "killed: false"),
];

#[test]
fn every_container_of_a_killed_agent_ends_however_its_program_takes_the_shutdown() {
    let cluster = Cluster::start(2, 8);
    let jobs = MANNERS.map(|(manner, _)| Detector::submit(&cluster, 2, manner, Lease::SHORT));
    let before = [0, 1, 2, 3].map(|at: usize| {
        let job = cluster.wait_until_runs(&jobs[at].0, 1);
        Container::all(&cluster, &job)
    });
    let members = cluster.present_members();
    let lost = members.iter().find(|one| one.uuid == before[0][0].member_uuid).expect("it runs");

    cluster.process(lost.pid).signal(Signal::KILL);
    for (((id, detector), containers), (manner, end)) in jobs.iter().zip(&before).zip(MANNERS) {
        let orphans: Vec<&Container> =
            containers.iter().filter(|one| one.member_uuid == lost.uuid).collect();
        assert!(!orphans.is_empty(), "each job is on both members: {containers:#?}");
        let again = cluster.wait_until_runs(id, 2);
        let said = orphans.iter().map(|one| wait_until_gone(&cluster, one));
        let said: Vec<String> = said.map(|said| said.expect("its wrapper has lived").0).collect();
        detector.assert_one_at_a_time();
        for said in said {
            assert!(said.contains("Invalid(MemberLost)"), "{manner:?}: {said}");
            assert!(said.contains(end), "{manner:?}: {said}");
        }
        assert_eq!(
            (again.counts.member_loss, again.counts.ladder, again.counts.program),
            (1, 0, 0)
        );
    }
    for (id, detector) in &jobs {
        assert_eq!(detector.finish(&cluster, id).label().recovery_attempt_count, 1);
    }
}
