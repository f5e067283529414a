//! The store as rows, for copying it whole: whatever mark it has, and past the words of the domain.

use std::time::Duration;

use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};

use super::endpoints::Failure;
use super::request;
use super::settle::refusal;
use super::{EtcdStore, Shared, load};
use crate::keys::{self, Range};
use crate::store::{CommitError, StoreError};
use crate::table::{Table, Write};

/// A batch is a thousand times a small commit: it may take longer than one.
const TIME: Duration = Duration::from_secs(10);
/// Between two sendings of the same.
const PAUSE: Duration = Duration::from_millis(200);
/// Sendings, of which each goes to another node.
const TRIES: u32 = 20;

impl EtcdStore {
    pub(crate) async fn rows(
        &self,
        range: Range,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let mut rows = Table::default();
        load::read_range(&self.shared, &range, 0, limit, &mut rows).await?;
        Ok(rows.into_rows())
    }

    /// Writes if the head's key holds this. Says whether it did.
    ///
    /// The same twice is the same as once, so it is sent until somebody answers; a sending that arrives late
    /// finds another head, or changes nothing.
    pub(crate) async fn write_if(
        &self,
        head: Option<Vec<u8>>,
        writes: Vec<Write>,
    ) -> Result<bool, CommitError> {
        let Shared { endpoints, keyspace, .. } = &*self.shared;
        let key = keyspace.key(keys::HEAD);
        let such = match head {
            Some(bytes) => Compare::value(key.clone(), CompareOp::Equal, bytes),
            None => keyspace.unchanged(keys::HEAD, 0),
        };
        let next = writes.iter().find_map(|write| match write {
            Write::Put(key, value) if key == keys::HEAD => Some(value.clone()),
            _ => None,
        });
        let look = [TxnOp::get(key, None)];
        let txn = Txn::new().when([such]).and_then(keyspace.operations(writes, 0)).or_else(look);
        let mut why = String::new();
        for _ in 0..TRIES {
            let send = |mut client: Client| {
                let txn = txn.clone();
                async move { client.txn(txn).await }
            };
            match endpoints.within(TIME, send).await {
                Ok(answer) if answer.succeeded() => return Ok(true),
                Ok(answer) => {
                    // An earlier sending may be what has moved the head.
                    let found = request::found(&answer).into_iter().flatten().next();
                    let found = found.map(|row| row.into_key_value().1);
                    return Ok(next.is_some() && found == next);
                }
                Err(failure @ Failure::Doubt(_)) => {
                    tracing::warn!(%failure, "the same is sent again");
                    why = failure.to_string();
                    tokio::time::sleep(PAUSE).await;
                }
                Err(failure) => return Err(CommitError::NotApplied(refusal(failure))),
            }
        }
        Err(CommitError::Unknown(why))
    }
}
