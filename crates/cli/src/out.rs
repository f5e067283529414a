//! Everything that this program prints goes through here: results to standard output, so that a script
//! can read them, and whatever is said about them to standard error.
//!
//! A reader that has gone (`steadfast jobs | head`) is no error: then nobody needs the rest.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

/// A line of the result.
pub fn line(text: &str) {
    ignore_absent_reader(writeln!(io::stdout(), "{text}"));
}

/// A piece of a result that is bytes; whether somebody still reads.
///
/// # Errors
/// They could not be written, and not for want of a reader.
pub fn bytes(bytes: &[u8]) -> io::Result<bool> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// A line beside the result.
pub fn notice(text: &str) {
    ignore_absent_reader(writeln!(io::stderr(), "{text}"));
}

/// Why the command could not do what it was asked, with the chain of causes on one line.
pub fn error(error: &anyhow::Error) {
    notice(&format!("error: {error:#}"));
}

/// The result as JSON on one line.
///
/// # Errors
/// A value that JSON cannot hold.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string(value)?);
    Ok(())
}

/// Where an account of something that goes on is printed.
///
/// On a terminal, what will soon be out of date is written over; elsewhere only what lasts is printed,
/// one line each, because a log that repeats itself hides the news.
pub struct Account {
    to_stderr: bool,
    is_terminal: bool,
    /// The last line on the terminal may be written over.
    is_open: bool,
}

impl Account {
    pub fn on_stdout() -> Self {
        Self { to_stderr: false, is_terminal: io::stdout().is_terminal(), is_open: false }
    }

    /// For when standard output is for a script.
    pub fn on_stderr() -> Self {
        Self { to_stderr: true, is_terminal: io::stderr().is_terminal(), is_open: false }
    }

    /// News that stays to be read.
    pub fn lasting(&mut self, text: &str) {
        self.write(&format!("{}{text}\n", self.start_of_line()));
        self.is_open = false;
    }

    /// How it stands, until the next line.
    pub fn passing(&mut self, text: &str) {
        if self.is_terminal {
            self.write(&format!("{}{text}", self.start_of_line()));
            self.is_open = true;
        }
    }

    /// Leaves the terminal on a line of its own.
    pub fn close(&mut self) {
        if self.is_open {
            self.write("\n");
            self.is_open = false;
        }
    }

    fn start_of_line(&self) -> &'static str {
        if self.is_open { "\r\x1b[2K" } else { "" }
    }

    fn write(&self, text: &str) {
        let written = if self.to_stderr {
            io::stderr().write_all(text.as_bytes())
        } else {
            let mut stdout = io::stdout();
            stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
        };
        ignore_absent_reader(written);
    }
}

fn ignore_absent_reader(written: io::Result<()>) {
    // There is nobody left to tell.
    drop(written);
}
