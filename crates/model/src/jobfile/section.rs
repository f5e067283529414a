//! One object of the document, read key by key.
//!
//! A key with dots can be written as one quoted name, as a path, or as objects inside each other; a
//! section makes one of the three. What it accepts it also writes, so that the JSON that is sent on holds
//! what was checked and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::RangeInclusive;

use steadfast_hocon::{Kind, Object, Position, Problem, Value};

use super::{MAX_NAME_CHARS, suggest};

/// Problems in one answer: beyond this nobody reads on.
const MAX_PROBLEMS: usize = 100;
/// Characters of what was found that a message repeats.
const MAX_SHOWN_CHARS: usize = 60;
/// Names of keys are put together from objects inside each other only up to this many bytes, because a
/// document could otherwise make them large without being large itself.
const MAX_KEY_BYTES: usize = 256;

/// What was found out on the way through a document.
#[derive(Default)]
pub(super) struct Reading {
    problems: BTreeSet<Problem>,
    places: BTreeMap<String, Position>,
    gaps: BTreeMap<Position, String>,
}

impl Reading {
    pub(super) fn note(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.insert(problem);
        }
    }

    pub(super) fn refuse(
        &mut self,
        at: Position,
        key: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.note(Problem { at, key: Some(key.into()), message: message.into() });
    }

    /// A place where a variable is missing: whatever is read there is no news.
    pub(super) fn gap(&mut self, at: Position, name: String) {
        self.gaps.insert(at, name);
    }

    pub(super) fn gaps(&self) -> impl Iterator<Item = &str> {
        self.gaps.values().map(String::as_str)
    }

    pub(super) fn is_gap(&self, value: &Value) -> bool {
        self.gaps.contains_key(&value.at)
    }

    /// Where the value of a key stands, by its full name; the beginning for one that is not there.
    pub(super) fn place(&self, key: &str) -> Position {
        self.places.get(key).copied().unwrap_or(Position::START)
    }

    /// "expected a number, found a list".
    pub(super) fn refuse_value(&mut self, key: &str, value: &Value, expected: impl Display) {
        if !self.is_gap(value) {
            self.refuse(value.at, key, format!("expected {expected}, found {}", found(value)));
        }
    }

    pub(super) fn finish(self) -> Result<BTreeMap<String, Position>, Vec<Problem>> {
        if self.problems.is_empty() {
            Ok(self.places)
        } else {
            Err(self.problems.into_iter().collect())
        }
    }
}

/// One object, its keys sorted out, and what of it has been accepted.
pub(super) struct Section<'d> {
    name: String,
    /// Where the object begins.
    pub(super) at: Position,
    found: BTreeMap<&'static str, &'d Value>,
    /// `"key":value`, in the order in which it was read.
    written: Vec<String>,
}

