//! The programs that the build needs and that cargo cannot bring. Kept as a table with a reason per
//! line, so that each new one has to be argued for: for the plain build the README promises a Rust toolchain
//! and a C compiler, nothing else.
//!
//! This program needs the C compiler itself, as its linker: where it is missing altogether, cargo
//! says so before any line below runs. The table still names it, for machines whose linker is
//! another one, and as the place where the next tool goes.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::cargo::run as run_command;

/// A program looked for in `PATH` (a file, where it has slashes), the Debian packages that bring it, and why
/// it is needed.
struct Prerequisite {
    tool: &'static str,
    packages: &'static [&'static str],
    why: &'static str,
}

const PREREQUISITES: &[Prerequisite] = &[
    Prerequisite {
        tool: "cc",
        packages: &["gcc", "libc6-dev"],
        why: "the embedded store compiles SQLite, and rustc links with it",
    },
    Prerequisite {
        tool: "git",
        packages: &["git"],
        why: "tidy asks it which files belong to the project",
    },
    Prerequisite {
        tool: "etcd",
        packages: &["etcd-server"],
        why: "the tests of the store on etcd start real nodes",
    },
    Prerequisite {
        tool: "protoc",
        packages: &["protobuf-compiler"],
        why: "the client of etcd (feature `etcd`) compiles its protocol",
    },
    Prerequisite {
        tool: "/usr/include/google/protobuf/descriptor.proto",
        packages: &["libprotobuf-dev"],
        why: "that protocol is written with it",
    },
    Prerequisite {
        tool: "python3",
        packages: &["python3"],
        why: "the program whose life the end-to-end tests watch is written in it",
    },
    Prerequisite {
        tool: "ip",
        packages: &["iproute2"],
        why: "an end-to-end test cuts a container off its network, as root",
    },
];

/// Yardsticks of the benches: nothing that builds or tests the product needs them.
const YARDSTICKS: &[Prerequisite] = &[Prerequisite {
    tool: "nginx",
    packages: &["nginx-light"],
    why: "the bench `validity` compares each answer with its fixed one",
}];

/// Installs what is missing where that is possible (root on a Debian system), else says how.
///
/// # Errors
/// When something is missing and could not be installed.
pub fn ensure() -> Result<()> {
    install(PREREQUISITES)
}

/// The same for what the benches compare with.
///
/// # Errors
/// When something is missing and could not be installed.
pub fn ensure_yardsticks() -> Result<()> {
    install(YARDSTICKS)
}

fn install(table: &[Prerequisite]) -> Result<()> {
    let missing = missing(table, is_there);
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().flat_map(|one| one.packages).copied().collect();
    let may_install = rustix::process::geteuid().is_root() && in_path("apt-get");
    if !may_install {
        bail!("{}", advice(&missing, &packages));
    }
    run_command(Command::new("apt-get").args(["update", "--quiet"]))?;
    run_command(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["install", "--yes", "--no-install-recommends"])
            .args(&packages),
    )
}

fn missing(table: &[Prerequisite], present: impl Fn(&str) -> bool) -> Vec<&Prerequisite> {
    table.iter().filter(|one| !present(one.tool)).collect()
}

fn advice(missing: &[&Prerequisite], packages: &[&str]) -> String {
    let mut text = String::from("a program that is needed here is missing:\n");
    for Prerequisite { tool, why, .. } in missing {
        text += &format!("  {tool}: {why}\n");
    }
    text + &format!(
        "On Debian and its relatives: `sudo apt-get install {}`. Elsewhere: the package of your \
         system that brings the same program.",
        packages.join(" ")
    )
}

fn is_there(tool: &str) -> bool {
    if tool.starts_with('/') { Path::new(tool).is_file() } else { in_path(tool) }
}

/// Servers lie in a folder that only root has in its `PATH`.
fn in_path(tool: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into()]);
    folders.into_iter().any(|folder| Path::new(&folder).join(tool).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package_and_its_reason() {
        let missing = missing(PREREQUISITES, |tool| tool != "cc");
        let text = advice(&missing, missing[0].packages);
        assert!(text.contains("cc: the embedded store compiles SQLite"), "{text}");
        assert!(text.contains("apt-get install gcc libc6-dev"), "{text}");
        assert!(!text.contains("git"), "what is there is not asked for: {text}");
    }

    #[test]
    fn nothing_is_missing_where_everything_is_there() {
        assert!(missing(PREREQUISITES, |_| true).is_empty());
    }
}
