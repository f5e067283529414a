//! Values side by side: texts become one text, lists one list, objects one object.

use crate::Position;
use crate::resolver::Looked;
use crate::value::{Kind, Object, Value};

/// One of the values, and the blanks before it.
pub(crate) struct Part<'t> {
    pub(crate) space: &'t str,
    pub(crate) looked: Looked,
}

/// Joins what was found. An optional substitution without a value counts as an empty text among
/// texts, and as nothing among lists and objects; if there is nothing else, there is no value at all.
///
/// # Errors
/// The place of the value that does not go with the first one, and why.
pub(crate) fn join(parts: Vec<Part<'_>>) -> Result<Looked, (Position, String)> {
    if parts.iter().any(|part| matches!(part.looked, Looked::Broken)) {
        return Ok(Looked::Broken);
    }
    let mut spaces = String::new();
    let mut joined: Option<Value> = None;
    for (place, Part { space, looked }) in parts.into_iter().enumerate() {
        if place > 0 {
            spaces.push_str(space);
        }
        let Looked::Found(value) = looked else { continue };
        joined = Some(match joined {
            None if spaces.is_empty() => value,
            None => prefix(&spaces, value),
            Some(before) => join_two(before, &spaces, value)?,
        });
        spaces.clear();
    }
    Ok(match joined {
        None => Looked::Absent,
        Some(value) if spaces.is_empty() => Looked::Found(value),
        Some(value) => Looked::Found(suffix(value, &spaces)),
    })
}

fn join_two(before: Value, spaces: &str, value: Value) -> Result<Value, (Position, String)> {
    let message = || {
        let (first, second) = (before.kind.describe(), value.kind.describe());
        (value.at, format!("{second} cannot be joined to {first}"))
    };
    let kind = match (&before.kind, &value.kind) {
        (Kind::Object(_), Kind::Object(_)) | (Kind::Array(_), Kind::Array(_)) => {
            return Ok(join_containers(before, value));
        }
        (first, second) => match (first.scalar_text(), second.scalar_text()) {
            (Some(first), Some(second)) => Kind::String([first, spaces, second].concat()),
            _ => return Err(message()),
        },
    };
    Ok(Value { kind, at: before.at, substituted: before.substituted || value.substituted })
}

fn join_containers(before: Value, value: Value) -> Value {
    let kind = match (before.kind, value.kind) {
        (Kind::Object(mut object), Kind::Object(over)) => {
            Object::merge(&mut object, over);
            Kind::Object(object)
        }
        (Kind::Array(mut elements), Kind::Array(more)) => {
            elements.extend(more);
            Kind::Array(elements)
        }
        (kind, _) => kind,
    };
    Value { kind, at: before.at, substituted: false }
}

fn prefix(spaces: &str, value: Value) -> Value {
    with_text(value, |text| [spaces, text].concat())
}

fn suffix(value: Value, spaces: &str) -> Value {
    with_text(value, |text| [text, spaces].concat())
}

/// Blanks count in a text and nowhere else.
fn with_text(value: Value, change: impl Fn(&str) -> String) -> Value {
    match value.kind.scalar_text() {
        Some(text) => Value { kind: Kind::String(change(text)), ..value },
        None => value,
    }
}
