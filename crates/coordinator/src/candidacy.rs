//! Before a term: standing by with a copy of the state, until this coordinator leads.
//!
//! The copy follows every commit, so that taking over is reading a little out of memory and not all of the
//! store. It is only ever a shortcut: where it cannot be brought up to the beginning of the term, the store
//! is loaded.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use steadfast_store::{LeaderInfo, Loaded, Missed, Rev, Standby, StoreError, Term};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::shared::Shared;

/// Before the state is followed anew.
const PAUSE: Duration = Duration::from_millis(500);
/// Where nothing changes, what the candidate has noted of the store is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long the copy may take to see the term's beginning; loading everything takes about as long.
const CATCH_UP: Duration = Duration::from_secs(1);

/// A term that has begun, and what it begins from.
pub(crate) struct Won {
    pub term: Box<dyn Term>,
    pub loaded: Loaded,
}

/// Stands by until this coordinator leads; `None` when the process is asked to go first.
///
/// # Errors
/// When the store cannot be led or loaded.
pub(crate) async fn win(
    shared: &Shared,
    me: &LeaderInfo,
    shutdown: &mut watch::Receiver<bool>,
) -> Result<Option<Won>, StoreError> {
    let mut standby = None;
    shared.coordinators.note_leader(None);
    // What it gives locks the channel, so it must not outlive the waiting.
    let asked_to_go = async { drop(shutdown.wait_for(|stop| *stop).await) };
    let term = tokio::select! {
        biased;
        () = asked_to_go => return Ok(None),
        term = lead(shared, me) => term?,
        never = follow(shared, &mut standby) => match never {},
    };
    shared.store_health.note_well();
    shared.coordinators.note_leads_itself();
    let loaded = match caught_up(standby, term.rev()).await {
        Some(standby) => standby.loaded()?,
        None => shared.store.load().await?,
    };
    shared.coordinators.note_rev(term.rev());
    Ok(Some(Won { term, loaded }))
}

/// Leads once it can. A store that is away or full is asked again: whoever gave up would have to be started by
/// somebody, and then find the same.
async fn lead(shared: &Shared, me: &LeaderInfo) -> Result<Box<dyn Term>, StoreError> {
    loop {
        let me = LeaderInfo { since: Clock::start().now(), ..me.clone() };
        match shared.store.lead(me).await {
            Ok(term) => return Ok(term),
            Err(error) => shared.store_health.note_error(error)?,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Keeps `standby` up with the store and says who leads, where the store can be followed.
async fn follow(shared: &Shared, standby: &mut Option<Standby>) -> Infallible {
    loop {
        match shared.store.follow().await {
            Ok(Some(copy)) => {
                let Missed = keep_up(standby.insert(copy), shared).await;
                *standby = None;
                info!("a commit was missed: the state is followed anew");
            }
            Ok(None) => return pending().await,
            Err(error) => warn!(%error, "the state cannot be followed"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn keep_up(copy: &mut Standby, shared: &Shared) -> Missed {
    let coordinators = &shared.coordinators;
    loop {
        let leader = copy.leader().unwrap_or_else(|error| {
            warn!(%error, "nobody can say who leads");
            None
        });
        let before = coordinators.leader();
        if leader.as_ref() != before.as_deref() {
            match &leader {
                Some(leader) => info!(url = leader.url, host = leader.host, "stands by"),
                None if copy.is_heard() => info!("nobody leads"),
                None => warn!("the store is not heard: nobody knows who leads"),
            }
            coordinators.note_leader(leader);
        }
        coordinators.note_rev(copy.rev());
        if coordinators.leader().is_some() {
            // It writes, and this one hears of it. Whatever the candidate has met meanwhile is over.
            shared.store_health.note_well();
        }
        if let Ok(Err(missed)) = tokio::time::timeout(LOOK_AGAIN, copy.changed()).await {
            return missed;
        }
    }
}

/// The copy, once it holds the beginning of the term and so everything that was committed before.
async fn caught_up(standby: Option<Standby>, begins: Rev) -> Option<Standby> {
    let mut standby = standby?;
    match tokio::time::timeout(CATCH_UP, standby.reach(begins)).await {
        Ok(Ok(())) => Some(standby),
        Ok(Err(Missed)) => None,
        Err(_) => {
            warn!("what the last leader committed does not arrive: everything is loaded");
            None
        }
    }
}
