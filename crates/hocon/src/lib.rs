//! A strict HOCON parser with positions.

mod json;
mod number;
mod problem;
mod value;

use std::collections::{BTreeMap, BTreeSet};

pub use problem::{Position, Problem};
pub use value::{Kind, Object, Value};

/// A parsed document whose substitutions are not filled yet.
#[derive(Debug, Clone)]
pub struct Document {
    root: Object,
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
pub fn parse(_text: &[u8]) -> Result<Document, Vec<Problem>> {
    Ok(Document { root: Object::default() })
}

impl Document {
    /// Fills every substitution from the document itself, else from the variables.
    ///
    /// # Errors
    /// Every substitution without a value, every cycle, every impossible concatenation, in the order
    /// of the text; never an empty list.
    pub fn resolve(self, _variables: &BTreeMap<String, String>) -> Result<Resolved, Vec<Problem>> {
        Ok(Resolved { root: self.root, used: BTreeSet::new() })
    }
}
