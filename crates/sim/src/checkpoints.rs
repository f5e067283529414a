//! Checkpoints: a program says once a second how far it is, through whichever coordinator serves, and goes
//! on whether or not it hears back.
//!
//! They go past the commits: the store compares who leads, whose token is the newest, and that the checkpoint
//! is still the one that the coordinator saw. Without the last, one that lay in a paused node would take a later
//! one back.

use steadfast_model::{Epoch, ExecutionId, FencingToken, JobId, TaskGroupId};
use steadfast_store::CheckpointGuard;

use crate::durable::TermNumber;
use crate::mutation::Mutation;
use crate::world::{Event, World};

const EVERY_MS: u64 = 1_000;

/// How far a program is: the token of its container, then its own count.
pub(crate) type Position = (u64, u64);

/// A checkpoint on its way into the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckpointWrite {
    term: TermNumber,
    place: (JobId, TaskGroupId),
    position: Position,
    /// How often it had been written when the coordinator looked.
    seen: u64,
    /// Whether the program hears of it.
    answered: bool,
}

impl World {
    /// A program that still runs writes its next checkpoint.
    pub fn write_checkpoint(&mut self, execution: ExecutionId, count: u64) {
        let Some(container) = self.containers.get(&execution).filter(|one| one.has_program())
        else {
            return;
        };
        let (place, machine) = ((container.job, container.group), container.machine);
        let position = (container.token(), count);
        self.at(self.now + EVERY_MS, Event::Checkpoint(execution, count + 1));
        let served = self.serving().filter(|_| self.machines[machine].reachable);
        let Some(term) = served.and_then(|c| self.term(c)).map(|term| term.number) else { return };
        let (held, unanswered) =
            self.plan.etcd.as_ref().map_or((0, 0), |etcd| (etcd.held, etcd.unanswered));
        let rng = &mut self.checkpoint_rng;
        let held = self.faulty && rng.chance(held);
        let unheard = self.faulty && rng.chance(unanswered);
        let answered = !held && !unheard;
        let takes_ms = if held { rng.between(200, 10_000) } else { rng.between(0, 10) };
        let seen = self.checkpoints.get(&place).copied().unwrap_or_default();
        let write = CheckpointWrite { term, place, position, seen, answered };
        self.at(self.now + takes_ms, Event::CheckpointLands(write));
    }

    pub fn checkpoint_lands(&mut self, write: CheckpointWrite) {
        let CheckpointWrite { term, place, position, seen, answered } = write;
        let written = self.checkpoints.get(&place).copied().unwrap_or_default();
        let unchanged = written == seen || self.mutated(Mutation::CheckpointNotCompared);
        if self.etcd_is_away() || !self.lead_held(term) || !unchanged {
            return;
        }
        let ((job, task_group), (token, count)) = (place, position);
        let token = FencingToken::new(token);
        let guard = CheckpointGuard { epoch: Epoch::new(term), job, task_group, token };
        if self.durable.put_checkpoint(guard, count) {
            self.checkpoints.insert(place, written + 1);
            self.checks.checkpoint(place, position, answered);
        }
    }
}
