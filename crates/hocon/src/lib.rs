//! A strict HOCON parser with positions.

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
