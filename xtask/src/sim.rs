//! The simulator, always optimised: its worth is the number of seeds that it gets through.

use anyhow::Result;

use crate::cargo::{cargo, run as run_command};

/// What is handed through to the simulator; without any of it, it runs its fixed seeds.
#[derive(clap::Args, Default)]
pub struct Arguments {
    /// How many seeds to run.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// The one seed to run, as a failure message named it.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// The long, time-boxed random run.
    #[arg(long)]
    long: bool,
}

impl Arguments {
    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (flag, value) in [("--seeds", self.seeds), ("--seed", self.seed)] {
            if let Some(value) = value {
                words.extend([flag.to_owned(), value.to_string()]);
            }
        }
        if self.long {
            words.push("--long".to_owned());
        }
        words
    }
}

/// Builds and runs the simulator.
///
/// # Errors
/// When it does not build, or an invariant fails.
pub fn run(arguments: &Arguments) -> Result<()> {
    // By name: the package also has programs that measure.
    run_command(
        cargo("run --release --locked -p steadfast-sim --bin steadfast-sim --")
            .args(arguments.words()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_for_is_handed_through() {
        assert!(Arguments::default().words().is_empty(), "no words: the fixed seeds");
        let asked = Arguments { seeds: Some(50), seed: Some(7), long: true };
        assert_eq!(asked.words(), ["--seeds", "50", "--seed", "7", "--long"]);
    }
}
