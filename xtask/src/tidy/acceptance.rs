//! `docs/acceptance.md` claims that a test shows each line of the proposals. A claim whose test was
//! renamed or removed is worse than none, so every `` `path/to/file.rs::test_name` `` there must
//! exist, and every row must name a test or say that there is none yet. A golden scenario is named by its
//! file, `` `path/scenarios/name.txt` ``; a test of its runner sees that every file is played.

use std::collections::BTreeMap;

use super::Finding;
use crate::source::{SourceFile, functions, occurrences, tokens};

const PAGE: &str = "docs/acceptance.md";
const NOT_YET: &str = "not yet";

pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![Finding::of(PAGE, "is missing")];
    };
    let by_path: BTreeMap<&str, &SourceFile> =
        files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut findings = Vec::new();
    let mut at = 0;
    for line in page.text.split_inclusive('\n') {
        let references = references(line);
        for (path, test) in &references {
            if let Err(message) = exists(&by_path, path, test) {
                findings.push(Finding::at(page, at, message));
            }
        }
        let scenarios = scenarios(line);
        for path in scenarios.iter().filter(|path| !by_path.contains_key(**path)) {
            findings.push(Finding::at(page, at, format!("there is no scenario {path}")));
        }
        let names_none = references.is_empty() && scenarios.is_empty();
        let shows_nothing = names_none && !last_cell(line).contains(NOT_YET);
        if is_row(line) && shows_nothing {
            let message = format!("the last cell names no test; then it must say \"{NOT_YET}\"");
            findings.push(Finding::at(page, at, message));
        }
        at += line.len();
    }
    findings
}

/// The tests that a line names: `` `path.rs::test` `` or `` `path.rs::module::test` ``.
fn references(line: &str) -> Vec<(&str, &str)> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted
        .filter_map(|text| {
            let end = text.find(".rs::")? + ".rs".len();
            Some((&text[..end], text.rsplit("::").next()?))
        })
        .collect()
}

/// The golden scenarios that a line names.
fn scenarios(line: &str) -> Vec<&str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|text| text.contains("/scenarios/") && text.ends_with(".txt")).collect()
}

/// Rows of a table, except its head and the line of dashes below that; the first cell is a short id.
fn is_row(line: &str) -> bool {
    let Some(first) = line.strip_prefix('|').and_then(|line| line.split('|').next()) else {
        return false;
    };
    !(first.trim().is_empty() || first.trim() == "#" || first.contains("---"))
}

fn last_cell(line: &str) -> &str {
    line.trim_end().trim_end_matches('|').rsplit('|').next().unwrap_or_default()
}

fn exists(files: &BTreeMap<&str, &SourceFile>, path: &str, test: &str) -> Result<(), String> {
    let file = files.get(path).ok_or_else(|| format!("there is no file {path}"))?;
    let mut named = functions(&file.code).into_iter().filter(|function| function.name == test);
    if named.any(|function| is_test(&file.code[..function.body.start])) {
        return Ok(());
    }
    Err(format!("{path} has no test `{test}`"))
}

/// Whether the attributes that end `before`, directly in front of a function, make it a test
/// (`#[test]`, `#[tokio::test]`, …).
fn is_test(before: &str) -> bool {
    let start = before.rfind(['}', ';', '{']).map_or(0, |end| end + 1);
    let attributes = tokens(&before[start..]);
    ["test]", "test("].iter().any(|end| !occurrences(&attributes, end).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(page: &str) -> Vec<String> {
        let code = "fn plain() {}\n#[test]\nfn counts_once() {}\nmod inner {\n    /// Why.\n    \
                    #[tokio::test(flavor = \"current_thread\")]\n    async fn nested() {}\n}";
        let files = [SourceFile::new(PAGE, page), SourceFile::new("crates/a/tests/b.rs", code)];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_test_that_exists_is_accepted() {
        let page = "| # | line | test |\n|---|---|---|\n| A1 | x | `crates/a/tests/b.rs::counts_once` |\n\
                    | A2 | x | `crates/a/tests/b.rs::inner::nested` |\n| A3 | x | not yet |\n";
        assert_eq!(messages(page), [""; 0]);
    }

    #[test]
    fn a_test_that_does_not_exist_is_refused() {
        for (reference, complaint) in [
            ("crates/a/tests/b.rs::gone", "has no test `gone`"),
            ("crates/a/tests/gone.rs::counts_once", "there is no file crates/a/tests/gone.rs"),
            ("crates/a/tests/b.rs::plain", "has no test `plain`"),
        ] {
            let found = messages(&format!("\n| A1 | x | `{reference}` |\n"));
            assert_eq!(found.len(), 1, "{reference}: {found:?}");
            assert!(found[0].starts_with("docs/acceptance.md:2: "), "{found:?}");
            assert!(found[0].contains(complaint), "{found:?}");
        }
    }

    #[test]
    fn a_scenario_is_named_by_its_file_which_must_exist() {
        let row = |name: &str| format!("| A1 | x | `crates/a/tests/scenarios/{name}.txt` |\n");
        let story = || SourceFile::new("crates/a/tests/scenarios/told.txt", "");
        let found = |page: &str| check(&[SourceFile::new(PAGE, page), story()]).len();
        assert_eq!(found(&row("told")), 0);
        assert_eq!(found(&row("untold")), 1);
    }

    #[test]
    fn a_row_that_claims_without_a_test_is_refused() {
        assert_eq!(messages("| A1 | not yet in the quote | trust us |\n").len(), 1);
        assert_eq!(messages("| A1 | x | |\n").len(), 1);
    }

    #[test]
    fn the_page_must_be_there() {
        assert_eq!(check(&[]).len(), 1);
    }
}
