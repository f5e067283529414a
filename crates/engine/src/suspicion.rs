//! Suspect yourself first: when most members go at once, the fault is more likely the coordinator's own,
//! its network's or its machine's, and emptying a healthy cluster would be the worst answer.
//!
//! If, of three or more members, more than half fall silent, or close within a second, declarations of
//! loss are held for one more timeout. The members stay suspected; who returns was never lost. The hold
//! does not end early when half of them are back: after a cut they come back one by one, and the last
//! must have as long as the first.

use steadfast_model::Timestamp;

use crate::membership::{Members, Trouble};

/// Connections that close within this time closed together.
const TOGETHER_MS: u64 = 1_000;
/// With fewer members a majority says nothing.
const MIN_MEMBERS: usize = 3;

/// Declarations are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfSuspicion {
    /// Since when.
    pub since: Timestamp,
    /// How many members went together.
    pub members: u64,
    /// On the listening clock.
    pub(crate) until_ms: u64,
}

impl Members {
    /// Begins to suspect the coordinator itself, or stops: to be called before anybody is declared lost.
    pub(crate) fn suspect_self(&mut self, now: Timestamp) {
        if self.suspicion.is_some() {
            let all_decided = !self.troubles().any(|trouble| trouble.is_due);
            if all_decided {
                self.suspicion = None;
            }
        } else if self.suspects_self
            && let Some(members) = self.gone_together()
        {
            let until_ms = self.listened_ms() + self.timeout_ms();
            self.suspicion = Some(SelfSuspicion { since: now, members, until_ms });
        }
    }

    /// Whether declarations are held at the moment.
    pub(crate) fn holds_declarations(&self) -> bool {
        self.suspicion.is_some_and(|suspicion| self.listened_ms() < suspicion.until_ms)
    }

    /// How many members went together with the first that is due, if that is most of them.
    fn gone_together(&self) -> Option<u64> {
        let first = self.troubles().filter(|trouble| trouble.is_due).map(|t| t.since_ms).min()?;
        let present = self.troubles().count();
        let gone = self
            .troubles()
            .filter(|trouble| match *trouble {
                Trouble { silent: true, suspected, .. } => suspected,
                Trouble { since_ms, suspected, .. } => {
                    suspected && since_ms.abs_diff(first) <= TOGETHER_MS
                }
            })
            .count();
        (present >= MIN_MEMBERS && gone * 2 > present).then_some(gone as u64)
    }
}
