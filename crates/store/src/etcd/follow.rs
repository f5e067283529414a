//! Following what is committed, for a standby.
//!
//! A commit is one revision of etcd, but may come in several messages, and the library does not say which
//! one is the last. The head does: every commit writes it, and writes it last. What was received of a
//! revision whose head has not come is thrown away when the stream breaks, and asked for again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use etcd_client::{Event, EventType, WatchOptions, WatchResponse};
use tokio::sync::{mpsc, watch};

use super::Shared;
use super::endpoints::Failure;
use super::load::{self, Rows};
use crate::keys::{self, Range};
use crate::standby::{Change, MAX_BEHIND, Standby};
use crate::store::StoreError;
use crate::table::Write;

/// Between two tries to watch, where no node can be watched.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) async fn follow(shared: &Arc<Shared>) -> Result<Standby, StoreError> {
    let Rows { table, revision } = load::read(shared, Range::loaded()).await?;
    let (sender, changes) = mpsc::channel(MAX_BEHIND);
    let rows = table.as_map().iter().map(|(key, value)| (key.clone(), value.clone()));
    let (heard, is_heard) = watch::channel(true);
    let standby = Standby::new(rows, changes, is_heard)?;
    let shared = shared.clone();
    let mut hearing = Hearing { heard, broken: None };
    tokio::spawn(async move {
        let gone = sender.clone();
        tokio::select! {
            () = forward(&shared, revision + 1, &sender, &mut hearing) => {}
            () = gone.closed() => {}
        }
    });
    Ok(standby)
}

/// Sends every change from this revision on. Ends where one was missed: the receiver then sees its end.
async fn forward(
    shared: &Shared,
    from: i64,
    changes: &mpsc::Sender<Change>,
    hearing: &mut Hearing,
) {
    let mut assembly = Assembly { next: from, revision: 0, writes: Vec::new() };
    loop {
        match forward_stream(shared, &mut assembly, changes, hearing).await {
            Ok(()) => return,
            Err(failure) => {
                tracing::warn!(%failure, from = assembly.next, "the watch broke: it is begun again");
                hearing.broke(Duration::from_secs(shared.ttl_seconds.into()));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// One stream, until it breaks (an error) or can not be gone on with.
async fn forward_stream(
    shared: &Shared,
    assembly: &mut Assembly,
    changes: &mpsc::Sender<Change>,
    hearing: &mut Hearing,
) -> Result<(), Failure> {
    assembly.writes.clear();
    let (turn, mut client) = shared.endpoints.client().await?;
    let broken = |error: etcd_client::Error| {
        shared.endpoints.move_on(turn);
        Failure::from(error)
    };
    let range = Range::followed();
    let options = WatchOptions::new()
        .with_range(shared.keyspace.key(&range.to))
        .with_start_revision(assembly.next)
        .with_fragment();
    let key = shared.keyspace.key(&range.from);
    let mut stream = client.watch(key, Some(options)).await.map_err(broken)?;
    hearing.begins();
    while let Some(answer) = stream.message().await.map_err(broken)? {
        if answer.compact_revision() > 0 {
            tracing::info!(from = assembly.next, "what was committed since is no longer kept");
            return Ok(());
        }
        if answer.canceled() {
            break;
        }
        let Some(whole) = assembly.take(shared, &answer) else { return Ok(()) };
        for change in whole {
            if changes.send(change).await.is_err() {
                return Ok(());
            }
        }
    }
    shared.endpoints.move_on(turn);
    Err(Failure::Doubt("the watch has ended".to_owned()))
}

/// Whether the store is heard, as the standby is told. A watch that is begun again at another node is no news:
/// only when it has been broken for as long as a leader's lease lives can another one lead unheard.
struct Hearing {
    heard: watch::Sender<bool>,
    broken: Option<Instant>,
}

impl Hearing {
    fn begins(&mut self) {
        self.broken = None;
        self.say(true);
    }

    fn broke(&mut self, lease: Duration) {
        if self.broken.get_or_insert_with(Instant::now).elapsed() >= lease {
            self.say(false);
        }
    }

    fn say(&self, heard: bool) {
        self.heard.send_if_modified(|said| std::mem::replace(said, heard) != heard);
    }
}

/// Puts the messages of one revision together.
struct Assembly {
    /// The first revision that is not complete.
    next: i64,
    /// The one that is being received, where `writes` holds any.
    revision: i64,
    writes: Vec<Write>,
}

impl Assembly {
    /// The changes that this message completes. `None` where a revision had no head: somebody else has
    /// written there, and what that means for these rows nobody can say.
    fn take(&mut self, shared: &Shared, answer: &WatchResponse) -> Option<Vec<Change>> {
        let mut whole = Vec::new();
        for (key, revision, write) in answer.events().iter().filter_map(|event| of(shared, event)) {
            if self.writes.is_empty() {
                self.revision = revision;
            } else if self.revision != revision {
                return None;
            }
            // A leader's lease that runs out is the one change that no commit makes.
            let alone = self.writes.is_empty() && write == Write::Delete(keys::LEADER.to_owned());
            self.writes.push(write);
            if alone || key == keys::HEAD {
                self.next = revision + 1;
                whole.push(std::mem::take(&mut self.writes).into());
            }
        }
        Some(whole)
    }
}

fn of(shared: &Shared, event: &Event) -> Option<(String, i64, Write)> {
    let row = event.kv()?;
    let revision = row.mod_revision();
    let (key, value) = shared.keyspace.row(row.clone())?;
    let write = match event.event_type() {
        EventType::Put => Write::Put(key.clone(), value),
        EventType::Delete => Write::Delete(key.clone()),
    };
    Some((key, revision, write))
}