impl<'d> Section<'d> {
    /// Sorts out an object's keys; refuses unknown ones, and those that are written twice in different
    /// ways. `name` is empty for the document itself.
    pub(super) fn open(
        reading: &mut Reading,
        name: impl Into<String>,
        at: Position,
        object: &'d Object,
        known: &'static [&'static str],
    ) -> Self {
        let mut section =
            Self { name: name.into(), at, found: BTreeMap::new(), written: Vec::new() };
        for leaf in leaves(object, known) {
            let full = section.key(&leaf.name);
            let Some(key) = known.iter().find(|key| **key == leaf.name) else {
                reading.refuse(leaf.at, full, unknown(&leaf.name, known));
                continue;
            };
            reading.places.insert(full.clone(), leaf.value.at);
            if let Some(other) = section.found.insert(key, leaf.value) {
                let (first, second) = (leaf.value.at.min(other.at), leaf.value.at.max(other.at));
                let message = format!("this key is written twice, here and at {first}");
                reading.refuse(second, full, message);
            }
        }
        section
    }

    /// The full name of one of its keys.
    pub(super) fn key(&self, key: &str) -> String {
        let key = shown_key(key);
        if self.name.is_empty() { key } else { format!("{}.{key}", self.name) }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'d Value> {
        self.found.get(key).copied()
    }

    /// Where a key's value stands, or where it would have to stand.
    pub(super) fn place(&self, key: &str) -> Position {
        self.get(key).map_or(self.at, |value| value.at)
    }

    pub(super) fn refuse_missing(&self, reading: &mut Reading, key: &str, expected: &str) {
        reading.refuse(self.at, self.key(key), format!("this key is missing: expected {expected}"));
    }

    /// Reads a value that JSON writes as `Display` does; `None` if it is not there or is refused.
    fn scalar<T: Display>(
        &mut self,
        reading: &mut Reading,
        key: &str,
        expected: impl Display,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.get(key)?;
        let accepted = read(value);
        match &accepted {
            Some(accepted) => self.write(key, accepted),
            None => reading.refuse_value(&self.key(key), value, expected),
        }
        accepted
    }

    /// A whole number within a range.
    pub(super) fn integer<T>(
        &mut self,
        reading: &mut Reading,
        key: &str,
        range: RangeInclusive<T>,
    ) -> Option<T>
    where
        T: TryFrom<i64> + PartialOrd + Display,
    {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        self.scalar(reading, key, expected, |value| {
            let number = T::try_from(value.as_i64()?).ok()?;
            range.contains(&number).then_some(number)
        })
    }

    /// `true` or `false`.
    pub(super) fn boolean(&mut self, reading: &mut Reading, key: &str) -> Option<bool> {
        self.scalar(reading, key, "true or false", Value::as_bool)
    }

    /// A text that `read` understands; `expected` says which.
    pub(super) fn text<T>(
        &mut self,
        reading: &mut Reading,
        key: &str,
        expected: impl Display,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let value = self.get(key)?;
        let accepted = value.as_str().and_then(read);
        match value.as_str() {
            Some(text) if accepted.is_some() => self.write(key, quoted(text)),
            _ => reading.refuse_value(&self.key(key), value, expected),
        }
        accepted
    }

    /// A name that people will read in tables and logs; it has no default.
    pub(super) fn name(&mut self, reading: &mut Reading, key: &str) -> String {
        let expected =
            format!("a text of 1 to {MAX_NAME_CHARS} characters without control characters");
        if self.get(key).is_none() {
            self.refuse_missing(reading, key, &expected);
        }
        let fits = |text: &str| {
            let printable = !text.trim().is_empty() && !text.chars().any(char::is_control);
            printable && text.chars().count() <= MAX_NAME_CHARS
        };
        let name = self.text(reading, key, expected, |text| fits(text).then(|| text.to_owned()));
        name.unwrap_or_default()
    }

    /// A list with something in it.
    pub(super) fn list(
        &mut self,
        reading: &mut Reading,
        key: &str,
        expected: &str,
    ) -> Option<&'d [Value]> {
        let Some(value) = self.get(key) else {
            self.refuse_missing(reading, key, expected);
            return None;
        };
        match value.as_array() {
            Some([]) => {
                let message = format!("expected {expected}, found an empty list");
                reading.refuse(value.at, self.key(key), message);
                None
            }
            Some(elements) => Some(elements),
            None => {
                reading.refuse_value(&self.key(key), value, expected);
                None
            }
        }
    }

    /// An object of names and texts; numbers and booleans count as the text that was written.
    pub(super) fn texts(
        &mut self,
        reading: &mut Reading,
        key: &str,
        refuse_name: impl Fn(&str) -> Option<&'static str>,
    ) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        let Some(value) = self.get(key) else { return texts };
        let Some(object) = value.as_object() else {
            reading.refuse_value(&self.key(key), value, "an object of names and texts");
            return texts;
        };
        for Leaf { name, at, value } in leaves(object, &[]) {
            let full = format!("{}.{}", self.key(key), shown_key(&name));
            if let Some(why) = refuse_name(&name) {
                reading.refuse(at, full, why);
                continue;
            }
            let text = match &value.kind {
                Kind::Bool(value) => value.to_string(),
                Kind::Number(text) | Kind::String(text) if !text.contains('\0') => text.clone(),
                _ => {
                    let expected = "a text without the character NUL, a number or a boolean";
                    reading.refuse_value(&full, value, expected);
                    continue;
                }
            };
            reading.places.insert(full.clone(), value.at);
            if texts.insert(name, text).is_some() {
                reading.refuse(at, full, "this name is written twice, once with dots in quotes");
            }
        }
        let written = texts.iter().map(|(name, text)| format!("{}:{}", quoted(name), quoted(text)));
        self.write(key, format!("{{{}}}", written.collect::<Vec<_>>().join(",")));
        texts
    }

    /// Notes what was accepted, as JSON.
    pub(super) fn write(&mut self, key: &str, json: impl Display) {
        self.written.push(format!("{}:{json}", quoted(key)));
    }

    pub(super) fn into_json(self) -> String {
        format!("{{{}}}", self.written.join(","))
    }
}

