//! The counts as they have to be, from what was done to whom and what the programs say themselves.

use std::collections::BTreeSet;

use steadfast_e2e::{Evaluation, Job, Member, Process};

use super::{PIPELINES, THRESHOLD};

/// Whom a fault has hit.
#[derive(Debug, Default)]
pub struct Hit {
    pub lost: Option<Member>,
    /// The lost member's agent, where it will go on.
    pub stopped: Option<Process>,
    /// Positions of the pipelines that have to be restored.
    pub pipelines: BTreeSet<usize>,
}

impl Hit {
    pub fn told(&self) -> String {
        let lost =
            self.lost.as_ref().map(|lost| format!("member {} (pid {}), ", lost.uuid, lost.pid));
        format!("{}pipelines {:?}", lost.unwrap_or_default(), self.pipelines)
    }
}

/// What is seen between two rounds.
pub struct Seen {
    pub job: Job,
    /// How often the program of each pipeline's task groups says that it was started.
    pub starts: Vec<Vec<usize>>,
}

impl Seen {
    /// How often a pipeline was deployed since then, by its programs' own logs.
    fn deployments_since(&self, before: &Self, pipeline: usize) -> usize {
        let counts = self.starts[pipeline].iter().zip(&before.starts[pipeline]);
        counts.map(|(now, then)| now - then).max().expect("a pipeline has task groups")
    }
}

/// The counts as they have to be.
#[derive(Debug, Default)]
pub struct Oracle {
    incidents: u64,
    episodes: u64,
    pub attempts: u64,
    last_lost: Option<String>,
}

impl Oracle {
    #[track_caller]
    pub fn note(&mut self, before: &Seen, hit: &Hit, after: &Seen) {
        for position in 0..PIPELINES {
            let deployments = after.deployments_since(before, position);
            let caused = usize::from(hit.pipelines.contains(&position));
            let job = &after.job;
            assert_eq!(
                deployments, caused,
                "deployments of pipeline {position}, {hit:?}: {job:#?}"
            );
        }
        let Some(lost) = hit.lost.as_ref().filter(|_| !hit.pipelines.is_empty()) else { return };
        self.incidents += 1;
        self.episodes += 1;
        let deployments = hit.pipelines.iter().map(|one| after.deployments_since(before, *one));
        self.attempts += deployments.max().map_or(0, |most| most as u64);
        self.last_lost = Some(lost.uuid.clone());
    }

    pub fn evaluation(&self) -> Evaluation {
        if self.attempts >= THRESHOLD { Evaluation::Dirty } else { Evaluation::Clean }
    }

    #[track_caller]
    pub fn assert_agrees(&self, job: &Job) {
        let label = job.label();
        assert_eq!(label.member_loss_incident_count, self.incidents, "{self:?}: {label:#?}");
        assert_eq!(label.recovery_episode_count, self.episodes, "{self:?}: {label:#?}");
        assert_eq!(label.recovery_attempt_count, self.attempts, "{self:?}: {label:#?}");
        assert_eq!(label.evaluation_status, self.evaluation(), "{self:?}: {label:#?}");
        assert_eq!(label.dirty, self.attempts >= THRESHOLD, "{self:?}: {label:#?}");
        assert!(label.tracking_complete, "{self:?}: {label:#?}");
        assert_eq!(label.active_episode_id, None, "it has recovered: {label:#?}");
        assert_eq!(label.last_lost_member_uuid, self.last_lost, "{label:#?}");
    }
}
