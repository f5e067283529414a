//! Measurements, in one table. A figure alone says nothing on another machine, so each bench program
//! measures a yardstick in the same run and gives the ratio to it; the bound is on that ratio.
//!
//! The programs print one JSON object a line (the fields of [`Figure`]) among whatever else they say;
//! this task knows nothing of what they measure.

use std::process::Stdio;

use anyhow::{Result, bail};
use cargo_metadata::Metadata;
use comfy_table::{Table, presets};
use serde::Deserialize;

use crate::cargo::{cargo, has_target, output, workspace};
use crate::prerequisites;

/// Which of the bench programs.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only this bench program.
    #[arg(value_parser = PROGRAMS.map(|program| program.name))]
    name: Option<String>,
}

struct Program {
    name: &'static str,
    package: &'static str,
    /// The cargo option that names this kind of target.
    kind: &'static str,
    target: &'static str,
    /// Features that the plain build does not have.
    features: &'static str,
    /// Installs what it compares with, where cargo does not bring it.
    before: fn() -> Result<()>,
}

const PROGRAMS: [Program; 5] = [
    Program {
        name: "engine",
        package: "steadfast-sim",
        kind: "--bin",
        target: "bench-engine",
        features: "",
        before: || Ok(()),
    },
    Program {
        name: "commit",
        package: "steadfast-store",
        kind: "--example",
        target: "bench_commit",
        features: "",
        before: || Ok(()),
    },
    Program {
        name: "ledger",
        package: "steadfast-sim",
        kind: "--example",
        target: "bench_ledger",
        features: "",
        before: || Ok(()),
    },
    Program {
        name: "validity",
        package: "steadfast-coordinator",
        kind: "--example",
        target: "bench_validity",
        features: "",
        before: prerequisites::ensure_yardsticks,
    },
    Program {
        name: "ha",
        package: "steadfast-coordinator",
        kind: "--example",
        target: "bench_ha",
        features: "etcd",
        before: prerequisites::ensure,
    },
];

/// One line of a bench program.
#[derive(Debug, Deserialize, PartialEq)]
struct Figure {
    bench: String,
    figure: String,
    value: f64,
    unit: String,
    /// What the value is compared with, measured in the same run.
    yardstick: Option<String>,
    /// Value to yardstick; smaller is better.
    ratio: Option<f64>,
    /// The largest ratio that is good, or the largest value where there is no ratio.
    bound: Option<f64>,
}

impl Figure {
    /// Whether the bound holds; none where there is no bound.
    fn holds(&self) -> Option<bool> {
        self.bound.map(|bound| self.ratio.unwrap_or(self.value) <= bound)
    }
}

/// Builds and runs the bench programs, and prints their figures.
///
/// # Errors
/// When a program does not build or run, prints nothing, or a figure is over its bound.
pub fn run(arguments: &Arguments) -> Result<()> {
    let workspace = workspace()?;
    let mut figures = Vec::new();
    for program in &PROGRAMS {
        if arguments.name.as_deref().is_none_or(|name| name == program.name) {
            figures.extend(measure(program, &workspace)?);
        }
    }
    println!("\n{}", table(&figures));
    let over = figures.iter().filter(|figure| figure.holds() == Some(false)).count();
    if over > 0 {
        bail!("{over} of {} figures are over their bound", figures.len());
    }
    Ok(())
}

fn measure(program: &Program, workspace: &Metadata) -> Result<Vec<Figure>> {
    let Program { name, package, kind, target, features, before } = program;
    if !has_target(workspace, package, target) {
        bail!("the bench program `{name}` is missing: {package} has no {kind} {target}");
    }
    println!("== {name}");
    before()?;
    let mut command = cargo(&format!("run --release --locked -p {package} {kind} {target}"));
    if !features.is_empty() {
        command.args(["--features", features]);
    }
    let printed = output(command.stdin(Stdio::null()))?;
    let mut figures = Vec::new();
    for line in printed.lines() {
        match read(line)? {
            Some(figure) => figures.push(figure),
            None => println!("{line}"),
        }
    }
    if figures.is_empty() {
        bail!("the bench program `{name}` printed no figure");
    }
    Ok(figures)
}

/// A line that begins like an object must be a figure; anything else is the program talking.
fn read(line: &str) -> Result<Option<Figure>> {
    if !line.starts_with('{') {
        return Ok(None);
    }
    match serde_json::from_str(line) {
        Ok(figure) => Ok(Some(figure)),
        Err(error) => bail!("not a figure ({error}): {line}"),
    }
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["bench", "figure", "value", "yardstick", "ratio", "bound", "verdict"]);
    for figure in figures {
        let verdict = match figure.holds() {
            Some(true) => "ok",
            Some(false) => "OVER",
            None => "–",
        };
        table.add_row([
            figure.bench.as_str(),
            &figure.figure,
            &format!("{} {}", number(figure.value), figure.unit),
            figure.yardstick.as_deref().unwrap_or("–"),
            &figure.ratio.map_or("–".to_owned(), number),
            &figure.bound.map_or("–".to_owned(), number),
            verdict,
        ]);
    }
    table
}

/// Three digits that matter, or all digits before the point: nothing here is measured better.
fn number(value: f64) -> String {
    let digits_before_point = value.abs().max(1.0).log10().floor();
    let decimals = (2.0 - digits_before_point).clamp(0.0, 2.0);
    // Between 0 and 2, so nothing is cut.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let decimals = decimals as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(ratio: &str, bound: &str) -> Figure {
        let line = format!(
            r#"{{"bench":"commit","figure":"one job","value":91.26,"unit":"µs","yardstick":"bare SQLite","ratio":{ratio},"bound":{bound}}}"#
        );
        read(&line).unwrap().unwrap()
    }

    #[test]
    fn a_ratio_over_its_bound_is_said_to_be_over() {
        assert_eq!(figure("1.49", "1.5").holds(), Some(true));
        assert_eq!(figure("1.51", "1.5").holds(), Some(false));
        assert_eq!(figure("9", "null").holds(), None);
        assert_eq!(figure("null", "91").holds(), Some(false), "without a ratio the value counts");
        let table = table(&[figure("1.51", "1.5")]).to_string();
        for cell in ["commit", "one job", "91.3 µs", "bare SQLite", "1.51", "1.50", "OVER"] {
            assert!(table.contains(cell), "{cell} is missing:\n{table}");
        }
    }

    #[test]
    fn fields_that_do_not_apply_may_be_left_out() {
        let line = r#"{"bench":"engine","figure":"steps","value":2500000,"unit":"1/s"}"#;
        assert_eq!(read(line).unwrap().unwrap().ratio, None);
    }

    #[test]
    fn talk_is_told_from_a_broken_figure() {
        assert_eq!(read("warming up").unwrap(), None);
        assert!(read(r#"{"bench":"engine"}"#).is_err());
    }

    #[test]
    fn numbers_are_as_long_as_they_are_worth() {
        let values = [0.1234, 1.5, 91.26, 640.4, 2_500_000.0];
        assert_eq!(values.map(number), ["0.12", "1.50", "91.3", "640", "2500000"]);
    }
}
