//! A ledger in etcd that cannot be read: one job is `UNKNOWN`, and nothing else is any different.

use steadfast_e2e::{Cluster, Detector, Etcd, Evaluation, Job, Lease, Manner, Signal};

#[test]
fn a_ledger_that_cannot_be_read_makes_its_job_unknown_and_nothing_else() {
    let etcd = Etcd::three();
    let cluster = Cluster::start_on_etcd(2, 4, 3, &etcd.urls());
    let jobs = [0, 1].map(|_| Detector::submit(&cluster, 2, Manner::Polite, Lease::DEFAULT));
    let before = jobs.each_ref().map(|(id, _)| cluster.wait_until_runs(id, 1));
    let [(bad, _), (good, _)] = &jobs;
    let (leader, process) = cluster.leader();

    etcd.put(&format!("ledger/{bad}"), "{\"format\":1,\"record\":{\"revi");
    process.signal(Signal::KILL);
    cluster.wait_until_led_again(process);
    let label = |id: &str| cluster.rest().job(id).label();
    assert_eq!(label(bad).evaluation_status, Evaluation::Unknown, "{}", leader.url());
    assert!(!label(bad).tracking_complete && !label(bad).dirty);
    assert_eq!(
        (label(good).evaluation_status, label(good).tracking_complete),
        (Evaluation::Clean, true)
    );
    let now = jobs.each_ref().map(|(id, _)| cluster.wait_until_runs(id, 1));
    let containers = |jobs: &[Job; 2]| jobs.each_ref().map(Job::containers);
    assert_eq!(containers(&now), containers(&before), "nothing is restarted");

    // It is restored all the same, and never called clean.
    let lost = cluster.host_of(&now[0]);
    cluster.process(lost.pid).signal(Signal::KILL);
    cluster.wait_until_lost(&lost);
    for (id, detector) in &jobs {
        cluster.rest().wait_for_job(id, "it runs again", |job| job.runs(job.pipelines[0].attempt));
        detector.release();
    }
    let finished = jobs.each_ref().map(|(id, detector)| detector.finish(&cluster, id));
    assert!(finished[0].counts.member_loss >= 1, "{:#?}", finished[0]);
    assert_eq!(finished[0].label().evaluation_status, Evaluation::Unknown);
    let (counts, label) = (&finished[1].counts, finished[1].label());
    assert_eq!(label.recovery_attempt_count, counts.member_loss, "{label:?}");
    assert_eq!(label.evaluation_status, Evaluation::Clean, "{label:?}");
}
