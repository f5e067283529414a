//! The tokens of a `steadfast dev` with `--auth`: its members' and its own.
//!
//! They are new in each run, and let in by a file of hashes beside the one that the person gave. Only the
//! members' token is in a file, which nobody else can read; its own stays in this process.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use steadfast_client::Token;
use steadfast_coordinator::{Entry, Role};

use super::folder::Folder;
use crate::commands::coordinator::credentials;
use crate::commands::token;

/// What the processes of the cluster are let in with.
#[derive(Debug)]
pub struct Keys {
    /// All files of `--auth` for the coordinator.
    pub token_files: Vec<PathBuf>,
    /// Holds the token of the members.
    pub member_token_file: PathBuf,
    /// An operator's: with it this program looks, and submits.
    pub own: Token,
}

impl Keys {
    /// Makes them.
    ///
    /// # Errors
    /// The folder cannot be written, or the person's files use the names that are ours.
    pub fn make(folder: &Folder, given: &[PathBuf]) -> anyhow::Result<Self> {
        let (own, members) = (token::make()?, token::make()?);
        let entry =
            |name, role, token: &str| Entry::of(name, role, token).map_err(anyhow::Error::msg);
        let entries = format!(
            "# Made by `steadfast dev`, anew in each run.\ntokens = [\n  {}\n  {}\n]\n",
            entry("steadfast-dev", Role::Operator, &own)?,
            entry("steadfast-dev-members", Role::Member, &members)?,
        );
        let (own_file, member_token_file) = (folder.token_file(), folder.member_token_file());
        write_private(&own_file, &entries)?;
        write_private(&member_token_file, &format!("{members}\n"))?;
        let mut token_files = given.to_vec();
        token_files.push(own_file);
        credentials(&token_files)?;
        let own = Token::new(&own).context("a token of hexadecimal digits is none")?;
        Ok(Self { token_files, member_token_file, own })
    }
}

/// Replaces a file by one that only its owner can read. It is made new, so that whoever could write the old
/// one, or has it open, gets nothing of it.
fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn they_are_new_each_time_let_in_and_readable_by_nobody_else() {
        let data = tempfile::tempdir().unwrap();
        let folder = Folder::hold(data.path()).unwrap();
        let given = data.path().join("tokens.conf");
        let person = Entry::of("on-call", Role::Operator, "p").unwrap();
        fs::write(&given, format!("tokens = [{person}]")).unwrap();
        let mut seen = Vec::new();
        for _ in 0..2 {
            let keys = Keys::make(&folder, std::slice::from_ref(&given)).unwrap();
            let all = credentials(&keys.token_files).unwrap().unwrap();
            let members = fs::read_to_string(&keys.member_token_file).unwrap();
            assert_eq!(all.holder(members.trim()).map(Entry::role), Some(Role::Member));
            assert_eq!(all.holder("p").map(Entry::name), Some("on-call"));
            for file in [&keys.member_token_file, &keys.token_files[1]] {
                assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
            }
            assert!(!seen.contains(&members));
            seen.push(members);
        }
        let ours = Entry::of("steadfast-dev", Role::Reader, "x").unwrap();
        fs::write(&given, format!("tokens = [{ours}]")).unwrap();
        let refused = Keys::make(&folder, &[given]).unwrap_err().to_string();
        assert!(refused.contains("another token has the name"), "{refused}");
    }
}
