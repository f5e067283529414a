//! What an operator can set of a coordinator's behaviour, and where each value came from.
//!
//! An option has one name everywhere, that of the proposal or of the design. On the command line it is
//! `--option NAME=VALUE`; in the environment it is spelled in capitals behind `STEADFAST_`; in `steadfast.conf`
//! it is a key. The first of these that has it decides, and what none of them has keeps its default.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use steadfast_coordinator::Settings;
use steadfast_hocon::{Kind, Object, Position, Problem, Value};

/// Read where no other file is named.
const DEFAULT_FILE: &str = "steadfast.conf";

/// `--option` and `--conf`.
#[derive(Clone, Debug, Default, Args)]
pub struct OptionArguments {
    /// Set an option; `steadfast config` lists them
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = super::arguments::pair)]
    pub options: Vec<(String, String)>,
    /// The file of options [default: steadfast.conf, if it is there]
    #[arg(long, env = "STEADFAST_CONF", value_name = "FILE")]
    pub conf: Option<PathBuf>,
}

/// An option that can be set.
pub struct Known {
    pub name: &'static str,
    pub expected: &'static str,
    /// Whether the text is a value of it, and then it is set.
    set: fn(&mut Settings, &str) -> bool,
    show: fn(&Settings) -> String,
}

pub const KNOWN: [Known; 5] = [
    Known {
        name: "engine.dirty-task.event-history-size",
        // The worst twenty are as large as a store on etcd takes in one transaction.
        expected: "a whole number from 1 to 20",
        set: |settings, text| within(text, 1..=20, &mut settings.event_history_size),
        show: |settings| settings.event_history_size.to_string(),
    },
    Known {
        name: "engine.dirty-task.pending-incident-ttl",
        expected: "a duration from 1s to 7d, such as 10m",
        set: |settings, text| match duration_ms(text).filter(|ms| (1_000..=7 * DAY_MS).contains(ms))
        {
            Some(ms) => {
                settings.pending_incident_ttl_ms = ms;
                true
            }
            None => false,
        },
        show: |settings| shown_ms(settings.pending_incident_ttl_ms),
    },
    Known {
        name: "member.timeout.ms",
        // Agents are asked for a sign of life every second; of three, two may be late.
        expected: "a whole number from 3000 to 600000",
        set: |settings, text| within(text, 3_000..=600_000, &mut settings.member_timeout_ms),
        show: |settings| settings.member_timeout_ms.to_string(),
    },
    Known {
        name: "member.reconnect.grace.ms",
        expected: "a whole number from 1 to 60000",
        set: |settings, text| within(text, 1..=60_000, &mut settings.reconnect_grace_ms),
        show: |settings| settings.reconnect_grace_ms.to_string(),
    },
    Known {
        name: "member.suspect-self",
        expected: "true or false",
        set: |settings, text| text.parse().map(|is| settings.suspect_self = is).is_ok(),
        show: |settings| settings.suspect_self.to_string(),
    },
];

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 60 * 60_000), ("d", DAY_MS)];

impl Known {
    /// As the environment spells it.
    pub fn variable(&self) -> String {
        let spelled = self.name.chars().map(|c| match c {
            '.' | '-' => '_',
            letter => letter.to_ascii_uppercase(),
        });
        format!("STEADFAST_{}", spelled.collect::<String>())
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Default,
    File(PathBuf, Position),
    Environment(String),
    CommandLine,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(file, at) => write!(f, "{}:{}:{}", file.display(), at.line, at.column),
            Self::Environment(variable) => f.write_str(variable),
            Self::CommandLine => f.write_str("--option"),
        }
    }
}

/// What is in force.
#[derive(Clone, Debug)]
pub struct Options {
    pub settings: Settings,
    sources: [Source; KNOWN.len()],
}

impl Options {
    /// # Errors
    /// A file that is named and cannot be read, or one that is not right; a name that is none, a value that an
    /// option cannot have, one that is given twice; each with its place.
    pub fn load(arguments: &OptionArguments) -> anyhow::Result<Self> {
        Self::of(arguments, Path::new(DEFAULT_FILE), |variable| std::env::var_os(variable))
    }

    fn of(
        arguments: &OptionArguments,
        default_file: &Path,
        variable: impl Fn(&str) -> Option<std::ffi::OsString>,
    ) -> anyhow::Result<Self> {
        let file = match &arguments.conf {
            Some(file) => Some(read(file)?),
            None if default_file.exists() => Some(read(default_file)?),
            None => None,
        };
        let mut given = arguments.by_name()?;
        let mut options =
            Self { settings: Settings::default(), sources: KNOWN.map(|_| Source::Default) };
        for (known, source) in KNOWN.iter().zip(&mut options.sources) {
            let in_file = file.as_ref().and_then(|file| file.get(known.name).cloned());
            let in_file = in_file.map(|(path, at, text)| (Source::File(path, at), text));
            let name = known.variable();
            let in_environment = variable(&name)
                .map(|text| (Source::Environment(name), text.to_string_lossy().into_owned()));
            let on_command_line =
                given.remove(known.name).map(|text| (Source::CommandLine, text.to_owned()));
            // Also what another one outweighs is looked at: a mistake in it would show some day.
            for (from, text) in [in_file, in_environment, on_command_line].into_iter().flatten() {
                let Known { name, expected, .. } = known;
                anyhow::ensure!(
                    (known.set)(&mut options.settings, &text),
                    "{from}: {name}: expected {expected}, found \"{text}\""
                );
                *source = from;
            }
        }
        if let Some(name) = given.keys().next() {
            anyhow::bail!("--option {name}: {}", unknown());
        }
        Ok(options)
    }

