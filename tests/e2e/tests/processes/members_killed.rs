//! Two agents are killed, one after the other: the job goes on without counting a word twice, and says
//! how often that happened.

use steadfast_e2e::{
    AttemptOutcome, Cluster, EpisodeStatus, Evaluation, Job, JobStatus, LossCause, Member, Rest,
    Signal,
};

/// Lines a second and task group: the file takes 25 s, long enough for two losses.
const RATE: u32 = 20;

#[test]
fn two_kills_are_two_attempts_and_every_word_is_counted_once() {
    let cluster = Cluster::start(4, 3);
    let (id, output) = cluster.submit(RATE);
    let before = cluster.wait_until_runs(&id, 1);
    assert_eq!(before.task_groups().count(), 4);
    assert_label(&before, 0, Evaluation::Clean, None);

    let first = cluster.host_of(&before);
    cluster.process(first.pid).signal(Signal::KILL);
    let once = runs_again(&cluster, &id, 2);
    let moved = once.containers().iter().filter(|one| !before.containers().contains(one)).count();
    assert_eq!(moved, 4, "a pipeline is restored as a whole");
    assert_label(&once, 1, Evaluation::Clean, Some(&first));
    assert_eq!(once.counts.member_loss, 1);
    cluster.wait_until_lost(&first);

    let second = cluster.host_of(&once);
    cluster.process(second.pid).signal(Signal::KILL);
    let twice = runs_again(&cluster, &id, 3);
    assert_label(&twice, 2, Evaluation::Dirty, Some(&second));
    assert_eq!(twice.job_status, JobStatus::Running, "a label, no more");
    assert_eq!((twice.counts.member_loss, twice.counts.program, twice.counts.ladder), (2, 0, 0));

    let finished = cluster.wait_until_finished(&id, &output);
    assert_eq!(finished.dirty_task.get(), twice.dirty_task.get(), "the label of the end");
    for index in 0..4 {
        let attempts: Vec<u32> = output.starts(index).iter().map(|run| run.attempt).collect();
        assert_eq!(attempts, [1, 2, 3], "task index {index}");
    }
    assert_history(cluster.rest(), &id);
    assert_episodes(cluster.rest(), &id, &[&first, &second]);
    assert_story(cluster.rest(), &id, &[&first, &second]);
}

/// Waits until everything runs again; the job must have been RUNNING at every look on the way.
#[track_caller]
fn runs_again(cluster: &Cluster, id: &str, attempt: u32) -> Job {
    let what = format!("every task group runs again, attempt {attempt}");
    cluster.rest().wait_for_job(id, &what, |job| {
        assert_eq!(job.job_status, JobStatus::Running, "while a pipeline is restored");
        job.runs(attempt)
    })
}

/// The label after so many kills: one incident, one episode and one attempt each, however many task
/// groups moved.
#[track_caller]
fn assert_label(job: &Job, kills: u64, evaluation: Evaluation, last: Option<&Member>) {
    let label = job.label();
    assert_eq!(label.member_loss_incident_count, kills, "{label:?}");
    assert_eq!(label.recovery_episode_count, kills, "{label:?}");
    assert_eq!(label.recovery_attempt_count, kills, "{label:?}");
    assert_eq!(label.evaluation_status, evaluation, "{label:?}");
    assert_eq!(label.dirty, evaluation == Evaluation::Dirty, "{label:?}");
    assert!(label.tracking_complete, "{label:?}");
    assert_eq!(label.threshold, 2, "{label:?}");
    assert_eq!(label.active_episode_id, None, "it has recovered: {label:?}");
    assert_eq!(label.last_lost_member_uuid.as_ref(), last.map(|member| &member.uuid));
    assert_eq!(label.last_lost_address.as_ref(), last.map(|member| &member.address));
    assert_eq!(label.last_leave_classification.is_some(), last.is_some(), "{label:?}");
    assert_eq!(label.last_counted_time.is_some(), last.is_some(), "{label:?}");
}

#[track_caller]
fn assert_history(rest: &Rest, id: &str) {
    assert!(rest.running_jobs().iter().all(|job| job.job_id != id), "it has ended");
    let listed = rest.finished_jobs();
    let listed = listed.iter().find(|job| job.job_id == id).expect("it is in the history");
    assert_eq!(listed.job_status, JobStatus::Finished);
    assert!(listed.finish_time.is_some());
    assert_eq!(listed.dirty_task.evaluation_status, Evaluation::Dirty);
    assert_eq!((listed.dirty_task.dirty, listed.dirty_task.recovery_attempt_count), (true, 2));
}

#[track_caller]
fn assert_episodes(rest: &Rest, id: &str, lost: &[&Member]) {
    let episodes = rest.episodes(id);
    assert_eq!(episodes.len(), lost.len(), "{episodes:#?}");
    for (episode, member) in episodes.iter().zip(lost) {
        assert_eq!(episode.status, EpisodeStatus::Completed, "{episode:#?}");
        assert_eq!((episode.incident_count, episode.generation), (1, 1), "{episode:#?}");
        let [incident] = &episode.incidents[..] else { panic!("{episode:#?}") };
        assert_eq!(
            (&incident.member_uuid, incident.cause),
            (&member.uuid, LossCause::ConnectionClosed)
        );
        let [attempt] = &episode.attempts[..] else { panic!("{episode:#?}") };
        assert_eq!(attempt.outcome, AttemptOutcome::Recovered, "{episode:#?}");
        assert!(attempt.confirmed_time.is_some(), "{episode:#?}");
        assert!(episode.end_time.is_some(), "{episode:#?}");
    }
}

/// `explain` tells the story in order: each loss, what was deployed again, how it was counted.
#[track_caller]
fn assert_story(rest: &Rest, id: &str, lost: &[&Member]) {
    let story = rest.explain(id);
    let mut steps = vec!["submitted".to_owned()];
    for (at, member) in lost.iter().enumerate() {
        steps.push(format!("member {}", member.uuid));
        steps.push(format!("total {}", at + 1));
        steps.push(format!("episode {} is complete", at + 1));
    }
    steps.push("FINISHED".to_owned());
    let mut sentences = story.iter();
    for step in &steps {
        assert!(
            sentences.any(|sentence| sentence.text.contains(step)),
            "no sentence in its place says {step:?}: {story:#?}"
        );
    }
    let dirty: Vec<&str> =
        story.iter().map(|one| one.text.as_str()).filter(|text| text.contains("DIRTY")).collect();
    assert!(matches!(dirty[..], [one] if one.contains("total 2")), "{story:#?}");
}
