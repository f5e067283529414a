//! What Prometheus reads: counts that this process keeps itself, and what the published view says.
//!
//! Counts that grow with calls are atomics that live as long as the process, over all its terms. Everything
//! else is read from the view at the moment of the scrape, so it costs nothing in between, and a scrape
//! holds nothing that the loop or an answer waits for.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use steadfast_api::StoreStatus;
use steadfast_engine::records::FailureKind;
use steadfast_model::{EvaluationStatus, InvalidReason, JobStatus, LossCause, MemberStatus};

use crate::shared::Term;
use crate::stalled::stalled;
use crate::view::View;

/// One label and its value.
type Label = [(&'static str, String); 1];
/// Numbers by one label.
type Gauges = Family<Label, Gauge>;

/// Who is asked whether a container may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// `/isContainerValid`.
    Validity,
    /// `/containerHeartbeat`.
    Samza,
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Valid,
    Invalid,
    /// 503: it could not be known.
    Unknown,
    /// 400, 401, 404: the call itself does not fit.
    Refused,
}

/// Calls of one endpoint, each verdict a counter of its own: the way of an answer takes no lock for it.
struct Calls {
    valid: Counter,
    invalid: Counter,
    unknown: Counter,
    refused: Counter,
}

type CallFamily = Family<[(&'static str, &'static str); 2], Counter>;

impl Calls {
    fn new(family: &CallFamily, endpoint: &'static str) -> Self {
        let of =
            |verdict| family.get_or_create_owned(&[("endpoint", endpoint), ("verdict", verdict)]);
        Self {
            valid: of("valid"),
            invalid: of("invalid"),
            unknown: of("unknown"),
            refused: of("refused"),
        }
    }
}

/// The counts of this process.
pub(crate) struct Metrics {
    calls: CallFamily,
    validity: Calls,
    samza: Calls,
    invalid_calls: Family<Label, Counter>,
    invalid_containers: Counter,
    fenced_writes: Counter,
    members_lost: Family<Label, Counter>,
    terms: Counter,
    stalls: Counter,
    zombie_lifetime: Histogram,
    restores: Durations,
    step: Histogram,
    commit: Histogram,
}

/// How this coordinator stands at the moment of a scrape.
#[derive(Default)]
pub(crate) struct Standing<'a> {
    /// The term that is served, if one is.
    pub term: Option<&'a Term>,
    /// What is wrong with its store.
    pub store: Option<StoreStatus>,
    /// The last commit that it holds.
    pub revision: u64,
    /// How many read the events.
    pub event_readers: usize,
}

impl Metrics {
    pub fn new() -> Self {
        let calls = CallFamily::default();
        let (validity, samza) = (Calls::new(&calls, "validity"), Calls::new(&calls, "samza"));
        let invalid_calls: Family<Label, Counter> = Family::default();
        for reason in InvalidReason::ALL {
            let _ = invalid_calls.get_or_create_owned(&label("reason", reason));
        }
        // There at 0, or nobody would see the first one as an increase.
        let members_lost: Family<Label, Counter> = Family::default();
        for cause in LossCause::ALL {
            let _ = members_lost.get_or_create_owned(&label("cause", *cause));
        }
        Self {
            calls,
            validity,
            samza,
            invalid_calls,
            invalid_containers: Counter::default(),
            fenced_writes: Counter::default(),
            members_lost,
            terms: Counter::default(),
            stalls: Counter::default(),
            zombie_lifetime: Histogram::new(exponential_buckets(0.1, 2.0, 12)),
            restores: restore_durations(),
            step: Histogram::new(exponential_buckets(0.000_01, 4.0, 10)),
            commit: Histogram::new(exponential_buckets(0.000_1, 2.0, 16)),
        }
    }

    /// A container, or somebody for it, asked whether it may go on.
    pub fn called(&self, endpoint: Endpoint, call: Call) {
        let calls = match endpoint {
            Endpoint::Validity => &self.validity,
            Endpoint::Samza => &self.samza,
        };
        let counter = match call {
            Call::Valid => &calls.valid,
            Call::Invalid => &calls.invalid,
            Call::Unknown => &calls.unknown,
            Call::Refused => &calls.refused,
        };
        counter.inc();
    }

