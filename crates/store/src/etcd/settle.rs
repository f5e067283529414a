//! One guarded transaction, from its first sending to the moment when its fate is known.
//!
//! Every write of a term compares two things with what the term last saw: who leads, and the head. The
//! leader alone is not enough. A transaction whose answer did not come may lie in a node that is paused or
//! cut off and be carried out a minute later; while the same coordinator still leads, only the head, which
//! has moved since, keeps it out. So an error is never read as "not applied": what is there is looked at,
//! and the same transaction is sent again until one of the two is certain.

use std::time::Duration;

use etcd_client::{KeyValue, Txn, TxnOp};

use super::endpoints::{Endpoints, Failure};
use super::request::{self, Keyspace};
use crate::keys;
use crate::records::{Head, decode};
use crate::store::Refusal;

/// Between two tries, where all that is heard is errors.
const PAUSE: Duration = Duration::from_millis(50);

/// What must still be so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guard {
    /// The revision at which the leader's key was made; 0 while nobody leads.
    pub leader: i64,
    /// The revision at which the head was last written.
    pub head: i64,
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// It was applied, at this revision.
    Applied(i64),
    /// It was not, nor ever will be, and the guard holds.
    Refused(Failure),
    /// It was not, nor ever will be: the guard no longer holds.
    Superseded,
}

/// Sends `operations`, which move the head to `next`, until their fate is known. Dropped before, it leaves
/// a transaction that may or may not be applied, then or later.
pub(super) async fn settle(
    endpoints: &Endpoints,
    keyspace: &Keyspace,
    guard: Guard,
    next: &Head,
    operations: Vec<TxnOp>,
) -> Settled {
    let compares = [keyspace.leader_is(guard.leader), keyspace.unchanged(keys::HEAD, guard.head)];
    let look = [keys::HEAD, keys::LEADER];
    let otherwise = look.map(|key| TxnOp::get(keyspace.key(key), None));
    let txn = Txn::new().when(compares).and_then(operations).or_else(otherwise);
    // Whether a sending that nobody answered may still be on its way.
    let mut in_doubt = false;
    loop {
        let send = |mut client: etcd_client::Client| {
            let txn = txn.clone();
            async move { client.txn(txn).await }
        };
        let failure = match endpoints.once(send).await {
            Ok(answer) if answer.succeeded() => {
                return Settled::Applied(request::revision(&answer));
            }
            Ok(answer) => {
                // An earlier sending may be what has moved the head.
                return match Seen::of(&request::found(&answer)).judge(guard, next) {
                    Verdict::Mine(revision) => Settled::Applied(revision),
                    Verdict::Unchanged | Verdict::Changed => Settled::Superseded,
                };
            }
            Err(failure) => failure,
        };
        in_doubt |= failure.in_doubt();
        // Also after a refusal: a server that is full may say so of what it has applied.
        let seen = look_again(endpoints, keyspace, &look).await;
        match seen.judge(guard, next) {
            Verdict::Mine(revision) => return Settled::Applied(revision),
            Verdict::Changed => return Settled::Superseded,
            Verdict::Unchanged if !in_doubt => return Settled::Refused(failure),
            Verdict::Unchanged => {
                tracing::warn!(%failure, "not known whether it was committed: the same is sent again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// What is there now, asked for until somebody answers.
async fn look_again(endpoints: &Endpoints, keyspace: &Keyspace, look: &[&str]) -> Seen {
    loop {
        let gets = keyspace.gets(look);
        let read = |mut client: etcd_client::Client| {
            let gets = gets.clone();
            async move { client.txn(gets).await }
        };
        match endpoints.read(read).await {
            Ok(answer) => return Seen::of(&request::found(&answer)),
            Err(failure) => tracing::warn!(%failure, "the head cannot be read"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Head and leader, read at one revision.
struct Seen {
    head: Option<Head>,
    at: Guard,
}

enum Verdict {
    /// The head is the one that the transaction writes, since this revision.
    Mine(i64),
    Unchanged,
    Changed,
}

impl Seen {
    fn of(found: &[Option<KeyValue>]) -> Self {
        let found = |index: usize| found.get(index).and_then(Option::as_ref);
        let head = found(0).and_then(|row| decode(keys::HEAD, row.value()).ok());
        let at = Guard {
            leader: found(1).map_or(0, KeyValue::create_revision),
            head: found(0).map_or(0, KeyValue::mod_revision),
        };
        Self { head, at }
    }

    fn judge(&self, guard: Guard, next: &Head) -> Verdict {
        if self.head.as_ref() == Some(next) {
            Verdict::Mine(self.at.head)
        } else if self.at == guard {
            Verdict::Unchanged
        } else {
            Verdict::Changed
        }
    }
}

/// What a failure says to whoever wanted to write.
pub(super) fn refusal(failure: Failure) -> Refusal {
    match failure {
        Failure::Refused(refusal) => refusal,
        other => Refusal::Unavailable(other.to_string()),
    }
}
