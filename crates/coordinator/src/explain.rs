//! A job's story in ordered sentences, told from its record and its ledger.

use steadfast_api::{Explanation, Sentence};
use steadfast_engine::records::{FailureKind, JobRecord};
use steadfast_ledger::{Attempt, Episode, EpisodeStatus, Incident, JobLedger, Tracking};
use steadfast_model::{LeaveClassification, LossCause, Timestamp};

use crate::convert::episode_id;
use crate::stalled::{Stalled, Standings, stalled};
use crate::stalls::{PastStall, StallEnd};

/// Tells the story of a job, oldest sentence first.
pub(crate) fn explain(job: &JobRecord, ledger: Option<&JobLedger>) -> Explanation {
    let mut story = Story { job, sentences: Vec::new() };
    story.say(job.created, None, format!("job {} \"{}\" was submitted", job.id, job.spec.name));
    story.failures();
    if let Some(at) = job.cancel_requested {
        story.say(at, None, "somebody asked for the job's end".to_owned());
    }
    if let Some(ledger) = ledger {
        story.ledger(ledger);
    } else if job.spec.tracking_threshold().is_some() {
        let text = "the recovery ledger cannot be read: the counts are UNKNOWN".to_owned();
        story.say(job.created, None, text);
    }
    if let Some(at) = job.finished {
        let why = job.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        story.say(at, None, format!("the job ended {}{why}", job.status));
    }
    story.sentences.sort_by_key(|sentence| sentence.time);
    Explanation { sentences: story.sentences }
}

/// Adds what is so at this moment and is stored nowhere: which containers are heard and do not get on.
pub(crate) fn tell_stalled(
    told: &mut Explanation,
    job: &JobRecord,
    now: Timestamp,
    standings: &Standings<'_>,
) {
    for Stalled { pipeline, group, quiet_ms, timeout_ms } in stalled(job, standings) {
        let seconds = quiet_ms as f64 / 1_000.0;
        let text = format!(
            "task group {} of pipeline {} is STALLED: it is heard, and its program has told of no step for \
             {seconds:.1} s (task.progress.timeout.ms is {timeout_ms}); nothing is ended for it",
            group.id, pipeline.id
        );
        told.sentences.push(Sentence { time: now.into(), text, episode_id: None });
    }
}

/// Adds the stalls that are over.
pub(crate) fn tell_past_stalls(told: &mut Explanation, past: &[PastStall]) {
    for PastStall { stall, ended, end } in past {
        let what = match end {
            StallEnd::GotOn => "gets on again",
            StallEnd::Over => "is over",
        };
        let seconds = ended.millis_since(stall.began) as f64 / 1_000.0;
        let text = format!(
            "the container of task group {} of pipeline {} {what} after it was STALLED for {seconds:.1} s",
            stall.task_group, stall.pipeline
        );
        told.sentences.push(Sentence { time: (*ended).into(), text, episode_id: None });
    }
    told.sentences.sort_by_key(|sentence| sentence.time);
}

struct Story<'a> {
    job: &'a JobRecord,
    sentences: Vec<Sentence>,
}