/// A value and the name of its key, put together from the objects around it.
struct Leaf<'d> {
    name: String,
    /// Where its key stops being the beginning of a known one; else the key's last part.
    at: Position,
    value: &'d Value,
}

/// Everything in an object that is no object itself, and whatever stands under a known key.
fn leaves<'d>(object: &'d Object, known: &[&str]) -> Vec<Leaf<'d>> {
    let mut leaves = Vec::new();
    collect_leaves(object, "", None, known, &mut leaves);
    leaves
}

fn collect_leaves<'d>(
    object: &'d Object,
    above: &str,
    astray: Option<Position>,
    known: &[&str],
    leaves: &mut Vec<Leaf<'d>>,
) {
    for (key, key_at, value) in object.iter() {
        let name = if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") };
        let is_known = known.contains(&name.as_str());
        let leads_on = known.iter().any(|known| {
            known.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('.'))
        });
        let astray = astray.or((!is_known && !leads_on).then_some(key_at));
        // Below the depth of every known key there is nothing to compare a name with.
        let parts = |name: &str| name.split('.').count();
        let deepest = known.iter().map(|known| parts(known)).max();
        let goes_on =
            name.len() <= MAX_KEY_BYTES && deepest.is_none_or(|deepest| parts(&name) < deepest);
        match value.as_object() {
            Some(inner) if inner.is_empty() && leads_on => {}
            Some(inner) if !is_known && !inner.is_empty() && goes_on => {
                collect_leaves(inner, &name, astray, known, leaves);
            }
            _ => leaves.push(Leaf { name, at: astray.unwrap_or(key_at), value }),
        }
    }
}

fn unknown(key: &str, known: &[&str]) -> String {
    let meant = match suggest::closest(key, known) {
        Some(meant) => format!(" (did you mean {meant}?)"),
        None => String::new(),
    };
    format!("unknown key{meant}; accepted here: {}", known.join(", "))
}

/// What was found instead, short enough for a message.
fn found(value: &Value) -> String {
    match &value.kind {
        Kind::String(text) if value.substituted => {
            format!("{} (from a variable)", quoted(&shortened(text)))
        }
        Kind::String(text) => format!("the text {}", quoted(&shortened(text))),
        Kind::Number(text) => format!("the number {}", shortened(text)),
        Kind::Bool(value) => value.to_string(),
        other => other.describe().to_owned(),
    }
}

/// A key as messages name it: in quotes where it is more than letters, digits, `-`, `_` and dots.
fn shown_key(key: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let key = shortened(key);
    if !key.is_empty() && key.chars().all(|c| plain(c) || c == '…') { key } else { quoted(&key) }
}

pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// `"BATCH" or "STREAMING"`.
pub(super) fn one_of(words: &[impl ToString]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(&word.to_string())).collect();
    words.join(" or ")
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    let kind = Kind::String(text.to_owned());
    Value { kind, at: Position::START, substituted: false }.to_json()
}
