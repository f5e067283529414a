//! A program that lives and does not get on: it is marked, told of when that begins and when it is over,
//! and not touched.

use steadfast_e2e::{Cluster, PATIENCE, wait_until};

/// One step, then none until somebody lets it go on.
const SCRIPT: &str = r#"printf . >&"$STEADFAST_PROGRESS_FD"
    while ! [ -e "$GO" ]; do sleep 0.1; done
    while :; do printf . >&"$STEADFAST_PROGRESS_FD"; sleep 0.1; done"#;

#[test]
fn a_stall_is_told_when_it_begins_and_when_it_ends_and_ends_nobody() {
    let cluster = Cluster::start(1, 1);
    let go = cluster.folder().join("go");
    let job = serde_json::json!({
        "env": {"job.name": "hangs", "job.container.validator.schedule.ms": 100},
        "pipelines": [{"name": "p", "tasks": [{
            "name": "t", "command": ["bash", "-c", SCRIPT], "task.progress.timeout.ms": 500,
            "environment": {"GO": go},
        }]}],
    });
    let id = cluster.submit_text("job.json", &job.to_string());
    let before = cluster.wait_until_runs(&id, 1);
    let metric = |name: &str| {
        let told = cluster.rest().get("/metrics")?.body;
        told.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok())
    };
    let log = || {
        let path = cluster.data().join("log/coordinator.log");
        std::fs::read_to_string(path).unwrap_or_default()
    };
    wait_until(PATIENCE, "the stall to be counted", || {
        (metric("steadfast_stalls_total") == Some(1.0)).then_some(())
    });
    assert!(log().contains("STALLED: a container is heard"), "the log says so");
    assert_eq!(metric("steadfast_stalled_containers"), Some(1.0));
    std::fs::write(go, "").expect("the cluster's folder can be written");
    let told = wait_until(PATIENCE, "the end of the stall to be told", || {
        let story = cluster.rest().explain(&id);
        story.into_iter().find(|one| one.text.contains("gets on again after it was STALLED"))
    });
    assert!(told.text.contains("task group 1 of pipeline 1"), "{told:?}");
    assert!(log().contains("a container is STALLED no longer"), "the log says so");
    assert_eq!(metric("steadfast_stalled_containers"), Some(0.0));
    let after = cluster.rest().job(&id);
    assert_eq!(after.containers(), before.containers(), "nothing was ended for it");
}