impl Story<'_> {
    fn say(&mut self, at: Timestamp, episode: Option<&Episode>, text: String) {
        let episode_id = episode.map(|episode| episode_id(self.job.id, episode.number));
        self.sentences.push(Sentence { time: at.into(), text, episode_id });
    }

    /// Ordinary failures; what member loss did is told by the ledger.
    fn failures(&mut self) {
        let tracked = self.job.spec.tracking_threshold().is_some();
        for pipeline in &self.job.pipelines {
            for failure in &pipeline.failures {
                let kind = match failure.kind {
                    FailureKind::MemberLoss | FailureKind::Planned if tracked => continue,
                    _ if failure.recovery.is_some() => {
                        "before it had recovered: its next deployment goes on with the recovery"
                    }
                    FailureKind::MemberLoss => "member loss",
                    FailureKind::Planned => "planned, burns no restore",
                    FailureKind::Program => "an ordinary failure, not counted",
                    FailureKind::Ladder => "ended by its validator, not counted",
                };
                let (id, attempt, cause) = (pipeline.id, failure.attempt, &failure.cause);
                let text = format!("pipeline {id}, attempt {attempt}: {cause} ({kind})");
                self.say(failure.at, None, text);
            }
        }
    }

    fn ledger(&mut self, ledger: &JobLedger) {
        let mut total = 0;
        let dropped = ledger.history().dropped();
        let kept = ledger.history().iter().chain(ledger.active()).chain(ledger.parked());
        for (at, episode) in kept.enumerate() {
            self.episode(episode, ledger, &mut total, dropped == 0);
            if at == 0 && dropped > 0 {
                let text = format!("{dropped} further episodes are no longer kept");
                self.say(episode.ended.unwrap_or(episode.marks.declared), None, text);
            }
        }
        if let Tracking::Lost { since, cause } = ledger.tracking() {
            let text =
                format!("tracking was lost ({cause}): the counts are lower bounds from here");
            self.say(*since, None, text);
        }
    }

    fn episode(&mut self, episode: &Episode, ledger: &JobLedger, total: &mut u64, exact: bool) {
        for incident in &episode.incidents {
            let pipelines: Vec<String> =
                incident.pipelines.iter().map(|pipeline| pipeline.to_string()).collect();
            let what = match (incident.classification, incident.cause) {
                (LeaveClassification::Unclassified, _) => "was lost".to_owned(),
                (planned, LossCause::ToldByOperator) => format!("was drained ({planned})"),
                (planned, _) => format!("went as planned ({planned})"),
            };
            let text = format!(
                "member {} ({}) {what}: {} → episode {} → {} of {} {}",
                incident.member,
                incident.address,
                incident.evidence,
                episode.number,
                counted(incident.task_group_count, "task group"),
                if incident.pipeline_count == 1 { "pipeline" } else { "pipelines" },
                pipelines.join(", "),
            );
            self.say(incident.declared, Some(episode), text);
        }
        self.attempts(episode, ledger, total, exact);
        if let Some(at) = episode.ended {
            let number = episode.number;
            let text = match (episode.status, &episode.abort_reason) {
                (EpisodeStatus::Aborted, Some(why)) => {
                    format!("episode {number} was aborted: {why}")
                }
                (EpisodeStatus::Aborted, None) => format!("episode {number} was aborted"),
                (EpisodeStatus::Expired, _) => format!(
                    "episode {number} expired before anything was deployed: it is parked, and goes on \
                     under its id with the next deployment or loss"
                ),
                _ => format!("episode {number} is complete: every affected pipeline runs again"),
            };
            self.say(at, Some(episode), text);
        }
    }

    /// Deployments in the order in which they happened: of a generation the first one counts. What was deployed
    /// while all incidents were planned counts from the moment at which one joined that was not.
    fn attempts(&mut self, episode: &Episode, ledger: &JobLedger, total: &mut u64, exact: bool) {
        let mut sum = |at: Timestamp, attempts: u64| {
            *total += attempts;
            let known = format!(", total {total} of threshold {}", ledger.threshold());
            let dirty = if ledger.dirty_since() == Some(at) { " → DIRTY" } else { "" };
            if exact { known + dirty } else { dirty.to_owned() }
        };
        let unplanned =
            |incident: &&Incident| incident.classification == LeaveClassification::Unclassified;
        let joined =
            episode.incidents.iter().find(unplanned).map(|incident| (incident.declared, None));
        // Where the sample of incidents does not hold it, nobody can say when.
        let mut counts = episode.counts() && joined.is_none();
        let deployed = episode.attempts.iter().filter_map(|one| Some((one.confirmed?, Some(one))));
        let mut moments: Vec<(Timestamp, Option<&Attempt>)> =
            joined.into_iter().chain(deployed).collect();
        moments.sort_by_key(|(at, _)| *at);
        let mut generation = 0;
        for (at, attempt) in moments {
            let Some(attempt) = attempt else {
                counts = true;
                if generation > 0 {
                    let deployments = counted(generation, "deployment until here");
                    let text = format!("{deployments} → counted{}", sum(at, generation));
                    self.say(at, Some(episode), text);
                }
                continue;
            };
            let sequence = u64::from(attempt.id.prepare_seq);
            let mut text = format!("pipeline {} was deployed again", attempt.id.pipeline);
            if !counts {
                let planned = LeaveClassification::PlannedVerified;
                text += &format!(": not counted, all of its incidents are {planned}");
            } else if sequence <= generation {
                text += ": the same job-level attempt, not counted again";
            } else {
                text += " → counted once";
                text += &sum(at, 1);
            }
            generation = generation.max(sequence);
            if let Some(cause) = &attempt.cause {
                text += &format!("; that attempt failed: {cause}");
            }
            self.say(at, Some(episode), text);
        }
    }
}

