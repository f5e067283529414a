//! Words that mean that something is missing: a name that says nothing, code that is not there yet,
//! a test that is not run, a test that sleeps and hopes.

use super::Finding;
use crate::source::{SourceFile, Token, is_word, occurrences, tokens};

const NAMING: &[&str] = &["struct", "enum", "union", "trait", "type", "mod"];

/// Parts of a type's name, and whole names of modules, that say nothing about what is inside.
const EMPTY_PARTS: &[&str] = &["Manager", "Helper"];
const EMPTY_MODULES: &[&str] = &["util", "utils", "helper", "helpers", "misc"];

const UNFINISHED: &[(&str, &str)] = &[
    ("#[ignore", "a test starts what it needs and is never ignored for want of it"),
    ("todo!(", "write it, or leave it out"),
    ("unimplemented!(", "write it, or leave it out"),
];

/// The word of the comment that excuses a sleep: that of a loop which polls up to a deadline.
const POLLS: &str = "polls";

pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let tokens = tokens(&file.code);
        findings.extend(empty_names(file, &tokens));
        for (pattern, instead) in UNFINISHED {
            for at in occurrences(&tokens, pattern) {
                findings.push(Finding::at(file, at, format!("`{pattern}`: {instead}")));
            }
        }
        if file.is_test() {
            findings.extend(sleeps(file, &tokens));
        }
    }
    findings
}

fn empty_names(file: &SourceFile, tokens: &[Token<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let stem = file.path.rsplit('/').next().and_then(|name| name.strip_suffix(".rs"));
    let folder = file.path.rsplit('/').nth(1).filter(|_| stem == Some("mod"));
    if let Some(name) = [stem, folder].into_iter().flatten().find(|name| is_empty_name(name)) {
        findings.push(Finding::of(&file.path, empty_name(name)));
    }
    for pair in tokens.windows(2) {
        let [keyword, name] = pair else { continue };
        if NAMING.contains(&keyword.text) && is_word(name.text) && is_empty_name(name.text) {
            findings.push(Finding::at(file, name.at, empty_name(name.text)));
        }
    }
    findings
}

fn is_empty_name(name: &str) -> bool {
    EMPTY_MODULES.contains(&name) || EMPTY_PARTS.iter().any(|part| name.contains(part))
}

fn empty_name(name: &str) -> String {
    format!("`{name}` says nothing: name it after what it knows or does")
}

/// Sleeps of test code. `sleep` as a call, whoever it belongs to: `thread`, `tokio::time`, imported.
fn sleeps(file: &SourceFile, tokens: &[Token<'_>]) -> Vec<Finding> {
    let lines: Vec<&str> = file.text.lines().collect();
    occurrences(tokens, "sleep(")
        .into_iter()
        .filter(|at| {
            let line = file.line(*at) - 1;
            !lines[line.saturating_sub(1)..=line].iter().any(|text| is_excused(text))
        })
        .map(|at| {
            Finding::at(
                file,
                at,
                format!(
                    "a test waits for a condition with a deadline and does not sleep; where this is \
                     the loop that does so, say in a comment what it {POLLS}"
                ),
            )
        })
        .collect()
}

fn is_excused(line: &str) -> bool {
    line.split_once("//").is_some_and(|(_, comment)| comment.contains(POLLS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&[SourceFile::new(path, text)]).len()
    }

    #[test]
    fn names_that_say_nothing_are_refused() {
        for code in ["struct JobManager;", "trait Helper {}", "mod utils {}", "mod helpers;"] {
            assert_eq!(count("src/a.rs", code), 1, "{code}");
        }
        for path in ["src/utils.rs", "src/helpers/mod.rs"] {
            assert_eq!(count(path, ""), 1, "{path}");
        }
        assert_eq!(count("src/mod.rs", "struct Utilisation; mod utilities; use a::Manager;"), 0);
    }

    #[test]
    fn what_is_not_there_yet_is_refused() {
        assert_eq!(count("src/a.rs", "fn a() { todo!() }"), 1);
        assert_eq!(count("src/a.rs", "fn a() { unimplemented!(\"b\") }"), 1);
        assert_eq!(count("src/a.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() {}"), 1);
        assert_eq!(count("src/a.rs", "// todo!() in a sentence\nconst A: &str = \"todo!(\";"), 0);
    }

    #[test]
    fn a_sleep_in_a_test_must_be_the_loop_that_polls() {
        let sleep = "std::thread::sleep(PAUSE);";
        assert_eq!(count("tests/e2e/src/a.rs", sleep), 1);
        assert_eq!(count("tests/e2e/src/a.rs", "tokio::time::sleep(PAUSE).await;"), 1);
        assert_eq!(count("tests/e2e/src/a.rs", &format!("// polls the port\n{sleep}")), 0);
        assert_eq!(count("tests/e2e/src/a.rs", &format!("{sleep} // polls the port")), 0);
        assert_eq!(count("tests/e2e/src/a.rs", &format!("// polls\n\n{sleep}")), 1);
        assert_eq!(count("crates/agent/src/a.rs", sleep), 0, "the rule is about tests");
    }
}
