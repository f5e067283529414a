//! One story, and every write of a ledger in it goes wrong, one after the other, in every way that a
//! store can fail: it is refused, it is refused and the coordinator is gone after it, nobody knows whether
//! it was applied, or either part of what was written cannot be read by the next coordinator.
//!
//! The story: a member is lost, the first redeployment fails, the job recovers, a second member is lost,
//! the job recovers again and is cancelled. It must come to that end whatever happens to the ledger, and
//! nobody may ever be told that a wrong count is complete.
//!
//! Seen to fail on a record that does not say what it owes, an engine that is not told of a refusal, and a
//! history that keeps the evaluation of a ledger that was refused.

mod small;

use std::sync::Arc;

use steadfast_engine::records::JobRecord;
use steadfast_model::{Epoch, JobStatus, MemberUuid};
use steadfast_store::conformance::samples;
use steadfast_store::{CommitError, Fault, MemoryStore, Op, Refusal, ops_of};

use small::cluster::{Cluster, Faults, Life, PARTS, Part};
use small::reference::Numbers;

/// How a write goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Refused,
    RefusedThenRestart,
    Unknown {
        applied: bool,
    },
    Undecodable,
    /// The closed episodes, which are stored apart.
    EpisodesUndecodable,
}

const TROUBLES: [Trouble; 6] = [
    Trouble::Refused,
    Trouble::RefusedThenRestart,
    Trouble::Unknown { applied: false },
    Trouble::Unknown { applied: true },
    Trouble::Undecodable,
    Trouble::EpisodesUndecodable,
];

/// What a write of a ledger holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    /// Losses and preparations are in the journal: a refused one is taken in again.
    Replayable,
    /// What happens in this commit and is told nowhere else.
    Final,
    /// The last ledger goes into the history.
    End,
}

struct Story {
    cluster: Cluster,
    store: MemoryStore,
    epoch: Epoch,
    /// Writes of a ledger so far.
    writes: Vec<Write>,
    /// Which of them put closed episodes too.
    with_episodes: Vec<usize>,
    trouble: Option<(usize, Trouble)>,
    /// What a failure says.
    name: String,
}

impl Story {
    fn tell(redo: bool, trouble: Option<(usize, Trouble)>) -> Self {
        let store = MemoryStore::new();
        let epoch = lead(&store);
        let left = Faults { losses: 0, failures: 0, changes: 0, refusals: 0 };
        let name = format!("{trouble:?}");
        let cluster = Cluster::empty(3, left, redo);
        let mut story = Self {
            cluster,
            store,
            epoch,
            writes: Vec::new(),
            with_episodes: Vec::new(),
            trouble,
            name,
        };
        story.cluster.take_over();
        story.settle(true);
        while story.cluster.record().is_none() {
            story.cluster.submit(9);
            story.settle(true);
        }
        story.lose_first();
        story.settle(false);
        let launched = story.cluster.containers.iter().find(|(_, (_, l))| *l == Life::Launched);
        let launched = launched.map(|(execution, _)| *execution).expect("it is deployed again");
        story.cluster.report(launched, Life::Failed);
        story.settle(true);
        story.lose_first();
        story.settle(true);
        while let Some(record) = story.cluster.record() {
            story.cluster.stop(record.id);
            story.settle(true);
        }
        story
    }

    /// The member that runs the job's first pipeline is lost.
    fn lose_first(&mut self) {
        let record = self.cluster.record().expect("the job is there");
        let container = record.pipelines[0].task_groups[0].container.as_ref();
        let member: MemberUuid = container.expect("it runs").member;
        self.cluster.leave(member);
    }

    /// All that happens by itself; containers start only if they may.
    fn settle(&mut self, starts: bool) {
        loop {
            if !self.cluster.is_idle() {
                self.commit();
                continue;
            }
            self.look();
            let away = self.cluster.agents.iter().find(|(_, a)| a.connection.is_none() && !a.gone);
            if let Some(member) = away.map(|(member, _)| *member) {
                self.cluster.hello(member);
                continue;
            }
            if let Some(member) = self.cluster.leaving().first() {
                self.cluster.leave(*member);
                continue;
            }
            let launched = self.cluster.containers.iter().find(|(_, (_, l))| *l == Life::Launched);
            match launched.map(|(execution, _)| *execution).filter(|_| starts) {
                Some(execution) => self.cluster.report(execution, Life::Runs),
                None if self.cluster.owes() => self.cluster.wait(),
                None => return,
            }
        }
    }

    fn look(&self) {
        let truth = self.cluster.reference.numbers();
        if let Some(shown) = self.cluster.view() {
            assert!(truth.is_told_by(&shown), "{}: {truth:?}, shown {shown:?}", self.name);
        }
    }

