//! A steady state in which nothing is written, and then kills of whoever leads.
//!
//! A thousand jobs are submitted and run on ten simulated agents, ten containers each, as users and agents do
//! it: so what the store holds, and the secrets that the containers show, are the product's own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use steadfast_api::LaunchOrder;
use steadfast_client::{Client, JobFormat};
use steadfast_model::{Epoch, JobStatus, MemberUuid};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::agents::Agent;
use crate::cluster::Cluster;
use crate::containers::Crowd;
use crate::coordinators::Coordinator;
use crate::{Failure, Figure, median, say};

const COORDINATORS: usize = 3;
const AGENTS: u64 = 10;
const JOBS: usize = 1_000;
const CONTAINERS_PER_JOB: usize = 10;
const CONTAINERS: usize = JOBS * CONTAINERS_PER_JOB;
/// Containers that share connections.
const CROWD: usize = 20;
/// Who submit at once.
const USERS: usize = 20;
const STEADY: Duration = Duration::from_secs(10);
const KILLS: usize = 7;
const BOUND_MS: f64 = 3_000.0;
/// After all have a yes: what still had to be written is.
const SETTLE: Duration = Duration::from_secs(2);
/// What takes longer than this has failed.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// A coordinator's clock shows whole milliseconds since one.
const CLOCK_MS: u64 = 2;

/// What all agents and containers have seen.
#[derive(Default)]
pub struct Seen(Mutex<Sights>);

#[derive(Default)]
struct Sights {
    terms: BTreeMap<Epoch, OfTerm>,
    told_valid: u64,
    told_no: u64,
    disturbed: u64,
}

/// The firsts of one term.
#[derive(Clone, Default)]
struct OfTerm {
    welcome: Option<Welcome>,
    valid: Option<Instant>,
    /// Containers that had a yes.
    containers: usize,
}

#[derive(Clone)]
struct Welcome {
    wall_ms: u64,
    url: String,
    member: MemberUuid,
}

impl Seen {
    pub fn note_welcome(&self, epoch: Epoch, url: String, member: MemberUuid) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        let welcome = Welcome { wall_ms, url, member };
        self.0.lock().terms.entry(epoch).or_default().welcome.get_or_insert(welcome);
    }

    /// `is_first`: of this container, in this term.
    pub fn note_valid(&self, epoch: Epoch, at: Instant, is_first: bool) {
        let mut sights = self.0.lock();
        sights.told_valid += 1;
        let term = sights.terms.entry(epoch).or_default();
        term.valid.get_or_insert(at);
        term.containers += usize::from(is_first);
    }

    pub fn note_told_no(&self) {
        self.0.lock().told_no += 1;
    }

    /// An agent was told to end something, or itself.
    pub fn note_disturbed(&self) {
        self.0.lock().disturbed += 1;
    }

    fn newest(&self) -> Option<(Epoch, OfTerm)> {
        let sights = self.0.lock();
        sights.terms.last_key_value().map(|(epoch, term)| (*epoch, term.clone()))
    }
}

struct World {
    cluster: Cluster,
    coordinators: Vec<Coordinator>,
    client: Arc<Client>,
    seen: Arc<Seen>,
    /// Agents and containers. They end with it.
    crowds: JoinSet<()>,
    /// What was launched after the beginning would be a container that was lost.
    launches: mpsc::UnboundedReceiver<LaunchOrder>,
}

