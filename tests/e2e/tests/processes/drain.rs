//! A member is drained: its containers move while its agent still runs, nothing is burned and nothing is
//! counted, and what happens to the emptied agent afterwards is of no interest.

use serde_json::json;
use steadfast_e2e::{
    Classification, Cluster, EpisodeStatus, Evaluation, Incident, LossCause, Member, MemberStatus,
    Output, Signal, binary,
};

/// Lines a second and task group: the file takes 25 s.
const RATE: &str = "20";
const THRESHOLD: i64 = 1;

#[test]
fn a_drained_member_is_emptied_without_a_restore_and_its_end_is_no_loss() {
    let cluster = Cluster::start_with_auth(3, 4);
    let (id, output) = submit(&cluster, 0);
    let before = cluster.wait_until_runs(&id, 1);
    let drained = cluster.host_of(&before);

    let told = drain(&cluster, &drained.uuid[..8], "kernel-7");
    assert!(told.contains("on-call drains member"), "{told}");
    assert!(told.contains("holds nothing any more"), "{told}");
    let agent = cluster.process(drained.pid);
    let now = cluster.rest().members().into_iter().find(|one| one.uuid == drained.uuid);
    let now = now.expect("its agent runs");
    assert_eq!((now.status, now.used_slots), (MemberStatus::Draining, 0));

    let moved = cluster.wait_until_runs(&id, 2);
    let is_there = |member: &Member| {
        moved.task_groups().any(|group| group.member_uuid.as_ref() == Some(&member.uuid))
    };
    assert!(!is_there(&drained), "{moved:#?}");
    let counts = &moved.counts;
    assert_eq!(
        (counts.planned, counts.member_loss, counts.program, counts.ladder),
        (1, 0, 0, 0),
        "the pipeline may be restored 0 times, and was restored for the drain"
    );
    let label = moved.label();
    assert_eq!((label.recovery_attempt_count, label.evaluation_status), (0, Evaluation::Clean));
    assert_eq!((label.member_loss_incident_count, label.recovery_episode_count), (1, 1));
    assert_eq!(label.threshold, THRESHOLD, "{label:?}");
    assert_eq!(label.last_leave_classification, Some(Classification::PlannedVerified));
    assert_eq!(label.last_lost_member_uuid.as_ref(), Some(&drained.uuid));
    let [incident] = &incidents(&cluster, &id)[..] else { panic!("one member left") };
    assert_planned(incident, &drained, LossCause::ToldByOperator, "kernel-7");
    let story = cluster.rest().explain(&id);
    let tells = |part: &str| story.iter().any(|sentence| sentence.text.contains(part));
    assert!(tells("PLANNED_VERIFIED") && tells("not counted"), "{story:#?}");

    assert!(agent.is_alive(), "its agent waits for whoever ends it");
    agent.signal(Signal::KILL);
    cluster.wait_until_lost(&drained);
    let after = cluster.rest().job(&id);
    assert_eq!(after.containers(), moved.containers(), "nothing is restarted");
    assert_eq!(after.dirty_task.get(), moved.dirty_task.get(), "nothing is counted");

    let finished = cluster.wait_until_finished(&id, &output);
    assert_eq!(finished.dirty_task.get(), moved.dirty_task.get(), "the label of the end");
    assert_attempts(&output, &[1, 2]);
}

