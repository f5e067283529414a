//! A coordinator is stopped or killed not only at some time but at a step: before a commit is sent, while it
//! is under way, when it has landed, and before each effect of what is durable.

use crate::commit::Batch;
use crate::coordinator::CoordinatorNumber;
use crate::world::World;

/// What happens to the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// It is killed, and started again later.
    Killed,
    /// It is stopped for so many milliseconds.
    Stopped(u64),
}

/// Somebody waits for a coordinator to come by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ambush {
    /// Steps that it still passes.
    pub passes: u64,
    pub blow: Blow,
    /// Steps are counted from the first member's loss on.
    pub from_loss: bool,
}

impl World {
    /// A coordinator comes to its next step; `false` when it does not get beyond it now.
    pub fn passes(&mut self, c: CoordinatorNumber) -> bool {
        let Some(ambush) = self.ambush.as_mut().filter(|ambush| !ambush.from_loss) else {
            return true;
        };
        if !self.coordinators[c].runs() {
            return false;
        }
        if ambush.passes > 0 {
            ambush.passes -= 1;
            return true;
        }
        let blow = ambush.blow;
        self.ambush = None;
        self.strike(c, blow);
        false
    }

    pub fn strike(&mut self, c: CoordinatorNumber, blow: Blow) {
        match blow {
            Blow::Killed => self.coordinator_dies(c),
            Blow::Stopped(for_ms) => self.stop_coordinator(c, for_ms),
        }
    }

    /// A batch is decided: where a loss is waited for, it may be there.
    pub fn arm(&mut self, batch: &Batch) {
        if let Some(ambush) = &mut self.ambush {
            ambush.from_loss &= !batch.has_loss();
        }
    }
}
