//! Answers that are no verdict are survived, and told loudly (cases, V7): a container that lives on a
//! lease which nobody extends must not do so in silence.
//!
//! Loud is not often. Of each kind, at each coordinator, one line, and another one after half a minute if
//! it is still so; then one when verdicts come again. Whoever answers with another page or with a verdict
//! that cannot be believed is an error, since somebody has configured something wrong; whoever does not
//! answer, or says that it cannot know, is a warning, since that is how a change of leaders looks.

use std::fmt;

use crate::clock::BootTime;
use crate::poll::{Heard, Reply};

/// The same is told again after this long.
const REPEAT_MS: u64 = 30_000;
/// Kinds of all coordinators together that are remembered; there are a handful.
const MOST_KINDS: usize = 64;

/// What kind of no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unreachable,
    CannotKnow,
    Page { status: u16 },
    NotBelieved,
}

impl Kind {
    const fn is_an_error(self) -> bool {
        matches!(self, Self::Page { .. } | Self::NotBelieved)
    }
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) level: Level,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Error,
    Warning,
    Info,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Line {
    /// Writes it to the process's log.
    pub(crate) fn log(&self) {
        match self.level {
            Level::Error => tracing::error!("{self}"),
            Level::Warning => tracing::warn!("{self}"),
            Level::Info => tracing::info!("{self}"),
        }
    }
}

/// What has been complained about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Complaints {
    told: Vec<(String, Kind, BootTime)>,
    /// Answers without a verdict since the last verdict.
    in_a_row: u64,
    /// One of them was told.
    was_told: bool,
}

impl Complaints {
    /// Takes in what was heard of a coordinator; what is to be told about it, if anything.
    pub(crate) fn heard(
        &mut self,
        now: BootTime,
        coordinator: &str,
        reply: &Reply,
        heard: Heard,
    ) -> Option<Line> {
        if heard != Heard::Nothing {
            return self.verdict();
        }
        self.in_a_row += 1;
        let (kind, why) = match reply {
            Reply::Useless(why) => (Kind::Unreachable, why.clone()),
            Reply::Unavailable { .. } => (Kind::CannotKnow, "it cannot know now".to_owned()),
            Reply::Page { status, why } => {
                (Kind::Page { status: *status }, format!("status {status}{why}: no verdict"))
            }
            Reply::Answer(_) => (
                Kind::NotBelieved,
                "an answer without secret, nonce, lease or a current epoch".to_owned(),
            ),
        };
        if !self.is_due(now, coordinator, kind) {
            return None;
        }
        self.was_told = true;
        let level = if kind.is_an_error() { Level::Error } else { Level::Warning };
        let text = format!(
            "{coordinator} gave no verdict ({why}); the lease runs on; {} such answers in a row",
            self.in_a_row
        );
        Some(Line { level, text })
    }

    fn is_due(&mut self, now: BootTime, coordinator: &str, kind: Kind) -> bool {
        let known = self.told.iter_mut().find(|(of, known, _)| of == coordinator && *known == kind);
        match known {
            Some((_, _, last)) if now.millis_since(*last) < REPEAT_MS => return false,
            Some((_, _, last)) => *last = now,
            None => {
                if self.told.len() == MOST_KINDS {
                    self.told.remove(0);
                }
                self.told.push((coordinator.to_owned(), kind, now));
            }
        }
        true
    }

    /// All is well; it is told only where somebody was told that it was not.
    fn verdict(&mut self) -> Option<Line> {
        let in_a_row = std::mem::take(&mut self.in_a_row);
        std::mem::take(&mut self.was_told).then(|| Line {
            level: Level::Info,
            text: format!("a verdict again, after {in_a_row} answers without one"),
        })
    }
}

#[cfg(test)]
mod tests {
    use steadfast_api::ValidityAnswer;
    use steadfast_model::{FencingToken, InvalidReason};

    use super::*;

    fn at(ms: u64) -> BootTime {
        BootTime::from_millis(ms)
    }

    fn page(status: u16) -> Reply {
        Reply::Page { status, why: String::new() }
    }

    fn yes() -> Heard {
        Heard::Yes { sent_at: at(0), lease_ms: 1, token: FencingToken::new(1) }
    }

    /// The levels of what is told about these replies, one each second, of one coordinator.
    fn told(replies: &[Reply]) -> Vec<Level> {
        let mut complaints = Complaints::default();
        let lines = (0..).zip(replies).filter_map(|(second, reply)| {
            complaints.heard(at(second * 1_000), "a", reply, Heard::Nothing)
        });
        lines.map(|line| line.level).collect()
    }

    #[test]
    fn each_kind_is_told_once_at_its_level() {
        let unknown = || Reply::Unavailable { coordinators: Vec::new() };
        let away = || Reply::Useless("connection refused".into());
        assert_eq!(told(&[page(404), page(404), page(404)]), [Level::Error]);
        assert_eq!(told(&[page(200), page(500), page(200)]), [Level::Error; 2]);
        let not_believed = || Reply::Answer(ValidityAnswer::default());
        assert_eq!(told(&[not_believed(), not_believed()]), [Level::Error]);
        assert_eq!(told(&[unknown(), unknown()]), [Level::Warning]);
        assert_eq!(told(&[away(), unknown(), away(), unknown()]), [Level::Warning; 2]);
        let other_words = Reply::Useless("timed out".into());
        assert_eq!(told(&[away(), other_words]), [Level::Warning], "one kind, however it is put");
    }

    #[test]
    fn it_is_told_again_after_half_a_minute_and_not_sooner_whatever_lies_between() {
        let mut complaints = Complaints::default();
        let mut heard = |ms, coordinator: &str, heard| {
            complaints.heard(at(ms), coordinator, &page(404), heard).map(|line| line.to_string())
        };
        let first = heard(0, "a", Heard::Nothing).unwrap();
        assert!(first.starts_with("a gave no verdict (status 404"), "{first}");
        assert!(heard(100, "b", Heard::Nothing).is_some(), "another coordinator is another matter");
        let well = heard(200, "a", yes()).unwrap();
        assert!(well.contains("after 2 answers"), "{well}");
        assert_eq!(heard(300, "a", yes()), None, "nothing was wrong");
        // A coordinator behind a broken balancer: every second question goes astray.
        for ms in (400..29_900).step_by(200) {
            assert_eq!(heard(ms, "a", Heard::Nothing), None);
            assert_eq!(heard(ms + 100, "a", Heard::No(InvalidReason::Superseded)), None);
        }
        assert!(heard(30_000, "a", Heard::Nothing).is_some());
        assert_eq!(heard(30_100, "a", Heard::Nothing), None);
    }

    #[test]
    fn it_remembers_only_so_much() {
        let mut complaints = Complaints::default();
        for status in 0..1_000 {
            complaints.heard(at(0), "a", &page(status), Heard::Nothing);
        }
        assert_eq!(complaints.told.len(), MOST_KINDS);
    }
}
