//! Ends that are known for good: an id that ended is never started again, and what was said about its
//! end is said again when somebody asks.

use std::collections::{BTreeMap, VecDeque};

use steadfast_model::{ContainerEvent, ExecutionId};

/// Far more than a coordinator can have under way to one agent.
const KEPT: usize = 4_096;

/// The newest ends, and whether there were more.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    events: BTreeMap<ExecutionId, ContainerEvent>,
    /// Oldest first.
    order: VecDeque<ExecutionId>,
    incomplete: bool,
}

impl Tombstones {
    pub fn insert(&mut self, id: ExecutionId, event: ContainerEvent) {
        if self.events.insert(id, event).is_none() {
            self.order.push_back(id);
        }
        while self.order.len() > KEPT {
            let oldest = self.order.pop_front();
            self.incomplete |= oldest.is_some_and(|id| self.events.remove(&id).is_some());
        }
    }

    pub fn take(&mut self, id: ExecutionId) -> Option<ContainerEvent> {
        let event = self.events.remove(&id)?;
        self.order.retain(|other| *other != id);
        Some(event)
    }

    /// Whether an id that is not here may still have run here.
    pub fn is_incomplete(&self) -> bool {
        self.incomplete
    }
}

#[cfg(test)]
mod tests {
    use steadfast_model::TermNonce;

    use super::*;

    #[test]
    fn memory_is_bounded_and_says_when_it_is_not_whole() {
        let id = |seq| ExecutionId::of_term(TermNonce::new(1), seq);
        let event = ContainerEvent::Ended { outcome: None, proof: None };
        let mut tombstones = Tombstones::default();
        for seq in 0..KEPT as u64 {
            tombstones.insert(id(seq), event.clone());
        }
        assert!(!tombstones.is_incomplete());
        assert_eq!(tombstones.take(id(0)), Some(event.clone()));
        tombstones.insert(id(0), event.clone());
        assert!(!tombstones.is_incomplete(), "taken and put back is not one more");

        tombstones.insert(id(KEPT as u64), event);
        assert!(tombstones.is_incomplete());
        assert_eq!((tombstones.take(id(1)), tombstones.take(id(0)).is_some()), (None, true));
    }
}
