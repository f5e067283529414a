//! Scenes with real processes, judged in milliseconds.
//!
//! The tests say what happens; here it is measured how fast. Every figure is taken from outside, by
//! looking at REST or at the kernel every two milliseconds, and stands beside the bound that the design
//! promises. `cargo xtask e2e --scenes [FILTER]` plays them on a release build.
//!
//! A figure is the median of its rounds, since one round says more about the machine's mood than about
//! the product; the slowest is shown beside it. A figure over its bound makes the exit code 1.

#![expect(clippy::print_stdout, reason = "a program whose output is its product")]

mod zombies;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use steadfast_e2e::{
    Cluster, Evaluation, Job, JobStatus, Member, MemberStatus, Output, PATIENCE, Process, RunEvent,
    Signal, is_long,
};

/// The rate of the acceptance line: the job lives for most of a minute.
const RATE: u32 = 10;
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What is measured, and what was promised; `None` where nothing was.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Figure {
    scene: &'static str,
    what: &'static str,
    bound_ms: Option<u128>,
}

struct Figures(Vec<(Figure, Vec<u128>)>);

impl Figures {
    fn add(&mut self, figure: Figure, value: u128) {
        match self.0.iter_mut().find(|(known, _)| *known == figure) {
            Some((_, values)) => values.push(value),
            None => self.0.push((figure, vec![value])),
        }
    }
}

type Scene = fn(usize, &mut Figures);

const SCENES: &[(&str, usize, Scene)] = &[
    ("member_killed", 5, member_killed),
    ("member_stopped", 3, member_stopped),
    ("member_terminated", 3, member_terminated),
    ("coordinator_killed", 5, coordinator_killed),
    ("coordinator_stopped", 2, coordinator_stopped),
    ("wrapper_killed", 3, wrapper_killed),
    ("cut_off", 3, cut_off),
    ("zombie_shutdown_ignored", 3, zombies::shutdown_ignored),
    ("zombie_wrapper_stopped", 3, zombies::wrapper_stopped),
    ("zombie_wrapper_and_agent_killed", 3, zombies::wrapper_and_agent_killed),
    ("zombie_cut_off", 4, zombies::cut_off),
    ("zombie_poller_panics", 3, zombies::poller_panics),
    ("zombie_coordinator_away", 1, zombies::coordinator_away),
    ("zombie_coordinator_gone", 1, zombies::coordinator_gone),
];

fn main() -> ExitCode {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let times = if is_long() { 10 } else { 1 };
    let mut figures = Figures(Vec::new());
    for (name, rounds, scene) in SCENES.iter().filter(|(name, ..)| name.contains(&filter)) {
        for round in 0..rounds * times {
            println!("{name}, round {} of {}", round + 1, rounds * times);
            scene(round, &mut figures);
        }
    }
    let (table, all_ok) = judge(&mut figures);
    println!("\n{table}");
    if all_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn judge(figures: &mut Figures) -> (Table, bool) {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["scene", "figure", "rounds", "median", "slowest", "bound", "verdict"]);
    let mut all_ok = true;
    for (Figure { scene, what, bound_ms }, values) in &mut figures.0 {
        values.sort_unstable();
        let (median, slowest) = (values[values.len() / 2], values[values.len() - 1]);
        let verdict = match bound_ms {
            None => "–",
            Some(bound) if median <= *bound => "ok",
            Some(_) => "over",
        };
        all_ok &= verdict != "over";
        table.add_row([
            (*scene).to_owned(),
            (*what).to_owned(),
            values.len().to_string(),
            median.to_string(),
            slowest.to_string(),
            bound_ms.map_or_else(|| "–".to_owned(), |bound| format!("≤ {bound}")),
            verdict.to_owned(),
        ]);
    }
    (table, all_ok)
}

/// Milliseconds from `start` until each condition was seen to hold for the first time.
fn measure<const N: usize>(
    start: Instant,
    mut conditions: [(&str, &mut dyn FnMut() -> bool); N],
) -> [u128; N] {
    let mut seen = [None; N];
    while seen.iter().any(Option::is_none) {
        for ((_, holds), seen) in conditions.iter_mut().zip(&mut seen) {
            if seen.is_none() && holds() {
                *seen = Some(start.elapsed().as_millis());
            }
        }
        if start.elapsed() > PATIENCE {
            let names: Vec<&str> = conditions.iter().map(|(name, _)| *name).collect();
            panic!("waited {PATIENCE:?} in vain for some of {names:?}: {seen:?}");
        }
        std::thread::sleep(LOOK_EVERY); // polls
    }
    seen.map(Option::unwrap_or_default)
}

fn is_lost(cluster: &Cluster, member: &Member) -> bool {
    let members = cluster.rest().members_now().unwrap_or_default();
    members.iter().any(|one| one.uuid == member.uuid && one.status == MemberStatus::Lost)
}

fn runs(cluster: &Cluster, id: &str, attempt: u32) -> bool {
    cluster.rest().job_now(id).is_some_and(|job| job.runs(attempt))
}

