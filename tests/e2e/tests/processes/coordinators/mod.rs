//! Any coordinator and any etcd node may die, stop, sleep or be cut off: three coordinators, three etcd
//! nodes and the members as real processes, and each time an oracle outside of the product for what was
//! counted, who ran beside whom, and what was acknowledged.
//!
//! Which test shows which line of the design stands in `docs/acceptance.md`, "High availability".
//! `STEADFAST_E2E_LONG=1` makes outages as long as promised, and random rounds a hundred.

mod acknowledged;
mod cut_off;
mod damaged;
mod deposed;
mod etcd_away;
mod everything_killed;
mod leader_killed;
mod mixed_versions;
mod nodes_killed;
mod random_kills;
mod waiting_call;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use steadfast_e2e::{Cluster, Job, MemberStatus, PATIENCE, wait_until};

use crate::coordinator_stopped::{FOUND_WITHIN, millis, now_ms};

/// Waits until so long ago is past.
#[track_caller]
fn wait_until_past(since: Instant, pause: Duration) {
    wait_until(pause + PATIENCE, "an outage to pass", || (since.elapsed() >= pause).then_some(()));
}

/// Submits a job of one container that does nothing and holds its lease for long, so that its checkpoint
/// is the test's own.
#[track_caller]
fn submit_sleeper(cluster: &Cluster) -> String {
    let text = r#"env {
        job.name = "sleeper", job.mode = "STREAMING", job.container.lease.ms = 120000
      }
      pipelines = [{ name = "p", tasks = [{ name = "t", command = ["sleep", "3600"] }] }]"#;
    cluster.submit_text("sleeper.conf", text)
}

/// Waits as long as a member that is gone could go unnoticed, and checks that these are there and that
/// no other one was ever given up.
#[track_caller]
fn assert_nobody_is_lost(cluster: &Cluster, members: &BTreeSet<String>) {
    assert_nobody_else_is_lost(cluster, members);
    let now = cluster.rest().members();
    let lost = now.iter().find(|member| member.status == MemberStatus::Lost);
    assert!(lost.is_none(), "declared lost: {now:#?}");
}

/// Waits as long as a member that is gone could go unnoticed, and checks that these, and only these, are
/// there.
#[track_caller]
fn assert_nobody_else_is_lost(cluster: &Cluster, members: &BTreeSet<String>) {
    let from = now_ms() + u64::try_from(FOUND_WITHIN.as_millis()).expect("seconds");
    wait_until(PATIENCE, "every member to be heard after its window", || {
        let mut now = cluster.rest().members_now()?;
        now.retain(|member| members.contains(&member.uuid));
        let lost = now.iter().find(|member| member.status == MemberStatus::Lost);
        assert!(lost.is_none(), "declared lost: {now:#?}");
        now.iter().all(|member| millis(&member.last_seen) > from).then_some(())
    });
    assert_eq!(uuids(cluster), *members, "the same ones");
}

/// The members that are not lost.
#[track_caller]
fn uuids(cluster: &Cluster) -> BTreeSet<String> {
    cluster.present_members().into_iter().map(|member| member.uuid).collect()
}

/// Checks that a job has never been restored.
#[track_caller]
fn assert_was_left_alone(job: &Job) {
    let (label, counts) = (job.label(), &job.counts);
    assert_eq!((counts.member_loss, counts.program, counts.ladder), (0, 0, 0), "{job:#?}");
    assert_eq!(label.recovery_attempt_count, 0, "{label:?}");
    assert_eq!(label.member_loss_incident_count, 0, "{label:?}");
}
