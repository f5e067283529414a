//! A strict HOCON parser with positions.
//!
//! Job files and daemon settings are written by hand, and a mistake in one that is not noticed starts
//! the wrong thing. So every byte of a document counts: what cannot be understood is refused with line,
//! column and key, and nothing is ever dropped, guessed, or taken from elsewhere. The crate is pure: no
//! file, no environment, no clock, no dependency.
//!
//! The way through it: [`parse`] turns bytes into words (`lexer`) and words into an ordered tree that
//! remembers every layer of a key (`parser`, `tree`); [`Document::resolve`] fills the substitutions
//! (`resolver`); what comes out is an [`Object`] for the caller to read, or to send on as JSON.
//!
//! ```
//! # use std::collections::BTreeMap;
//! let variables = BTreeMap::from([("INPUT".to_owned(), "/data".to_owned())]);
//! let document = steadfast_hocon::parse(b"task { command = [./count, ${INPUT}/words] }")?;
//! let resolved = document.resolve(&variables)?;
//! assert_eq!(resolved.root.to_json(), r#"{"task":{"command":["./count","/data/words"]}}"#);
//! assert!(resolved.used.contains("INPUT"));
//! # Ok::<(), Vec<steadfast_hocon::Problem>>(())
//! ```
//!
//! # What is HOCON here, and what is not
//!
//! The language is Lightbend's HOCON, a superset of JSON. Deliberately refused:
//! - `include`, of files, addresses or anything else;
//! - the environment: `${NAME}` means a key of the document, else a variable that the caller hands in;
//! - a cycle of substitutions, also of optional ones and where only the order of evaluation would
//!   decide (`a = ${b}, b = ${a}`);
//! - a list as the document; objects with numbers for keys in the place of lists;
//! - blanks beside the dot of a path, which would silently become part of the name;
//! - control characters, carriage returns without a line feed, and byte order marks inside the text;
//! - numbers and booleans in other spellings than JSON's: `01` and `yes` are strings;
//! - `+=` inside a list, unless the list that it extends stands before it in the same object;
//! - whatever is beyond a bound: one mebibyte of text, 64 objects and lists inside each other, and
//!   substitutions that multiply the document.
//!
//! Two differences that refuse nothing: optional substitutions with only blanks between them give no
//! value where none of them has one; and a key that looks back at itself and finds nothing there takes
//! the variable of its name (`HOME = ${HOME}/x`).

mod join;
mod json;
mod lexer;
mod limits;
mod number;
mod parser;
mod path;
mod problem;
mod resolver;
mod token;
mod tree;
mod value;

use std::collections::{BTreeMap, BTreeSet};

pub use problem::{Position, Problem};
pub use value::{Kind, Object, Value};

/// A parsed document whose substitutions are not filled yet.
#[derive(Debug, Clone)]
pub struct Document {
    root: tree::Tree,
}

/// A document with nothing left to fill.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The document.
    pub root: Object,
    /// The variables that filled a substitution, so that the caller can refuse one that filled none.
    pub used: BTreeSet<String>,
}

/// Parses a document.
///
/// # Errors
/// All syntax problems that can be told apart, in the order of the text; never an empty list.
pub fn parse(text: &[u8]) -> Result<Document, Vec<Problem>> {
    let tokens = lexer::lex(text)?;
    let root = parser::parse(&tokens)?;
    Ok(Document { root })
}

impl Document {
    /// Fills every substitution: `${path}` from the document itself, else from the variable of that
    /// name. The environment is never asked.
    ///
    /// # Errors
    /// Every substitution without a value, every cycle, every impossible concatenation, in the order
    /// of the text; never an empty list.
    pub fn resolve(self, variables: &BTreeMap<String, String>) -> Result<Resolved, Vec<Problem>> {
        resolver::resolve(&self.root, variables)
    }
}