    /// An invalid container made a call; `first` if it had not before.
    pub fn invalid_called(&self, reason: InvalidReason, first: bool) {
        self.invalid_calls.get_or_create(&label("reason", reason)).inc();
        self.invalid_containers.inc_by(first.into());
    }

    /// A checkpoint was refused: a newer container holds the task group, or the job has ended.
    pub fn fenced_write(&self) {
        self.fenced_writes.inc();
    }

    /// A member was declared lost.
    pub fn member_lost(&self, cause: LossCause) {
        self.members_lost.get_or_create(&label("cause", cause)).inc();
    }

    /// This process leads.
    pub fn term_began(&self) {
        self.terms.inc();
    }

    /// A container that was revoked called for this long, and is gone.
    pub fn zombie_gone(&self, lifetime_ms: u64) {
        // Lifetimes are far below 2^52 ms, so nothing is lost.
        #[allow(clippy::cast_precision_loss)]
        self.zombie_lifetime.observe(lifetime_ms as f64 / 1_000.0);
    }

    /// A container became `STALLED`.
    pub fn stalled(&self) {
        self.stalls.inc();
    }

    /// A pipeline runs again, so long after the failure that this restore began with.
    pub fn restored(&self, kind: FailureKind, took_ms: u64) {
        // Restores are far shorter than 2^52 ms, so nothing is lost.
        #[allow(clippy::cast_precision_loss)]
        self.restores.get_or_create(&label("cause", cause(kind))).observe(took_ms as f64 / 1_000.0);
    }

    /// A batch was decided on in this time.
    pub fn decided(&self, took: std::time::Duration) {
        self.step.observe(took.as_secs_f64());
    }

    /// A batch was made durable in this time.
    pub fn committed(&self, took: std::time::Duration) {
        self.commit.observe(took.as_secs_f64());
    }

    /// Everything as text.
    ///
    /// # Errors
    /// None that a text in memory can have.
    pub fn encode(&self, standing: &Standing<'_>) -> Result<String, std::fmt::Error> {
        let Standing { term, store, revision, event_readers } = *standing;
        let mut registry = Registry::with_prefix("steadfast");
        self.register(&mut registry);
        let leads = ConstGauge::new(i64::from(term.is_some()));
        registry.register("leading", "1: this coordinator leads and has reconciled", leads);
        let help = "The last commit that this coordinator holds; one that stands by lags by the difference to the greatest";
        registry.register("revision", help, ConstGauge::new(whole(revision)));
        let readers = ConstGauge::new(whole(event_readers as u64));
        registry.register("event_readers", "Who reads /events now", readers);
        let troubles = Gauges::default();
        for (status, kind) in
            [(StoreStatus::Full, "full"), (StoreStatus::Unavailable, "unavailable")]
        {
            add(&troubles, &label("kind", kind), u64::from(store == Some(status)));
        }
        let help = "1: the store has no room, or cannot be reached, and nothing is recorded";
        registry.register("store_trouble", help, troubles);
        if let Some(term) = term {
            let view = term.view.borrow().clone();
            register_view(&mut registry, &view);
            registry.register("epoch", "The term", ConstGauge::new(whole(term.epoch.get())));
            let stalled = stalled_containers(&view, term);
            let stretch = term.index.load.stretch_permille();
            // A few thousand.
            #[allow(clippy::cast_precision_loss)]
            let stretch = ConstGauge::new(stretch as f64 / 1_000.0);
            let help = "How many times as long as their jobs say containers wait between questions, before the bound of their leases";
            registry.register("poll_interval_stretch", help, stretch);
            let help = "Containers whose program has told of no step for task.progress.timeout.ms";
            registry.register("stalled_containers", help, ConstGauge::new(whole(stalled)));
        }
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }

