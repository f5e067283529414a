//! The commands that ask one question and print the answer.

use serde::Serialize;
use steadfast_client::{Client, ClientError};

use super::COULD_NOT;
use crate::connect::Coordinators;
use crate::{out, runtime};

/// Prints an answer, for people or as JSON. For a script a refusal is an answer too.
///
/// # Errors
/// No coordinator can be asked, or (for people) the question is refused.
pub fn show<T: Serialize>(
    coordinators: &Coordinators,
    as_json: bool,
    ask: impl AsyncFnOnce(&Client) -> Result<T, ClientError>,
    render: impl FnOnce(&T) -> String,
) -> anyhow::Result<u8> {
    let client = coordinators.client()?;
    match runtime::light(async { Ok(ask(&client).await) })? {
        Ok(answer) if as_json => out::json(&answer)?,
        Ok(answer) => out::line(&render(&answer)),
        Err(ClientError::Refused { body, .. }) if as_json => {
            out::json(&body)?;
            return Ok(COULD_NOT);
        }
        Err(error) => return Err(coordinators.explain(error)),
    }
    Ok(0)
}
