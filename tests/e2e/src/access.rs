//! Tokens for a cluster with `--auth`, made as a person makes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binary;

/// One token for an operator, `on-call`, and one for a reader, `dashboard`.
#[derive(Clone, Debug)]
pub struct Access(PathBuf);

/// A person's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// May do everything.
    Operator,
    /// May look.
    Reader,
}

impl Role {
    /// Every role, with the name of its holder.
    const HOLDERS: [(Self, &str); 2] = [(Self::Operator, "on-call"), (Self::Reader, "dashboard")];

    fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Reader => "reader",
        }
    }
}

impl Access {
    /// Makes the tokens and the file that lets them in, in this folder.
    ///
    /// # Panics
    /// When `steadfast token` does not do what it says.
    #[track_caller]
    pub fn make(folder: &Path) -> Self {
        let access = Self(folder.to_owned());
        let mut entries = String::new();
        for (role, holder) in Role::HOLDERS {
            let mut command = Command::new(binary("steadfast"));
            let made = command.args(["token", holder, "--role", role.name()]).output();
            let made = made.unwrap_or_else(|error| panic!("{command:?}: {error}"));
            assert!(made.status.success(), "{made:?}");
            write(&access.token_file(role), &made.stdout);
            entries += &String::from_utf8_lossy(&made.stderr);
        }
        write(&access.file(), format!("tokens = [\n{entries}]\n").as_bytes());
        access
    }

    /// What `--auth` is given.
    pub fn file(&self) -> PathBuf {
        self.0.join("tokens.conf")
    }

    /// What `--token-file` is given.
    pub fn token_file(&self, role: Role) -> PathBuf {
        self.0.join(format!("{}.token", role.name()))
    }

    /// The token itself.
    ///
    /// # Panics
    /// When its file is gone.
    #[track_caller]
    pub fn token(&self, role: Role) -> String {
        let file = self.token_file(role);
        let text = fs::read_to_string(&file);
        text.unwrap_or_else(|error| panic!("{}: {error}", file.display())).trim().to_owned()
    }
}

#[track_caller]
fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
