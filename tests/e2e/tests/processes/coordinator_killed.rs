//! The coordinator is killed: `dev` starts it again on its directory, and nobody else notices.

use steadfast_e2e::{Cluster, Job, PATIENCE, Process, Signal, wait_until};

const RATE: u32 = 25;

#[test]
fn no_container_is_restarted_and_the_counts_go_on() {
    let cluster = Cluster::start(3, 4);
    let (id, output) = cluster.submit(RATE);
    let before = cluster.wait_until_runs(&id, 1);
    kill_twice_whoever_leads(&cluster, &id, &before);
    assert_eq!(cluster.present_members().len(), 3, "nobody is lost");

    let finished = cluster.wait_until_finished(&id, &output);
    let counts = &finished.counts;
    assert_eq!((counts.member_loss, counts.program, counts.ladder), (0, 0, 0));
    assert_eq!(finished.label().recovery_attempt_count, 0);
    for index in 0..4 {
        assert_eq!(output.starts(index).len(), 1, "task index {index} was started once");
    }
}

/// Nobody who runs as in `before` is restarted by it.
#[track_caller]
pub fn kill_twice_whoever_leads(cluster: &Cluster, id: &str, before: &Job) {
    let programs = programs(cluster, before);
    for _ in 0..2 {
        let epoch = cluster.rest().overview().coordinator.epoch;
        let old = cluster.coordinator();
        old.signal(Signal::KILL);
        let now = cluster.wait_until_led_again(old);
        assert!(now > epoch, "a new term: {now} after {epoch}");
        let after = cluster.wait_until_runs(id, 1);
        assert_eq!(after.containers(), before.containers(), "adopted, not restarted");
        assert!(programs.iter().all(|program| program.is_alive()));
    }
}

/// The coordinator is stopped before the agent is killed, so it cannot have seen the loss: whoever
/// comes after it has to find it, and count it once.
#[test]
fn a_loss_that_nobody_saw_is_found_by_the_next_coordinator_and_counted_once() {
    let cluster = Cluster::start(3, 4);
    let (id, output) = cluster.submit(RATE);
    let before = cluster.wait_until_runs(&id, 1);
    let lost = cluster.host_of(&before);
    let agent = cluster.process(lost.pid);
    let old = cluster.coordinator();
    old.signal(Signal::STOP);
    agent.signal(Signal::KILL);
    old.signal(Signal::KILL);

    cluster.wait_until_led_again(old);
    let again = cluster.wait_until_runs(&id, 2);
    cluster.wait_until_lost(&lost);
    // And once more, now that it is written down.
    let old = cluster.coordinator();
    old.signal(Signal::KILL);
    cluster.wait_until_led_again(old);
    assert_eq!(cluster.wait_until_runs(&id, 2).containers(), again.containers());

    let finished = cluster.wait_until_finished(&id, &output);
    assert_counted_once(&finished, &lost.uuid);
}

/// Killed while it may be anywhere in the walk that a loss starts: before it, in it, behind it.
#[test]
fn a_loss_in_the_coordinators_last_moments_is_counted_once() {
    let cluster = Cluster::start(3, 4);
    let (id, output) = cluster.submit(RATE);
    let before = cluster.wait_until_runs(&id, 1);
    let lost = cluster.host_of(&before);
    let (agent, old) = (cluster.process(lost.pid), cluster.coordinator());
    agent.signal(Signal::KILL);
    wait_until(PATIENCE, "the coordinator to notice", || {
        let members = cluster.rest().members_now()?;
        let alive = members.iter().filter(|one| one.status == steadfast_e2e::MemberStatus::Alive);
        (alive.count() < 3).then_some(())
    });
    old.signal(Signal::KILL);

    cluster.wait_until_led_again(old);
    cluster.wait_until_runs(&id, 2);
    let finished = cluster.wait_until_finished(&id, &output);
    assert_counted_once(&finished, &lost.uuid);
}

#[track_caller]
fn assert_counted_once(finished: &Job, lost: &str) {
    let label = finished.label();
    assert_eq!(label.member_loss_incident_count, 1, "{label:?}");
    assert_eq!(label.recovery_episode_count, 1, "{label:?}");
    assert_eq!(label.recovery_attempt_count, 1, "{label:?}");
    assert_eq!(label.last_lost_member_uuid.as_deref(), Some(lost), "{label:?}");
    assert_eq!((finished.counts.member_loss, finished.counts.program), (1, 0));
}

fn programs(cluster: &Cluster, job: &Job) -> Vec<Process> {
    job.containers().iter().map(|(_, pid)| cluster.process(*pid)).collect()
}
