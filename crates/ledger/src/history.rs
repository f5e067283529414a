//! The episodes that are kept: the first, and the newest.
//!
//! In a loop of recoveries the first failure is the one that people look for, and the newest are the
//! ones that an operator sees; what lies between is only counted.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use steadfast_model::EpisodeNumber;

use crate::Episode;

/// Closed episodes within a bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EpisodeHistory {
    /// `engine.dirty-task.event-history-size`: how many are kept; at least 1.
    size: usize,
    first: Option<Box<Episode>>,
    newest: VecDeque<Episode>,
    dropped: u64,
}

impl EpisodeHistory {
    /// An empty history that keeps `size` episodes, or one if `size` is 0.
    pub fn new(size: usize) -> Self {
        Self { size: size.max(1), first: None, newest: VecDeque::new(), dropped: 0 }
    }

    /// Adds a closed episode and drops the oldest but the first where the bound asks for it.
    pub(crate) fn push(&mut self, episode: Episode) {
        if self.first.is_none() {
            self.first = Some(Box::new(episode));
            return;
        }
        self.newest.push_back(episode);
        while self.newest.len() + 1 > self.size {
            self.newest.pop_front();
            self.dropped += 1;
        }
    }

    /// The kept episodes, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Episode> {
        self.first.as_deref().into_iter().chain(&self.newest)
    }

    /// A kept episode.
    pub(crate) fn episode_mut(&mut self, number: EpisodeNumber) -> Option<&mut Episode> {
        let mut kept = self.first.as_deref_mut().into_iter().chain(&mut self.newest);
        kept.find(|episode| episode.number == number)
    }

    /// How many are no longer kept.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
