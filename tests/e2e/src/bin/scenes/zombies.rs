//! How soon an old copy is gone, whatever is done to it: with the default lease, `L` = 15 s, `G` = 5 s, `m` =
//! 400 ms. All instants count from the last "yes", which was asked for up to one poll before the scene began.

use std::time::{Duration, Instant};

use serde_json::json;
use steadfast_e2e::{
    Cluster, Container, Detector, Lease, Manner, Network, PATIENCE, Process, Signal, binary,
    wait_until,
};

use super::{Figure, Figures, all_gone, measure, runs};

/// `L − G − m − one poll`: before that nobody who is cut off has a reason to end.
const EARLIEST_STOP_MS: u128 = 8_600;
/// `L − m`.
const KILL_MS: u128 = 14_600;
/// `L − 2 % of L`.
const SECOND_RUNG_MS: u128 = 14_700;
/// `G` and the time until a killed agent's containers know of it.
const GRACE_MS: u128 = 5_000 + 700;
const AT_ONCE_MS: u128 = 500;

struct Stage {
    scene: &'static str,
    cluster: Cluster,
    id: String,
    detector: Detector,
    containers: Vec<Container>,
}

impl Stage {
    fn new(scene: &'static str, manner: Manner) -> Self {
        let cluster = Cluster::start(2, 8);
        let (id, detector) = Detector::submit(&cluster, 4, manner, Lease::DEFAULT);
        Self::with(scene, cluster, id, detector)
    }

    fn with(scene: &'static str, cluster: Cluster, id: String, detector: Detector) -> Self {
        let job = cluster.wait_until_runs(&id, 1);
        let containers = Container::all(&cluster, &job);
        Self { scene, cluster, id, detector, containers }
    }

    fn agent_of(&self, container: &Container) -> Process {
        let members = self.cluster.present_members();
        let member = members.into_iter().find(|one| one.uuid == container.member_uuid);
        self.cluster.process(member.expect("it runs there").pid)
    }

    /// Program and descendants of these containers.
    fn programs<'a>(&self, containers: impl IntoIterator<Item = &'a Container>) -> Vec<Process> {
        containers.into_iter().flat_map(|one| one.programs(&self.cluster)).collect()
    }

    fn runs_again(&self, attempt: u32) -> impl FnMut() -> bool {
        move || runs(&self.cluster, &self.id, attempt)
    }

    fn note(&self, figures: &mut Figures, what: &'static str, bound_ms: Option<u128>, ms: u128) {
        figures.add(Figure { scene: self.scene, what, bound_ms }, ms);
    }

    /// Lets the job come to its end, whose sums have to be right.
    fn finish(self, figures: &mut Figures) {
        self.detector.wait_until_sums_are_right(&self.cluster, &self.id);
        let overlaps = self.detector.overlaps().len();
        self.note(figures, "overlaps (count)", Some(0), overlaps as u128);
    }
}

pub fn shutdown_ignored(_: usize, figures: &mut Figures) {
    let stage = Stage::new("zombie_shutdown_ignored", Manner::Catches);
    let lost = stage.containers[0].member_uuid.clone();
    let agent = stage.agent_of(&stage.containers[0]);
    let old = stage.programs(stage.containers.iter().filter(|one| one.member_uuid == lost));
    let start = Instant::now();
    agent.signal(Signal::KILL);
    let [gone, again] = measure(
        start,
        [("end of the old copies", &mut || all_gone(&old)), ("recovery", &mut stage.runs_again(2))],
    );
    let what = "kill -9 of an agent → its programs, which catch everything, are gone";
    stage.note(figures, what, Some(GRACE_MS), gone);
    stage.note(figures, "… → all task groups run again", None, again);
    stage.finish(figures);
}

pub fn wrapper_stopped(_: usize, figures: &mut Figures) {
    let stage = Stage::new("zombie_wrapper_stopped", Manner::LeavesADescendant);
    let old = stage.programs(&stage.containers[..1]);
    let start = Instant::now();
    stage.containers[0].wrapper.signal(Signal::STOP);
    let [gone, again] = measure(
        start,
        [("end of the old copy", &mut || all_gone(&old)), ("recovery", &mut stage.runs_again(2))],
    );
    let what = "kill -STOP of a wrapper → its program and descendants are gone";
    stage.note(figures, what, Some(SECOND_RUNG_MS), gone);
    stage.note(figures, "… → all task groups run again", None, again);
    stage.finish(figures);
}

pub fn wrapper_and_agent_killed(_: usize, figures: &mut Figures) {
    let stage = Stage::new("zombie_wrapper_and_agent_killed", Manner::LeavesADescendant);
    let agent = stage.agent_of(&stage.containers[0]);
    let old = stage.programs(&stage.containers[..1]);
    let start = Instant::now();
    agent.signal(Signal::STOP);
    stage.containers[0].wrapper.signal(Signal::KILL);
    agent.signal(Signal::KILL);
    let [gone, again] = measure(
        start,
        [("end of the old copy", &mut || all_gone(&old)), ("recovery", &mut stage.runs_again(2))],
    );
    let what = "kill -9 of wrapper and agent → program and descendants are gone";
    stage.note(figures, what, Some(AT_ONCE_MS), gone);
    stage.note(figures, "… → all task groups run again (the lease has to run out)", None, again);
    stage.finish(figures);
}