    /// Each option with its value and where that came from.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, String, &Source)> {
        let named = KNOWN.iter().map(|known| (known.name, (known.show)(&self.settings)));
        named.zip(&self.sources).map(|((name, value), source)| (name, value, source))
    }
}

impl OptionArguments {
    fn by_name(&self) -> anyhow::Result<BTreeMap<&str, &str>> {
        let mut given = BTreeMap::new();
        for (name, value) in &self.options {
            let twice = given.insert(name.as_str(), value.as_str()).is_some();
            anyhow::ensure!(!twice, "--option {name}=… is given twice; give it once");
        }
        Ok(given)
    }
}

fn unknown() -> String {
    format!("there is no such option; expected one of {}", KNOWN.map(|known| known.name).join(", "))
}

type InFile = BTreeMap<String, (PathBuf, Position, String)>;

/// What stands in a file of options.
fn read(file: &Path) -> anyhow::Result<InFile> {
    let shown = file.display();
    let text =
        std::fs::read(file).with_context(|| format!("cannot read the options in {shown}"))?;
    let mut found = InFile::new();
    let mut problems = match steadfast_hocon::parse(&text)
        .and_then(|document| document.resolve(&BTreeMap::new()))
    {
        Ok(resolved) => {
            let mut problems = Vec::new();
            collect(file, "", &resolved.root, &mut found, &mut problems);
            problems
        }
        Err(problems) => problems,
    };
    problems.sort();
    let lines: Vec<String> =
        problems.iter().map(|problem| format!("\n{}", problem.in_file(file))).collect();
    anyhow::ensure!(lines.is_empty(), "the options in {shown} are refused:{}", lines.concat());
    Ok(found)
}

