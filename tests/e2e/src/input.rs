//! What the jobs count, and who knows the right answer.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Counts;

/// Real log lines beside the checkout: CRLF, no newline at the end.
const REAL: &str = "../../../shared/data/Hadoop_2k.log";
const LINES: usize = 2_000;

/// The file to count: the real one where it lies beside the checkout, else one of the same nature that
/// is made in `folder`.
pub fn input(folder: &Path) -> PathBuf {
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).join(REAL);
    if let Ok(real) = real.canonicalize() {
        return real;
    }
    let made = folder.join("input.log");
    fs::write(&made, made_up()).unwrap_or_else(|error| panic!("{}: {error}", made.display()));
    made
}

/// Lines of different lengths with different numbers of words, so that shares, lines and words do not
/// fall together by accident.
fn made_up() -> String {
    let mut text = String::new();
    for line in 0..LINES {
        let minute = line / 60;
        let second = line % 60;
        // Writing into a string cannot fail.
        let _ = write!(text, "2015-10-18 18:{minute:02}:{second:02},978 INFO [main] part.{line}: ");
        for word in 0..line % 17 {
            let _ = write!(text, "word{word}{} ", "x".repeat(line % 31));
        }
        if line + 1 < LINES {
            text.push_str("\r\n");
        }
    }
    text
}

/// What `wc` says of a file.
///
/// # Panics
/// When there is no `wc`, or it does not understand the file.
#[track_caller]
pub fn wc(file: &Path) -> Counts {
    let output = Command::new("wc").env("LC_ALL", "C").arg("-lwc").arg(file).output();
    let output = output.expect("`wc` is needed as the oracle of the sums (Debian: coreutils)");
    assert!(output.status.success(), "wc {}: {output:?}", file.display());
    let line = String::from_utf8_lossy(&output.stdout);
    let mut numbers = line.split_whitespace().map_while(|word| word.parse().ok());
    let mut next = || numbers.next().unwrap_or_else(|| panic!("wc said {line:?}"));
    Counts { lines: next(), words: next(), bytes: next() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_made_up_file_is_of_the_real_ones_nature() {
        let text = made_up();
        assert!(!text.ends_with('\n'));
        assert_eq!(text.matches("\r\n").count(), LINES - 1);
        assert_eq!(text.matches('\n').count(), LINES - 1);
    }
}
