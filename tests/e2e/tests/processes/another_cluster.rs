//! An agent asks a coordinator on another store, because a list or an option is wrong, or because the store was
//! emptied. That one knows nothing of the agent's containers, and must not end them.

use steadfast_e2e::{Cluster, Container, MemberStatus, PATIENCE, Signal, wait_until};

const JOB: &str = r#"env {
    job.name = "both", job.mode = "STREAMING", job.container.lease.ms = 120000
  }
  pipelines = [{
    name = "p", member-tags { zone = "both" }, tasks = [{ name = "t", command = ["sleep", "3600"] }]
  }]"#;

/// Red where agents are taken by whoever leads anywhere: the other cluster declares this member lost, and it ends
/// what it runs.
#[test]
fn a_coordinator_of_another_cluster_takes_no_member_and_ends_nothing() {
    let (cluster, other) = (Cluster::start(1, 1), Cluster::start(1, 1));
    let urls = format!("{},{}", cluster.rest().url(), other.rest().url());
    let mut command = cluster.steadfast(["agent", "--slots", "1", "--tag", "zone=both"]);
    command.args(["--coordinators", &urls, "--data"]).arg(cluster.new_folder("agent"));
    let agent = cluster.spawn(&mut command);
    let id = cluster.submit_text("both.conf", JOB);
    let before = cluster.wait_until_runs(&id, 1);
    let member = cluster.host_of(&before);
    assert_eq!(member.pid, agent.pid());
    let container = Container::all(&cluster, &before).swap_remove(0);
    let told = container.program.variable("STEADFAST_COORDINATORS");
    assert!(told.contains(other.rest().url()), "whom its agent would ask: {told}");

    cluster.dev().signal(Signal::STOP); // it would start its coordinator again at once
    cluster.coordinator().signal(Signal::KILL);
    wait_until(PATIENCE, "the agent to be refused", || {
        agent.stderr().contains("belongs to another cluster").then_some(())
    });
    let members = other.rest().members();
    assert!(members.iter().all(|one| one.uuid != member.uuid), "{members:#?}");
    assert!(container.wrapper.is_alive() && container.program.is_alive(), "{container:?}");

    cluster.dev().signal(Signal::CONT);
    wait_until(PATIENCE, "the member to be back", || {
        let now = cluster.rest().members_now()?.into_iter().find(|one| one.uuid == member.uuid)?;
        (now.status == MemberStatus::Alive).then_some(())
    });
    let again = cluster.wait_until_runs(&id, 1);
    assert_eq!(again.containers(), before.containers(), "nothing is restarted");
}
