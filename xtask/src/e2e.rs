//! Real binaries, real processes. The tests do not build what they run: a test that compiles the
//! product inside itself measures the compiler. So the binaries are built here, before, in the
//! profile in which the tests look for them.

use anyhow::{Result, bail};

use crate::cargo::{cargo, has_target, run as run_command, workspace};

const PACKAGE: &str = "steadfast-e2e";
/// The program of the package that plays the scenes and judges their bounds in milliseconds.
const SCENES: &str = "scenes";

/// Tests that run at the same time. Most of each is waiting for leases, timeouts and elections, so that two
/// processors carry more than two.
const AT_ONCE: u32 = 4;

/// Which of the end-to-end runs.
#[derive(clap::Args, Default)]
pub struct Arguments {
    /// The long random runs (100 rounds and more) instead of the short ones (10).
    #[arg(long)]
    long: bool,
    /// Play the scenes, whose bounds in milliseconds are printed and judged, instead of the tests.
    #[arg(long)]
    scenes: bool,
    /// Only tests (or scenes) whose name contains this.
    filter: Option<String>,
}

/// Builds the binaries and runs the tests or the scenes.
///
/// # Errors
/// When something does not build, or a test or scene fails.
pub fn run(arguments: &Arguments) -> Result<()> {
    build_binaries()?;
    let mut command = if arguments.scenes {
        if !has_target(&workspace()?, PACKAGE, SCENES) {
            bail!("tests/e2e has no program `{SCENES}` (src/bin/{SCENES})");
        }
        cargo(&format!("run --release --locked -p {PACKAGE} --bin {SCENES} --"))
    } else {
        cargo(&format!("test --release --locked -p {PACKAGE} -- --test-threads {AT_ONCE}"))
    };
    command.args(&arguments.filter);
    if arguments.long {
        command.env("STEADFAST_E2E_LONG", "1");
        if !arguments.scenes {
            // The seed and the rounds are told while they are played: they take most of an hour.
            command.arg("--nocapture");
        }
    }
    run_command(&mut command)
}

/// Builds what the tests start: the product, with every store that it can have, the example program, and one
/// of the library's.
///
/// # Errors
/// When it does not build.
pub fn build_binaries() -> Result<()> {
    run_command(&mut cargo(
        "build --release --locked -p steadfast -p wordcount -p steadfast-validator \
         --features steadfast/etcd --bin steadfast --bin wordcount --example poller_panics",
    ))
}
