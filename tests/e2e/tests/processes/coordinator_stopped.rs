//! The coordinator is stopped for half a minute and continued, as by a laptop that was closed or a
//! machine that starved it. It was not listening meanwhile, so it has no right to call anybody silent:
//! whoever is there is given a full window, and whoever is not is found when that window is over.
//!
//! Containers hold a lease of a minute here: with the default of 15 s they would rightly end by
//! themselves, since nobody tells them that they may go on.

use std::time::{Duration, Instant};

use steadfast_e2e::{
    Cluster, Evaluation, LossCause, Member, MemberStatus, PATIENCE, Process, Signal, wait_until,
};

const STOPPED_FOR: Duration = Duration::from_secs(30);
/// `member.timeout.ms`, and the second that the promise adds.
pub const FOUND_WITHIN: Duration = Duration::from_secs(5 + 1);

#[test]
fn a_coordinator_that_slept_declares_nobody_lost() {
    let cluster = Cluster::start(3, 4);
    let id = submit(&cluster);
    let before = cluster.wait_until_runs(&id, 1);
    let (members, epoch) = (cluster.present_members(), cluster.rest().overview().coordinator.epoch);
    let coordinator = cluster.coordinator();

    coordinator.signal(Signal::STOP);
    let slept_until = sleeps(coordinator);
    coordinator.signal(Signal::CONT);

    // By the coordinator's own clock: as long as a member that is gone could go unnoticed.
    let heard_from = slept_until + u64::try_from(FOUND_WITHIN.as_millis()).expect("seconds");
    wait_until(PATIENCE, "every member to be heard after its window", || {
        let now = cluster.rest().members_now()?;
        let lost = now.iter().find(|member| member.status == MemberStatus::Lost);
        assert!(lost.is_none(), "declared lost by a coordinator that slept: {now:#?}");
        now.iter().all(|member| millis(&member.last_seen) > heard_from).then_some(())
    });
    assert_eq!(uuids(&cluster.present_members()), uuids(&members), "the same three");
    let overview = cluster.rest().overview();
    assert_eq!((overview.coordinator.epoch, overview.coordinator.pid), (epoch, coordinator.pid));
    let after = cluster.wait_until_runs(&id, 1);
    assert_eq!(after.containers(), before.containers(), "nothing was restarted");
    assert_eq!(after.dirty_task.get(), before.dirty_task.get(), "the counts stay");
    let counts = &after.counts;
    assert_eq!((counts.member_loss, counts.program, counts.ladder), (0, 0, 0));
}

#[test]
fn who_died_while_the_coordinator_slept_is_found_and_nobody_else() {
    let cluster = Cluster::start(3, 4);
    let id = submit(&cluster);
    let before = cluster.wait_until_runs(&id, 1);
    let lost = cluster.host_of(&before);
    let mut others = cluster.present_members();
    others.retain(|member| member.uuid != lost.uuid);
    let (coordinator, agent) = (cluster.coordinator(), cluster.process(lost.pid));

    coordinator.signal(Signal::STOP);
    agent.signal(Signal::KILL);
    let slept_until = sleeps(coordinator);
    coordinator.signal(Signal::CONT);

    cluster.wait_until_lost(&lost);
    let again = cluster.wait_until_runs(&id, 2);
    assert_eq!(uuids(&cluster.present_members()), uuids(&others), "and nobody else");
    let label = again.label();
    let incidents = (label.member_loss_incident_count, label.recovery_episode_count);
    assert_eq!((incidents, label.recovery_attempt_count), ((1, 1), 1), "{label:?}");
    assert_eq!(label.last_lost_member_uuid.as_ref(), Some(&lost.uuid));
    assert_eq!((label.evaluation_status, label.tracking_complete), (Evaluation::Clean, true));
    assert_eq!((again.counts.member_loss, again.counts.program, again.counts.ladder), (1, 0, 0));

    let episodes = cluster.rest().episodes(&id);
    let [episode] = &episodes[..] else { panic!("{episodes:#?}") };
    let [incident] = &episode.incidents[..] else { panic!("{episode:#?}") };
    assert_eq!(incident.member_uuid, lost.uuid);
    assert_eq!(incident.cause, LossCause::ConnectionClosed, "{incident:?}");
    // How fast is for the scenes to judge; the order is the coordinator's own word: it has declared the loss
    // after it woke, and deployed after that.
    assert!(millis(&incident.time) >= slept_until, "{incident:?} while it slept");
    let deployed = episode.attempts[0].confirmed_time.as_ref().expect("it runs again");
    assert!(millis(deployed) >= millis(&incident.time), "{episode:#?}");
}

/// Waits while the coordinator is stopped, and gives the moment until which it certainly was.
#[track_caller]
fn sleeps(coordinator: Process) -> u64 {
    wait_until(PATIENCE, "the coordinator to be stopped", || {
        coordinator.is_stopped().then_some(())
    });
    let since = Instant::now();
    wait_until(PATIENCE, "half a minute to pass", || {
        (since.elapsed() >= STOPPED_FOR).then_some(())
    });
    assert!(coordinator.is_stopped(), "it slept all the time");
    now_ms()
}

/// What the coordinator's clock shows: it is this machine's.
pub fn now_ms() -> u64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("it is later than 1970");
    u64::try_from(since.as_millis()).expect("and not very much later")
}

/// Milliseconds since 1970 of a time on the wire.
#[track_caller]
pub fn millis(time: &str) -> u64 {
    let instant: jiff::Timestamp = time.parse().unwrap_or_else(|error| panic!("{time}: {error}"));
    u64::try_from(instant.as_millisecond()).expect("later than 1970")
}

fn uuids(members: &[Member]) -> Vec<&str> {
    members.iter().map(|member| member.uuid.as_str()).collect()
}

#[track_caller]
fn submit(cluster: &Cluster) -> String {
    let text = r#"env {
        job.name = "long-lease", job.mode = "STREAMING", job.dirty-task.threshold = 2
        job.container.lease.ms = 60000
      }
      pipelines = [{ name = "p", tasks = [{ name = "t", parallelism = 4, command = ["sleep", "600"] }] }]"#;
    cluster.submit_text("long-lease.conf", text)
}
