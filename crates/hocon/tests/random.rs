//! Whatever the bytes: an answer, soon, without a panic. And what is accepted survives JSON.
//!
//! The generator is a few lines of xorshift with fixed seeds, so that a failure is the same every time.

mod common;

use std::collections::BTreeMap;

use steadfast_hocon::{Kind, Position, Value, parse};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below the bound, which must not be 0.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const WORDS: &[&str] = &[
    "a", "b", "c", ".", "=", ":", "{", "}", "[", "]", ",", "\n", " ", "\t", "\r\n", "\"", "\"\"\"",
    "\\", "${", "${?", "}", "$", "+=", "+", "#", "//", "include", "null", "true", "1", "-2.5e3",
    "\"x\"", "${a}", "${?b.c}", "é", "😀", "\u{feff}", "\0", "\u{a0}", "\\u12", "\\ud83d", "a.b",
    "= {", "}\n", "[a, b]", "x = ${x}",
];

const DOCUMENTS: &[&str] = &[
    include_str!("wordcount.conf"),
    "a = [1, 2.5, -3e5, null, true, \"x\\u00e9\\n\"]\nb { c = ${a} [4], d = \"\"\"raw \"q\" \"\"\" }\nb.c += 5 // end\n",
    "p = /bin\np = ${p}\":/usr\"\no = ${b} { x = ${o.y}, y = 1 }\nb { z = [{k = v}, {k = w}] }\n",
];

/// Parses and resolves; what is accepted has to come back from its JSON the same.
fn check(bytes: &[u8]) -> bool {
    let variables = BTreeMap::from([("INPUT".to_owned(), "/in \"x\"\n".to_owned())]);
    let outcome = parse(bytes).and_then(|document| document.resolve(&variables));
    let shown = String::from_utf8_lossy(bytes);
    match outcome {
        Ok(resolved) => {
            let json = resolved.root.to_json();
            let again =
                parse(json.as_bytes()).and_then(|document| document.resolve(&BTreeMap::new()));
            let again =
                again.unwrap_or_else(|said| panic!("{shown:?} gave {json}, refused: {said:?}"));
            assert_eq!(again.root.to_json(), json, "{shown:?}");
            true
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "{shown:?} was refused without a reason");
            assert!(problems.is_sorted_by_key(|problem| problem.at), "{problems:?}");
            let lines = u32::try_from(shown.lines().count() + 1).expect("short");
            assert!(
                problems
                    .iter()
                    .all(|problem| problem.at >= Position::START && problem.at.line <= lines)
            );
            false
        }
    }
}

#[test]
fn random_bytes_are_answered() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..20_000 {
        let length = random.below(60);
        let bytes: Vec<u8> = (0..length).map(|_| random.next().to_le_bytes()[3]).collect();
        check(&bytes);
    }
}

#[test]
fn random_words_are_answered() {
    let mut random = Random(0xd1b5_4a32_d192_ed03);
    let mut accepted = 0;
    for _ in 0..30_000 {
        let length = 1 + random.below(14);
        let text: String = (0..length).map(|_| random.pick(WORDS)).collect();
        accepted += usize::from(check(text.as_bytes()));
    }
    assert!(accepted > 100, "the words make too few documents to test anything: {accepted}");
}

#[test]
fn random_changes_to_documents_are_answered() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut accepted = 0;
    for round in 0..15_000 {
        let mut bytes = DOCUMENTS[round % DOCUMENTS.len()].as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let place = random.below(bytes.len() + 1);
            let end = (place + random.below(4)).min(bytes.len());
            let new = match random.below(3) {
                0 => "",
                1 => random.pick(WORDS),
                _ => {
                    let from = random.pick(DOCUMENTS);
                    let start = random.below(from.len());
                    from.get(start..(start + 12).min(from.len())).unwrap_or("")
                }
            };
            bytes.splice(place..end, new.bytes());
        }
        accepted += usize::from(check(&bytes));
    }
    assert!(accepted > 1_000, "too few changes leave a document: {accepted}");
}

/// Cut anywhere inside its outer brackets, a document is refused: nothing is taken for complete.
#[test]
fn a_document_in_braces_that_is_cut_is_refused() {
    for document in DOCUMENTS {
        let whole = format!("{{{document}}}");
        assert!(check(whole.as_bytes()), "{whole}");
        for end in 0..whole.len() {
            assert!(!check(&whole.as_bytes()[..end]), "cut at {end}: {whole}");
        }
    }
}

/// Trees made at random come back from their JSON equal in kind, order and text.
#[test]
fn random_trees_survive_json() {
    let mut random = Random(0x0123_4567_89ab_cdef);
    for _ in 0..2_000 {
        let mut json = String::new();
        object(&mut random, 4, &mut json);
        let resolved =
            common::resolve(&json, &[]).unwrap_or_else(|said| panic!("{json}: {said:?}"));
        assert_eq!(resolved.root.to_json(), json);
        resolved.root.iter().for_each(|(_, _, value)| not_substituted(value));
    }
}

fn object(random: &mut Random, depth: usize, json: &mut String) {
    json.push('{');
    for n in 0..random.below(5) {
        json.push_str(if n > 0 { "," } else { "" });
        let name = random.pick(&["a.b", "", "ü", "include", "\\\"", "x y", "\\u0001", "${a}"]);
        json.push_str(&format!("\"{name}{n}\":"));
        value(random, depth, json);
    }
    json.push('}');
}

fn value(random: &mut Random, depth: usize, json: &mut String) {
    match random.below(if depth == 0 { 3 } else { 5 }) {
        0 => json.push_str(random.pick(&["null", "true", "false"])),
        1 => json.push_str(random.pick(&["0", "-1", "2.50", "1e5", "3E+07", "-0.0"])),
        2 => json.push_str(random.pick(&[
            "\"\"",
            "\"${x}\"",
            "\"a\\nb\"",
            "\"# //\"",
            "\"😀\"",
            "\"true\"",
            "\"1\"",
        ])),
        3 => object(random, depth - 1, json),
        _ => {
            json.push('[');
            for n in 0..random.below(4) {
                json.push_str(if n > 0 { "," } else { "" });
                value(random, depth - 1, json);
            }
            json.push(']');
        }
    }
}

fn not_substituted(value: &Value) {
    assert!(!value.substituted);
    match &value.kind {
        Kind::Array(elements) => elements.iter().for_each(not_substituted),
        Kind::Object(object) => object.iter().for_each(|(_, _, value)| not_substituted(value)),
        Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::String(_) => {}
    }
}
