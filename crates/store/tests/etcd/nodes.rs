//! Nodes that die one at a time: nothing acknowledged is lost, and the term goes on.

use steadfast_store::Store;

use crate::cluster::Cluster;
use crate::{LONG_TTL, lead, marks, put_job};

#[tokio::test(flavor = "multi_thread")]
async fn any_one_node_may_die() {
    let mut cluster = Cluster::three().await;
    let store = cluster.store("rotation", LONG_TTL).await;
    let mut term = lead(&store).await;
    let mut expected = Vec::new();
    // Two rounds, so that the store comes back to the first node; the second begins with whoever leads.
    for round in 0..4_u64 {
        let dies = if round == 3 { cluster.leader().await } else { round as usize };
        cluster.nodes[dies].kill();
        for n in [round * 2, round * 2 + 1] {
            term.commit(vec![put_job(n, "kept")]).await.expect("two nodes suffice");
            expected.push((n, "kept".to_owned()));
        }
        assert_eq!(marks(&store).await, expected, "node {dies} is down");
        cluster.nodes[dies].restart().await;
    }
    assert!(!*term.lost().borrow() && term.tenure().holds());
    assert_eq!(store.load().await.expect("it loads").rev, term.rev());
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_may_be_started_again() {
    let mut cluster = Cluster::three().await;
    let store = cluster.store("restart", LONG_TTL).await;
    let mut term = lead(&store).await;
    term.commit(vec![put_job(1, "before")]).await.expect("it commits");
    cluster.nodes.iter_mut().for_each(crate::cluster::Node::kill);
    assert!(store.load().await.is_err(), "nobody answers");
    let (committed, ()) = tokio::join!(term.commit(vec![put_job(2, "meanwhile")]), async {
        let restarts = cluster.nodes.iter_mut().map(crate::cluster::Node::restart);
        futures_util::future::join_all(restarts).await;
    });
    committed.expect("it is sent until somebody answers");
    let both = [(1, "before".to_owned()), (2, "meanwhile".to_owned())];
    assert_eq!(marks(&store).await, both);
}
