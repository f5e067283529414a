//! One job of three pipelines, random faults one after the other, and an oracle that stands outside: it
//! knows what this test has done to which process, and how often the programs themselves say that they
//! were started. After every round the ledger has to have counted exactly what the oracle has.
//!
//! The oracle's rules are the words of the proposal, not the product's code:
//!
//! - a member that is lost is one incident if it had containers of the job, and none otherwise;
//! - one continuous recovery is one episode, however many pipelines and task groups it moves. Faults come
//!   one at a time and each is waited out, so each incident is an episode of its own;
//! - an episode counts as many attempts as its most often deployed pipeline was deployed;
//! - a program that dies, a coordinator or a node of the store is no loss of a member and counts nothing; but
//!   a loss counts, whichever of its symptoms is seen before it.
//!
//! `STEADFAST_E2E_SEED` draws the same faults again (not the same timing), `STEADFAST_E2E_LONG=1` makes it
//! 100 rounds instead of 10.

#![expect(
    clippy::print_stderr,
    reason = "the seed and the rounds are what a failure has to be told with"
)]

mod draw;
mod oracle;
mod scene;

use steadfast_e2e::{Cluster, Etcd, is_long};

use self::draw::{Draw, Story};
use self::oracle::Oracle;
use self::scene::Scene;

pub const MEMBERS: u32 = 5;
pub const SLOTS: u32 = 3;
/// From here on `MEMBERS_MIN` members are kept; one less holds the job just so.
const MEMBERS_MIN: usize = 3;
const PIPELINES: usize = 3;
const PARALLELISM: u32 = 2;
const THRESHOLD: u64 = 3;
/// What the pace of the job allows for a round on average, far above what one takes.
const ROUND_SECONDS: u32 = 45;
/// Shorter than a new coordinator takes to declare a member lost that it never heard of (5 s): the
/// container's own end comes first then, and must not be taken for an ordinary failure.
const LEASE_MS: u64 = 4_000;

#[test]
fn after_every_random_fault_the_counts_equal_those_of_an_oracle_outside() {
    let faults = [
        Fault::AgentKilled,
        Fault::AgentStopped,
        Fault::AgentTerminated,
        Fault::PeerAndAgentKilled,
        Fault::ProgramKilled,
        Fault::CoordinatorKilled,
        Fault::CoordinatorKilledAfterAgent,
    ];
    let cluster = Cluster::start(MEMBERS, SLOTS);
    play("random faults", &cluster, None, LEASE_MS, &faults);
}

/// What is done to the cluster, and no more than one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    AgentKilled,
    /// Until it is lost; then it goes on, and comes back as another member.
    AgentStopped,
    AgentTerminated,
    /// A program somewhere else that belongs to the same pipeline goes just before: the loss is why the
    /// coordinator sees it fail first.
    PeerAndAgentKilled,
    ProgramKilled,
    /// The one that leads.
    CoordinatorKilled,
    /// It may have seen the loss, have written it down, have begun to restore, or nothing of it all.
    CoordinatorKilledAfterAgent,
    /// Started again when the round is over.
    EtcdNodeKilled,
    /// While the loss is written down, or before, or after.
    EtcdNodeKilledAfterAgent,
}

/// Plays random ones of these faults on a cluster of [`MEMBERS`] members, which is on this etcd where its
/// nodes are to be hurt.
#[track_caller]
pub fn play(
    name: &'static str,
    cluster: &Cluster,
    etcd: Option<Etcd>,
    lease_ms: u64,
    faults: &[Fault],
) {
    let rounds = if is_long() { 100 } else { 10 };
    let mut story = Story::begin(name, rounds);
    let mut draw = Draw(story.seed);
    let scene = Scene::submit(cluster, etcd, lease_ms, rounds);
    let mut agents = cluster.present_members();
    let mut oracle = Oracle::default();
    let mut undrawn = Vec::new();
    let mut before = scene.wait_until_settled(&agents, None);
    oracle.assert_agrees(&before.job);

    for round in 1..=rounds {
        let fault = draw.fault(faults, &mut undrawn);
        story.tell(format!("round {round}: {fault:?}"));
        let hit = scene.strike(fault, &agents, &before, &mut draw);
        story.tell(format!("round {round}: {fault:?}, {}", hit.told()));
        agents.retain(|agent| hit.lost.as_ref().is_none_or(|lost| lost.uuid != agent.uuid));
        let after = scene.wait_until_settled(&agents, Some((&before, &hit)));
        oracle.note(&before, &hit, &after);
        oracle.assert_agrees(&after.job);

        scene.mend();
        if let Some(stopped) = hit.stopped {
            agents.push(scene.wake(stopped, hit.lost.as_ref()));
        }
        while agents.len() < MEMBERS_MIN {
            agents.push(cluster.add_member());
        }
        before = scene.wait_until_settled(&agents, None);
        assert_eq!(before.job.containers(), after.job.containers(), "newcomers disturb nobody");
        oracle.assert_agrees(&before.job);
    }
    scene.finish(&before.job, &oracle);
}
