//! **A deposed leader changes nothing durable**: every commit lands once, in the order in which its leader
//! made it, while that leader leads as far as the store knows; and none after the next one has begun. So
//! neither a commit that was held back for long nor one that was sent twice takes anything back.
//!
//! Seen to fail on `HeadNotCompared`, `LeaderNotCompared`, `NothingCompared` and `UnknownTakenForRefused`.

use std::collections::BTreeSet;

use crate::durable::Head;

/// What has landed.
#[derive(Default)]
pub(crate) struct OneAfterTheOther {
    last: Head,
    landed: BTreeSet<u64>,
}

impl OneAfterTheOther {
    /// A term begins, and moves the head.
    pub fn lead_begins(&mut self, head: Head) {
        self.last = head;
    }

    /// The batch with this number was applied, and the head is now this. `leads`: by what the store knows.
    ///
    /// # Errors
    /// What landed that must not.
    pub fn landed(&mut self, batch: u64, head: Head, leads: bool) -> Result<(), String> {
        let last = std::mem::replace(&mut self.last, head);
        if head != last.next() {
            return Err(format!("{head:?} lands after {last:?}"));
        }
        if !leads {
            return Err(format!("{head:?} lands, and its term leads no more"));
        }
        // What takes no time has no number.
        if batch != 0 && !self.landed.insert(batch) {
            return Err(format!("{head:?} is a commit that has landed before"));
        }
        Ok(())
    }
}
