//! The size ratchet. A file is something that one can read in one sitting, a function something that
//! one can hold in mind. What is larger is listed in `xtask/ratchet.toml` with its present size, and
//! that number may only fall: where something got smaller, the list must follow.

use std::collections::BTreeMap;

use super::Finding;
use crate::source::{SourceFile, functions};

/// The list of what is too large today.
const RATCHET: &str = "xtask/ratchet.toml";
/// Lines of a file before its unit tests.
const FILE_LINES: usize = 500;
/// Lines from `fn` to the closing brace.
const FUNCTION_LINES: usize = 70;

/// What is measured → lines: `path` for a file, `path::name` for a function.
type Sizes = BTreeMap<String, usize>;

pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let listed = files.iter().find(|file| file.path == RATCHET).map_or("", |file| &file.text);
    match parse(listed) {
        Ok(listed) => judge(&too_large(files), &listed),
        Err(finding) => vec![finding],
    }
}

fn too_large(files: &[SourceFile]) -> Sizes {
    let mut sizes = Sizes::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let code = file.product_code();
        let lines = code.lines().count();
        if lines > FILE_LINES {
            sizes.insert(file.path.clone(), lines);
        }
        for function in functions(code) {
            let lines = code[function.body].lines().count();
            if lines > FUNCTION_LINES {
                // Of two with one name in a file the larger one counts.
                let size = sizes.entry(format!("{}::{}", file.path, function.name)).or_default();
                *size = lines.max(*size);
            }
        }
    }
    sizes
}

fn judge(found: &Sizes, listed: &Sizes) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (what, lines) in found {
        let limit = if what.contains("::") { FUNCTION_LINES } else { FILE_LINES };
        let message = match listed.get(what) {
            None => {
                format!("{lines} lines, more than {limit}: split it where it tells two stories")
            }
            Some(known) if lines > known => {
                format!("grew from {known} to {lines} lines, and {RATCHET} may only fall: split it")
            }
            Some(known) if lines < known => {
                format!("fell from {known} to {lines} lines: write the new number into {RATCHET}")
            }
            Some(_) => continue,
        };
        findings.push(Finding::of(what, message));
    }
    for what in listed.keys().filter(|what| !found.contains_key(*what)) {
        let message = format!("{what} is no longer too large, or gone: remove its line");
        findings.push(Finding::of(RATCHET, message));
    }
    findings
}

/// One `"path" = lines` or `"path::function" = lines` a line; `#` begins a comment.
fn parse(text: &str) -> Result<Sizes, Finding> {
    let mut sizes = Sizes::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = line.split_once('=').and_then(|(what, lines)| {
            let what = what.trim().strip_prefix('"')?.strip_suffix('"')?;
            Some((what.to_owned(), lines.trim().parse().ok()?))
        });
        let Some((what, lines)) = entry else {
            return Err(Finding {
                place: RATCHET.to_owned(),
                line: Some(index + 1),
                message: "expected `\"path\" = lines` or `\"path::function\" = lines`".to_owned(),
            });
        };
        sizes.insert(what, lines);
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_of(lines: usize) -> SourceFile {
        SourceFile::new("src/a.rs", "const A: u8 = 1;\n".repeat(lines))
    }

    fn function_of(lines: usize) -> SourceFile {
        let body = "x();\n".repeat(lines - 2);
        SourceFile::new("src/b.rs", format!("fn long() {{\n{body}}}\n"))
    }

    fn ratchet(text: &str) -> SourceFile {
        SourceFile::new(RATCHET, text)
    }

    fn messages(files: &[SourceFile]) -> Vec<String> {
        check(files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_limits_are_inclusive() {
        assert_eq!(messages(&[file_of(500), function_of(70)]), [""; 0]);
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let found = messages(&[file_of(501), function_of(71)]);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("src/a.rs: 501 lines, more than 500"), "{found:?}");
        assert!(found[1].starts_with("src/b.rs::long: 71 lines, more than 70"), "{found:?}");
    }

    #[test]
    fn unit_tests_and_test_files_do_not_count() {
        let unit = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "const A: u8 = 1;\n".repeat(600));
        let integration = "const A: u8 = 1;\n".repeat(600);
        let files = [
            SourceFile::new("src/a.rs", unit),
            SourceFile::new("crates/a/tests/b.rs", integration),
        ];
        assert_eq!(messages(&files), [""; 0]);
    }

    #[test]
    fn what_is_listed_may_stay_but_not_grow() {
        let list = "# why\n\"src/a.rs\" = 510\n\"src/b.rs::long\" = 80\n";
        assert_eq!(messages(&[file_of(510), function_of(80), ratchet(list)]), [""; 0]);
        let found = messages(&[file_of(511), function_of(80), ratchet(list)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("grew from 510 to 511"), "{found:?}");
    }

    #[test]
    fn what_got_smaller_lowers_its_number() {
        let found = messages(&[file_of(505), ratchet("\"src/a.rs\" = 510")]);
        assert!(found[0].contains("fell from 510 to 505"), "{found:?}");
        let found = messages(&[file_of(400), ratchet("\"src/a.rs\" = 510")]);
        assert!(found[0].contains("remove its line"), "{found:?}");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let found = messages(&[ratchet("\n\"src/a.rs\" = many")]);
        assert!(found[0].starts_with("xtask/ratchet.toml:2: expected"), "{found:?}");
    }
}
