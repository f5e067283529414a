//! Which crate may know which. The layout promises that reading the listing from top to bottom is
//! reading the story; a dependency against the arrow would break that promise without a compiler
//! error, so the arrows are a table here, and whoever needs another one changes it on purpose.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata};

use super::Finding;

/// One straight line: each knows only what is left of it.
const LINE: &[&str] = &[
    "steadfast-hocon",
    "steadfast-model",
    "steadfast-ledger",
    "steadfast-engine",
    "steadfast-store",
    "steadfast-coordinator",
];

/// What the others may know, and what a crate of the line may know beside it.
const BESIDE: &[(&str, &[&str])] = &[
    ("steadfast-api", &["steadfast-model"]),
    ("steadfast-client", &["steadfast-model", "steadfast-api"]),
    ("steadfast-validator", &["steadfast-model", "steadfast-api"]),
    ("steadfast-agent", &["steadfast-model", "steadfast-api", "steadfast-client"]),
    ("steadfast-coordinator", &["steadfast-api", "steadfast-client"]),
    (
        "steadfast",
        &[
            "steadfast-hocon",
            "steadfast-model",
            "steadfast-store",
            "steadfast-api",
            "steadfast-client",
            "steadfast-coordinator",
            "steadfast-agent",
            "steadfast-validator",
        ],
    ),
    (
        "steadfast-sim",
        &["steadfast-model", "steadfast-ledger", "steadfast-engine", "steadfast-store"],
    ),
    // These meet the product from outside only: through its programs and its public calls.
    ("wordcount", &[]),
    ("steadfast-e2e", &[]),
    ("xtask", &[]),
];

/// Package → the packages of the workspace that it depends on. Dependencies of tests are left out:
/// a test may look at its crate from anywhere.
type Arrows = BTreeMap<String, BTreeSet<String>>;

pub fn check(workspace: &Metadata) -> Vec<Finding> {
    let arrows = workspace.packages.iter().map(|package| {
        let of_the_workspace = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind != DependencyKind::Development)
            .filter(|dependency| dependency.path.is_some())
            .map(|dependency| dependency.name.clone())
            .collect();
        (package.name.to_string(), of_the_workspace)
    });
    judge(&arrows.collect())
}

fn judge(arrows: &Arrows) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (package, dependencies) in arrows {
        let Some(allowed) = allowed(package) else {
            findings.push(Finding::of(
                package,
                "this package has no line in xtask/src/tidy/arrows.rs. A new crate must remove a \
                 dependency from somebody or have users of its own; then say there what it may know",
            ));
            continue;
        };
        for dependency in dependencies {
            if !allowed.contains(dependency.as_str()) {
                findings.push(Finding::of(
                    package,
                    format!(
                        "must not depend on {dependency}: it may know only {allowed:?} (the arrows \
                         are in ARCHITECTURE.md)"
                    ),
                ));
            }
        }
    }
    findings
}

fn allowed(package: &str) -> Option<BTreeSet<&'static str>> {
    let left = LINE.iter().position(|one| *one == package).map(|place| &LINE[..place]);
    let beside = BESIDE.iter().find(|(one, _)| *one == package).map(|(_, known)| *known);
    if left.is_none() && beside.is_none() {
        return None;
    }
    Some(left.into_iter().chain(beside).flatten().copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrow(from: &str, to: &str) -> Arrows {
        BTreeMap::from([(from.to_owned(), BTreeSet::from([to.to_owned()]))])
    }

    #[test]
    fn an_arrow_to_the_left_is_allowed() {
        for (from, to) in [
            ("steadfast-model", "steadfast-hocon"),
            ("steadfast-store", "steadfast-ledger"),
            ("steadfast-coordinator", "steadfast-api"),
            ("steadfast-sim", "steadfast-store"),
        ] {
            assert_eq!(judge(&arrow(from, to)), [], "{from} → {to}");
        }
    }

    #[test]
    fn an_arrow_to_the_right_or_across_is_refused() {
        for (from, to) in [
            ("steadfast-hocon", "steadfast-model"),
            ("steadfast-ledger", "steadfast-engine"),
            ("steadfast-engine", "steadfast-api"),
            ("steadfast-validator", "steadfast-client"),
            ("steadfast-agent", "steadfast-engine"),
            ("steadfast", "steadfast-engine"),
            ("wordcount", "steadfast-validator"),
        ] {
            let findings = judge(&arrow(from, to));
            assert_eq!(findings.len(), 1, "{from} → {to}");
            assert!(findings[0].message.contains(to));
        }
    }

    #[test]
    fn a_package_without_a_line_in_the_table_is_refused() {
        let findings = judge(&BTreeMap::from([("steadfast-extras".to_owned(), BTreeSet::new())]));
        assert_eq!(findings.len(), 1);
    }
}
