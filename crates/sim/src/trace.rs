//! What happened lately, in words. Written only when a failed seed is played again, so that the many
//! that pass do not pay for it.

use std::collections::VecDeque;
use std::fmt::Write;

/// Events that are kept.
const KEPT: usize = 60;

/// The newest events.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    lines: Option<VecDeque<String>>,
}

impl Trace {
    /// A trace that keeps what it is told.
    pub fn kept() -> Self {
        Self { lines: Some(VecDeque::new()) }
    }

    /// Notes what happened at `now`; `line` is asked only if somebody reads it.
    pub fn note(&mut self, now: u64, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            if lines.len() == KEPT {
                lines.pop_front();
            }
            lines.push_back(format!("{now:>8} ms  {}", line()));
        }
    }

    /// The lines, oldest first.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in self.lines.iter().flatten() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{line}");
        }
        text
    }
}
