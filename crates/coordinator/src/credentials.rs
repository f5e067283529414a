//! Who may call, and what each role may do: the files of `--auth`, read once at the start.
//!
//! A file holds hashes, so that whoever reads it cannot call. They are plain SHA-256: a token is made of
//! 256 random bits by `steadfast token`, which no dictionary holds, so neither salt nor a slow hash would
//! make guessing harder.
//!
//! ```text
//! tokens = [
//!   { name = "on-call", role = "operator", sha256 = "<64 hexadecimal digits>" }
//! ]
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use sha2::{Digest, Sha256};
use steadfast_hocon::{Kind, Object, Position, Problem, Value};
use subtle::ConstantTimeEq;

use crate::secrets::hexadecimal;

/// The longest name of a token, in characters.
const MAX_NAME_CHARS: usize = 64;
const KEYS: [&str; 3] = ["name", "role", "sha256"];

/// What the holder of a token may do. Containers are no role of these: each has a secret of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Everything that people do: look, submit, stop, plan a leave, drain.
    Operator,
    /// Look.
    Reader,
    /// Be a member, nothing else: what an agent is started with.
    Member,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Operator, Self::Reader, Self::Member];

    /// The role of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// The name in token files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Reader => "reader",
            Self::Member => "member",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whose token it is, as it is written into a token file. Holds the hash, never the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    name: String,
    role: Role,
    sha256: [u8; 32],
}

impl Entry {
    /// The entry of a token.
    ///
    /// # Errors
    /// A name that cannot be one, with what can.
    pub fn of(name: &str, role: Role, token: &str) -> Result<Self, String> {
        check_name(name)?;
        Ok(Self { name: name.to_owned(), role, sha256: hash(token) })
    }

    /// Who acts: the name under which its deeds are kept.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it may do.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The token's SHA-256 in hexadecimal digits.
    pub fn sha256(&self) -> String {
        hexadecimal(&self.sha256)
    }
}

/// As a line of a token file. A name holds nothing that would have to be escaped.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, role, .. } = self;
        write!(f, "{{ name = \"{name}\", role = \"{role}\", sha256 = \"{}\" }}", self.sha256())
    }
}

/// Everybody who may call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials(Vec<Entry>);