    fn register(&self, registry: &mut Registry) {
        let Self {
            calls,
            validity: _,
            samza: _,
            invalid_calls,
            invalid_containers,
            fenced_writes,
            members_lost,
            terms,
            stalls,
            zombie_lifetime,
            restores,
            step,
            commit,
        } = self;
        let help = "Questions whether a container may go on, by what was answered";
        registry.register("container_calls", help, calls.clone());
        let help = "Calls of invalid containers, by why they are invalid";
        registry.register("invalid_container_calls", help, invalid_calls.clone());
        let help =
            "Invalid containers that called, each once; ids that nobody knows not among them";
        registry.register("invalid_containers_that_called", help, invalid_containers.clone());
        let help = "Checkpoints refused because a newer container holds the task group, or the job has ended";
        registry.register("fenced_writes", help, fenced_writes.clone());
        registry.register("members_lost", "Members declared lost", members_lost.clone());
        let help = "Terms that began in this process: changes of leadership";
        registry.register("leadership_changes", help, terms.clone());
        let help = "From a container's revocation to its last call, once it is gone";
        let (seconds, zombies) = (Unit::Seconds, zombie_lifetime.clone());
        registry.register_with_unit("zombie_lifetime", help, seconds, zombies);
        registry.register("stalls", "Times that a container became STALLED", stalls.clone());
        let help = "From a pipeline's failure to all of it running again, by who was to blame";
        registry.register_with_unit("restore_duration", help, Unit::Seconds, restores.clone());
        let help = "Time to decide on a batch of inputs";
        registry.register_with_unit("step_latency", help, Unit::Seconds, step.clone());
        let help = "Time to make a batch durable";
        registry.register_with_unit("commit_latency", help, Unit::Seconds, commit.clone());
    }
}

/// From a failure to its repair, by kind.
type Durations = Family<Label, Histogram, fn() -> Histogram>;

fn restore_durations() -> Durations {
    // Up to half an hour: a pipeline may wait for a slot.
    let durations =
        Durations::new_with_constructor(|| Histogram::new(exponential_buckets(0.05, 2.0, 16)));
    for kind in
        [FailureKind::MemberLoss, FailureKind::Program, FailureKind::Ladder, FailureKind::Planned]
    {
        let _ = durations.get_or_create_owned(&label("cause", cause(kind)));
    }
    durations
}

/// As `counts` of a job names it.
const fn cause(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::MemberLoss => "memberLoss",
        FailureKind::Program => "program",
        FailureKind::Ladder => "ladder",
        FailureKind::Planned => "planned",
    }
}

fn label(name: &'static str, value: impl ToString) -> Label {
    [(name, value.to_string())]
}

/// Prometheus' integers are signed.
fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn add<S>(family: &Family<S, Gauge>, labels: &S, count: u64)
where
    S: EncodeLabelSet + Clone + std::hash::Hash + Eq,
{
    family.get_or_create(labels).inc_by(whole(count));
}

/// What the view says, with every value of a label, also where its number is 0.
fn register_view(registry: &mut Registry, view: &View) {
    register_jobs(registry, view);
    let (members, slots) = (Gauges::default(), Gauges::default());
    for status in MemberStatus::ALL {
        add(&members, &label("status", status), 0);
    }
    for state in ["total", "used"] {
        add(&slots, &label("state", state), 0);
    }
    for member in view.members.iter() {
        add(&members, &label("status", member.status), 1);
        if member.status != MemberStatus::Lost {
            add(&slots, &label("state", "total"), member.record.slots.into());
            add(&slots, &label("state", "used"), member.used_slots.into());
        }
    }
    registry.register("members", "Members by status; the lost ones for ten minutes", members);
    registry.register("slots", "Slots of the members that are not lost", slots);
    let (cluster, processed) = (view.watermarks.cluster.get(), view.watermarks.processed.get());
    let lag = ConstGauge::new(whole(cluster.saturating_sub(processed)));
    registry.register("watermark_lag", "Member events that not every job has taken in", lag);
    let suspects = ConstGauge::new(i64::from(view.self_suspicion.is_some()));
    registry.register(
        "self_suspicion",
        "1: most members went at once, and nobody is declared lost",
        suspects,
    );
    let redundant = ConstCounter::new(view.counters.redundant_notifications);
    let help =
        "Reports about containers that are not the present ones, or that were known, in this term";
    registry.register("redundant_notifications", help, redundant);
    let expired = ConstCounter::new(view.counters.leases_expired);
    let help = "Leases that ran out, at a container without a yes or of a copy that nobody proved gone, in this term";
    registry.register("leases_expired", help, expired);
}

