//! `submit` and `stop`, as scripts use them.

use steadfast_e2e::{Cluster, JobStatus, PATIENCE, Process, wait_until};

const RATE: u32 = 10;

/// The shape of 07: `--detach --json` prints the POST's answer, on one line, and nothing else.
#[test]
fn submit_prints_exactly_the_answer_of_the_post() {
    let cluster = Cluster::start(1, 2);
    let file = cluster.folder().join("job.json");
    let text = r#"{"env": {"job.name": "sleeper"},
        "pipelines": [{"name": "p", "tasks": [{"name": "t", "command": ["sleep", "600"]}]}]}"#;
    std::fs::write(&file, text).expect("the cluster's folder can be written");
    let posted = cluster.rest().post("/submit-job", "application/json", text.as_bytes());
    assert_eq!(posted.status, 200, "{posted:?}");
    let posted_id = posted.json()["jobId"].as_str().expect("an id is a string").to_owned();

    let mut submit = cluster.steadfast(["submit", "--detach", "--json"]);
    let finished = cluster.run(submit.arg(&file));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let answer: serde_json::Value = serde_json::from_str(&finished.stdout).expect("it is JSON");
    let id = answer["jobId"].as_str().expect("an id is a string");
    assert_eq!(finished.stdout, format!("{}\n", posted.body.replace(&posted_id, id)));
    let running: Vec<String> =
        cluster.rest().running_jobs().into_iter().map(|job| job.job_id).collect();
    assert_eq!(running, [id, &posted_id], "newest first");
}

#[test]
fn a_stopped_job_ends_canceled_with_its_containers() {
    let cluster = Cluster::start(2, 4);
    let (mut command, output) = cluster.submit_command(RATE, &[]);
    let mut submit = cluster.spawn(&mut command);
    let id = wait_until(PATIENCE, "the job to be listed", || {
        Some(cluster.rest().running_jobs().first()?.job_id.clone())
    });
    let job = cluster.wait_until_runs(&id, 1);
    let programs: Vec<Process> =
        job.containers().iter().map(|(_, pid)| cluster.process(*pid)).collect();

    let stopped = cluster.run(&mut cluster.steadfast(["stop", &id]));
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    let ended = submit.finish(PATIENCE);
    assert_eq!(ended.code, Some(3), "cancelled: {ended:?}");
    let job = cluster.rest().job(&id);
    assert_eq!(job.job_status, JobStatus::Canceled, "{job:#?}");
    assert!(programs.iter().all(|program| !program.is_alive()), "its programs are gone");
    assert!(cluster.rest().running_jobs().is_empty());
    output.assert_no_overlap();

    let again = cluster.run(&mut cluster.steadfast(["stop", &id]));
    assert!(again.stdout.contains("CANCELED"), "it says so: {again:?}");
    let unknown = cluster.rest().post("/stop-job", "application/json", br#"{"jobId": "12345"}"#);
    assert_eq!(unknown.status, 404, "{unknown:?}");
}

#[test]
fn submit_waits_and_ends_with_the_jobs_exit_code() {
    let cluster = Cluster::start(2, 4);
    let (mut command, output) = cluster.submit_command(0, &[]);
    let finished = cluster.run(&mut command);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(output.sum(), cluster.expected());

    let file = cluster.folder().join("fails.conf");
    let text = r#"env { job.name = "fails", job.retry.times = 0 }
        pipelines = [{ name = "p", tasks = [{ name = "t", command = ["false"] }] }]"#;
    std::fs::write(&file, text).expect("the cluster's folder can be written");
    let failed = cluster.run(cluster.steadfast(["submit"]).arg(&file));
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let jobs = cluster.rest().finished_jobs();
    let job = cluster.rest().job(&jobs[0].job_id);
    assert_eq!(job.job_status, JobStatus::Failed);
    assert!(job.error_msg.is_some_and(|why| why.contains("code 1")), "it says why");
}