impl World {
    /// Jobs that run, and containers that ask.
    async fn begin() -> Result<Self, Failure> {
        let cluster = Cluster::three("ha/").await?;
        let location = cluster.location();
        let coordinators: Vec<Coordinator> =
            (0..COORDINATORS).map(|_| Coordinator::start(&location)).collect::<Result<_, _>>()?;
        let urls: Vec<String> = coordinators.iter().map(Coordinator::url).collect();
        let client = Arc::new(Client::new(&urls)?);
        let seen = Arc::new(Seen::default());
        let (launched, launches) = mpsc::unbounded_channel();
        let mut crowds = JoinSet::new();
        for number in 0..AGENTS {
            let agent = Agent::new(number, &urls, launched.clone(), Arc::clone(&seen))?;
            crowds.spawn(agent.live());
        }
        let mut world = Self { cluster, coordinators, client, seen, crowds, launches };
        world
            .until("all agents are there", async |world| {
                let members = world.client.members().await.map_or(0, |members| members.len());
                members as u64 == AGENTS
            })
            .await?;
        world.submit().await?;
        world.ask().await?;
        world
            .until("all jobs run", async |world| {
                let jobs = world.client.overview().await.map(|overview| overview.jobs);
                jobs.is_ok_and(|jobs| jobs.get(&JobStatus::Running) == Some(&(JOBS as u64)))
            })
            .await?;
        world.until_all_have_a_yes(None).await?;
        Ok(world)
    }

    async fn submit(&self) -> Result<(), Failure> {
        let mut users = JoinSet::new();
        for user in 0..USERS {
            let client = Arc::clone(&self.client);
            users.spawn(async move {
                for number in (user..JOBS).step_by(USERS) {
                    client.submit_job(job(number), JobFormat::Hocon, None, false).await?;
                }
                Ok::<(), Failure>(())
            });
        }
        while let Some(done) = users.join_next().await {
            done??;
        }
        Ok(())
    }

    /// Every container that is launched begins to ask.
    async fn ask(&mut self) -> Result<(), Failure> {
        let ports: Vec<u16> = self.coordinators.iter().map(|one| one.port).collect();
        for seed in 0..(CONTAINERS / CROWD) as u64 {
            let mut orders = Vec::new();
            while orders.len() < CROWD {
                let launched = tokio::time::timeout(LONGEST_WAIT, self.launches.recv()).await;
                orders.push(
                    launched.map_err(|_| "not all containers are launched")?.ok_or("no agent")?,
                );
            }
            self.crowds.spawn(Crowd::new(&orders, &ports, Arc::clone(&self.seen), seed)?.live());
        }
        Ok(())
    }

    async fn until(
        &mut self,
        what: &str,
        is_so: impl AsyncFn(&Self) -> bool,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        while !is_so(self).await {
            if began.elapsed() > LONGEST_WAIT {
                return Err(format!("not within {LONGEST_WAIT:?}: {what}").into());
            }
            sleep(LOOK_EVERY).await; // polls
        }
        Ok(())
    }

    /// In a term after this one.
    async fn until_all_have_a_yes(&mut self, after: Option<Epoch>) -> Result<(), Failure> {
        self.until("all containers have a yes", async |world| {
            world.seen.newest().is_some_and(|(epoch, term)| {
                Some(epoch) > after && term.containers == CONTAINERS && term.welcome.is_some()
            })
        })
        .await
    }

    async fn steady(&mut self) -> Result<(), Failure> {
        let told_valid = || self.seen.0.lock().told_valid;
        let (before, told_before) = (self.cluster.revision().await?, told_valid());
        sleep(STEADY).await;
        let (after, told_after) = (self.cluster.revision().await?, told_valid());
        Figure {
            figure: &format!(
                "revisions of etcd in {} s, {JOBS} jobs and {CONTAINERS} containers",
                STEADY.as_secs()
            ),
            value: (after - before) as f64,
            bound: Some(0.0),
            ..Figure::default()
        }
        .print()?;
        say(&format!("  meanwhile {} questions were answered with yes", told_after - told_before))
    }

