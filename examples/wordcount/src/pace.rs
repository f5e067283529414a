//! Slows the counting down to so many lines a second, so that a small file makes a long job.

use std::time::{Duration, Instant};

/// When the next line may be counted.
///
/// Lines have due times on a fixed grid, so that the time spent on counting and committing does not
/// slow the pace down, and short pauses are made up for.
#[derive(Debug)]
pub struct Pace {
    line_time: Option<Duration>,
    next_line: Instant,
}

/// A longer pause than this (no coordinator for a while, a stopped process) is not made up for: the
/// burst afterwards would be anything but a pace.
const CATCH_UP: Duration = Duration::from_secs(1);

impl Pace {
    /// `rate` in lines a second; 0 is no pacing. The first line is due at `now`.
    pub fn new(rate: f64, now: Instant) -> Self {
        // So small a rate that its line time overflows is held to a line a year.
        let a_year = Duration::from_secs(365 * 86_400);
        let line_time = (rate > 0.0).then(|| {
            Duration::try_from_secs_f64(rate.recip()).map_or(a_year, |time| time.min(a_year))
        });
        Self { line_time, next_line: now }
    }

    /// Whether lines have to be counted one at a time.
    pub fn is_on(&self) -> bool {
        self.line_time.is_some()
    }

    /// A line was counted at `now`. Returns when the next one is due; `None` without pacing.
    pub fn line_counted(&mut self, now: Instant) -> Option<Instant> {
        let line_time = self.line_time?;
        if now.saturating_duration_since(self.next_line) > CATCH_UP {
            self.next_line = now;
        }
        self.next_line += line_time;
        Some(self.next_line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_due_on_a_grid_and_only_short_pauses_are_made_up_for() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut pace = Pace::new(10.0, start);
        assert_eq!(pace.line_counted(at(3)), Some(at(100)));
        assert_eq!(pace.line_counted(at(150)), Some(at(200)));
        // Half a second late: the grid stands. Five seconds late: a new grid.
        assert_eq!(pace.line_counted(at(700)), Some(at(300)));
        assert_eq!(pace.line_counted(at(5_300)), Some(at(5_400)));
    }

    #[test]
    fn no_rate_is_no_pace_and_no_rate_overflows() {
        let now = Instant::now();
        assert_eq!(Pace::new(0.0, now).line_counted(now), None);
        assert!(Pace::new(f64::MIN_POSITIVE, now).line_counted(now).is_some());
        assert!(Pace::new(f64::MAX, now).line_counted(now).is_some());
    }
}
