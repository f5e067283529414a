//! `steadfast dev` as a command: what it ends with, what it leaves, and that a folder is one cluster's.

use std::fs;

use steadfast_e2e::{Cluster, Output, PATIENCE, Signal, wait_until};

#[test]
fn the_end_of_dev_is_the_end_of_everything_it_started() {
    let mut cluster = Cluster::start(2, 4);
    let (id, output) = cluster.submit(10);
    cluster.wait_until_runs(&id, 1);
    // As Ctrl-C does.
    cluster.dev().signal(Signal::INT);
    let ended = cluster.dev_ended();
    assert_eq!(cluster.processes(), [], "{ended:?}");
    output.assert_no_overlap();
}

#[test]
fn dev_with_submit_ends_with_the_jobs_exit_code() {
    for (command, code) in [("true", 0), ("false", 1), ("sleep 600", 3)] {
        let mut cluster = Cluster::launch(1, 1, |folder, dev| {
            let file = folder.join("job.conf");
            fs::write(&file, job(command)).expect("the cluster's folder can be written");
            dev.arg("--submit").arg(file);
        });
        if code == 3 {
            cluster.wait_until_ready();
            let id = wait_until(PATIENCE, "the job to be listed", || {
                Some(cluster.rest().running_jobs().first()?.job_id.clone())
            });
            let stopped = cluster.run(&mut cluster.steadfast(["stop", &id]));
            assert_eq!(stopped.code, Some(0), "{stopped:?}");
        }
        let ended = cluster.dev_ended();
        assert_eq!(ended.code, Some(code), "{command}: {ended:?}");
        assert_eq!(cluster.processes(), [], "{command}: {ended:?}");
    }
}

#[test]
fn dev_with_submit_counts_a_file_as_the_readme_promises() {
    let mut cluster = Cluster::launch(3, 4, |folder, dev| {
        let set = |name: &str, value: String| ["--set".to_owned(), format!("{name}={value}")];
        dev.arg("--submit").arg(steadfast_e2e::example_job());
        dev.args(set("INPUT", steadfast_e2e::input(folder).display().to_string()));
        dev.args(set("OUTPUT", folder.join("counts").display().to_string()));
    });
    let ended = cluster.dev_ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let output = Output::new(cluster.folder().join("counts"));
    assert_eq!(output.sum(), cluster.expected());
}

#[test]
fn a_second_coordinator_on_the_folder_is_refused() {
    let cluster = Cluster::start(1, 1);
    let before = cluster.rest().overview().coordinator;
    let data = cluster.data();
    let data = data.to_str().expect("temporary folders have plain names");
    let second =
        cluster.run(&mut cluster.steadfast(["dev", "--http", "127.0.0.1:0", "--data", data]));
    assert_eq!(second.code, Some(2), "{second:?}");
    assert!(second.stderr.contains(&cluster.dev().pid.to_string()), "it says who: {second:?}");

    let store = format!("embedded:{data}/store");
    let arguments = ["coordinator", "--http", "127.0.0.1:0", "--store", &store];
    let second = cluster.run(&mut cluster.steadfast(arguments));
    assert_eq!(second.code, Some(2), "{second:?}");
    assert!(second.stderr.contains(&before.pid.to_string()), "it says who: {second:?}");

    let after = cluster.rest().overview().coordinator;
    assert_eq!((after.pid, after.epoch), (before.pid, before.epoch), "the first is undisturbed");
    wait_until(PATIENCE, "its members to be alive", || {
        (cluster.rest().overview_now()?.members.alive == 1).then_some(())
    });
}

fn job(command: &str) -> String {
    let command: Vec<&str> = command.split(' ').collect();
    format!(
        r#"env {{ job.name = "one", job.mode = "BATCH", job.retry.times = 0 }}
           pipelines = [{{ name = "p", tasks = [{{ name = "t", command = {command:?} }}] }}]"#
    )
}
