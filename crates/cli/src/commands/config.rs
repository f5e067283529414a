//! `steadfast config`: every option, the value that is in force, and where it came from.

use serde_json::{Map, json};

use crate::arguments::ConfigArguments;
use crate::options::Options;
use crate::{out, tables};

/// # Errors
/// An option that is not right, wherever it stands.
pub fn run(arguments: &ConfigArguments) -> anyhow::Result<u8> {
    let options = Options::load(&arguments.options)?;
    if arguments.json {
        let entry = |(name, value, source): (&str, String, &crate::options::Source)| {
            (name.to_owned(), json!({ "value": value, "from": source.to_string() }))
        };
        out::json(&options.iter().map(entry).collect::<Map<_, _>>())?;
        return Ok(0);
    }
    let mut table = tables::table(&["OPTION", "VALUE", "FROM"]);
    for (name, value, source) in options.iter() {
        table.add_row([name.to_owned(), value, source.to_string()]);
    }
    out::line(&tables::text(&table));
    Ok(0)
}
