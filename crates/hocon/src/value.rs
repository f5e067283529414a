//! The resolved tree: what a reader of settings walks through.
//!
//! Objects keep the order in which the keys were first written, so that messages, and the JSON text
//! that is sent on, follow the file. Every key and value knows its place, so that a reader that finds
//! an unknown key or a wrong type can point at it.

use std::collections::BTreeMap;

use crate::{Position, number};

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`, without quotes.
    Bool(bool),
    /// A number by JSON's grammar, as it was written: nothing is rounded on the way.
    Number(String),
    /// A string, or an unquoted text that is none of the above.
    String(String),
    /// A list.
    Array(Vec<Value>),
    /// An object.
    Object(Object),
}

impl Kind {
    /// The kind in the words of a message: "a number", "a list".
    #[must_use]
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// A null, boolean, number or string as text in a concatenation, numbers as they were written.
    pub(crate) fn scalar_text(&self) -> Option<&str> {
        match self {
            Self::Null => Some("null"),
            Self::Bool(true) => Some("true"),
            Self::Bool(false) => Some("false"),
            Self::Number(text) | Self::String(text) => Some(text),
            Self::Array(_) | Self::Object(_) => None,
        }
    }
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// What it is.
    pub kind: Kind,
    /// Where it begins. For a value that a substitution brought in, the place of its `${`.
    pub at: Position,
    /// Whether a string came, at least partly, out of a variable. Variables are always text, so such
    /// a string is read as the type that its key needs; a string in the file is not.
    pub substituted: bool,
}

impl Value {
    /// The text of a string. A number is not a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.kind {
            Kind::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value of an integer that fits, also from a substituted string. `4.0` and `4e0` are numbers
    /// but not integers.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.number_text()?.parse().ok()
    }

    /// The value of a number, also from a substituted string; `None` if it is beyond every finite
    /// double.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        self.number_text()?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// The value of a boolean, also from a substituted string (`true` or `false`, nothing else).
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match &self.kind {
            Kind::Bool(value) => Some(*value),
            Kind::String(text) if self.substituted => text.parse().ok(),
            _ => None,
        }
    }

    /// The elements of a list.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Value]> {
        match &self.kind {
            Kind::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The object.
    #[must_use]
    pub fn as_object(&self) -> Option<&Object> {
        match &self.kind {
            Kind::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The text of what may be read as a number.
    fn number_text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Number(text) => Some(text),
            Kind::String(text) if self.substituted && number::is_number(text) => Some(text),
            _ => None,
        }
    }
}

/// An object: keys in the order of the document, each once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Object {
    entries: Vec<Entry>,
    /// Where each key stands in `entries`: a document with many keys must not cost the square of them.
    index: BTreeMap<String, usize>,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    key: String,
    key_at: Position,
    value: Value,
}

impl Object {
    /// Every key with its place and its value, in the order of the document.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Position, &Value)> {
        self.entries.iter().map(|entry| (entry.key.as_str(), entry.key_at, &entry.value))
    }

    /// The value of one key of this object; dots are part of the key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.index.get(key).map(|&place| &self.entries[place].value)
    }

    /// The value at the end of a path of keys with dots between them, such as `env.job.name`.
    #[must_use]
    pub fn get_path(&self, path: &str) -> Option<&Value> {
        let (parents, last) = path.rsplit_once('.').map_or((None, path), |(p, l)| (Some(p), l));
        let object = match parents {
            Some(parents) => parents
                .split('.')
                .try_fold(self, |object, key| object.get(key).and_then(Value::as_object))?,
            None => self,
        };
        object.get(last)
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sets a key that takes the place of an equal one, which keeps its rank in the order.
    pub(crate) fn set(&mut self, key: String, key_at: Position, value: Value) {
        if let Some(&place) = self.index.get(&key) {
            self.entries[place] = Entry { key, key_at, value };
        } else {
            self.index.insert(key.clone(), self.entries.len());
            self.entries.push(Entry { key, key_at, value });
        }
    }

    /// Lays another object over this one: objects under the same key merge, anything else is replaced.
    pub(crate) fn merge(&mut self, over: Object) {
        for Entry { key, key_at, mut value } in over.entries {
            if let Some(&place) = self.index.get(&key)
                && let Kind::Object(new) = &mut value.kind
                && let Kind::Object(old) = &mut self.entries[place].value.kind
            {
                old.merge(std::mem::take(new));
            } else {
                self.set(key, key_at, value);
            }
        }
    }
}
