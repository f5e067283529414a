//! What the processes of a cluster have said, for whoever has to find out why a test failed.

use std::fs;
use std::path::{Path, PathBuf};

/// The last lines of every file that are shown.
const LINES: usize = 40;

/// Prints the end of every log below a folder.
pub fn print(folder: &Path) {
    let mut logs = Vec::new();
    collect(folder, &mut logs);
    logs.sort();
    for log in logs {
        let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
        if text.trim().is_empty() {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(LINES);
        let name = log.strip_prefix(folder).unwrap_or(&log);
        eprintln!("---- {} (from line {})", name.display(), from + 1);
        for line in &lines[from..] {
            eprintln!("{line}");
        }
    }
}

fn collect(folder: &Path, logs: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_log = path.extension().is_some_and(|end| end == "log" || end == "jsonl");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&path, logs),
            Ok(kind) if kind.is_file() && is_log => logs.push(path),
            _ => {}
        }
    }
}