    /// Kills whoever leads, and says after how many milliseconds the first beat was accepted and the first
    /// container was valid. Then everything is as before.
    async fn kill(&mut self) -> Result<Takeover, Failure> {
        let (epoch, term) = self.seen.newest().ok_or("nobody leads")?;
        let url = term.welcome.ok_or("nobody was welcomed")?.url;
        let is_active = |one: &&mut Coordinator| one.url() == url;
        let active = self.coordinators.iter_mut().find(is_active).ok_or("a stranger leads")?;
        let killed = Instant::now();
        active.kill()?;
        let beat_ms = self.first_beat_ms(killed, epoch).await?;
        self.until("a container is valid", async |world| {
            world.seen.newest().is_some_and(|(of, term)| of > epoch && term.valid.is_some())
        })
        .await?;
        let valid = self.seen.newest().and_then(|(_, term)| term.valid).ok_or("no yes")?;
        self.until_all_have_a_yes(Some(epoch)).await?;
        let all_ms = ms(killed.elapsed());
        say(&format!(
            "  a beat is accepted after {beat_ms:.0} ms, a container valid after {:.0} ms, all after {all_ms:.0} ms",
            ms(valid - killed)
        ))?;
        let killed_one = self.coordinators.iter_mut().find(is_active).ok_or("it is gone")?;
        killed_one.start_again()?;
        sleep(SETTLE).await;
        Ok(Takeover { beat_ms, valid_ms: ms(valid - killed), all_ms })
    }

    /// The welcome may be given before anybody has heard a beat: the member list says when one was.
    async fn first_beat_ms(&mut self, killed: Instant, epoch: Epoch) -> Result<f64, Failure> {
        let welcomed = |world: &Self| {
            let (of, term) = world.seen.newest()?;
            term.welcome.filter(|_| of > epoch)
        };
        self.until("an agent is welcomed", async |world| welcomed(world).is_some()).await?;
        let Welcome { wall_ms, url, member } = welcomed(self).ok_or("no welcome")?;
        let client = Client::new([&url])?;
        self.until("a beat is accepted", async |_| {
            let members = client.members().await.unwrap_or_default();
            let mut seen = members.iter().filter(|info| info.uuid == member);
            seen.any(|info| info.last_seen.timestamp().as_millis() + CLOCK_MS >= wall_ms)
        })
        .await?;
        Ok(ms(killed.elapsed()))
    }
}

struct Takeover {
    beat_ms: f64,
    valid_ms: f64,
    /// Until every container had a yes.
    all_ms: f64,
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn job(number: usize) -> String {
    format!(
        r#"env {{ job.name = "job-{number}" }}
        pipelines = [{{ name = "pipeline", tasks = [
            {{ name = "task", parallelism = {CONTAINERS_PER_JOB}, command = ["program"] }}
        ] }}]"#
    )
}

pub async fn measure() -> Result<(), Failure> {
    let began = Instant::now();
    let mut world = World::begin().await?;
    say(&format!("  {CONTAINERS} containers run after {:.1} s", began.elapsed().as_secs_f64()))?;
    sleep(SETTLE).await;
    world.steady().await?;
    let mut takeovers = Vec::new();
    for _ in 0..KILLS {
        takeovers.push(world.kill().await?);
    }
    let of = |of: fn(&Takeover) -> f64| median(takeovers.iter().map(of).collect());
    let first = [
        ("the first accepted heartbeat", of(|one| one.beat_ms)),
        ("the first valid", of(|one| one.valid_ms)),
    ];
    for (what, value) in first {
        let figure = &format!("kill of the active coordinator until {what}, median of {KILLS}");
        Figure { figure, value, unit: "ms", bound: Some(BOUND_MS), ..Figure::default() }.print()?;
    }
    let figure = &format!("… until all {CONTAINERS} containers had a yes");
    Figure { figure, value: of(|one| one.all_ms), unit: "ms", ..Figure::default() }.print()?;
    let launched_again = std::iter::from_fn(|| world.launches.try_recv().ok()).count();
    let sights = world.seen.0.lock();
    let harmed = sights.told_no + sights.disturbed + launched_again as u64;
    Figure {
        figure: "… containers told no, stopped or launched again",
        value: harmed as f64,
        bound: Some(0.0),
        ..Figure::default()
    }
    .print()
}
