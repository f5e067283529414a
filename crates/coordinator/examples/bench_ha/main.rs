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
mod cluster;
mod containers;
mod coordinators;
#[path = "../bench_validity/http1.rs"]
mod http1;
mod member_loss;
#[path = "../../../store/tests/etcd/node.rs"]
#[expect(dead_code, reason = "the tests that share it want more of a node")]
mod node;
mod takeover;

use std::io::Write;
use std::path::Path;

/// As the product has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One line of output.
#[derive(Default)]
struct Figure<'a> {
    figure: &'a str,
    value: f64,
    unit: &'a str,
    yardstick: Option<&'a str>,
    ratio: Option<f64>,
    bound: Option<f64>,
}

impl Figure<'_> {
    fn print(&self) -> Result<(), Failure> {
        let Self { figure, value, unit, yardstick, ratio, bound } = self;
        let hundredths = |value: f64| (value * 100.0).round() / 100.0;
        let line = serde_json::json!({
            "bench": "ha",
            "figure": figure,
            "value": hundredths(*value),
            "unit": unit,
            "yardstick": yardstick,
            "ratio": ratio.map(hundredths),
            "bound": bound,
        });
        writeln!(std::io::stdout(), "{line}")?;
        Ok(())
    }
}

fn say(text: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}

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
