//! Reading all that a leader starts from: page by page, at one revision.

use std::sync::atomic::{AtomicI64, Ordering};

use etcd_client::Client;

use super::endpoints::Failure;
use super::{PAGE, Shared};
use crate::keys::{self, Range};
use crate::table::Table;

/// How often a load begins anew because its revision was compacted while it read. Whoever compacts keeps
/// at least some minutes of history.
const TRIES: u32 = 3;

/// Rows and the revision at which all of them were there.
pub(super) struct Rows {
    pub table: Table,
    pub revision: i64,
}

/// Everything in these ranges. The first read is linearizable and fixes the revision of all others.
pub(super) async fn read(shared: &Shared, ranges: &[Range]) -> Result<Rows, Failure> {
    let mut outcome = read_once(shared, ranges).await;
    for _ in 1..TRIES {
        if !matches!(outcome, Err(Failure::Compacted)) {
            break;
        }
        outcome = read_once(shared, ranges).await;
    }
    outcome
}

async fn read_once(shared: &Shared, ranges: &[Range]) -> Result<Rows, Failure> {
    let key = shared.keyspace.key(keys::HEAD);
    let head = |mut client: Client| {
        let key = key.clone();
        async move { client.get(key, None).await }
    };
    let answer = shared.endpoints.read(head).await?;
    let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
    let mut table = Table::default();
    for range in ranges {
        read_range(shared, range, revision, usize::MAX, &mut table).await?;
    }
    Ok(Rows { table, revision })
}

/// At most `limit` rows of a range; at the newest revision where `revision` is 0.
pub(super) async fn read_range(
    shared: &Shared,
    range: &Range,
    revision: i64,
    limit: usize,
    table: &mut Table,
) -> Result<(), Failure> {
    let mut rest = range.clone();
    let mut left = limit;
    // Records are of very different sizes: where a page is more than the client takes, the next is half.
    let page = AtomicI64::new(PAGE as i64);
    while left > 0 {
        let (from, options) = shared.keyspace.range(&rest);
        let read = |mut client: Client| {
            let limit = page.load(Ordering::Relaxed).min(i64::try_from(left).unwrap_or(i64::MAX));
            let options = options.clone().with_limit(limit).with_revision(revision);
            let from = from.clone();
            async move { client.get(from, Some(options)).await }
        };
        let mut answer = match shared.endpoints.read(read).await {
            Err(Failure::TooMuch) if page.load(Ordering::Relaxed) > 1 => {
                page.store(page.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
                continue;
            }
            answer => answer?,
        };
        let more = answer.more();
        for (key, value) in answer.take_kvs().into_iter().filter_map(|row| shared.keyspace.row(row))
        {
            left -= 1;
            rest.from = format!("{key}\0");
            table.insert(key, value);
        }
        if !more {
            break;
        }
    }
    Ok(())
}