/// "1 task group", "2 task groups".
fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use steadfast_ledger::Loss;
    use steadfast_model::{FencingToken, MemberEventSeq, PipelineId, TaskGroupId};
    use steadfast_store::conformance::samples;

    use super::*;

    fn at(ms: u64) -> Timestamp {
        samples::job(1).created + ms
    }

    #[test]
    fn the_story_of_a_loss_is_told_in_order_up_to_the_label() {
        let mut ledger = JobLedger::new(1, MemberEventSeq::new(0), 10);
        let loss = Loss {
            cause: LossCause::Silence,
            evidence: "silent for 5000 ms".to_owned(),
            declared: at(5_000),
            ..samples::event(1)
        };
        let pipelines = [PipelineId::new(1), PipelineId::new(2)];
        let _ = ledger.member_lost(&loss, &pipelines, &[TaskGroupId::new(1), TaskGroupId::new(2)]);
        for (ms, pipeline) in [(5_600, 1), (5_700, 2)] {
            let attempt = ledger.prepare(PipelineId::new(pipeline)).expect("it is affected");
            let _ = ledger.confirm(attempt, at(ms), at(ms));
        }
        for (ms, pipeline) in [(6_000, 1), (6_100, 2)] {
            let _ = ledger.recovered(PipelineId::new(pipeline), at(ms));
        }
        let mut job = samples::job(1);
        job.pipelines[0].failures.clear();
        job.pipelines[0].task_groups[0].token = FencingToken::new(2);
        let texts: Vec<String> =
            explain(&job, Some(&ledger)).sentences.into_iter().map(|s| s.text).collect();
        let expected = [
            "was submitted",
            "was lost: silent for 5000 ms → episode 1 → 2 task groups of pipelines 1, 2",
            "pipeline 1 was deployed again → counted once, total 1 of threshold 1 → DIRTY",
            "pipeline 2 was deployed again: the same job-level attempt, not counted again",
            "episode 1 is complete: every affected pipeline runs again",
        ];
        assert_eq!(texts.len(), expected.len(), "{texts:#?}");
        for (text, end) in texts.iter().zip(expected) {
            assert!(text.ends_with(end), "{text}");
        }
    }

    #[test]
    fn a_member_that_went_as_planned_is_not_told_as_lost() {
        for (cause, what) in [
            (
                LossCause::ToldByOperator,
                "was drained (PLANNED_VERIFIED): told by on-call → episode 1",
            ),
            (LossCause::Leaving, "went as planned (PLANNED_VERIFIED): told by on-call → episode 1"),
        ] {
            let mut ledger = JobLedger::new(1, MemberEventSeq::new(0), 10);
            let loss = Loss {
                cause,
                classification: LeaveClassification::PlannedVerified,
                evidence: "told by on-call".to_owned(),
                declared: at(5_000),
                ..samples::event(1)
            };
            let pipeline = PipelineId::new(1);
            let _ = ledger.member_lost(&loss, &[pipeline], &[TaskGroupId::new(1)]);
            let attempt = ledger.prepare(pipeline).expect("it is affected");
            let _ = ledger.confirm(attempt, at(5_600), at(5_600));
            let story = explain(&samples::job(1), Some(&ledger)).sentences;
            let tells = |part: &str| story.iter().any(|sentence| sentence.text.contains(part));
            assert!(tells(what), "{story:#?}");
            assert!(tells("not counted, all of its incidents are PLANNED_VERIFIED"), "{story:#?}");
            assert!(!tells("lost"), "{story:#?}");
        }
    }

    /// Red where the lowest pipeline is taken for the one that came first, and where what was deployed as planned
    /// is told as counted before anybody was lost.
    #[test]
    fn the_first_deployment_counts_and_what_was_planned_counts_from_the_loss_that_joins() {
        let mut ledger = JobLedger::new(2, MemberEventSeq::new(0), 10);
        let planned = Loss {
            classification: LeaveClassification::PlannedVerified,
            declared: at(1_000),
            ..samples::event(1)
        };
        let pipelines = [PipelineId::new(1), PipelineId::new(2)];
        let _ = ledger.member_lost(&planned, &pipelines, &[]);
        let deploy = |ledger: &mut JobLedger, pipeline, ms| {
            let attempt = ledger.prepare(PipelineId::new(pipeline)).expect("it is affected");
            let _ = ledger.confirm(attempt, at(ms), at(ms));
        };
        deploy(&mut ledger, 2, 1_100);
        let lost = Loss { declared: at(2_000), ..samples::event(2) };
        let _ = ledger.member_lost(&lost, &pipelines, &[]);
        // The higher one comes first.
        deploy(&mut ledger, 2, 2_100);
        deploy(&mut ledger, 1, 2_200);
        let story = explain(&samples::job(1), Some(&ledger)).sentences;
        let told: Vec<&str> = story
            .iter()
            .map(|sentence| sentence.text.as_str())
            .filter(|text| text.contains("counted"))
            .collect();
        let expected = [
            "pipeline 2 was deployed again: not counted, all of its incidents are PLANNED_VERIFIED",
            "1 deployment until here → counted, total 1 of threshold 2",
            "pipeline 2 was deployed again → counted once, total 2 of threshold 2 → DIRTY",
            "pipeline 1 was deployed again: the same job-level attempt, not counted again",
        ];
        assert_eq!(told, expected, "{story:#?}");
        assert_eq!(ledger.recovery_attempt_count(), 2);
    }
}
