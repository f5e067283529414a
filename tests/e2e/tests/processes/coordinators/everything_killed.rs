//! Coordinators, etcd nodes and agents are killed at once (`kill -9`) and started again: what was
//! acknowledged is there. What still lives of the containers is adopted, or ends at its lease.

use steadfast_e2e::{
    Cluster, Container, Detector, Etcd, Job, JobStatus, Lease, Manner, Member, PATIENCE, Process,
    Signal, wait_until,
};

use super::acknowledged::Writer;
use super::submit_sleeper;

/// Red where a checkpoint is acknowledged and not written.
#[test]
fn everything_but_the_containers_is_killed_at_once_and_what_was_acknowledged_is_there() {
    let mut etcd = Etcd::three();
    let mut cluster = Cluster::start_on_etcd(3, 4, 3, &etcd.urls());
    let (ended, ended_output) = cluster.submit(0);
    let history = cluster.wait_until_finished(&ended, &ended_output);
    let (id, detector) = Detector::submit(&cluster, 4, Manner::Polite, Lease::SHORT);
    let job = cluster.wait_until_runs(&id, 1);
    let lost = cluster.host_of(&job);
    cluster.process(lost.pid).signal(Signal::KILL);
    cluster.wait_until_lost(&lost);
    let before = cluster.wait_until_runs(&id, 2);
    let sleeper = submit_sleeper(&cluster);
    let sleeping = cluster.wait_until_runs(&sleeper, 1);
    let mut containers = Container::all(&cluster, &before);
    let writer = Writer::start(cluster.rest(), &Container::all(&cluster, &sleeping)[0]);
    writer.wait_for_more();

    // Stopped first, so that none of them sees another one go; `dev` last, since the end of whoever
    // started it wakes what is stopped.
    let agents = cluster.present_members();
    let mut killed: Vec<Process> = agents.iter().map(|agent| cluster.process(agent.pid)).collect();
    killed.extend(cluster.coordinator_processes());
    killed.push(cluster.dev());
    assert_eq!(killed.len(), 2 + 3 + 1);
    etcd.stop_all();
    killed.iter().for_each(|process| process.signal(Signal::STOP));
    killed.iter().for_each(|process| process.signal(Signal::KILL));
    etcd.kill_all();
    let acknowledged = writer.finish();
    etcd.start_again();
    cluster.start_again();

    let kept = cluster.rest().job(&ended);
    assert_eq!(kept.job_status, JobStatus::Finished);
    assert_eq!(kept.dirty_task.get(), history.dirty_task.get(), "the history is the same");
    assert!(cluster.rest().finished_jobs().iter().any(|job| job.job_id == ended));
    let label = cluster.rest().job(&id).label();
    assert!(label.recovery_attempt_count >= 1, "the count never falls: {label:?}");
    assert!(label.tracking_complete, "and is still known: {label:?}");
    let again = cluster.rest().wait_for_job(&sleeper, "it runs again", |job| {
        job.runs(job.pipelines[0].attempt) && job.task_groups().all(|one| one.pid.is_some())
    });
    acknowledged.assert_is_there(cluster.rest(), &Container::all(&cluster, &again)[0]);

    let now = cluster.rest().wait_for_job(&id, "it runs again", |job| {
        job.runs(job.pipelines[0].attempt) && runs_on(&cluster.present_members(), job)
    });
    // Who is not among those that run now has ended, or does with its lease.
    containers.retain(|one| now.containers().iter().all(|(id, _)| *id != one.id));
    wait_until(PATIENCE, "the end of every other container", || {
        containers.iter().all(|one| one.is_gone(&cluster)).then_some(())
    });
    let finished = detector.finish(&cluster, &id);
    let label = finished.label();
    let restores = u64::from(finished.pipelines[0].restores);
    assert_eq!(finished.counts.program + finished.counts.ladder, 0, "{finished:#?}");
    assert_eq!(finished.counts.member_loss, restores, "{finished:#?}");
    assert_eq!(label.recovery_attempt_count, restores, "one for each deployment: {label:?}");
}

/// Whether every task group runs on one of these members.
fn runs_on(members: &[Member], job: &Job) -> bool {
    let is_one = |uuid: &Option<String>| members.iter().any(|one| Some(&one.uuid) == uuid.as_ref());
    job.task_groups().all(|group| is_one(&group.member_uuid))
}
