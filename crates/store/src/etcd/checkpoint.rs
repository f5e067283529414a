//! Checkpoints on etcd: the one write outside a term's commits, so under a guard of its own.
//!
//! The rows that the guard is about are read at one revision and judged by the same rules as everywhere;
//! the write then compares that they are still the same. The checkpoint itself is one of them: a write
//! whose answer did not come may land after a newer one of the same container, and would take it back.

use bytes::Bytes;
use etcd_client::{Client, KeyValue, Txn};
use steadfast_model::{Epoch, JobId, TaskGroupId};

use super::Shared;
use super::endpoints::Failure;
use super::settle::refusal;
use crate::keys;
use crate::store::{CheckpointError, CheckpointGuard};
use crate::table::Write;
use crate::transaction;

/// Tries after which a container is told that the outcome is not known; each asks every node.
const TRIES: u32 = 4;

pub(super) async fn read(
    shared: &Shared,
    epoch: Epoch,
    job: JobId,
    task_group: TaskGroupId,
) -> Result<Option<Bytes>, CheckpointError> {
    let keys = [keys::HEAD.to_owned(), keys::LEADER.to_owned(), keys::checkpoint(job, task_group)];
    let found = shared.get(&keys).await.map_err(|failure| outcome(failure, false))?;
    led(&found)?;
    transaction::read_checkpoint(&shared.table(found), epoch, job, task_group)
}

pub(super) async fn write(
    shared: &Shared,
    guard: CheckpointGuard,
    value: Bytes,
) -> Result<(), CheckpointError> {
    let CheckpointGuard { job, task_group, .. } = guard;
    let (checkpoint, token) = (keys::checkpoint(job, task_group), keys::token(job, task_group));
    let keys = [keys::HEAD, keys::LEADER, &token, &checkpoint];
    let mut last = None;
    let mut in_doubt = false;
    for _ in 0..TRIES {
        let found = match shared.get(&keys).await {
            Ok(found) => found,
            Err(failure) => return Err(outcome(failure, in_doubt)),
        };
        led(&found)?;
        let revisions = |index: usize| found[index].as_ref().map_or(0, KeyValue::mod_revision);
        let leader = found[1].as_ref().map_or(0, KeyValue::create_revision);
        let compares = [
            shared.keyspace.leader_is(leader),
            shared.keyspace.unchanged(&token, revisions(2)),
            shared.keyspace.unchanged(&checkpoint, revisions(3)),
        ];
        let present = found[3].clone();
        let rows = shared.table(found);
        let ((), writes) = rows.stage(|rows| transaction::write_checkpoint(rows, guard, &value))?;
        if is_there(&writes, present.as_ref()) {
            // An earlier try, or the same once more.
            return Ok(());
        }
        let txn = Txn::new().when(compares).and_then(shared.keyspace.operations(writes, 0));
        let send = |mut client: Client| async move { client.txn(txn).await };
        match shared.endpoints.once(send).await {
            Ok(answer) if answer.succeeded() => return Ok(()),
            // Something has changed: what, the next look says.
            Ok(_) => {}
            // A server that is full may say so of what it has applied: the next look says that, too.
            Err(failure) => {
                in_doubt |= failure.in_doubt();
                last = Some(failure);
            }
        }
    }
    let busy = || Failure::Doubt("it was changed again and again".to_owned());
    Err(outcome(last.unwrap_or_else(busy), in_doubt))
}

fn outcome(failure: Failure, in_doubt: bool) -> CheckpointError {
    let why = refusal(failure).to_string();
    if in_doubt { CheckpointError::Unknown(why) } else { CheckpointError::Unavailable(why) }
}

/// The epoch in the head leads only while its leader's key is there.
fn led(found: &[Option<KeyValue>]) -> Result<(), CheckpointError> {
    if found[1].is_some() { Ok(()) } else { Err(CheckpointError::Fenced) }
}

fn is_there(writes: &[Write], present: Option<&KeyValue>) -> bool {
    let bytes = present.map(KeyValue::value);
    writes.iter().all(|write| matches!(write, Write::Put(_, value) if Some(&value[..]) == bytes))
}