fn programs_on(cluster: &Cluster, job: &Job, member: &Member) -> Vec<Process> {
    job.task_groups()
        .filter(|group| group.member_uuid.as_ref() == Some(&member.uuid))
        .filter_map(|group| Some(cluster.process(group.pid?)))
        .collect()
}

fn all_gone(processes: &[Process]) -> bool {
    processes.iter().all(|process| !process.is_alive())
}

fn note_overlaps(scene: &'static str, output: &Output, figures: &mut Figures) {
    let runs = output.runs();
    let overlaps = runs.values().flatten().filter(|run| run.event == RunEvent::Overlap).count();
    let figure = Figure { scene, what: "overlaps (count)", bound_ms: Some(0) };
    figures.add(figure, overlaps as u128);
}

/// The main line of the product, to the letter: four members with three slots, RATE 10, two kills. The
/// first round goes on to the end of the job.
fn member_killed(round: usize, figures: &mut Figures) {
    let scene = "member_killed";
    let lost = Figure { scene, what: "kill -9 of an agent → declared lost", bound_ms: Some(500) };
    let gone = Figure { scene, what: "… → its old copies gone", bound_ms: Some(700) };
    let running =
        Figure { scene, what: "… → all task groups run again", bound_ms: Some(3_000) };
    let cluster = Cluster::start(4, 3);
    let (id, output) = cluster.submit(RATE);
    let mut job = cluster.wait_until_runs(&id, 1);
    for attempt in 2..=3 {
        let member = cluster.host_of(&job);
        let (agent, old) = (cluster.process(member.pid), programs_on(&cluster, &job, &member));
        let start = Instant::now();
        agent.signal(Signal::KILL);
        let [lost_ms, gone_ms, running_ms] = measure(
            start,
            [
                ("loss", &mut || is_lost(&cluster, &member)),
                ("end of the old copies", &mut || all_gone(&old)),
                ("recovery", &mut || runs(&cluster, &id, attempt)),
            ],
        );
        figures.add(lost, lost_ms);
        figures.add(gone, gone_ms);
        figures.add(running, running_ms);
        job = cluster.rest().job(&id);
        let label = job.label();
        assert_eq!(label.recovery_attempt_count, u64::from(attempt) - 1, "{label:?}");
        let evaluation = if attempt == 2 { Evaluation::Clean } else { Evaluation::Dirty };
        assert_eq!((job.job_status, label.evaluation_status), (JobStatus::Running, evaluation));
    }
    if round == 0 {
        let finished = cluster.wait_until_finished(&id, &output);
        assert_eq!(finished.dirty_task.get(), job.dirty_task.get());
        for sentence in cluster.rest().explain(&id) {
            println!("  {} {}", sentence.time, sentence.text);
        }
    }
    note_overlaps(scene, &output, figures);
}

fn member_stopped(_: usize, figures: &mut Figures) {
    let scene = "member_stopped";
    let cluster = Cluster::start(4, 3);
    let (id, output) = cluster.submit(RATE);
    let job = cluster.wait_until_runs(&id, 1);
    let member = cluster.host_of(&job);
    let agent = cluster.process(member.pid);
    let start = Instant::now();
    agent.signal(Signal::STOP);
    let [lost, running] = measure(
        start,
        [
            ("loss", &mut || is_lost(&cluster, &member)),
            ("recovery", &mut || runs(&cluster, &id, 2)),
        ],
    );
    let what = "kill -STOP of an agent → declared lost";
    figures.add(Figure { scene, what, bound_ms: Some(5_000) }, lost);
    let what = "… → all task groups run again";
    figures.add(Figure { scene, what, bound_ms: None }, running);

    let start = Instant::now();
    agent.signal(Signal::CONT);
    let mut is_back = || {
        let members = cluster.rest().members_now().unwrap_or_default();
        members.iter().any(|one| one.pid == member.pid && one.status == MemberStatus::Alive)
    };
    let [back] = measure(start, [("return", &mut is_back)]);
    let what = "kill -CONT → alive under another UUID";
    figures.add(Figure { scene, what, bound_ms: None }, back);
    note_overlaps(scene, &output, figures);
}

fn member_terminated(_: usize, figures: &mut Figures) {
    let scene = "member_terminated";
    let cluster = Cluster::start(4, 3);
    let (id, output) = cluster.submit(RATE);
    let job = cluster.wait_until_runs(&id, 1);
    let member = cluster.host_of(&job);
    let agent = cluster.process(member.pid);
    let start = Instant::now();
    agent.signal(Signal::TERM);
    let [lost, running, ended] = measure(
        start,
        [
            ("loss", &mut || is_lost(&cluster, &member)),
            ("recovery", &mut || runs(&cluster, &id, 2)),
            ("its end", &mut || !agent.is_alive()),
        ],
    );
    let what = "kill -TERM of an agent → declared lost";
    figures.add(Figure { scene, what, bound_ms: Some(500) }, lost);
    let what = "… → all task groups run again";
    figures.add(Figure { scene, what, bound_ms: Some(3_000) }, running);
    figures.add(Figure { scene, what: "… → the agent has ended", bound_ms: None }, ended);
    note_overlaps(scene, &output, figures);
}