/// A name with dots can be one quoted key, a path, or objects inside each other.
fn collect(
    file: &Path,
    above: &str,
    object: &Object,
    found: &mut InFile,
    problems: &mut Vec<Problem>,
) {
    for (key, key_at, value) in object.iter() {
        let name = if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") };
        let mut refuse = |message: String| {
            problems.push(Problem { at: key_at, key: Some(name.clone()), message });
        };
        let leads_on = KNOWN.iter().any(|known| {
            known.name.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('.'))
        });
        if let Some(inner) = value.as_object().filter(|_| leads_on) {
            collect(file, &name, inner, found, problems);
        } else if !KNOWN.iter().any(|known| known.name == name) {
            refuse(unknown());
        } else if let Some(text) = text(value) {
            if let Some((_, at, _)) = found.get(&name) {
                refuse(format!("this option is written twice, here and at {at}"));
                continue;
            }
            found.insert(name, (file.to_owned(), value.at, text));
        } else {
            refuse(format!("expected a value, found {}", value.kind.describe()));
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match &value.kind {
        Kind::Bool(value) => Some(value.to_string()),
        Kind::Number(text) | Kind::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn within<T>(text: &str, range: std::ops::RangeInclusive<T>, to: &mut T) -> bool
where
    T: std::str::FromStr + PartialOrd,
{
    match text.parse().ok().filter(|number| range.contains(number)) {
        Some(number) => {
            *to = number;
            true
        }
        None => false,
    }
}

/// `10m`, `90 s`; as HOCON has it, a number alone is milliseconds.
fn duration_ms(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let (_, ms) =
        UNITS.iter().find(|(name, _)| *name == unit || (unit.is_empty() && *name == "ms"))?;
    number.parse::<u64>().ok()?.checked_mul(*ms)
}

/// In the largest unit that holds it exactly.
fn shown_ms(ms: u64) -> String {
    let fits = UNITS.iter().rev().find(|(_, unit)| ms >= *unit && ms.is_multiple_of(*unit));
    fits.map_or_else(|| format!("{ms}ms"), |(name, unit)| format!("{}{name}", ms / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in force with this file, this environment and these flags.
    fn options(
        conf: &str,
        environment: &[(&str, &str)],
        flags: &[(&str, &str)],
    ) -> anyhow::Result<Options> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("steadfast.conf");
        if !conf.is_empty() {
            std::fs::write(&file, conf).unwrap();
        }
        let options = flags.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let arguments = OptionArguments { options, conf: None };
        Options::of(&arguments, &file, |variable| {
            environment.iter().find(|(name, _)| *name == variable).map(|(_, value)| value.into())
        })
    }

    const SIZE: &str = "engine.dirty-task.event-history-size";
    const TTL: &str = "engine.dirty-task.pending-incident-ttl";

    #[test]
    fn without_anything_the_defaults_are_those_of_the_proposal() {
        let options = options("", &[], &[]).unwrap();
        let shown: Vec<_> = options.iter().map(|(name, value, _)| (name, value)).collect();
        assert_eq!(shown[0], (SIZE, "10".to_owned()));
        assert_eq!(shown[1], (TTL, "10m".to_owned()));
        assert_eq!(options.settings, Settings::default());
        assert!(options.iter().all(|(.., source)| *source == Source::Default));
    }

    #[test]
    fn flags_outweigh_the_environment_and_that_the_file() {
        let conf = "engine { dirty-task { event-history-size = 3, pending-incident-ttl = 2h } }\n\
                    member.timeout.ms = 9000\n\"member.suspect-self\" = false";
        let environment = [
            ("STEADFAST_ENGINE_DIRTY_TASK_EVENT_HISTORY_SIZE", "4"),
            ("STEADFAST_MEMBER_TIMEOUT_MS", "8000"),
        ];
        let options = options(conf, &environment, &[(SIZE, "5")]).unwrap();
        let Settings { event_history_size, pending_incident_ttl_ms, .. } = options.settings;
        assert_eq!((event_history_size, pending_incident_ttl_ms), (5, 2 * 60 * 60_000));
        let Settings { member_timeout_ms, reconnect_grace_ms, suspect_self, .. } = options.settings;
        assert_eq!((member_timeout_ms, reconnect_grace_ms, suspect_self), (8_000, 300, false));
        let sources: Vec<String> = options.iter().map(|(.., source)| source.to_string()).collect();
        assert_eq!(sources[0], "--option");
        assert!(sources[1].ends_with("steadfast.conf:1:70"), "{sources:?}");
        assert_eq!(sources[2..4], ["STEADFAST_MEMBER_TIMEOUT_MS", "default"]);
        assert!(sources[4].ends_with("steadfast.conf:3:25"), "{sources:?}");
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        let file = |conf: &str| format!("{:#}", options(conf, &[], &[]).unwrap_err());
        for (conf, complaint) in [
            ("engine.dirty-task.event-history-size = 0", "steadfast.conf:1:40: engine.dirty-task"),
            ("engine.dirty-task.event-history-size = 21", "from 1 to 20, found \"21\""),
            ("engine.dirty-task.pending-incident-ttl = 10 min", "a duration"),
            ("engine.dirty-task.pending-incident-ttl = 999", "a duration"),
            ("engine.dirty-task.pending-incident-ttl = 8d", "a duration"),
            (
                "engine { dirty-task { event-history = 3 } }",
                "steadfast.conf:1:23: engine.dirty-task",
            ),
            ("engine = 3", "there is no such option"),
            ("member { timeout { ms = {} } }", "expected a value, found an object"),
            ("member.timeout.ms = 3000\n\"member.timeout.ms\" = 4000", "written twice"),
            ("member.suspect-self = yes", "expected true or false, found \"yes\""),
            ("member.timeout.ms =", "steadfast.conf:1:"),
        ] {
            assert!(file(conf).contains(complaint), "{conf}: {}", file(conf));
        }
        let refused = options("", &[("STEADFAST_MEMBER_TIMEOUT_MS", "2s")], &[]).unwrap_err();
        assert!(refused.to_string().starts_with("STEADFAST_MEMBER_TIMEOUT_MS: member.timeout.ms"));
        let refused = options("", &[], &[("member.timeout", "1")]).unwrap_err();
        assert!(refused.to_string().contains("--option member.timeout: there is no such option"));
        let refused = options("", &[], &[(SIZE, "1"), (SIZE, "2")]).unwrap_err();
        assert!(refused.to_string().contains("given twice"));
        // What a flag outweighs is no less wrong.
        assert!(options("member.timeout.ms = 1", &[], &[("member.timeout.ms", "5000")]).is_err());
    }

    #[test]
    fn a_file_that_is_named_must_be_there() {
        let arguments = OptionArguments { options: Vec::new(), conf: Some("/nowhere.conf".into()) };
        let refused = Options::load(&arguments).unwrap_err();
        assert!(format!("{refused:#}").contains("cannot read the options in /nowhere.conf"));
    }

    #[test]
    fn durations_are_read_and_shown_in_their_units() {
        for (text, ms) in [
            ("600000", 600_000),
            ("90 s", 90_000),
            ("10m", 600_000),
            ("1d", DAY_MS),
            ("1500ms", 1_500),
        ] {
            assert_eq!(duration_ms(text), Some(ms), "{text}");
        }
        for text in ["", "m", "-1s", "1.5h", "10 minutes", "99999999999999999999d"] {
            assert_eq!(duration_ms(text), None, "{text}");
        }
        assert_eq!(shown_ms(600_000), "10m");
        assert_eq!(shown_ms(1_500), "1500ms");
    }
}
