//! What a bench program prints: its figures, and whatever else it has to say.

use std::io::{Write, stdout};

use crate::{BENCH, Failure};

/// One line of output.
#[derive(Default)]
pub struct Figure<'a> {
    pub figure: &'a str,
    pub value: f64,
    pub unit: &'a str,
    pub yardstick: Option<&'a str>,
    pub ratio: Option<f64>,
    pub bound: Option<f64>,
}

impl Figure<'_> {
    pub fn print(&self) -> Result<(), Failure> {
        let Self { figure, value, unit, yardstick, ratio, bound } = self;
        let hundredths = |value: f64| (value * 100.0).round() / 100.0;
        let line = serde_json::json!({
            "bench": BENCH,
            "figure": figure,
            "value": hundredths(*value),
            "unit": unit,
            "yardstick": yardstick,
            "ratio": ratio.map(hundredths),
            "bound": bound,
        });
        writeln!(stdout(), "{line}")?;
        Ok(())
    }
}

pub fn say(text: &str) -> Result<(), Failure> {
    writeln!(stdout(), "{text}")?;
    Ok(())
}
