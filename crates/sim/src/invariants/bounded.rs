//! **State is bounded**: however long a cluster lives and whatever happens to it, what is stored of a job
//! stays under a stated maximum, and what is remembered is there for somebody who is still there: a slot
//! for each container that is not proven gone, an entry of the validity index for the same, a member for
//! each that is present or was lost a short while ago.
//!
//! The maximum of a ledger is the product's own ([`max_stored_bytes`]); that of a job's record is stated
//! here, from its spec and its task groups: its age is no part of it.
//!
//! Seen to fail on `EpisodesKept` (a ledger's history never drops), on `WordsKept` (what is said of a failure
//! grows with every failure) and on `ContainersRemembered` (the index forgets nobody).

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde::Serialize;
use steadfast_engine::Step;
use steadfast_engine::records::{ContainerRecord, HistoryRecord, JobRecord, MAX_FAILURES};
use steadfast_ledger::{JobLedger, MAX_ATTEMPTS, MAX_INCIDENTS, max_stored_bytes};
use steadfast_model::{ExecutionId, MemberUuid};

use super::View;

/// Any text that a simulated machine or program gives, with what the engine puts around it.
const TEXT: usize = 300;
const CONTAINER: usize = 350;
/// A task group, its container and the one that is not proven gone yet.
const GROUP: usize = 250 + TEXT + 2 * CONTAINER;
const PIPELINE: usize = 450 + MAX_FAILURES * (TEXT + 100);
const JOB: usize = 600 + TEXT;
const EVALUATION: usize = 600;
/// A lost member is unlisted by the first step after its time, and steps come twice a second.
const UNLISTED_LATE_MS: u64 = 40_000;

/// Needs no memory: that is the point.
#[derive(Default)]
pub(crate) struct Bounded;

impl Bounded {
    /// # Errors
    /// What a step that is durable wrote too much of.
    pub fn committed(&self, step: &Step, history_size: usize) -> Result<(), String> {
        for job in &step.jobs {
            let judged = || {
                let ended = job.writes.ended.as_deref();
                job.writes.record.as_deref().map_or(Ok(()), judge_record)?;
                ended.map_or(Ok(()), |history| judge_history(history, history_size))?;
                let pipelines = job.writes.record.as_ref().map_or(0, |job| job.pipelines.len());
                let ledger = job.writes.ledger.as_deref();
                ledger.map_or(Ok(()), |ledger| judge_ledger(ledger, history_size, pipelines))
            };
            judged().map_err(|what| format!("job {}: {what}", job.job))?;
        }
        Ok(())
    }

    /// # Errors
    /// What is remembered for nobody.
    pub fn judge(&self, view: &View<'_>) -> Result<(), String> {
        let mut containers: BTreeMap<ExecutionId, MemberUuid> = BTreeMap::new();
        for (record, _) in view.engine.jobs() {
            containers.extend(not_gone(record).map(|container| (container.id, container.member)));
        }
        if let Some(left) = view.index.known().find(|known| !containers.contains_key(known)) {
            return Err(format!("the index knows {left}, which no job has"));
        }
        let mut members = BTreeSet::new();
        for member in view.engine.member_views() {
            let uuid = member.record.uuid;
            members.insert(uuid);
            let there = containers.values().filter(|at| **at == uuid).count();
            if there != member.used_slots as usize {
                let used = member.used_slots;
                return Err(format!("member {uuid} has {used} slots taken and {there} containers"));
            }
            let late_ms = view.lost_listed_ms + UNLISTED_LATE_MS;
            if member.record.lost.is_some_and(|lost| lost + late_ms < view.now) {
                return Err(format!("member {uuid} was lost long ago and is still listed"));
            }
        }
        Ok(())
    }
}

/// Containers of a job that nothing has proven gone.
pub(super) fn not_gone(record: &JobRecord) -> impl Iterator<Item = &ContainerRecord> {
    let groups = record.pipelines.iter().flat_map(|pipeline| &pipeline.task_groups);
    groups
        .flat_map(|group| group.container.iter().chain(&group.leftovers))
        .filter(|container| !container.gone)
}

fn judge_record(record: &JobRecord) -> Result<(), String> {
    let mut maximum = JOB + stored_bytes(&record.spec);
    for pipeline in &record.pipelines {
        maximum += PIPELINE + pipeline.task_groups.len() * GROUP;
        let failures = pipeline.failures.len();
        if failures > MAX_FAILURES {
            return Err(format!("pipeline {} keeps {failures} failures", pipeline.id));
        }
        if let Some(group) = pipeline.task_groups.iter().find(|group| group.leftovers.len() > 1) {
            return Err(format!("task group {} has old copies of old copies", group.id));
        }
    }
    at_most(maximum, record, "its record")
}

fn judge_ledger(ledger: &JobLedger, history_size: usize, pipelines: usize) -> Result<(), String> {
    let (kept, size) = (ledger.history().iter().count(), history_size.max(1));
    if kept > size {
        return Err(format!("its ledger keeps {kept} episodes of {size}"));
    }
    for episode in ledger.history().iter().chain(ledger.active()) {
        if episode.incidents.len() > MAX_INCIDENTS || episode.attempts.len() > MAX_ATTEMPTS {
            return Err(format!("episode {} is no sample", episode.number));
        }
    }
    at_most(max_stored_bytes(history_size, pipelines), ledger, "its ledger")
}

fn judge_history(history: &HistoryRecord, history_size: usize) -> Result<(), String> {
    judge_record(&history.job)?;
    let pipelines = history.job.pipelines.len();
    let ledger = history.ledger.as_ref();
    ledger.map_or(Ok(()), |ledger| judge_ledger(ledger, history_size, pipelines))?;
    let evaluation = history.evaluation.as_ref();
    evaluation.map_or(Ok(()), |evaluation| at_most(EVALUATION, evaluation, "its evaluation"))
}

fn at_most(maximum: usize, stored: &impl Serialize, what: &str) -> Result<(), String> {
    match stored_bytes(stored) {
        bytes if bytes <= maximum => Ok(()),
        bytes => Err(format!("{what} takes {bytes} bytes, and the maximum is {maximum}")),
    }
}

/// Bytes that something takes in the store.
fn stored_bytes(stored: &impl Serialize) -> usize {
    let mut counted = Counted(0);
    // Counting does not fail, and the store has written the same.
    let _ = serde_json::to_writer(&mut counted, stored);
    counted.0
}

struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
