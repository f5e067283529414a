//! The JSON text of a resolved tree, for sending a checked document on.

use crate::value::{Kind, Object, Value};

impl Value {
    /// The value as JSON on one line, keys in order, numbers as they were written.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        write_value(&mut out, self);
        out
    }
}

impl Object {
    /// The object as JSON on one line, keys in order, numbers as they were written.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        write_object(&mut out, self);
        out
    }
}

fn write_value(out: &mut String, value: &Value) {
    match &value.kind {
        Kind::Null => out.push_str("null"),
        Kind::Bool(true) => out.push_str("true"),
        Kind::Bool(false) => out.push_str("false"),
        Kind::Number(text) => out.push_str(text),
        Kind::String(text) => write_string(out, text),
        Kind::Array(elements) => {
            out.push('[');
            for (place, element) in elements.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_value(out, element);
            }
            out.push(']');
        }
        Kind::Object(object) => write_object(out, object),
    }
}

fn write_object(out: &mut String, object: &Object) {
    out.push('{');
    for (place, (key, _, value)) in object.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        write_string(out, key);
        out.push(':');
        write_value(out, value);
    }
    out.push('}');
}

/// Writes a string in quotes with every escape that JSON demands.
pub(crate) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}
