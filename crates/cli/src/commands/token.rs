//! `steadfast token NAME --role ROLE`: a token for its holder, and the entry that lets it in.
//!
//! The two go apart: the token on standard output, into a file of its holder's, the entry on standard
//! error, into the file of `--auth`. Neither is kept here.

use anyhow::Context;
use serde_json::json;
use steadfast_coordinator::Entry;

use crate::arguments::TokenArguments;
use crate::{out, random};

/// # Errors
/// A name that cannot be one, or the system gives no random bytes.
pub fn run(arguments: &TokenArguments) -> anyhow::Result<u8> {
    let TokenArguments { name, role, json } = arguments;
    let token = make()?;
    let entry = Entry::of(name, *role, &token).map_err(anyhow::Error::msg)?;
    if *json {
        let entry = json!({ "name": entry.name(), "role": role.name(), "sha256": entry.sha256() });
        out::json(&json!({ "token": token, "entry": entry }))?;
    } else {
        out::line(&token);
        out::notice(&entry.to_string());
    }
    Ok(0)
}

/// 256 random bits: a token that nobody guesses.
///
/// # Errors
/// The system gives no random bytes.
pub fn make() -> anyhow::Result<String> {
    random::hex::<32>().context("cannot make a token")
}
