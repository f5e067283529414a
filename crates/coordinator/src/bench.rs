//! Doors for the benches. The one of container validity: a real term, its loop and its HTTP side, with
//! containers that no job stands behind. And [`commit`], the way of the loop's steps to the store.
//!
//! A figure per registered container needs a hundred thousand of them and no job's state beside them, so
//! they go straight into the index of the served term, as the loop puts them there after a commit. The
//! loop itself knows nothing of them and idles. Compiled only for the benches.

use std::sync::Arc;
use std::time::Duration;

use steadfast_engine::{IndexChange, IndexEntry, Settings, Step};
use steadfast_model::{
    ExecutionId, FencingToken, JobId, LeaseTerms, TaskGroupId, TermNonce, Timestamp,
};
use steadfast_store::{LeaderInfo, Store};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::commit::Commits;
use crate::shared::{Shared, Term};
use crate::store_health::StoreHealth;
use crate::{http, lead};

/// The defaults of a job: one question a second.
pub const LEASE: LeaseTerms = LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 };

/// A coordinator whose validity index can be written from outside.
pub struct ValidityServer {
    shared: Arc<Shared>,
    term: Arc<Term>,
    stopped: watch::Receiver<bool>,
    // Dropping it would be the request to stop.
    _stop: watch::Sender<bool>,
}

impl ValidityServer {
    /// Leads the store and waits until the term is served. Nobody can reach it yet: registering comes
    /// before [`ValidityServer::serve`], as loading comes before opening.
    pub async fn lead(store: Arc<dyn Store>, url: String) -> Self {
        let me = LeaderInfo::of_this_process(url.clone(), Timestamp::default());
        let shared = Arc::new(Shared::new(store, vec![url], None));
        let (stop, stopped) = watch::channel(false);
        let (leading, asked_to_stop) = (Arc::clone(&shared), stopped.clone());
        tokio::spawn(async move { lead(&leading, &Settings::default(), &me, asked_to_stop).await });
        let term = loop {
            match shared.term() {
                Some(term) => break term,
                None => tokio::time::sleep(Duration::from_millis(10)).await, // polls
            }
        };
        Self { shared, term, stopped, _stop: stop }
    }

    /// The id of the `n`-th container; the same in every term of the store, as that of an adopted one.
    pub fn id(n: u64) -> ExecutionId {
        ExecutionId::of_term(TermNonce::new(1), n)
    }

    /// Its secret.
    pub fn secret(&self, n: u64) -> String {
        self.term.secrets.of(Self::id(n))
    }

    /// Puts it into the index, as it is done once the commit that starts it is durable.
    pub fn register(&self, n: u64) {
        // All of one job: the index tells neither jobs nor task groups apart.
        let entry = IndexEntry {
            job: JobId::new(1),
            task_group: TaskGroupId::new(1),
            token: FencingToken::new(1),
            lease: LEASE,
            assumed_answer: None,
            started: true,
            samza: false,
        };
        self.term.index.apply(&IndexChange::Live(Self::id(n), entry));
    }

    /// Takes it out again, as it is done once its end is proven.
    pub fn remove(&self, n: u64) {
        self.term.index.apply(&IndexChange::Remove(Self::id(n)));
    }

    /// Serves until the process ends.
    pub async fn serve(&self, listener: TcpListener) {
        http::serve(listener, Arc::clone(&self.shared), self.stopped.clone()).await;
    }
}

/// Makes `steps` durable as the loop does.
///
/// # Errors
/// When the term is over, or a ledger was refused: what was measured then is not the same work.
pub async fn commit(term: &mut dyn steadfast_store::Term, steps: &[Step]) -> Result<(), String> {
    let (_stop, mut shutdown) = watch::channel(false);
    let mut commits = Commits { term, health: &StoreHealth::new(), shutdown: &mut shutdown };
    let refused = commits.commit(steps, &|_| None).await.map_err(|end| format!("{end:?}"))?;
    if refused.is_empty() { Ok(()) } else { Err(format!("{} ledgers were refused", refused.len())) }
}
