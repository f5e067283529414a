//! What an answer to "may I go on?" costs beside nginx answering with a fixed text.
//!
//! The coordinator with many registered containers and nginx are processes of their own. One load
//! generator asks both the same questions at the same pace over connections that stay open; nginx returns
//! a constant body of the same length (`return 200`), with as many workers as the coordinator has threads.
//! They take turns in slices of a second, so that a machine which is busy for a moment is so for both. The
//! last part is a crowd of simulated containers whose coordinator is killed and comes back.
//!
//! Prints one JSON object a line. nginx must be installed (`cargo xtask bench validity` sees to it).

mod asking;
mod crowd;
mod figure;
mod http1;
mod load;
mod nginx;
mod process;
mod server;

use std::path::Path;

use figure::{Figure, say};
use load::{Questions, Side};
use nginx::Nginx;
use process::cpu_time;
use server::Server;

/// As the product has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BENCH: &str = "validity";
/// Registered containers.
const SIZES: [u64; 2] = [100_000, 1_000_000];
/// Slices for each of the two sides, after one that warms up.
const SLICES: usize = 12;
const CPU_BOUND: f64 = 1.3;
const P99_BOUND: f64 = 1.5;
const BYTES_BOUND: f64 = 300.0;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What one side did in its slices.
#[derive(Default)]
struct Measured {
    cpu_ns: u64,
    latencies_ns: Vec<u64>,
    /// One of each slice: their median forgives a slice in which the machine did something else.
    p99s_us: Vec<f64>,
}

impl Measured {
    async fn slice(&mut self, side: &mut Side, pids: &[u32]) -> Result<(), Failure> {
        let before = cpu_time(pids)?;
        let mut latencies_ns = side.slice().await?;
        self.cpu_ns += cpu_time(pids)? - before;
        self.p99s_us.push(quantile(&mut latencies_ns, 0.99) / 1e3);
        self.latencies_ns.append(&mut latencies_ns);
        Ok(())
    }

    fn cpu_us(&self) -> f64 {
        self.cpu_ns as f64 / 1e3 / self.latencies_ns.len() as f64
    }

    fn p99_us(&mut self) -> f64 {
        self.p99s_us.sort_by(f64::total_cmp);
        self.p99s_us[self.p99s_us.len() / 2]
    }
}

fn quantile(values: &mut [u64], q: f64) -> f64 {
    values.sort_unstable();
    // Between 0 and the length, so nothing is cut.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let at = (values.len() as f64 * q) as usize;
    values[at.min(values.len() - 1)] as f64
}

async fn measure(registered: u64, folder: &Path) -> Result<(), Failure> {
    let at = |what: &str| format!("{what}, {registered} registered");
    let mut server = Server::start(folder, 0, registered)?;
    Figure {
        figure: &at("memory per registered container"),
        value: server.ready.index_bytes as f64 / registered as f64,
        unit: "B",
        bound: Some(BYTES_BOUND),
        ..Figure::default()
    }
    .print()?;
    let questions = Questions::read(folder)?;
    let body = load::one_body(server.ready.port, &questions).await?;
    let nginx = Nginx::start(folder, server.ready.threads, &body)?;
    let mut ours = Side::connect(server.ready.port, &questions).await?;
    let mut theirs = Side::connect(nginx.port, &questions).await?;
    let (our_pids, their_pids) = ([server.pid()], nginx.pids()?);
    let (mut coordinator, mut yardstick) = (Measured::default(), Measured::default());
    let mut churning = Measured::default();
    ours.slice().await?;
    theirs.slice().await?;
    for _ in 0..SLICES {
        coordinator.slice(&mut ours, &our_pids).await?;
        yardstick.slice(&mut theirs, &their_pids).await?;
    }
    for _ in 0..SLICES / 2 {
        server.begin_churn()?;
        churning.slice(&mut ours, &our_pids).await?;
        server.end_churn()?;
    }
    let (ours_us, theirs_us) = (coordinator.cpu_us(), yardstick.cpu_us());
    let cpu = at("CPU time per answer");
    let beside_nginx = Figure { unit: "µs", yardstick: Some("nginx"), ..Figure::default() };
    let (value, ratio, bound) = (ours_us, Some(ours_us / theirs_us), Some(CPU_BOUND));
    Figure { figure: &cpu, value, ratio, bound, ..beside_nginx }.print()?;
    let (our_p99, their_p99) = (coordinator.p99_us(), yardstick.p99_us());
    let p99 = at("p99, median of the slices");
    let (value, ratio, bound) = (our_p99, Some(our_p99 / their_p99), Some(P99_BOUND));
    let beside_nginx = Figure { unit: "µs", yardstick: Some("nginx"), ..Figure::default() };
    Figure { figure: &p99, value, ratio, bound, ..beside_nginx }.print()?;
    let value = churning.p99_us();
    Figure {
        figure: &at("p99 while containers come and go"),
        value,
        unit: "µs",
        yardstick: Some("the same without"),
        ratio: Some(value / our_p99),
        bound: None,
    }
    .print()?;
    server.churn_figures(registered)?;
    say(&format!("  nginx: {theirs_us:.2} µs of CPU, p99 {their_p99:.0} µs; {} workers", {
        their_pids.len() - 1
    }))?;
    nginx.stop()?;
    server.kill()
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [what, folder, port, registered] = arguments.as_slice()
        && what == "serve"
    {
        return server::child::serve(Path::new(folder), port.parse()?, registered.parse()?);
    }
    process::allow_all_files()?;
    // One thread: what generates the load leaves the other core to whoever bears it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for registered in SIZES {
            let folder = tempfile::tempdir()?;
            measure(registered, folder.path()).await?;
        }
        let folder = tempfile::tempdir()?;
        crowd::play(folder.path()).await
    })
}
