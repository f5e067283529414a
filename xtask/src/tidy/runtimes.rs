//! No async runtime below the pure crates, nor below the validator, which is linked into other
//! people's programs and must go on when everything around it hangs.
//!
//! `cargo metadata` resolves the workspace as a whole, so it shows features that only another member
//! turns on; `cargo tree -p` resolves for the one package, as somebody who uses only that crate
//! would get it. That is what counts.
//!
//! For the same reason the check of the plain build is here: without the feature `etcd` nothing below the
//! product may need a compiler of protocol buffers, which the README does not ask for.

use anyhow::Result;

use super::Finding;
use crate::cargo::{cargo, output};

const WITHOUT_RUNTIME: &[&str] = &[
    "steadfast-hocon",
    "steadfast-model",
    "steadfast-ledger",
    "steadfast-engine",
    "steadfast-validator",
];

const RUNTIMES: &[&str] = &[
    "tokio",
    "async-std",
    "async-global-executor",
    "async-executor",
    "smol",
    "futures-executor",
    "hyper",
    "mio",
];

/// What needs the compiler of protocol buffers, or is there only for etcd.
const OF_ETCD: &[&str] = &["etcd-client", "tonic", "prost-build", "tonic-prost-build"];

/// # Errors
/// When cargo cannot resolve a package.
pub fn check() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in WITHOUT_RUNTIME {
        findings.extend(judge(package, &tree(package)?));
    }
    let plain = "steadfast";
    let plain_tree = tree(plain)?;
    findings.extend(below(&plain_tree, OF_ETCD).map(|of_etcd| {
        let message = format!("has `{of_etcd}` below it without the feature `etcd`");
        Finding::of(plain, message)
    }));
    Ok(findings)
}

fn tree(package: &str) -> Result<String> {
    output(&mut cargo(&format!(
        "tree -p {package} --edges normal,build --target all --prefix none --locked"
    )))
}

/// Which of `names` are in a tree: one package a line, with its version and what else cargo says of it.
fn below<'a>(tree: &'a str, names: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let there = move |name: &&str| tree.lines().any(|line| line.split(' ').next() == Some(*name));
    names.iter().copied().filter(there)
}

fn judge(package: &str, tree: &str) -> Vec<Finding> {
    below(tree, RUNTIMES)
        .map(|runtime| {
            Finding::of(
                package,
                format!(
                    "has `{runtime}` below it, and must have no async runtime; `cargo tree -p \
                     {package} -e normal,build -i {runtime}` shows who brings it"
                ),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_anywhere_below_is_found() {
        let tree = "steadfast-engine v0.1.0 (/somewhere)\nserde v1.0.0\ntokio v1.2.3 (*)\n";
        let findings = judge("steadfast-engine", tree);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("`tokio`"));
    }

    #[test]
    fn a_name_that_only_begins_like_a_runtime_is_none() {
        assert_eq!(judge("a", "a v0.1.0\ntokio-free v1.0.0\nsmol_str v0.3.0\n"), []);
    }
}
