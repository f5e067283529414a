//! Jobs with a lease of 4 s instead of 15 s, for tests in which it has to run out.

use steadfast_e2e::{Cluster, Output};

/// Submits a job that counts like the example, at this many lines a second and task group.
#[track_caller]
pub fn submit_count(cluster: &Cluster, rate: u32) -> (String, Output) {
    let output = Output::new(cluster.folder().join("short-lease"));
    let (input, rate) = (cluster.input().display().to_string(), rate.to_string());
    let folder = output.path().display().to_string();
    let command = ["wordcount", "--input", &input, "--output", &folder, "--rate", &rate];
    (submit(cluster, &command, 4), output)
}

/// Submits a job of this many task groups that run the command.
#[track_caller]
pub fn submit(cluster: &Cluster, command: &[&str], parallelism: u32) -> String {
    let text = format!(
        r#"env {{
             job.name = "short-lease", job.mode = "BATCH", job.retry.times = 10
             job.dirty-task.threshold = 2
             job.container.validator.schedule.ms = 500
             job.container.lease.ms = 4000
             job.container.shutdown.grace.ms = 1000
           }}
           pipelines = [{{ name = "p", tasks = [{{
             name = "t", parallelism = {parallelism}, command = {command:?}
           }}] }}]"#
    );
    cluster.submit_text("short-lease.conf", &text)
}