fn coordinator_killed(_: usize, figures: &mut Figures) {
    let scene = "coordinator_killed";
    let cluster = Cluster::start(4, 3);
    let (id, output) = cluster.submit(RATE);
    let before = cluster.wait_until_runs(&id, 1).containers();
    let old = cluster.coordinator();
    let answers = || cluster.rest().get("/health/live").is_some();
    let start = Instant::now();
    old.signal(Signal::KILL);
    let [live, ready, all_back] = measure(
        start,
        [
            ("an answer", &mut || !old.is_alive() && answers()),
            ("ready", &mut || !old.is_alive() && cluster.rest().is_ready()),
            ("members", &mut || {
                let overview = cluster.rest().overview_now();
                overview.is_some_and(|now| now.coordinator.pid != old.pid && now.members.alive == 4)
            }),
        ],
    );
    let what = "kill -9 of the coordinator → another answers";
    figures.add(Figure { scene, what, bound_ms: Some(1_000) }, live);
    figures.add(Figure { scene, what: "… → it leads and is ready", bound_ms: Some(3_000) }, ready);
    figures.add(Figure { scene, what: "… → all members are back", bound_ms: None }, all_back);
    let after = cluster.wait_until_runs(&id, 1).containers();
    let restarted = after.iter().filter(|one| !before.contains(one)).count();
    let what = "containers restarted (count)";
    figures.add(Figure { scene, what, bound_ms: Some(0) }, restarted as u128);
    note_overlaps(scene, &output, figures);
}

/// Stopped for half a minute, in which one agent is killed: the others are given a full window when the
/// coordinator wakes, and who does not use it is lost a moment after that.
fn coordinator_stopped(_: usize, figures: &mut Figures) {
    let scene = "coordinator_stopped";
    let cluster = Cluster::start(4, 3);
    let members = cluster.present_members();
    let (coordinator, agent) = (cluster.coordinator(), cluster.process(members[0].pid));
    coordinator.signal(Signal::STOP);
    agent.signal(Signal::KILL);
    let stopped = Instant::now();
    measure(stopped, [("half a minute", &mut || stopped.elapsed() >= Duration::from_secs(30))]);
    let start = Instant::now();
    coordinator.signal(Signal::CONT);
    let [lost] = measure(start, [("loss", &mut || is_lost(&cluster, &members[0]))]);
    let what = "kill -CONT → who was killed meanwhile is declared lost";
    figures.add(Figure { scene, what, bound_ms: Some(6_000) }, lost);
    let others = members[1..].iter().filter(|member| is_lost(&cluster, member)).count();
    let what = "others declared lost (count)";
    figures.add(Figure { scene, what, bound_ms: Some(0) }, others as u128);
}

fn wrapper_killed(_: usize, figures: &mut Figures) {
    let scene = "wrapper_killed";
    let cluster = Cluster::start(2, 4);
    let (id, output) = cluster.submit(RATE);
    let job = cluster.wait_until_runs(&id, 1);
    let Some((wrapper, program)) =
        job.task_groups().find_map(|group| Some((group.wrapper_pid?, group.pid?)))
    else {
        panic!("it runs: {job:#?}")
    };
    let (wrapper, program) = (cluster.process(wrapper), cluster.process(program));
    let start = Instant::now();
    wrapper.signal(Signal::KILL);
    let [gone] = measure(start, [("the program's end", &mut || !program.is_alive())]);
    let what = "kill -9 of a wrapper → its program is gone";
    figures.add(Figure { scene, what, bound_ms: Some(500) }, gone);
    note_overlaps(scene, &output, figures);
}

/// Nobody answers any more: a program that runs is told to stop at `L − G − m` and is gone by `L − m`; one
/// that is stopped is killed at `L − m`, whether or not it could hear. Both count from the last "yes", which
/// was asked for before the coordinator was stopped, by up to one poll.
fn cut_off(_: usize, figures: &mut Figures) {
    let scene = "cut_off";
    let cluster = Cluster::start(2, 4);
    let (id, output) = cluster.submit(1);
    let job = cluster.wait_until_runs(&id, 1);
    let mut programs: Vec<Process> =
        job.containers().iter().map(|(_, pid)| cluster.process(*pid)).collect();
    let stopped = programs.split_off(2);
    let coordinator = cluster.coordinator();
    let start = Instant::now();
    coordinator.signal(Signal::STOP);
    for program in &stopped {
        program.signal(Signal::STOP);
    }
    let [running, stopped] = measure(
        start,
        [
            ("end of what runs", &mut || all_gone(&programs)),
            ("end of what is stopped", &mut || all_gone(&stopped)),
        ],
    );
    coordinator.signal(Signal::CONT);
    let what = "no coordinator answers → programs that run are gone";
    figures.add(Figure { scene, what, bound_ms: Some(14_600) }, running);
    let what = "… → programs that are stopped (SIGSTOP) are gone";
    figures.add(Figure { scene, what, bound_ms: Some(14_600) }, stopped);
    note_overlaps(scene, &output, figures);
}
