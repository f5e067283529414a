//! The episodes that are kept: the first, and the newest.
//!
//! In a loop of recoveries the first failure is the one that people look for, and the newest are the
//! ones that an operator sees; what lies between is only counted.
//!
//! They change when an episode closes, and are most of a ledger. So versions of a ledger share them, and a
//! store keeps them apart from what changes with every loss.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use steadfast_model::{EpisodeNumber, LedgerRevision};

use crate::Episode;

/// Closed episodes within a bound. Clones share them until one changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpisodeHistory(Arc<Kept>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Kept {
    revision: LedgerRevision,
    /// `engine.dirty-task.event-history-size`: how many are kept; at least 1.
    size: usize,
    first: Option<Episode>,
    newest: VecDeque<Episode>,
    dropped: u64,
}

impl EpisodeHistory {
    /// An empty history that keeps `size` episodes, or one if `size` is 0.
    pub fn new(size: usize) -> Self {
        Self(Arc::new(Kept { size: size.max(1), ..Kept::default() }))
    }

    /// Adds a closed episode and drops the oldest but the first where the bound asks for it.
    pub(crate) fn push(&mut self, episode: Episode, revision: LedgerRevision) {
        let kept = Arc::make_mut(&mut self.0);
        kept.revision = revision;
        if kept.first.is_none() {
            kept.first = Some(episode);
            return;
        }
        kept.newest.push_back(episode);
        while kept.newest.len() + 1 > kept.size {
            kept.newest.pop_front();
            kept.dropped += 1;
        }
    }

    /// The kept episodes, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Episode> {
        self.0.first.iter().chain(&self.0.newest)
    }

    /// Changes a kept episode. `change` says whether it did; the history has this revision then.
    pub(crate) fn change(
        &mut self,
        number: EpisodeNumber,
        revision: LedgerRevision,
        change: impl FnOnce(&mut Episode) -> bool,
    ) -> bool {
        let kept = Arc::make_mut(&mut self.0);
        let mut episodes = kept.first.iter_mut().chain(&mut kept.newest);
        let changed = episodes.find(|episode| episode.number == number).is_some_and(change);
        if changed {
            kept.revision = revision;
        }
        changed
    }

    /// How many are no longer kept.
    pub fn dropped(&self) -> u64 {
        self.0.dropped
    }

    /// How many have closed.
    pub(crate) fn closed(&self) -> u64 {
        self.dropped() + self.iter().count() as u64
    }

    pub(crate) fn size(&self) -> usize {
        self.0.size
    }

    /// The ledger's revision at which an episode last closed, or the cause of a closed one was settled. 0
    /// while none has, and in a ledger of an older format, whose closed episodes are not stored apart yet.
    pub fn revision(&self) -> LedgerRevision {
        self.0.revision
    }

    pub(crate) fn name(&mut self, revision: LedgerRevision) {
        Arc::make_mut(&mut self.0).revision = revision;
    }

    /// Whether these are the same episodes, whenever they were stored.
    pub(crate) fn holds_the_same_as(&self, other: &Self) -> bool {
        let episodes = |kept: &Self| (kept.0.dropped, kept.0.newest.len());
        Arc::ptr_eq(&self.0, &other.0)
            || (episodes(self) == episodes(other) && self.iter().eq(other.iter()))
    }
}

impl Serialize for EpisodeHistory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EpisodeHistory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Kept::deserialize(deserializer).map(|kept| Self(Arc::new(kept)))
    }
}
