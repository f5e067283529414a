//! The leader's lease: renewed by a task, and given up on this side before it can run out on the other.
//!
//! The lease decides only when others may try to lead; that a term leads is compared by every commit. But
//! verdicts to containers are given without asking the store, so a leader must know for itself when it can
//! no longer be sure: its time runs from the *sending* of the last renewal that was answered, and ends a
//! margin before etcd's own count, which began later, can end.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::Client;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::endpoints::{Endpoints, Failure};
use super::request::Keyspace;
use crate::keys;
use crate::tenure::{Tenure, now_ms};

/// After a renewal that failed.
const PAUSE: Duration = Duration::from_millis(50);

/// A lease that was granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub id: i64,
    ttl_ms: u64,
    /// When it was asked for, on this machine's clock.
    asked_ms: u64,
}

impl Lease {
    /// Asks for one. The server may grant more time than was asked for.
    pub(super) async fn grant(endpoints: &Endpoints, ttl_seconds: u32) -> Result<Self, Failure> {
        let asked_ms = now_ms();
        let grant =
            |mut client: Client| async move { client.lease_grant(ttl_seconds.into(), None).await };
        let granted = endpoints.once(grant).await?;
        let ttl_ms = u64::try_from(granted.ttl()).unwrap_or(0) * 1_000;
        Ok(Self { id: granted.id(), ttl_ms, asked_ms })
    }

    /// Ends it, and with it its keys. Done when it was gone already.
    pub(super) async fn revoke(endpoints: &Endpoints, id: i64) -> Result<(), Failure> {
        match endpoints
            .read(|mut client: Client| async move { client.lease_revoke(id).await })
            .await
        {
            Ok(_) | Err(Failure::LeaseGone) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// How long a renewal that was sent at this time lets the leader act.
    fn acts_until(&self, sent_ms: u64) -> u64 {
        sent_ms + self.ttl_ms - margin_ms(self.ttl_ms)
    }

    /// Between two renewals, and how long one may take: three fit into the time that a leader has.
    fn pace(&self) -> Duration {
        Duration::from_millis(self.ttl_ms / 4)
    }
}

/// For clocks that do not run alike, and for the time from a check to what follows from it.
fn margin_ms(ttl_ms: u64) -> u64 {
    ttl_ms / 10
}

/// Keeps a lease while it lives, and says when the term that holds it is over.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) lease: Lease,
    pub(super) tenure: Tenure,
    pub(super) lost: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Keeper {
    /// Begins to renew the lease of the leader whose key was made at this revision.
    pub(super) fn start(
        endpoints: Arc<Endpoints>,
        keyspace: Keyspace,
        lease: Lease,
        leader: i64,
    ) -> Self {
        let tenure = Tenure::until(lease.acts_until(lease.asked_ms));
        let lost = watch::Sender::new(false);
        let (held, told) = (tenure.clone(), lost.clone());
        let task = tokio::spawn(async move {
            tokio::select! {
                () = renew(&endpoints, &keyspace, lease, leader, &held) => {}
                () = ended(&held) => {}
            }
            held.end();
            told.send_replace(true);
        });
        Self { lease, tenure, lost, task }
    }

    /// Ends the term on this side; the lease runs out on the other.
    pub(super) fn end(&self) {
        self.task.abort();
        self.tenure.end();
        self.lost.send_replace(true);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// Renews until the lease is known to be gone.
async fn renew(
    endpoints: &Endpoints,
    keyspace: &Keyspace,
    lease: Lease,
    leader: i64,
    tenure: &Tenure,
) {
    let mut pause = lease.pace();
    loop {
        tokio::time::sleep(pause).await;
        let sent_ms = now_ms();
        match renew_once(endpoints, keyspace, lease, leader).await {
            Ok(true) => {
                tenure.extend_to(lease.acts_until(sent_ms));
                pause = lease.pace();
            }
            Ok(false) | Err(Failure::LeaseGone) => return,
            Err(failure) => {
                tracing::warn!(%failure, "the leader's lease was not renewed");
                pause = PAUSE;
            }
        }
    }
}

/// Whether the lease and the key under it are still there. A lease may live on without its key, if
/// somebody removes that by hand.
async fn renew_once(
    endpoints: &Endpoints,
    keyspace: &Keyspace,
    lease: Lease,
    leader: i64,
) -> Result<bool, Failure> {
    // A stream of its own for each renewal: its first answer is the one to this sending.
    let renew = |mut client: Client| async move { client.lease_keep_alive(lease.id).await };
    endpoints.within(lease.pace(), renew).await?;
    let key = keyspace.key(keys::LEADER);
    let read = |mut client: Client| async move { client.get(key, None).await };
    let answer = endpoints.within(lease.pace(), read).await?;
    Ok(answer.kvs().first().is_some_and(|row| row.create_revision() == leader))
}

/// Until the tenure is over.
async fn ended(tenure: &Tenure) {
    while let left_ms @ 1.. = tenure.left_ms() {
        tokio::time::sleep(Duration::from_millis(left_ms)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_stops_before_its_lease_can_have_run_out_and_renews_in_time() {
        for ttl_seconds in [2, 3, 60] {
            let lease = Lease { id: 1, ttl_ms: ttl_seconds * 1_000, asked_ms: 500 };
            // Granted at the same moment at the earliest.
            assert!(lease.acts_until(500) < 500 + lease.ttl_ms);
            let pace_ms = lease.pace().as_millis() as u64;
            assert!(500 + 3 * pace_ms < lease.acts_until(500), "three tries fit");
        }
    }
}
