//! What it costs to have no single point of failure: a coordinator on three real etcd nodes.
//!
//! 1. A member is lost on which a thousand jobs have a container, beside bare transactions that bring the
//!    same keys and values to the same etcd.
//! 2. The active of three coordinators is killed, with a thousand jobs and ten thousand containers that go on
//!    asking.
//! 3. Before that, while nothing happens: what the coordinators write to etcd.
//!
//! Prints one JSON object a line. etcd must be installed (`cargo xtask bench ha` sees to it). All of it runs
//! on one machine, nodes, coordinators, agents and containers, so the figures hold its contention, too.

mod agents;
#[path = "../bench_validity/asking.rs"]
mod asking;
mod cluster;
mod containers;
mod coordinators;
#[path = "../bench_validity/figure.rs"]
mod figure;
#[path = "../bench_validity/http1.rs"]
mod http1;
mod member_loss;
#[path = "../../../store/tests/etcd/node.rs"]
#[expect(dead_code, reason = "the tests that share it want more of a node")]
mod node;
mod takeover;

use std::path::Path;

use figure::{Figure, say};

/// As the product has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BENCH: &str = "ha";

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [what, store, port] = arguments.as_slice()
        && what == coordinators::SERVE
    {
        return coordinators::serve(store, port.parse()?);
    }
    // Beside the build, not in /tmp, which may be memory and would make every fsync free.
    let beside = std::env::current_exe()?;
    tempfile::env::override_temp_dir(beside.parent().unwrap_or(Path::new(".")))
        .map_err(|already| format!("temporary folders lie in {} already", already.display()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        member_loss::measure().await?;
        takeover::measure().await
    })
}