    fn commit(&mut self) {
        let steps = self.cluster.queue.iter().map(|decided| &decided.step);
        let ops: Vec<Op> = steps.flat_map(ops_of).collect();
        let write = ops.iter().find_map(|op| self.write_of(op));
        let mut trouble = None;
        if let Some(write) = write {
            let trouble_at = self.trouble.filter(|(at, _)| *at == self.writes.len());
            trouble = trouble_at.map(|(_, trouble)| trouble);
            if ops.iter().any(|op| matches!(op, Op::PutEpisodes { .. })) {
                self.with_episodes.push(self.writes.len());
            }
            self.writes.push(write);
        }
        match trouble {
            Some(Trouble::Refused | Trouble::RefusedThenRestart) => {
                self.store.inject(Fault::Refuse(Refusal::Full), 1);
            }
            Some(Trouble::Unknown { applied }) => {
                self.store.inject(Fault::Unknown { applied }, 1);
            }
            Some(Trouble::Undecodable | Trouble::EpisodesUndecodable) | None => {}
        }
        match self.store.apply(self.epoch, &ops) {
            Ok(_) => self.cluster.commit(),
            Err(CommitError::NotApplied(_)) => self.commit_without_ledger(ops),
            Err(CommitError::Unknown(_)) => {
                if trouble == Some(Trouble::Unknown { applied: true }) {
                    self.cluster.commit();
                }
                return self.restart();
            }
            Err(CommitError::Fenced) => panic!("{}: nobody else leads", self.name),
        }
        self.cluster.carry_out();
        match trouble {
            Some(Trouble::RefusedThenRestart) => self.restart(),
            Some(Trouble::Undecodable) => self.damage("ledger/"),
            Some(Trouble::EpisodesUndecodable) => self.damage("episodes/"),
            _ => {}
        }
    }

    fn damage(&mut self, kind: &str) {
        let rows = self.store.dump();
        let key = rows.keys().find(|key| key.starts_with(kind));
        self.store.plant(key.expect("it is written"), b"{");
        self.restart();
    }

    fn write_of(&self, op: &Op) -> Option<Write> {
        let durable = self.cluster.durable.ledger();
        match op {
            Op::PutLedger { ledger, .. } => {
                let replayable = durable.is_some_and(|durable| ledger.is_replayable_from(durable));
                Some(if replayable { Write::Replayable } else { Write::Final })
            }
            Op::EndJob(_) => Some(Write::End),
            _ => None,
        }
    }

    /// As the coordinator does: the job's part alone, and its record says what it owes.
    fn commit_without_ledger(&mut self, ops: Vec<Op>) {
        for part in PARTS {
            self.cluster.commit_part(part, part == Part::Job);
        }
        let amended: Option<JobRecord> = self.cluster.durable.record().cloned();
        let ops: Vec<Op> = ops
            .into_iter()
            .filter(|op| !op.is_ledger_part())
            .map(|op| match (op, &amended) {
                (Op::PutJob(_), Some(record)) => Op::PutJob(Arc::new(record.clone())),
                (Op::EndJob(history), _) => Op::EndJob(Arc::new(history.without_ledger())),
                (op, _) => op,
            })
            .collect();
        self.store.apply(self.epoch, &ops).expect("without the ledger it is taken");
    }

    fn restart(&mut self) {
        self.epoch = lead(&self.store);
        let loaded = self.store.snapshot().expect("a ledger that cannot be read stops nobody");
        self.cluster.durable.snapshot = loaded.snapshot;
        self.cluster.change_coordinator();
    }
}

fn lead(store: &MemoryStore) -> Epoch {
    store.begin_term(&samples::leader(1)).expect("its head can be read")
}

const TRUTH: Numbers = Numbers { attempts: 3, episodes: 2, incidents: 2 };

#[test]
fn whatever_happens_to_a_ledgers_write_the_story_ends_as_it_should_and_nobody_is_lied_to() {
    use Write::{End, Final, Replayable};
    // It is created, lost, deployed, deployed again, recovers; is lost, deployed, recovers; ends.
    let every = [Final, Replayable, Final, Final, Final, Replayable, Final, Final, End];
    // Each time it recovers an episode closes.
    whatever_happens_to(false, &every, [4, 7]);
    // The same, where what a loss tells it stands in the job's record.
    let but_for_losses: Vec<Write> =
        every.into_iter().filter(|write| *write != Replayable).collect();
    whatever_happens_to(true, &but_for_losses, [3, 5]);
}

#[track_caller]
fn whatever_happens_to(redo: bool, story: &[Write], closing: [usize; 2]) {
    use Write::End;
    let Story { writes, with_episodes, .. } = Story::tell(redo, None);
    assert_eq!(writes, story);
    assert_eq!(with_episodes, closing);
    for (at, write) in writes.iter().enumerate() {
        for trouble in TROUBLES {
            if *write == End
                && matches!(trouble, Trouble::Undecodable | Trouble::EpisodesUndecodable)
            {
                continue; // no coordinator loads a history
            }
            if trouble == Trouble::EpisodesUndecodable && at < with_episodes[0] {
                continue; // none has closed
            }
            let story = Story::tell(redo, Some((at, trouble)));
            let name = format!("write {} of {}, {write:?}, {trouble:?}", at + 1, writes.len());
            let history = story.cluster.durable.history.as_ref().expect("the job has ended");
            assert_eq!(history.job.status, JobStatus::Canceled, "{name}");
            assert_eq!(story.cluster.reference.numbers(), TRUTH, "{name}");
            let shown = history.evaluation.as_ref().expect("it is tracked");
            assert!(TRUTH.is_told_by(shown), "{name}: {shown:?}");
            let comes_back = match trouble {
                Trouble::Refused | Trouble::RefusedThenRestart => *write == Write::Replayable,
                // What was not applied did not happen, and happens again.
                Trouble::Unknown { .. } => true,
                Trouble::Undecodable | Trouble::EpisodesUndecodable => false,
            };
            assert_eq!(shown.tracking_complete, comes_back, "{name}: {shown:?}");
        }
    }
}
