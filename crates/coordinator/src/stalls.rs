//! When containers became `STALLED` and when they got on again: the news of what [`crate::stalled`] sees.
//!
//! Whoever looks at a job sees only how it stands now. This remembers, for as long as the term lasts and
//! within a bound, so that a log, a count and a job's story can tell of a stall that is over. It is looked
//! for in a rhythm of its own: a mark that decides nothing must cost the loop and the answers nothing.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use parking_lot::Mutex;
use steadfast_model::{ExecutionId, JobId, PipelineId, TaskGroupId, Timestamp};
use tracing::{info, warn};

use crate::metrics::Metrics;
use crate::shared::Term;
use crate::stalled::stalled;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Stalls that are over and are remembered, of all jobs together.
const REMEMBERED: usize = 256;

/// A container that was, or is, stalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    pub job: JobId,
    pub pipeline: PipelineId,
    pub task_group: TaskGroupId,
    pub timeout_ms: u64,
    /// When its program had told of no step for the timeout.
    pub began: Timestamp,
}

/// How a stall ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StallEnd {
    /// The program told of a step.
    GotOn,
    /// The container ended, or is no longer valid.
    Over,
}

/// A stall that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PastStall {
    pub stall: Stall,
    pub ended: Timestamp,
    pub end: StallEnd,
}

/// What a look found to be new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Began(ExecutionId, Stall),
    Ended(ExecutionId, PastStall),
}

/// The stalls of a term.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    remembered: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    present: BTreeMap<ExecutionId, Stall>,
    past: VecDeque<PastStall>,
}

impl Stalls {
    /// Those of a job that are over, oldest first.
    pub fn past(&self, job: JobId) -> Vec<PastStall> {
        let remembered = self.remembered.lock();
        remembered.past.iter().filter(|past| past.stall.job == job).cloned().collect()
    }

    /// Takes in who is stalled now; `lives` says whether a container that is not may still ask.
    fn look(
        &self,
        now: Timestamp,
        seen: BTreeMap<ExecutionId, Stall>,
        lives: impl Fn(ExecutionId) -> bool,
    ) -> Vec<News> {
        let mut remembered = self.remembered.lock();
        let Remembered { present, past } = &mut *remembered;
        let mut news = Vec::new();
        present.retain(|execution, stall| {
            let goes_on = seen.contains_key(execution);
            if !goes_on {
                let end = if lives(*execution) { StallEnd::GotOn } else { StallEnd::Over };
                let over = PastStall { stall: stall.clone(), ended: now, end };
                if past.len() == REMEMBERED {
                    past.pop_front();
                }
                past.push_back(over.clone());
                news.push(News::Ended(*execution, over));
            }
            goes_on
        });
        for (execution, stall) in seen {
            if let std::collections::btree_map::Entry::Vacant(vacant) = present.entry(execution) {
                news.push(News::Began(execution, vacant.insert(stall).clone()));
            }
        }
        news
    }
}

/// One look at every container of the term.
pub(crate) fn look(term: &Term, metrics: &Metrics) {
    let now = term.clock.now();
    let view = term.view.borrow().clone();
    let standings = |execution| term.index.standing(execution);
    let mut seen = BTreeMap::new();
    for job in view.jobs.values() {
        for found in stalled(&job.record, &standings) {
            let Some(container) = &found.group.container else { continue };
            let beyond_ms = found.quiet_ms.saturating_sub(found.timeout_ms);
            let began = Timestamp::from_millis(now.as_millis().saturating_sub(beyond_ms));
            let stall = Stall {
                job: job.record.id,
                pipeline: found.pipeline.id,
                task_group: found.group.id,
                timeout_ms: found.timeout_ms,
                began,
            };
            seen.insert(container.id, stall);
        }
    }
    let lives = |execution| term.index.standing(execution).lease_ends.is_some();
    for one in term.stalls.look(now, seen, lives) {
        tell(&one, metrics);
    }
}

fn tell(news: &News, metrics: &Metrics) {
    match news {
        News::Began(execution, stall) => {
            metrics.stalled();
            warn!(
                job = %stall.job, task_group = %stall.task_group, %execution,
                timeout_ms = stall.timeout_ms,
                "STALLED: a container is heard, and its program tells of no step"
            );
        }
        News::Ended(execution, PastStall { stall, ended, end }) => info!(
            job = %stall.job, task_group = %stall.task_group, %execution,
            after_ms = ended.millis_since(stall.began), ?end,
            "a container is STALLED no longer"
        ),
    }
}

/// Looks for as long as the term lasts.
pub(crate) async fn watch(term: &Term, metrics: &Metrics) -> Infallible {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        look(term, metrics);
    }
}

#[cfg(test)]
mod tests {
    use steadfast_model::TermNonce;

    use super::*;

    fn id(seq: u64) -> ExecutionId {
        ExecutionId::of_term(TermNonce::new(1), seq)
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + ms)
    }

    fn stall(job: u64) -> Stall {
        Stall {
            job: JobId::new(job),
            pipeline: PipelineId::new(1),
            task_group: TaskGroupId::new(1),
            timeout_ms: 500,
            began: at(0),
        }
    }

    fn seen(ids: &[u64]) -> BTreeMap<ExecutionId, Stall> {
        ids.iter().map(|seq| (id(*seq), stall(*seq))).collect()
    }

    #[test]
    fn a_stall_is_news_when_it_begins_and_when_it_ends_and_not_between() {
        let stalls = Stalls::default();
        let lives = |execution| execution == id(1);
        let began = stalls.look(at(1), seen(&[1, 2]), lives);
        assert_eq!(began, [News::Began(id(1), stall(1)), News::Began(id(2), stall(2))]);
        assert_eq!(stalls.look(at(2), seen(&[1, 2]), lives), []);
        assert_eq!(stalls.past(JobId::new(1)), []);
        let over = |job, end| PastStall { stall: stall(job), ended: at(3), end };
        let [got_on, is_gone] = [over(1, StallEnd::GotOn), over(2, StallEnd::Over)];
        let ended = stalls.look(at(3), seen(&[]), lives);
        assert_eq!(ended, [News::Ended(id(1), got_on.clone()), News::Ended(id(2), is_gone)]);
        assert_eq!(stalls.past(JobId::new(1)), [got_on], "of its own job");
        let again = stalls.look(at(4), seen(&[1]), lives);
        assert_eq!(again, [News::Began(id(1), stall(1))]);
    }

    #[test]
    fn it_remembers_only_so_many() {
        let stalls = Stalls::default();
        for ms in 0..3 * REMEMBERED as u64 {
            let is_stalled: &[u64] = if ms % 2 == 0 { &[1] } else { &[] };
            let _ = stalls.look(at(ms), seen(is_stalled), |_| true);
        }
        assert_eq!(stalls.past(JobId::new(1)).len(), REMEMBERED);
    }
}
