//! Becoming the leader.
//!
//! One transaction makes the leader's key, with a lease, and moves the head to the new term. So the two
//! never disagree about who leads, nothing that was sent before can land after it, and whoever has lost its
//! lease meanwhile has not won: etcd's own election service says "you lead" to such a candidate.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, KeyValue, WatchOptions};

use super::Shared;
use super::endpoints::Failure;
use super::lease::{Keeper, Lease};
use super::request;
use super::settle::{Guard, Settled, settle};
use crate::keys;
use crate::records::Head;
use crate::store::{LeaderInfo, StoreError};
use crate::table::Table;
use crate::tenure::now_ms;
use crate::transaction;

/// How long a candidate relies on being told that the leader's key has gone before it looks for itself.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What [`transaction::lead`] reads, and the leader.
const READ: [&str; 4] = [keys::HEAD, keys::LEADER, keys::PROCESSED, keys::CLUSTER];

/// A term that has begun.
pub(super) struct Won {
    pub head: Head,
    pub guard: Guard,
    pub keeper: Keeper,
}

/// Waits until nobody leads, and leads. Dropped before, it leaves at most a lease that runs out.
pub(super) async fn campaign(
    shared: &Arc<Shared>,
    me: &LeaderInfo,
    commit_id: u64,
) -> Result<Won, StoreError> {
    let (mut me, since, began_ms) = (me.clone(), me.since, now_ms());
    loop {
        let Look { rows, guard, revision } = look(shared).await?;
        // Before waiting: a coordinator that cannot read what a newer one writes should say so at once.
        let (head, writes) = rows.stage(|rows| transaction::lead(rows, &me, commit_id))?;
        if guard.leader != 0 {
            until_gone(shared, revision).await;
            // It will lead from now on, not from when it began to wait, which may be weeks ago.
            me.since = since + (now_ms() - began_ms);
            continue;
        }
        let lease = Lease::grant(&shared.endpoints, shared.ttl_seconds).await?;
        let pending = Pending { shared: shared.clone(), lease: Some(lease.id) };
        let operations = shared.keyspace.operations(writes, lease.id);
        let settled = settle(&shared.endpoints, &shared.keyspace, guard, &head, operations).await;
        match settled {
            Settled::Applied(revision) => {
                pending.keep();
                let guard = Guard { leader: revision, head: revision };
                let (endpoints, keyspace) = (shared.endpoints.clone(), shared.keyspace.clone());
                let keeper = Keeper::start(endpoints, keyspace, lease, guard.leader);
                return Ok(Won { head, guard, keeper });
            }
            // Somebody was faster, or this took longer than the lease lives.
            Settled::Superseded | Settled::Refused(Failure::LeaseGone) => {}
            Settled::Refused(failure) => return Err(failure.into()),
        }
    }
}

/// The rows that a term begins from, and the guard that they were read under.
struct Look {
    rows: Table,
    guard: Guard,
    revision: i64,
}

async fn look(shared: &Shared) -> Result<Look, Failure> {
    let (found, revision) = shared.get_at(&READ).await?;
    let guard = Guard {
        head: found[0].as_ref().map_or(0, KeyValue::mod_revision),
        leader: found[1].as_ref().map_or(0, KeyValue::create_revision),
    };
    Ok(Look { rows: shared.table(found), guard, revision })
}

/// Until the leader's key, which was there at this revision, has probably gone: whoever calls looks again.
async fn until_gone(shared: &Shared, revision: i64) {
    let gone = async {
        let (turn, mut client) = shared.endpoints.client().await?;
        // From the look on, so that nothing before the watch is missed; not from the key's making, which may
        // have been compacted long ago.
        let from = WatchOptions::new().with_start_revision(revision + 1);
        let key = shared.keyspace.key(keys::LEADER);
        let told = async {
            let mut stream = client.watch(key, Some(from)).await?;
            while let Some(answer) = stream.message().await? {
                if answer.canceled() || !answer.events().is_empty() {
                    return Ok(());
                }
            }
            Ok(())
        };
        told.await.map_err(|error: etcd_client::Error| {
            shared.endpoints.move_on(turn);
            Failure::from(error)
        })
    };
    if let Ok(Err(failure)) = tokio::time::timeout(LOOK_AGAIN, gone).await {
        tracing::warn!(%failure, "the leader's key cannot be watched");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A lease under which this candidate may yet come to lead. A transaction that is still on its way must
/// find it gone when the candidate has given up, or others would wait for a leader that does not exist.
struct Pending {
    shared: Arc<Shared>,
    lease: Option<i64>,
}

impl Pending {
    fn keep(mut self) {
        self.lease = None;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let (Some(lease), Ok(runtime)) = (self.lease, tokio::runtime::Handle::try_current()) else {
            return;
        };
        let shared = self.shared.clone();
        // It runs out by itself where this does not succeed.
        runtime.spawn(async move {
            let _ = Lease::revoke(&shared.endpoints, lease).await;
        });
    }
}

impl Shared {
    /// Rows of single keys, at one revision.
    pub(super) async fn get<K: AsRef<str>>(
        &self,
        keys: &[K],
    ) -> Result<Vec<Option<KeyValue>>, Failure> {
        Ok(self.get_at(keys).await?.0)
    }

    /// The same, and that revision.
    async fn get_at<K: AsRef<str>>(
        &self,
        keys: &[K],
    ) -> Result<(Vec<Option<KeyValue>>, i64), Failure> {
        let gets = self.keyspace.gets(keys);
        let read = |mut client: Client| {
            let gets = gets.clone();
            async move { client.txn(gets).await }
        };
        let answer = self.endpoints.read(read).await?;
        Ok((request::found(&answer), request::revision(&answer)))
    }

    pub(super) fn table(&self, found: impl IntoIterator<Item = Option<KeyValue>>) -> Table {
        let mut table = Table::default();
        let rows = found.into_iter().flatten().filter_map(|row| self.keyspace.row(row));
        rows.for_each(|(key, value)| table.insert(key, value));
        table
    }
}
