//! Paths: `a."b.c".d` as a key and inside `${…}`, and the way a key is named in a message.

use crate::json::write_string;
use crate::limits::MAX_NESTING;
use crate::token::{Token, TokenKind};
use crate::{Position, Problem};

/// One part of a path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) at: Position,
}

/// Reads a path from the words that make it up: unquoted, quoted and blanks, nothing else, with no
/// blanks at either end.
///
/// Blanks inside a part belong to it, as HOCON has it. Blanks beside a dot would silently belong to
/// the name as well, which nobody means, so they are refused.
pub(crate) fn read(words: &[Token]) -> Result<Vec<Key>, Problem> {
    let mut reader = Reader { parts: Vec::new(), part: None, blanks: None };
    for word in words {
        match &word.kind {
            TokenKind::Unquoted(text) => reader.unquoted(text, word.at)?,
            TokenKind::Quoted(text) => reader.text(text, word.at)?,
            TokenKind::Space(text) => reader.blanks = Some((text, word.at)),
            _ => return Err(problem(word.at, format!("{} cannot be in a path", word.describe()))),
        }
    }
    let Some(last) = reader.part else {
        let at = words.first().map_or(Position::START, |word| word.at);
        return Err(problem(at, "a path must not end with a dot"));
    };
    reader.parts.push(last);
    if let Some(beyond) = reader.parts.get(MAX_NESTING) {
        return Err(problem(beyond.at, format!("a path has at most {MAX_NESTING} parts")));
    }
    Ok(reader.parts)
}

struct Reader<'t> {
    parts: Vec<Key>,
    part: Option<Key>,
    blanks: Option<(&'t str, Position)>,
}

impl Reader<'_> {
    fn unquoted(&mut self, text: &str, at: Position) -> Result<(), Problem> {
        let mut at = at;
        for (place, piece) in text.split('.').enumerate() {
            if place > 0 {
                self.dot(at)?;
                at.column += 1;
            }
            if !piece.is_empty() {
                self.text(piece, at)?;
                at.column += u32::try_from(piece.chars().count()).unwrap_or(u32::MAX);
            }
        }
        Ok(())
    }

    fn dot(&mut self, at: Position) -> Result<(), Problem> {
        if self.blanks.is_some() {
            return Err(problem(at, BLANKS));
        }
        let Some(part) = self.part.take() else {
            return Err(problem(
                at,
                "a part of the path is missing before this dot; an empty name is written \"\"",
            ));
        };
        self.parts.push(part);
        Ok(())
    }

    fn text(&mut self, text: &str, at: Position) -> Result<(), Problem> {
        match (&mut self.part, self.blanks.take()) {
            (Some(part), blanks) => {
                part.name.push_str(blanks.map_or("", |(blanks, _)| blanks));
                part.name.push_str(text);
            }
            (None, Some((_, blanks_at))) => return Err(problem(blanks_at, BLANKS)),
            (None, None) => self.part = Some(Key { name: text.to_owned(), at }),
        }
        Ok(())
    }
}

const BLANKS: &str = "blanks beside the dot of a path would be part of the name: remove them, or put the name in quotes";

fn problem(at: Position, message: impl Into<String>) -> Problem {
    Problem { at, key: None, message: message.into() }
}

/// One step from a container to what it holds, for naming a place in a message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step<'t> {
    Key(&'t str),
    Index(usize),
}

/// The name of a place, such as `pipelines[0].tasks[1].command`; `None` for the root.
pub(crate) fn name<'t>(steps: impl IntoIterator<Item = Step<'t>>) -> Option<String> {
    let mut out = String::new();
    let mut first = true;
    for step in steps {
        match step {
            Step::Index(index) => out.push_str(&format!("[{index}]")),
            Step::Key(key) => {
                if !first {
                    out.push('.');
                }
                if !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "-_".contains(c)) {
                    out.push_str(key);
                } else {
                    write_string(&mut out, key);
                }
            }
        }
        first = false;
    }
    (!first).then_some(out)
}
