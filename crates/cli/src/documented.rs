//! What the documents tell people to type is what this program takes: each command in them is parsed.

use std::fs;
use std::path::Path;

use clap::Parser;
use clap::error::ErrorKind;

use crate::arguments::Arguments;

const PAGES: [&str; 5] =
    ["README.md", "CONTRIBUTING.md", "docs/http-api.md", "docs/job-file.md", "docs/operations.md"];

/// A command as it stands in a page.
struct Documented {
    text: String,
    /// It is in a block, to be copied from there.
    is_whole: bool,
}

/// Every command of this program in a page: the lines of its blocks, and what stands between backticks.
fn commands(page: &str) -> Vec<Documented> {
    let mut found = Vec::new();
    let mut in_block = false;
    for line in page.replace("\\\n", " ").lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            // Only the first of several words can be a program.
            let line = line.replace("&&", ";");
            let pieces = line.split(['|', ';', '(', ')']).map(str::trim_start);
            let texts = pieces.filter_map(as_command);
            found.extend(texts.map(|text| Documented { text, is_whole: true }));
        } else {
            let texts = line.split('`').skip(1).step_by(2).filter_map(as_command);
            found.extend(texts.map(|text| Documented { text, is_whole: false }));
        }
    }
    found
}

/// The command behind variables, a path and `sudo -u USER`; without its comment and where its output goes.
fn as_command(text: &str) -> Option<String> {
    let text = text.split(" #").next().unwrap_or_default();
    let mut words = text.split_whitespace().skip_while(|word| word.contains('=')).peekable();
    if words.next_if_eq(&"sudo").is_some() {
        words.nth(1);
    }
    let program = words.next()?;
    let rest: Vec<&str> = words.take_while(|word| !word.contains('>')).collect();
    let is_ours = program == "steadfast" || program.ends_with("/steadfast");
    // Alone it is a name, and an ellipsis stands for something else.
    let whole = is_ours
        && !rest.is_empty()
        && !rest.iter().any(|word| word.contains("NAME=VALUE") || *word == "…");
    whole.then(|| format!("steadfast {}", rest.join(" ")))
}

/// The words of a command, with something in the place of what the reader has to fill in.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '"' | '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            '[' | ']' => {}
            c => words.last_mut().expect("there is one from the beginning").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    let filled = words.into_iter().map(|word| match word.as_str() {
        "ID" | "JOB_ID" => "7".to_owned(),
        "ROLE" => "reader".to_owned(),
        "FROM" | "TO" => "embedded:dir".to_owned(),
        _ => word,
    });
    filled.collect()
}

#[test]
fn what_the_pages_say_is_what_is_taken() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut parsed, mut refused) = (0, Vec::new());
    for name in PAGES {
        let page = fs::read_to_string(root.join(name)).unwrap();
        for command in commands(&page) {
            if cfg!(not(feature = "etcd")) && command.text.contains("etcd") {
                continue;
            }
            let Err(error) = Arguments::try_parse_from(words(&command.text)) else {
                parsed += 1;
                continue;
            };
            // In a sentence a command may be named by a part of it.
            let is_part = !command.is_whole && error.kind() == ErrorKind::MissingRequiredArgument;
            let fine = is_part || error.kind() == ErrorKind::DisplayHelp;
            if !fine {
                refused.push(format!("{name}: `{}`: {error}", command.text));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(parsed > 40, "the commands are found: {parsed}");
}

#[test]
fn a_command_is_found_wherever_it_stands() {
    let page = "Try `steadfast jobs --json`, or `steadfast`.\n```sh\nA=1 target/release/steadfast members # who\n\
                sudo -u sf steadfast drain X \\\n  --reason \"a b\" 2> log\ncd x && steadfast stop ID\necho steadfast jobs\n```\n";
    let expected = [
        "steadfast jobs --json",
        "steadfast members",
        "steadfast drain X --reason \"a b\"",
        "steadfast stop ID",
    ];
    let found = commands(page);
    assert_eq!(found.iter().map(|command| &command.text[..]).collect::<Vec<_>>(), expected);
    assert_eq!(
        found.iter().map(|command| command.is_whole).collect::<Vec<_>>(),
        [false, true, true, true]
    );
    assert_eq!(words(expected[2]), ["steadfast", "drain", "X", "--reason", "a b"]);
    assert_eq!(words(expected[3]), ["steadfast", "stop", "7"]);
}
