//! Every crate, binary and example opens with its reason. Whoever picks the project up in two years
//! begins there, before any signature.

use super::Finding;
use crate::source::SourceFile;

pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    files
        .iter()
        .filter(|file| is_root(&file.path) && !file.text.starts_with("//!"))
        .map(|file| Finding::of(&file.path, "must open with `//!`: what this is, and why it is so"))
        .collect()
}

/// Whether a file is the root of a library, a binary or an example.
fn is_root(path: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else { return false };
    let in_folder = |wanted: &str| folder == wanted || folder.ends_with(&format!("/{wanted}"));
    let named = in_folder("src") && ["lib.rs", "main.rs"].contains(&name);
    named || name.ends_with(".rs") && (in_folder("src/bin") || in_folder("examples"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_without_its_reason_is_refused() {
        for path in ["crates/a/src/lib.rs", "xtask/src/main.rs", "crates/a/src/bin/b.rs"] {
            assert_eq!(check(&[SourceFile::new(path, "fn main() {}\n")]).len(), 1, "{path}");
            assert_eq!(check(&[SourceFile::new(path, "//! Because.\n")]), [], "{path}");
        }
    }

    #[test]
    fn other_files_are_left_alone() {
        for path in ["crates/a/src/b.rs", "crates/a/tests/main.rs", "docs/main.rs.md"] {
            assert_eq!(check(&[SourceFile::new(path, "mod a;\n")]), [], "{path}");
        }
    }
}
