//! A coordinator on one machine whose disk cannot be written, or has no room: a clear error, and nothing
//! acknowledged is lost.
//!
//! The disk is a small file system in memory, mounted where nobody but that one process sees it; it goes
//! with the process. That takes root, and without root the test says so.

#![expect(clippy::print_stderr, reason = "a test that shows nothing has to say so")]

use std::path::Path;
use std::process::Command;

use serde_json::json;
use steadfast_e2e::{Cluster, PATIENCE, Rest, Running, Signal, binary, is_root, wait_until};

/// Room for the store and a good hundred jobs.
const ROOM: &str = "size=1m";

#[test]
fn a_coordinator_on_a_folder_that_cannot_be_written_ends_and_names_it() {
    let Some(cluster) = cluster() else { return };
    let folder = cluster.new_folder("read-only");
    let ended = cluster.spawn(&mut coordinator(&cluster, &folder, "ro")).finish(PATIENCE);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let (path, why) = (folder.to_string_lossy(), "Read-only file system");
    assert!(ended.stderr.contains(&*path) && ended.stderr.contains(why), "{ended:?}");
}

#[test]
fn a_full_disk_is_a_clear_error_and_what_was_acknowledged_is_there_and_then_it_goes_on() {
    let Some(cluster) = cluster() else { return };
    let folder = cluster.new_folder("full");
    let process = cluster.spawn(&mut coordinator(&cluster, &folder, ROOM));
    let rest = wait_until_ready(&process, 0);
    let mut acknowledged = Vec::new();
    let refused = loop {
        assert!(acknowledged.len() < 5_000, "the disk does not come to its end");
        match submit(&rest) {
            Ok(id) => acknowledged.push(id),
            Err(refused) => break refused,
        }
    };
    assert!(refused.contains("full"), "{refused}");
    assert!(acknowledged.len() > 10, "there was room for these: {acknowledged:?}");
    for id in &acknowledged {
        assert_eq!(rest.job(id).job_id, *id);
    }

    let pid = process.pid().to_string();
    let mut grow = Command::new("nsenter");
    grow.args(["--mount", "--target", &pid, "mount", "-o", "remount,size=16m"]).arg(&folder);
    let grown = grow.output().expect("`nsenter` is needed (Debian: util-linux)");
    assert!(grown.status.success(), "{grown:?}");
    acknowledged.push(wait_until(PATIENCE, "a job to be taken again", || submit(&rest).ok()));
    cluster.process(rest.overview().coordinator.pid).signal(Signal::KILL);
    let again = wait_until_ready(&process, 1);
    for id in &acknowledged {
        assert_eq!(again.job(id).job_id, *id, "it is on the disk");
    }
}

/// One whose folder and mark the coordinators of these tests use.
#[track_caller]
fn cluster() -> Option<Cluster> {
    if !is_root() {
        eprintln!("not root: nothing can be mounted, so no disk is hurt and nothing is shown");
        return None;
    }
    Some(Cluster::start(1, 1))
}

/// One more coordinator, on a store of its own in a file system of its own, and once it has ended another one
/// there.
fn coordinator(cluster: &Cluster, folder: &Path, options: &str) -> Command {
    const MOUNT: &str = r#"mount -t tmpfs -o "$0" none "$1" && shift && "$@"; exec "$@""#;
    let mut command = cluster.command("unshare".as_ref(), ["--mount", "sh", "-c", MOUNT, options]);
    command.arg(folder).arg(binary("steadfast")).args(["coordinator", "--http", "127.0.0.1:0"]);
    command.arg("--store").arg(format!("embedded:{}", folder.join("store").display()));
    command
}

#[track_caller]
fn wait_until_ready(process: &Running, nth: usize) -> Rest {
    wait_until(PATIENCE, "the coordinator to be ready", || {
        let said = process.stdout();
        let url = said.split("coordinator at ").nth(nth + 1)?.split([',', ' ']).next()?;
        Some(Rest::new(url)).filter(Rest::is_ready)
    })
}

/// A job that waits for members that there are none of; its id, or what was answered instead.
#[track_caller]
fn submit(rest: &Rest) -> Result<String, String> {
    let job = json!({
        "env": { "job.name": "waits", "job.mode": "BATCH" },
        "pipelines": [{ "name": "p", "tasks": [{ "name": "t", "command": ["true"] }] }],
    });
    let answer = rest.try_post("/submit-job", "application/json", job.to_string().as_bytes());
    let answer = answer.ok_or("no answer")?;
    if answer.status != 200 {
        return Err(format!("{} {}", answer.status, answer.body));
    }
    Ok(answer.json()["jobId"].as_str().expect("the answer to a job is its id").to_owned())
}
