//! `/metrics` of a real coordinator.

use crate::server::{Server, credentials, token};
use steadfast_coordinator::Role;

/// The value that stands behind this name and these labels.
fn value(server: &Server, name: &str) -> Option<f64> {
    let told = server.get("/metrics", Some(&token(Role::Reader)));
    assert_eq!(told.status, 200, "{told:?}");
    assert!(
        told.has_header("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{told:?}"
    );
    assert!(told.body.ends_with("# EOF\n"), "{told:?}");
    told.body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn a_submitted_job_shows_and_its_commits_are_timed() {
    let server = Server::start(Some(credentials()));
    let read = |name: &str| value(&server, name).unwrap_or_else(|| panic!("{name} is not told"));
    assert_eq!(read("steadfast_leading"), 1.0);
    assert_eq!(read("steadfast_leadership_changes_total"), 1.0);
    assert_eq!(read(r#"steadfast_jobs{status="FINISHED"}"#), 0.0);
    let dirty = r#"steadfast_evaluations{value="CLEAN"}"#;
    assert_eq!(read(dirty), 0.0);
    let commits = read("steadfast_commit_latency_seconds_count");
    let job = r#"{"env": {"job.name": "j", "job.dirty-task.threshold": 2},
                  "pipelines": [{"name": "p", "tasks": [{"name": "t", "command": ["true"]}]}]}"#;
    assert_eq!(server.post("/submit-job", Some(&token(Role::Operator)), job).status, 200);
    assert_eq!(read(dirty), 1.0);
    assert!(read("steadfast_commit_latency_seconds_count") > commits);
    for name in [
        "steadfast_recovery_attempts",
        "steadfast_recovery_episodes",
        "steadfast_member_loss_incidents",
        "steadfast_leases_expired_total",
        "steadfast_fenced_writes_total",
        "steadfast_redundant_notifications_total",
        "steadfast_stalled_containers",
        "steadfast_watermark_lag",
        r#"steadfast_members{status="LOST"}"#,
        "steadfast_invalid_containers_that_called_total",
    ] {
        assert_eq!(read(name), 0.0, "{name}");
    }
}

#[test]
fn metrics_take_a_readers_token() {
    let server = Server::start(Some(credentials()));
    assert_eq!(server.get("/metrics", None).status, 401);
    assert_eq!(server.get("/metrics", Some(&token(Role::Member))).status, 403);
    assert_eq!(server.get("/metrics", Some(&token(Role::Operator))).status, 200);
}
