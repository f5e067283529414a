//! A program is killed, as by a bug of its own: an ordinary failure, restored and not counted.

use std::fs;
use std::path::PathBuf;

use steadfast_e2e::{Cluster, Evaluation, Output, Signal};

const RATE: u32 = 25;

#[test]
fn a_killed_program_is_restored_and_not_counted() {
    let cluster = Cluster::start(2, 4);
    let (id, output) = cluster.submit(RATE);
    let before = cluster.wait_until_runs(&id, 1);
    let victim = before.task_groups().next().and_then(|group| group.pid).expect("it runs");

    cluster.process(victim).signal(Signal::KILL);
    let again = cluster.wait_until_runs(&id, 2);
    assert_eq!((again.counts.program, again.counts.member_loss, again.counts.ladder), (1, 0, 0));
    assert_eq!(again.pipelines[0].restores, 1);
    assert!(
        cluster.rest().explain(&id).iter().any(|one| one.text.contains("signal 9")),
        "the story says what ended the program"
    );

    let finished = cluster.wait_until_finished(&id, &output);
    let label = finished.label();
    assert_eq!(label.evaluation_status, Evaluation::Clean);
    assert_eq!((label.member_loss_incident_count, label.recovery_episode_count), (0, 0));
    assert_eq!(label.recovery_attempt_count, 0);
    assert!(cluster.rest().episodes(&id).is_empty());
    assert_eq!(cluster.present_members().len(), 2, "no member was to blame");
}

/// The example job with a lease of 4 s instead of 15 s, for tests in which it has to run out.
pub fn short_lease_job(cluster: &Cluster, rate: u32) -> (PathBuf, Output) {
    let output = Output::new(cluster.folder().join("short-lease"));
    let (input, folder) = (cluster.input(), output.path().to_owned());
    let text = format!(
        r#"env {{
             job.name = "short-lease", job.mode = "BATCH", job.retry.times = 10
             job.dirty-task.threshold = 2
             job.container.validator.schedule.ms = 500
             job.container.lease.ms = 4000
             job.container.shutdown.grace.ms = 1000
           }}
           pipelines = [{{ name = "count", tasks = [{{
             name = "counter", parallelism = 4
             command = ["wordcount", "--input", "{}", "--output", "{}", "--rate", "{rate}"]
           }}] }}]"#,
        input.display(),
        folder.display(),
    );
    let file = cluster.folder().join("short-lease.conf");
    fs::write(&file, text).expect("the cluster's folder can be written");
    (file, output)
}