impl Credentials {
    /// Reads token files, one or more.
    ///
    /// # Errors
    /// A file that cannot be read, or is not right in every byte, with file, line, column and key of each
    /// problem; a name or a token that is in two of them.
    pub fn load<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for file in files {
            let file = file.as_ref();
            let shown = file.display();
            let text = std::fs::read(file)
                .map_err(|error| anyhow::anyhow!("cannot read the token file {shown}: {error}"))?;
            all.add(&text).map_err(|problems| {
                let lines: Vec<String> =
                    problems.iter().map(|problem| format!("\n{}", problem.in_file(file))).collect();
                anyhow::anyhow!("the token file {shown} is refused:{}", lines.concat())
            })?;
        }
        Ok(all)
    }

    /// Whose token this is. Every stored hash is compared to its end, so that the time that it takes tells
    /// nothing about any of them.
    pub fn holder(&self, token: &str) -> Option<&Entry> {
        let hash = hash(token);
        let mut holder = None;
        for entry in &self.0 {
            if bool::from(entry.sha256.ct_eq(&hash)) {
                holder = Some(entry);
            }
        }
        holder
    }

    /// Adds what a file says. A key's last value counts, as everywhere in HOCON.
    fn add(&mut self, text: &[u8]) -> Result<(), Vec<Problem>> {
        let root = steadfast_hocon::parse(text)?.resolve(&BTreeMap::new())?.root;
        let mut problems = Vec::new();
        refuse_unknown(&root, "", &["tokens"], &mut problems);
        match root.get("tokens") {
            None => problems.push(problem(Position::START, "tokens", "this key is missing")),
            Some(value) => match value.as_array() {
                Some([]) => {
                    problems.push(problem(value.at, "tokens", "expected at least one token"))
                }
                Some(elements) => {
                    for (index, element) in elements.iter().enumerate() {
                        self.add_entry(&format!("tokens[{index}]"), element, &mut problems);
                    }
                }
                None => problems.push(expected(value, "tokens", "a list of tokens")),
            },
        }
        problems.sort();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn add_entry(&mut self, key: &str, value: &Value, problems: &mut Vec<Problem>) {
        let Some(object) = value.as_object() else {
            problems.push(expected(value, key, "an object { name = …, role = …, sha256 = … }"));
            return;
        };
        refuse_unknown(object, &format!("{key}."), &KEYS, problems);
        let mut text = |name: &str| {
            let key = format!("{key}.{name}");
            match object.get(name).map(|value| (value, value.as_str())) {
                Some((value, Some(text))) => return Some((value.at, key, text)),
                Some((value, None)) => problems.push(expected(value, &key, "a string")),
                None => problems.push(problem(value.at, &key, "this key is missing")),
            }
            None
        };
        let (name, role, sha256) = (text("name"), text("role"), text("sha256"));
        let name = name.and_then(|(at, key, text)| {
            let refused = match check_name(text) {
                Ok(()) if !self.0.iter().any(|entry| entry.name == text) => return Some(text),
                Ok(()) => {
                    format!("another token has the name \"{text}\": nobody could tell who acted")
                }
                Err(why) => why,
            };
            problems.push(problem(at, &key, refused));
            None
        });
        let role = role.and_then(|(at, key, text)| {
            let role = Role::named(text);
            if role.is_none() {
                problems.push(problem(at, &key, unknown_role(text)));
            }
            role
        });
        let sha256 = sha256.and_then(|(at, key, text)| {
            let refused = match read_hash(text) {
                Some(hash) if !self.0.iter().any(|entry| entry.sha256 == hash) => {
                    return Some(hash);
                }
                Some(_) => "another name has this token: nobody could tell who acted",
                None => "expected the 64 hexadecimal digits that `steadfast token` gives",
            };
            problems.push(problem(at, &key, refused));
            None
        });
        if let (Some(name), Some(role), Some(sha256)) = (name, role, sha256) {
            self.0.push(Entry { name: name.to_owned(), role, sha256 });
        }
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn read_hash(text: &str) -> Option<[u8; 32]> {
    let digits: Option<Vec<u8>> = text
        .bytes()
        .map(|byte| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let bytes: Vec<u8> =
        digits?.chunks(2).map(|pair| pair.iter().fold(0, |n, d| n << 4 | d)).collect();
    bytes.try_into().ok().filter(|_| text.len() == 64)
}

/// Names stand in logs, in the journal and in sentences, so they are plain.
fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !name.is_empty() && name.len() <= MAX_NAME_CHARS && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(format!(
        "a token's name is 1 to {MAX_NAME_CHARS} letters, digits, dots, dashes or underscores"
    ))
}

fn unknown_role(text: &str) -> String {
    let roles = "expected operator, reader or member";
    match text {
        "container" => format!("{roles}; each container is given a secret of its own"),
        _ => roles.to_owned(),
    }
}

fn refuse_unknown(object: &Object, prefix: &str, known: &[&str], problems: &mut Vec<Problem>) {
    for (key, at, _) in object.iter().filter(|(key, ..)| !known.contains(key)) {
        let message = format!("unknown key; expected {}", known.join(", "));
        problems.push(problem(at, &format!("{prefix}{key}"), message));
    }
}

fn expected(value: &Value, key: &str, what: &str) -> Problem {
    let Value { at, kind, .. } = value;
    // What was found is not repeated: it may be a token that was written in the place of its hash.
    let found = if matches!(kind, Kind::String(_)) { "a text" } else { kind.describe() };
    problem(*at, key, format!("expected {what}, found {found}"))
}

fn problem(at: Position, key: &str, message: impl Into<String>) -> Problem {
    Problem { at, key: Some(key.to_owned()), message: message.into() }
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
