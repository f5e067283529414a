//! A program is killed, as by a bug of its own: an ordinary failure, restored and not counted.

use steadfast_e2e::{Cluster, Evaluation, Signal};

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

    let metrics = cluster.rest().get("/metrics").expect("the coordinator lives").body;
    let restored = r#"steadfast_restore_duration_seconds_count{cause="program"} 1"#;
    assert!(metrics.contains(restored), "{metrics}");

    let finished = cluster.wait_until_finished(&id, &output);
    let label = finished.label();
    assert_eq!(label.evaluation_status, Evaluation::Clean);
    assert_eq!((label.member_loss_incident_count, label.recovery_episode_count), (0, 0));
    assert_eq!(label.recovery_attempt_count, 0);
    assert!(cluster.rest().episodes(&id).is_empty());
    assert_eq!(cluster.present_members().len(), 2, "no member was to blame");
}
