//! No path of the machine on which something happened to be written: it works nowhere else, and a
//! golden file that contains one passes for one person only.

use super::Finding;
use crate::source::SourceFile;

/// Folders directly below the root that belong to a person or a machine, not to a system.
const FOLDERS: &[&str] = &["work", "root", "home"];

pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for folder in FOLDERS {
            let path = format!("/{folder}/");
            for (at, _) in file.text.match_indices(&path) {
                if begins_a_path(&file.text[..at]) {
                    let message = format!("a path below {path} exists on one machine only");
                    findings.push(Finding::at(file, at, message));
                }
            }
        }
    }
    findings
}

/// Whether a slash after `before` is the root, and not in the middle of a longer path.
fn begins_a_path(before: &str) -> bool {
    !before.ends_with(|last: char| last.is_alphanumeric() || "._-~}/$)*".contains(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: String) -> usize {
        check(&[SourceFile::new("docs/a.md", text)]).len()
    }

    #[test]
    fn a_path_of_one_machine_is_refused() {
        for folder in FOLDERS {
            assert_eq!(count(format!("see `/{folder}/a.log`")), 1);
            assert_eq!(count(format!("path=/{folder}/a")), 1);
            assert_eq!(count(format!("file:\"/{folder}/a\"")), 1);
        }
    }

    #[test]
    fn a_folder_of_that_name_elsewhere_is_not() {
        for text in ["target/{}/a", "$HOME/{}/a", "https://example.org/{}/a", "../{}/a"] {
            assert_eq!(count(text.replace("{}", "work")), 0, "{text}");
        }
    }
}
