//! The wrapper, which is to end the container, is itself stopped or killed, alone or with its agent.

use steadfast_e2e::{
    Cluster, Container, Detector, Job, Lease, Manner, PATIENCE, Process, Signal, Who, is_root,
    wait_until,
};

use super::{assert_story_says, wait_until_gone};

struct Scene {
    cluster: Cluster,
    id: String,
    detector: Detector,
    hurt: Container,
    agent: Process,
}

/// A job that runs on two members, with a container to hurt.
fn scene(manner: Manner) -> Scene {
    let cluster = Cluster::start(2, 4);
    let (id, detector) = Detector::submit(&cluster, 2, manner, Lease::SHORT);
    let before = cluster.wait_until_runs(&id, 1);
    let hurt = Container::all(&cluster, &before).swap_remove(0);
    let members = cluster.present_members();
    let member = members.iter().find(|one| one.uuid == hurt.member_uuid).expect("it runs there");
    let agent = cluster.process(member.pid);
    if manner == Manner::LeavesADescendant {
        wait_until(PATIENCE, "the descendant to live", || {
            detector.beats_of(&hurt.id).iter().any(|one| one.who == Who::Descendant).then_some(())
        });
    }
    Scene { cluster, id, detector, hurt, agent }
}

impl Scene {
    /// Waits until nothing that the container ran is left, though its wrapper may be.
    #[track_caller]
    fn wait_until_programs_are_gone(&self) {
        wait_until(PATIENCE, "the end of program and descendants", || {
            self.hurt.programs(&self.cluster).is_empty().then_some(())
        });
    }

    #[track_caller]
    fn runs_again(&self) -> Job {
        self.cluster.wait_until_runs(&self.id, 2)
    }
}

#[test]
fn a_stopped_wrappers_program_ends_with_the_lease_and_the_wrapper_says_so_when_it_is_continued() {
    let scene = scene(Manner::LeavesADescendant);
    scene.hurt.wrapper.signal(Signal::STOP);
    scene.wait_until_programs_are_gone();
    // Its agent ends it too where nobody does this.
    scene.hurt.wrapper.try_signal(Signal::CONT);
    let again = scene.runs_again();
    let said = wait_until_gone(&scene.cluster, &scene.hurt).expect("it was continued").0;
    assert!(said.contains("LeaseExpired") && said.contains("killed: true"), "{said}");
    assert_eq!((again.counts.member_loss, again.counts.program, again.counts.ladder), (0, 0, 1));
    assert_story_says(&scene.cluster, &scene.id, "killed by its validator: LeaseExpired");
    scene.detector.finish(&scene.cluster, &scene.id);
}

#[test]
fn a_wrapper_that_stays_stopped_is_ended_by_its_agent_and_stands_in_nobodys_way() {
    let scene = scene(Manner::Ignores);
    scene.hurt.wrapper.signal(Signal::STOP);
    let again = scene.runs_again();
    assert_eq!(wait_until_gone(&scene.cluster, &scene.hurt), None, "it was never continued");
    assert_eq!((again.counts.member_loss, again.counts.program + again.counts.ladder), (0, 1));
    assert!(scene.agent.is_alive());
    scene.detector.finish(&scene.cluster, &scene.id);
}

#[test]
fn a_killed_wrapper_takes_its_program_and_what_that_left_behind_with_it() {
    let scene = scene(Manner::LeavesADescendant);
    scene.hurt.wrapper.signal(Signal::KILL);
    let again = scene.runs_again();
    assert_eq!(wait_until_gone(&scene.cluster, &scene.hurt), None, "it was killed");
    assert_eq!((again.counts.member_loss, again.counts.program, again.counts.ladder), (0, 1, 0));
    scene.detector.finish(&scene.cluster, &scene.id);
}

/// Nobody is left who could prove anything, so the lease has to run out. Without a pid namespace, which
/// takes root, a descendant that left the group would live on: one of the limits that the design states.
#[test]
fn with_wrapper_and_agent_killed_together_nothing_lives_on_beside_the_replacement() {
    let scene = scene(if is_root() { Manner::LeavesADescendant } else { Manner::Ignores });
    scene.agent.signal(Signal::STOP); // so that it cannot act between the two
    scene.hurt.wrapper.signal(Signal::KILL);
    scene.agent.signal(Signal::KILL);
    scene.wait_until_programs_are_gone();
    let again = scene.runs_again();
    assert_eq!(wait_until_gone(&scene.cluster, &scene.hurt), None, "it was killed");
    assert_eq!((again.counts.member_loss, again.counts.program, again.counts.ladder), (1, 0, 0));
    scene.detector.finish(&scene.cluster, &scene.id);
}