#[test]
fn after_a_drain_the_loss_of_another_member_has_its_restore_and_is_counted() {
    let cluster = Cluster::start_with_auth(3, 4);
    let (id, output) = submit(&cluster, 1);
    let before = cluster.wait_until_runs(&id, 1);
    let drained = cluster.host_of(&before);
    drain(&cluster, &drained.uuid, "kernel-7");
    let moved = cluster.wait_until_runs(&id, 2);

    let killed = cluster.host_of(&moved);
    assert_ne!(killed.uuid, drained.uuid);
    cluster.process(killed.pid).signal(Signal::KILL);
    let again = cluster.wait_until_runs(&id, 3);
    assert_eq!((again.counts.planned, again.counts.member_loss), (1, 1), "the one restore is used");
    let label = again.label();
    assert_eq!((label.recovery_attempt_count, label.evaluation_status), (1, Evaluation::Dirty));
    assert_eq!((label.member_loss_incident_count, label.recovery_episode_count), (2, 2));
    let [planned, counted] = &incidents(&cluster, &id)[..] else { panic!("two members left") };
    assert_planned(planned, &drained, LossCause::ToldByOperator, "kernel-7");
    assert_eq!(counted.member_uuid, killed.uuid);
    assert_eq!(counted.classification, Classification::Unclassified, "{counted:?}");

    let finished = cluster.wait_until_finished(&id, &output);
    assert_eq!(finished.dirty_task.get(), again.dirty_task.get(), "the label of the end");
    assert_attempts(&output, &[1, 2, 3]);
}

/// What cannot be placed elsewhere is not touched.
#[test]
fn a_drain_for_which_the_others_have_no_room_is_refused_and_changes_nothing() {
    let cluster = Cluster::start_with_auth(2, 3);
    let (id, output) = submit(&cluster, 0);
    let before = cluster.wait_until_runs(&id, 1);
    let member = cluster.host_of(&before);

    let refused = cluster.run(&mut cluster.steadfast(["drain", &member.uuid]));
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    assert!(refused.stderr.contains("refused with 409"), "{refused:?}");
    assert!(refused.stderr.contains("slot"), "it says what is missing: {refused:?}");
    let now = cluster.rest().members().into_iter().find(|one| one.uuid == member.uuid);
    assert_eq!(now.map(|now| now.status), Some(MemberStatus::Alive));
    let after = cluster.wait_until_finished(&id, &output);
    assert_eq!(after.label().member_loss_incident_count, 0);
    assert_attempts(&output, &[1]);
}

/// The example's program, with a limit of restores.
#[track_caller]
pub fn submit(cluster: &Cluster, restores: u32) -> (String, Output) {
    let output = Output::new(cluster.folder().join("counts"));
    let job = json!({
        "env": {
            "job.name": "counts",
            "job.mode": "BATCH",
            "job.retry.times": restores,
            "job.retry.interval.seconds": 1,
            "job.dirty-task.threshold": THRESHOLD,
        },
        "pipelines": [{
            "name": "count",
            "tasks": [{
                "name": "counter",
                "parallelism": 4,
                "command": [binary("wordcount"), "--input", cluster.input(), "--output", output.path()],
                "environment": { "RATE": RATE },
            }],
        }],
    });
    (cluster.submit_text("job.json", &job.to_string()), output)
}

#[track_caller]
fn drain(cluster: &Cluster, member: &str, request: &str) -> String {
    let arguments = ["drain", member, "--reason", "new kernel", "--request-id", request];
    let finished = cluster.run(&mut cluster.steadfast(arguments));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    finished.stdout
}

/// Every incident of every episode, all of which have completed.
#[track_caller]
pub fn incidents(cluster: &Cluster, id: &str) -> Vec<Incident> {
    let episodes = cluster.rest().episodes(id);
    assert!(
        episodes.iter().all(|episode| episode.status == EpisodeStatus::Completed),
        "{episodes:#?}"
    );
    episodes.into_iter().flat_map(|episode| episode.incidents).collect()
}

/// It says who answers for it, why, and by which request.
#[track_caller]
pub fn assert_planned(incident: &Incident, member: &Member, cause: LossCause, request: &str) {
    assert_eq!(incident.member_uuid, member.uuid, "{incident:?}");
    assert_eq!(incident.classification, Classification::PlannedVerified, "{incident:?}");
    assert_eq!(incident.cause, cause, "{incident:?}");
    for part in ["on-call", "new kernel", request] {
        assert!(incident.evidence.contains(part), "{part:?} is not in {incident:?}");
    }
}

#[track_caller]
fn assert_attempts(output: &Output, expected: &[u32]) {
    for index in 0..4 {
        let attempts: Vec<u32> = output.starts(index).iter().map(|run| run.attempt).collect();
        assert_eq!(attempts, expected, "task index {index}");
    }
}
