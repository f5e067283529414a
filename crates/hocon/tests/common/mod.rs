//! Short ways to ask the parser, for the tests.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;

use steadfast_hocon::{Problem, Resolved, parse};

/// The resolved document, or all problems as they are shown.
pub fn resolve(text: &str, variables: &[(&str, &str)]) -> Result<Resolved, Vec<String>> {
    let variables: BTreeMap<String, String> =
        variables.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    parse(text.as_bytes())
        .and_then(|document| document.resolve(&variables))
        .map_err(|problems| problems.iter().map(Problem::to_string).collect())
}

/// The document as JSON. Panics with the problems where there are some.
pub fn json(text: &str) -> String {
    json_with(text, &[])
}

/// The document as JSON, with variables.
pub fn json_with(text: &str, variables: &[(&str, &str)]) -> String {
    match resolve(text, variables) {
        Ok(resolved) => resolved.root.to_json(),
        Err(problems) => panic!("{text:?} was refused: {problems:?}"),
    }
}

/// The problems of a document that has to be refused.
pub fn problems(text: &str) -> Vec<String> {
    match resolve(text, &[]) {
        Ok(resolved) => panic!("{text:?} was accepted as {}", resolved.root.to_json()),
        Err(problems) => problems,
    }
}

/// The one problem of a document that has to be refused.
pub fn problem(text: &str) -> String {
    let mut problems = problems(text);
    assert_eq!(problems.len(), 1, "{text:?}: {problems:?}");
    problems.remove(0)
}
