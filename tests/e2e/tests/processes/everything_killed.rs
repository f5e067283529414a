//! Everything is killed at once, and started again on the same folder: what was acknowledged is there.

use steadfast_e2e::{Cluster, Evaluation, JobStatus, PATIENCE, Signal, wait_until};

const RATE: u32 = 25;

#[test]
fn jobs_ledger_history_and_checkpoints_survive_the_end_of_everything() {
    let mut cluster = Cluster::start(3, 4);
    // One job for the history, and one that has been recovered once and is in the middle.
    let (ended, ended_output) = cluster.submit(0);
    let history = cluster.wait_until_finished(&ended, &ended_output);
    let (id, output) = cluster.submit(RATE);
    let job = cluster.wait_until_runs(&id, 1);
    let lost = cluster.host_of(&job);
    cluster.process(lost.pid).signal(Signal::KILL);
    let before = cluster.wait_until_runs(&id, 2);
    assert_eq!(before.label().recovery_attempt_count, 1);

    cluster.kill_everything();
    cluster.start_again();

    let kept = cluster.rest().job(&ended);
    assert_eq!(kept.job_status, JobStatus::Finished);
    assert_eq!(kept.dirty_task.get(), history.dirty_task.get());
    assert!(cluster.rest().finished_jobs().iter().any(|job| job.job_id == ended));
    let now = cluster.rest().job(&id);
    assert!(now.label().recovery_attempt_count >= 1, "the count never falls: {now:#?}");
    assert!(now.label().tracking_complete, "and is still known: {now:#?}");

    // The members of before are lost, and the job is recovered once more.
    let finished = cluster.wait_until_finished(&id, &output);
    let label = finished.label();
    assert_eq!((label.recovery_attempt_count, label.recovery_episode_count), (2, 2), "{label:?}");
    assert_eq!(label.evaluation_status, Evaluation::Dirty, "{label:?}");
    // The two others fell together: two incidents, and one recovery.
    assert_eq!(label.member_loss_incident_count, 3, "{label:?}");
    let attempts: Vec<u32> = output.starts(0).iter().map(|run| run.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
}

/// `dev` alone is killed, so that it can stop nobody: the next one on the folder ends what it left
/// behind, and the job goes on from its checkpoints.
#[test]
fn the_next_dev_takes_over_what_a_killed_one_left_behind() {
    let mut cluster = Cluster::start(2, 4);
    let (id, output) = cluster.submit(RATE);
    cluster.wait_until_runs(&id, 1);
    cluster.dev().signal(Signal::KILL);
    cluster.dev_ended();
    let left = cluster.processes();
    assert!(!left.is_empty(), "nobody has told them to end");

    cluster.start_again();
    wait_until(PATIENCE, "what was left behind to be adopted or to end", || {
        let job = cluster.rest().job_now(&id)?;
        let members = cluster.present_members();
        (members.len() == 2
            && job.task_groups().all(|group| {
                members.iter().any(|member| Some(&member.uuid) == group.member_uuid.as_ref())
            }))
        .then_some(())
    });
    cluster.wait_until_finished(&id, &output);
}