fn register_jobs(registry: &mut Registry, view: &View) {
    let (jobs, evaluations) = (Gauges::default(), Gauges::default());
    for status in JobStatus::ALL {
        add(&jobs, &label("status", status), 0);
    }
    for status in EvaluationStatus::ALL {
        add(&evaluations, &label("value", status), 0);
    }
    let (mut attempts, mut episodes, mut incidents) = (0, 0, 0);
    let running =
        view.jobs.values().map(|job| (job.record.status, Some(job.evaluation(view.watermarks))));
    let finished = view.finished.values().map(|job| (job.status, job.evaluation.clone()));
    for (status, evaluation) in running.chain(finished) {
        add(&jobs, &label("status", status), 1);
        let value = evaluation.as_ref().map_or(EvaluationStatus::Disabled, |it| it.status);
        add(&evaluations, &label("value", value), 1);
        if let Some(evaluation) = evaluation {
            attempts += evaluation.recovery_attempt_count;
            episodes += evaluation.episode_count;
            incidents += evaluation.incident_count;
        }
    }
    registry.register("jobs", "Jobs that run or are kept in the history", jobs);
    registry.register("evaluations", "The same jobs by their recovery label", evaluations);
    for (name, help, count) in [
        (
            "recovery_attempts",
            "Deployment attempts that member loss caused, of these jobs",
            attempts,
        ),
        ("recovery_episodes", "Recovery episodes of these jobs", episodes),
        ("member_loss_incidents", "Losses of members as these jobs met them", incidents),
    ] {
        registry.register(name, help, ConstGauge::new(whole(count)));
    }
}

fn stalled_containers(view: &View, term: &Term) -> u64 {
    let standings = |execution| term.index.standing(execution);
    let jobs = view.jobs.values();
    jobs.map(|job| stalled(&job.record, &standings).count() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_told_under_its_name() {
        let metrics = Metrics::new();
        metrics.called(Endpoint::Validity, Call::Valid);
        metrics.called(Endpoint::Samza, Call::Refused);
        metrics.invalid_called(InvalidReason::Superseded, true);
        metrics.invalid_called(InvalidReason::Superseded, false);
        metrics.fenced_write();
        metrics.member_lost(LossCause::Silence);
        metrics.zombie_gone(2_500);
        metrics.stalled();
        metrics.restored(FailureKind::MemberLoss, 1_250);
        let text = metrics.encode(&Standing::default()).unwrap();
        for line in [
            r#"steadfast_container_calls_total{endpoint="validity",verdict="valid"} 1"#,
            r#"steadfast_container_calls_total{endpoint="validity",verdict="unknown"} 0"#,
            r#"steadfast_container_calls_total{endpoint="samza",verdict="refused"} 1"#,
            r#"steadfast_invalid_container_calls_total{reason="SUPERSEDED"} 2"#,
            r#"steadfast_invalid_container_calls_total{reason="UNKNOWN_ID"} 0"#,
            "steadfast_invalid_containers_that_called_total 1",
            "steadfast_fenced_writes_total 1",
            r#"steadfast_members_lost_total{cause="SILENCE"} 1"#,
            "steadfast_zombie_lifetime_seconds_sum 2.5",
            "steadfast_zombie_lifetime_seconds_count 1",
            "steadfast_stalls_total 1",
            r#"steadfast_restore_duration_seconds_sum{cause="memberLoss"} 1.25"#,
            r#"steadfast_restore_duration_seconds_count{cause="memberLoss"} 1"#,
            r#"steadfast_restore_duration_seconds_count{cause="planned"} 0"#,
            "steadfast_leading 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        }
    }
}