/// By a network namespace whose way out becomes a black hole. Every other round the programs catch everything,
/// so that they have to be killed; in the others they end when they are told to.
pub fn cut_off(round: usize, figures: &mut Figures) {
    let Some(network) = Network::make() else { return };
    let cluster = Cluster::start_with_auth_at(1, 8, network.address());
    let member = cluster.add_member_whose_containers_are_in(&network);
    let manner = [Manner::Catches, Manner::Polite][round % 2];
    let (id, detector) = Detector::submit(&cluster, 4, manner, Lease::DEFAULT);
    let stage = Stage::with("zombie_cut_off", cluster, id, detector);
    let cut = stage.containers.iter().filter(|one| one.member_uuid == member.uuid);
    let old = stage.programs(cut);
    assert!(!old.is_empty(), "some are on it: {:?}", stage.containers);
    let start = Instant::now();
    network.cut();
    let [first, gone] = measure(
        start,
        [
            ("end of the first", &mut || old.iter().any(|one| !one.is_alive())),
            ("end of all", &mut || all_gone(&old)),
        ],
    );
    network.heal();
    let what = "containers cut off alone → the last one is gone";
    stage.note(figures, what, Some(KILL_MS), gone);
    let what = "… → the first one was gone earlier than L − G − m − one poll by";
    stage.note(figures, what, Some(0), EARLIEST_STOP_MS.saturating_sub(first));
    stage.finish(figures);
}

pub fn poller_panics(_: usize, figures: &mut Figures) {
    let cluster = Cluster::start(2, 8);
    let program = binary("examples/poller_panics");
    let around = [program.to_str().expect("it has a plain name")];
    let more = json!({ "validator": "library" });
    let (id, detector) =
        Detector::submit_in(&cluster, 4, Manner::Ignores, Lease::DEFAULT, &around, more);
    let stage = Stage::with("zombie_poller_panics", cluster, id, detector);
    let old: Vec<Process> = stage.containers.iter().map(|one| one.program).collect();
    stage.cluster.dev().signal(Signal::STOP);
    let start = Instant::now();
    stage.cluster.coordinator().signal(Signal::KILL);
    wait_until(PATIENCE, "every poller to panic", || {
        let said = |one: &Container| one.said(&stage.cluster, "stderr.log");
        stage.containers.iter().all(|one| said(one).contains("on purpose")).then_some(())
    });
    stage.cluster.dev().signal(Signal::CONT);
    let [gone] = measure(start, [("end of all", &mut || all_gone(&old))]);
    let what = "its thread that asks panics → the program, which ignores its shutdown, is gone";
    stage.note(figures, what, Some(KILL_MS), gone);
    stage.finish(figures);
}

/// For a minute, to the letter.
pub fn coordinator_away(_: usize, figures: &mut Figures) {
    let stage = Stage::new("zombie_coordinator_away", Manner::Polite);
    let (old, coordinator) = (stage.programs(&stage.containers), stage.cluster.coordinator());
    stage.cluster.dev().signal(Signal::STOP);
    let start = Instant::now();
    coordinator.signal(Signal::KILL);
    let [gone] = measure(start, [("end of all", &mut || all_gone(&old))]);
    let what = "kill -9 of the coordinator for 60 s → every program is gone";
    stage.note(figures, what, Some(KILL_MS), gone);
    wait_until(2 * PATIENCE, "the minute", || {
        (start.elapsed() > Duration::from_secs(60)).then_some(())
    });
    let start = Instant::now();
    stage.cluster.dev().signal(Signal::CONT);
    let [again] = measure(start, [("recovery", &mut stage.runs_again(2))]);
    let what = "… → it is started again, and all task groups run";
    stage.note(figures, what, None, again);
    stage.finish(figures);
}

pub fn coordinator_gone(_: usize, figures: &mut Figures) {
    let stage = Stage::new("zombie_coordinator_gone", Manner::Catches);
    let (old, coordinator) = (stage.programs(&stage.containers), stage.cluster.coordinator());
    stage.cluster.dev().signal(Signal::STOP);
    let start = Instant::now();
    coordinator.signal(Signal::KILL);
    let is_all_gone = || stage.containers.iter().all(|one| one.is_gone(&stage.cluster));
    let [programs, all] = measure(
        start,
        [("end of the programs", &mut || all_gone(&old)), ("end of all", &mut { is_all_gone })],
    );
    let what = "kill -9 of the coordinator for ever → programs that catch everything are gone";
    stage.note(figures, what, Some(KILL_MS), programs);
    stage.note(figures, "… → nothing of any container is left", Some(20_000), all);
    let overlaps = stage.detector.overlaps().len();
    stage.note(figures, "overlaps (count)", Some(0), overlaps as u128);
}
