//! A leave that somebody registered before the member went is not counted; the same leave of a member for
//! which nobody did is.

use steadfast_e2e::{
    Classification, Cluster, Evaluation, LossCause, Member, PATIENCE, Signal, wait_until,
};

use crate::drain::{assert_planned, incidents, submit};

#[test]
fn a_registered_leave_is_excluded_and_the_same_without_is_counted() {
    let cluster = Cluster::start_with_auth(3, 4);
    let (id, output) = submit(&cluster, 1);
    let before = cluster.wait_until_runs(&id, 1);

    let planned = cluster.host_of(&before);
    let arguments =
        ["planned-leave", &planned.uuid, "--reason", "new kernel", "--request-id", "kernel-7"];
    let registered = cluster.run(&mut cluster.steadfast(arguments));
    assert_eq!(registered.code, Some(0), "{registered:?}");
    assert!(registered.stdout.starts_with("on-call plans the leave of member"), "{registered:?}");
    assert!(cluster.rest().job(&id).runs(1), "to register it moves nothing");
    terminate(&cluster, &planned);
    let moved = cluster.wait_until_runs(&id, 2);
    assert_eq!((moved.counts.planned, moved.counts.member_loss), (1, 0));
    let label = moved.label();
    assert_eq!((label.recovery_attempt_count, label.evaluation_status), (0, Evaluation::Clean));
    assert_eq!(label.member_loss_incident_count, 1);

    let unplanned = cluster.host_of(&moved);
    terminate(&cluster, &unplanned);
    let again = cluster.wait_until_runs(&id, 3);
    assert_eq!((again.counts.planned, again.counts.member_loss), (1, 1), "the one restore is used");
    let label = again.label();
    assert_eq!((label.recovery_attempt_count, label.evaluation_status), (1, Evaluation::Dirty));

    let [first, second] = &incidents(&cluster, &id)[..] else { panic!("two members left") };
    assert_planned(first, &planned, LossCause::Leaving, "kernel-7");
    assert_eq!((&second.member_uuid, second.cause), (&unplanned.uuid, LossCause::Leaving));
    assert_eq!(second.classification, Classification::Unclassified, "{second:?}");
    let finished = cluster.wait_until_finished(&id, &output);
    assert_eq!(finished.dirty_task.get(), again.dirty_task.get(), "the label of the end");
}

/// As `kill` does, or a Pod that restarts.
#[track_caller]
fn terminate(cluster: &Cluster, member: &Member) {
    let agent = cluster.process(member.pid);
    agent.signal(Signal::TERM);
    cluster.wait_until_lost(member);
    wait_until(PATIENCE, "the agent to end", || (!agent.is_alive()).then_some(()));
}
