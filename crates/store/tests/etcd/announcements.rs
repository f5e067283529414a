//! Which coordinators there are: each knows of all others, and of none for long that has gone.

use steadfast_store::Store;
use tokio::sync::watch;

use crate::cluster::Cluster;
use crate::wait::{soon, until};
use crate::{LONG_TTL, lead, put_job};

async fn lists(announced: &mut watch::Receiver<Vec<String>>, urls: &[&str]) {
    let what = format!("{urls:?} are listed");
    let listed = announced.wait_for(|listed| listed == urls);
    drop(soon(&what, listed).await.expect("it goes on"));
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_who_is_there_is_listed_and_nobody_else() {
    let cluster = Cluster::one().await;
    let store = cluster.store("announced", LONG_TTL).await;
    let announce = |url: &str| store.announce(url).expect("there may be others");
    let mut standby = store.follow().await.expect("it is read").expect("others can stand by");
    let (mut a, b) = (announce("http://a:1"), announce("http://b:1"));
    lists(&mut a, &["http://a:1", "http://b:1"]).await;
    // A lease that is taken away is not the end of it.
    let mut client = cluster.client().await;
    let key = "announced/announced/http://a:1";
    client.delete(key, None).await.expect("it is removed");
    until("it is announced again", async || {
        let found = client.clone().get(key, None).await.expect("a read");
        (!found.kvs().is_empty()).then_some(())
    })
    .await;
    drop(b);
    lists(&mut a, &["http://a:1"]).await;
    // Red where such a write lies among those that are followed: it belongs to no commit.
    let mut term = lead(&store).await;
    let rev = term.commit(vec![put_job(1, "one")]).await.expect("it commits");
    soon("it follows", standby.reach(rev)).await.expect("nothing is missed");
}
