//! What the count must be, from the proposal's text ("Terminology", "Job-level attempt generation").
//!
//! It forgets nothing and adds up from nothing each time it is asked. It hears what happened to members
//! and pipelines, read off the job's records; of the ledger it knows nothing.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_engine::records::{ContainerRecord, JobRecord};
use steadfast_ledger::Evaluation;
use steadfast_model::{EvaluationStatus, JobStatus, MemberUuid, PipelineId, PipelineStatus};

use super::THRESHOLD;

/// What happened to the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A member left, and these pipelines had a container there that was not known to have ended: one of
    /// their present attempt, or of one that failed and is to be deployed again.
    Lost(MemberUuid, Vec<PipelineId>),
    /// A pipeline reached `DEPLOYING`.
    Deployed(PipelineId),
    /// A pipeline runs.
    Ran(PipelineId),
    /// The job can no longer restore, or ended.
    Over,
}

/// What a step did to the job, read off its record before and after, and of the members lost in it.
pub fn facts(before: &JobRecord, after: &JobRecord, lost: &[MemberUuid]) -> Vec<Fact> {
    let mut facts = Vec::new();
    let winds_down = |record: &JobRecord| {
        use JobStatus::{Canceled, Canceling, Failed, Failing, Finished};
        matches!(record.status, Failing | Failed | Canceling | Canceled | Finished)
    };
    for member in lost {
        let has_one_there = |pipeline: &&steadfast_engine::records::PipelineRecord| {
            let groups = pipeline.task_groups.iter();
            let mut containers =
                groups.flat_map(|group| group.container.iter().chain(&group.leftovers));
            let ended = |one: &ContainerRecord| one.gone || one.ended_unproven;
            containers.any(|one| one.member == *member && !ended(one)) && !winds_down(before)
        };
        let affected = before.pipelines.iter().filter(has_one_there).map(|p| p.id).collect();
        facts.push(Fact::Lost(*member, affected));
    }
    for (was, is) in before.pipelines.iter().zip(&after.pipelines) {
        if is.attempt > was.attempt {
            facts.push(Fact::Deployed(is.id));
        }
        if is.status == PipelineStatus::Running && was.status != PipelineStatus::Running {
            facts.push(Fact::Ran(is.id));
        }
    }
    if winds_down(after) && !winds_down(before) {
        facts.push(Fact::Over);
    }
    facts
}

/// "One continuous member-loss recovery process."
#[derive(Clone, Debug, Default)]
struct Episode {
    members: BTreeSet<MemberUuid>,
    recovering: BTreeSet<PipelineId>,
    deployments: BTreeMap<PipelineId, u64>,
}

impl Episode {
    /// "The episode's job-level generation is the maximum" over its pipelines.
    fn generation(&self) -> u64 {
        self.deployments.values().copied().max().unwrap_or(0)
    }
}

/// What must be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// `recoveryAttemptCount`.
    pub attempts: u64,
    /// `recoveryEpisodeCount`.
    pub episodes: u64,
    /// `memberLossIncidentCount`.
    pub incidents: u64,
}

impl Numbers {
    /// Whether what is shown is exact where it says that it is complete, says so where it is not, and
    /// makes nothing up.
    pub fn is_told_by(self, shown: &Evaluation) -> bool {
        let numbers = Self {
            attempts: shown.recovery_attempt_count,
            episodes: shown.episode_count,
            incidents: shown.incident_count,
        };
        let status = match (self.attempts >= THRESHOLD, shown.tracking_complete) {
            (true, true) => shown.status == EvaluationStatus::Dirty,
            (false, true) => shown.status == EvaluationStatus::Clean,
            // What is not known to be complete may miss what makes it dirty.
            (true, false) => shown.status != EvaluationStatus::Clean,
            (false, false) => shown.status == EvaluationStatus::Unknown,
        };
        let counts = if shown.tracking_complete {
            numbers == self
        } else {
            numbers.attempts <= self.attempts && numbers.incidents <= self.incidents
        };
        status && counts
    }
}

/// The reference.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    heard: BTreeSet<MemberUuid>,
    episodes: Vec<Episode>,
    open: bool,
}

impl Reference {
    pub fn hear(&mut self, fact: &Fact) {
        match fact {
            Fact::Lost(member, affected) => self.lost(*member, affected),
            Fact::Deployed(pipeline) => {
                let recovering = self.open().filter(|e| e.recovering.contains(pipeline));
                if let Some(episode) = recovering {
                    *episode.deployments.entry(*pipeline).or_default() += 1;
                }
            }
            Fact::Ran(pipeline) => {
                if let Some(episode) = self.open() {
                    episode.recovering.remove(pipeline);
                    self.open = !episode.recovering.is_empty();
                }
            }
            Fact::Over => self.open = false,
        }
    }

    fn lost(&mut self, member: MemberUuid, affected: &[PipelineId]) {
        let known = !self.heard.insert(member);
        if known || affected.is_empty() {
            return;
        }
        if !self.open {
            self.episodes.push(Episode::default());
            self.open = true;
        }
        if let Some(episode) = self.open() {
            episode.members.insert(member);
            episode.recovering.extend(affected);
        }
    }

    /// Whether the job was told of this member's loss, affected or not.
    pub fn has_heard_of(&self, member: MemberUuid) -> bool {
        self.heard.contains(&member)
    }

    fn open(&mut self) -> Option<&mut Episode> {
        self.episodes.last_mut().filter(|_| self.open)
    }

    pub fn numbers(&self) -> Numbers {
        Numbers {
            attempts: self.episodes.iter().map(Episode::generation).sum(),
            episodes: self.episodes.len() as u64,
            incidents: self.episodes.iter().map(|episode| episode.members.len() as u64).sum(),
        }
    }
}
