//! Which coordinators there are: each puts its URL under a lease of its own, and looks who else has.
//!
//! Nothing is decided by it, so it stands beside the terms: outside of what commits compare, and outside of
//! what standbys follow. After the first put it only keeps its lease alive and reads.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, PutOptions};
use tokio::sync::watch;

use super::Shared;
use super::endpoints::Failure;
use super::lease::Lease;
use crate::keys::{self, Range};

/// How long a coordinator that died is still listed.
const TTL_SECONDS: u32 = 10;
/// Between two looks; several fit into the lease's time.
const PACE: Duration = Duration::from_secs(1);
/// Before the first look has succeeded.
const PAUSE: Duration = Duration::from_millis(200);

/// Announces `url` until the receiver is dropped.
pub(super) fn announce(shared: &Arc<Shared>, url: &str) -> watch::Receiver<Vec<String>> {
    let (sender, announced) = watch::channel(Vec::new());
    let (shared, url) = (shared.clone(), url.to_owned());
    tokio::spawn(async move {
        let mut lease = None;
        tokio::select! {
            () = sender.closed() => {}
            () = keep(&shared, &url, &mut lease, &sender) => {}
        }
        if let Some(lease) = lease {
            // It runs out by itself where this does not succeed.
            let _ = Lease::revoke(&shared.endpoints, lease).await;
        }
    });
    announced
}

async fn keep(
    shared: &Shared,
    url: &str,
    lease: &mut Option<i64>,
    sender: &watch::Sender<Vec<String>>,
) {
    let mut pause = PAUSE;
    loop {
        match look(shared, url, lease).await {
            Ok(urls) => {
                pause = PACE;
                sender.send_if_modified(|known| {
                    let changed = *known != urls;
                    *known = urls;
                    changed
                });
            }
            Err(failure) => tracing::debug!(%failure, "the coordinators cannot be listed"),
        }
        tokio::time::sleep(pause).await;
    }
}

/// Everybody who is announced, in the order of the URLs. Where this one is not, or no longer, it is now.
async fn look(shared: &Shared, url: &str, lease: &mut Option<i64>) -> Result<Vec<String>, Failure> {
    if let Some(id) = *lease {
        let renew = |mut client: Client| async move { client.lease_keep_alive(id).await };
        match shared.endpoints.once(renew).await {
            Ok(_) => {}
            Err(Failure::LeaseGone) => *lease = None,
            Err(failure) => return Err(failure),
        }
    }
    let mut urls = listed(shared).await?;
    if lease.is_none() || !urls.iter().any(|known| known == url) {
        let granted = Lease::grant(&shared.endpoints, TTL_SECONDS).await?.id;
        *lease = Some(granted);
        let key = shared.keyspace.key(&keys::announced(url));
        let options = PutOptions::new().with_lease(granted);
        let put = |mut client: Client| async move { client.put(key, url, Some(options)).await };
        shared.endpoints.once(put).await?;
        urls = listed(shared).await?;
    }
    Ok(urls)
}

async fn listed(shared: &Shared) -> Result<Vec<String>, Failure> {
    let (from, options) = shared.keyspace.range(&Range::announced());
    let read = |mut client: Client| {
        let (from, options) = (from.clone(), options.clone());
        async move { client.get(from, Some(options)).await }
    };
    let answer = shared.endpoints.read(read).await?;
    let urls = answer.kvs().iter().map(|row| String::from_utf8_lossy(row.value()).into_owned());
    Ok(urls.collect())
}
