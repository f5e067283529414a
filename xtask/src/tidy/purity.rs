//! The pure crates read no clock, no random source, no environment and no file, start no thread, and
//! iterate no hash map: the same inputs must give the same decisions, or the simulator proves
//! nothing. Each pure crate has a `clippy.toml` that says the same; this is the second net, for
//! whole modules (which clippy cannot ban) and for a lint that somebody has allowed away.

use super::Finding;
use crate::source::{SourceFile, Token, occurrences, tokens};

const PURE: &[&str] =
    &["crates/hocon/src/", "crates/model/src/", "crates/ledger/src/", "crates/engine/src/"];

const BANNED: &[(&str, &str)] = &[
    ("SystemTime::now", "time is an argument"),
    ("Instant::now", "time is an argument"),
    ("HashMap", "iteration order is random: use BTreeMap"),
    ("HashSet", "iteration order is random: use BTreeSet"),
    ("rand", "randomness comes in as an argument: the nonce of the term"),
    ("getrandom", "randomness comes in as an argument: the nonce of the term"),
    ("new_v4", "ids are made from the nonce of the term"),
    ("now_v7", "ids are made from the nonce of the term"),
];

const BANNED_MODULES: &[(&str, &str)] = &[
    ("env", "settings are arguments"),
    ("fs", "the store remembers, the core decides"),
    ("net", "effects are returned, not carried out"),
    ("process", "effects are returned, not carried out"),
    ("thread", "the core is one function call"),
];

pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        if !PURE.iter().any(|folder| file.path.starts_with(folder)) {
            continue;
        }
        let tokens = tokens(file.product_code());
        for (pattern, instead) in BANNED {
            for at in occurrences(&tokens, pattern) {
                let message = format!("`{pattern}` in a pure crate: {instead}");
                findings.push(Finding::at(file, at, message));
            }
        }
        for (at, module) in std_modules(&tokens) {
            if let Some((_, instead)) = BANNED_MODULES.iter().find(|(name, _)| *name == module) {
                let message = format!("`std::{module}` in a pure crate: {instead}");
                findings.push(Finding::at(file, at, message));
            }
        }
    }
    findings
}

/// The modules of `std` that the code names, in paths and in `use std::{…}`.
fn std_modules<'a>(tokens: &[Token<'a>]) -> Vec<(usize, &'a str)> {
    let mut modules = Vec::new();
    for start in occurrences(tokens, "std::") {
        let place = tokens.partition_point(|token| token.at < start);
        let mut depth = 0;
        for pair in tokens[place + 2..].windows(2) {
            let [before, token] = pair else { continue };
            match token.text {
                "{" => depth += 1,
                "}" => depth -= 1,
                module if depth == 0 || depth == 1 && ["{", ","].contains(&before.text) => {
                    modules.push((token.at, module));
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&[SourceFile::new(path, text)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_ban_is_red_on_an_example() {
        for (code, named) in [
            ("let t = std::time::Instant::now();", "Instant::now"),
            ("let t = SystemTime::now();", "SystemTime::now"),
            ("use std::collections::HashMap;", "HashMap"),
            ("use std::collections::{BTreeMap, HashSet};", "HashSet"),
            ("let x: u8 = rand::random();", "rand"),
            ("let id = Uuid::new_v4();", "new_v4"),
            ("let x = std::env::var(\"X\");", "std::env"),
            ("use std::{collections::BTreeMap, fs, io::{self, Read}};", "std::fs"),
            ("use std::net::TcpStream;", "std::net"),
            ("use std::{fmt, thread};", "std::thread"),
        ] {
            let found = messages("crates/engine/src/a.rs", code);
            assert_eq!(found.len(), 1, "{code}: {found:?}");
            assert!(found[0].starts_with("crates/engine/src/a.rs:1: "), "{found:?}");
            assert!(found[0].contains(&format!("`{named}`")), "{found:?}");
        }
    }

    #[test]
    fn what_is_pure_or_not_product_code_or_elsewhere_is_left_alone() {
        let pure = "use std::{collections::BTreeMap, fmt, time::Duration};\n// HashMap\nlet x = \"std::fs\";";
        assert_eq!(messages("crates/engine/src/a.rs", pure), [""; 0]);
        let test = "#[cfg(test)] mod tests { use std::collections::HashMap; }";
        assert_eq!(messages("crates/engine/src/a.rs", test), [""; 0]);
        assert_eq!(messages("crates/store/src/a.rs", "use std::fs;"), [""; 0]);
    }
}
