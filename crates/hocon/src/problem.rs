//! What is wrong with a document, and where.
//!
//! A problem is a value, not a log line: the command line puts the file's name before it, and the
//! coordinator sends line, column, key and message as separate fields of an answer.

use std::fmt;
use std::path::Path;

/// A place in the text. Positions order as the text does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, counted from 1. Only a line feed ends a line.
    pub line: u32,
    /// The column in characters (Unicode scalar values, a tab is one), counted from 1.
    pub column: u32,
}

impl Position {
    /// The beginning of the text, also used for problems of the text as a whole.
    pub const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// One reason why a document is refused. `Display` prints all three parts on one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where to look.
    pub at: Position,
    /// The key whose value is concerned, if there is one: a path such as
    /// `pipelines[0].tasks[1].command`, with parts in quotes where the document needs them so.
    pub key: Option<String>,
    /// What is wrong and what would be right, without the place and the key.
    pub message: String,
}

impl Problem {
    /// `FILE:LINE:COLUMN: KEY: what is wrong`, for a document that is a file.
    pub fn in_file(&self, file: &Path) -> String {
        let Self { at, key, message } = self;
        let key = key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default();
        format!("{}:{}:{}: {key}{message}", file.display(), at.line, at.column)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.at)?;
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}
