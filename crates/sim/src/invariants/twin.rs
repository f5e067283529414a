//! **The label changes nothing**: the same seed, with tracking on and with tracking off, gives the same
//! jobs the same fate at the same times. Faults of the ledger are drawn in both, so that a refused
//! ledger write does not stand in the way of recovery either.
//!
//! Seen to fail on `LabelStandsInTheWay` (a commit whose ledger part is refused is not applied at all).

use std::fmt::Write;

use steadfast_engine::Step;

/// What happened to the jobs: times, statuses, attempts. Nothing of their ledgers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobTrace {
    /// Whether it is kept.
    pub kept: bool,
    lines: Vec<String>,
}

impl JobTrace {
    pub(crate) fn note(&mut self, now: u64, step: &Step) {
        if !self.kept {
            return;
        }
        for job in &step.jobs {
            let ended = job.writes.ended.as_ref().map(|history| &history.job);
            let Some(record) = job.writes.record.as_deref().or(ended) else { continue };
            let mut line = format!("{now:>8} ms  job {} {}", record.id, record.status);
            for pipeline in &record.pipelines {
                // Writing to a string does not fail.
                let _ = write!(
                    line,
                    ", {} attempt {} restores {} budget {}",
                    pipeline.status, pipeline.attempt, pipeline.restores, pipeline.budget_used
                );
            }
            // A takeover may write a ledger's loss down, which touches nothing of the job.
            let told = format!("job {} ", record.id);
            let last = self.lines.iter().rev().find(|line| line.contains(&told));
            if last.is_none_or(|last| last[12..] != line[12..]) {
                self.lines.push(line);
            }
        }
    }
}

/// # Errors
/// Where the two part.
pub(crate) fn compare(on: &JobTrace, off: &JobTrace) -> Result<(), String> {
    let longer = on.lines.len().max(off.lines.len());
    for at in 0..longer {
        let (on, off) = (on.lines.get(at), off.lines.get(at));
        if on != off {
            let nothing = "nothing".to_owned();
            let (on, off) = (on.unwrap_or(&nothing), off.unwrap_or(&nothing));
            return Err(format!("with tracking\n  {on}\nwithout\n  {off}"));
        }
    }
    Ok(())
}
