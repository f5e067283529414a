//! What steadfast tells a container about itself, through its environment.

use std::env;

use anyhow::{Context, Result, bail, ensure};

/// Who this process is. A program gets all of it from steadfast and needs no settings of its own.
#[derive(Debug, Clone)]
pub struct Container {
    /// Which of the task's task groups this is, from 0.
    pub task_index: u64,
    /// How many task groups the task has; at least 1.
    pub task_count: u64,
    /// The how-many-th deployment this is, from 1.
    pub attempt: u64,
    /// Names this one run of this one task group; never used again.
    pub execution_resource_id: String,
    /// Base URLs without a `/` at the end, never empty. Any of them may be the active coordinator.
    pub coordinators: Vec<String>,
    /// Opens this container's checkpoint and nothing else.
    pub secret: String,
}

impl Container {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// If a variable is missing (all of them are named at once) or makes no sense.
    pub fn from_env() -> Result<Self> {
        Self::read(|name| env::var(name).ok())
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let names = [
            "STEADFAST_TASK_INDEX",
            "STEADFAST_TASK_COUNT",
            "STEADFAST_ATTEMPT",
            "EXECUTION_RESOURCE_ID",
            "STEADFAST_COORDINATORS",
            "STEADFAST_CONTAINER_SECRET",
        ];
        let values = names.map(|name| variable(name).unwrap_or_default());
        let missing: Vec<&str> = names
            .iter()
            .zip(&values)
            .filter(|(_, value)| value.is_empty())
            .map(|(n, _)| *n)
            .collect();
        if !missing.is_empty() {
            bail!(
                "{} not set: this program is not started by hand but by steadfast, as a container \
                 of a job. Try `steadfast dev --submit examples/wordcount.conf --set \
                 INPUT=\"$PWD/FILE\" --set OUTPUT=\"$PWD/FOLDER\"`",
                missing.join(", ")
            );
        }
        let [index, count, attempt, execution_resource_id, coordinators, secret] = values;
        let number = |name: &str, text: &str| {
            text.parse::<u64>().with_context(|| format!("{name} is {text:?}, not a number"))
        };
        let task_index = number(names[0], &index)?;
        let task_count = number(names[1], &count)?;
        let attempt = number(names[2], &attempt)?;
        ensure!(
            task_index < task_count,
            "STEADFAST_TASK_INDEX is {task_index}, which is not below STEADFAST_TASK_COUNT, \
             {task_count}"
        );
        let coordinators = base_urls(&coordinators)?;
        Ok(Self { task_index, task_count, attempt, execution_resource_id, coordinators, secret })
    }
}

fn base_urls(list: &str) -> Result<Vec<String>> {
    let urls: Vec<String> = list
        .split(',')
        .map(|url| url.trim().trim_end_matches('/').to_owned())
        .filter(|url| !url.is_empty())
        .collect();
    ensure!(!urls.is_empty(), "STEADFAST_COORDINATORS is {list:?}, which names no coordinator");
    if let Some(url) = urls.iter().find(|url| !url.starts_with("http://")) {
        bail!("STEADFAST_COORDINATORS has {url:?}; this program speaks http:// only");
    }
    Ok(urls)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(change: (&str, &str)) -> Result<Container> {
        Container::read(|name| {
            if name == change.0 {
                return Some(change.1.to_owned());
            }
            let value = match name {
                "STEADFAST_TASK_INDEX" => "1",
                "STEADFAST_TASK_COUNT" => "4",
                "STEADFAST_ATTEMPT" => "2",
                "EXECUTION_RESOURCE_ID" => "e-1",
                "STEADFAST_COORDINATORS" => "http://127.0.0.1:1/, http://127.0.0.1:2,",
                "STEADFAST_CONTAINER_SECRET" => "s",
                _ => return None,
            };
            Some(value.to_owned())
        })
    }

    #[test]
    fn the_environment_is_read_as_steadfast_writes_it() {
        let container = read(("", "")).unwrap();
        assert_eq!((container.task_index, container.task_count, container.attempt), (1, 4, 2));
        assert_eq!(container.coordinators, ["http://127.0.0.1:1", "http://127.0.0.1:2"]);
    }

    #[test]
    fn everything_that_is_missing_is_named_at_once() {
        let error = Container::read(|_| None).unwrap_err().to_string();
        for name in ["STEADFAST_TASK_INDEX", "EXECUTION_RESOURCE_ID", "STEADFAST_CONTAINER_SECRET"]
        {
            assert!(error.contains(name), "{error}");
        }
        assert!(error.contains("by steadfast"), "{error}");
    }

    #[test]
    fn values_that_make_no_sense_are_refused_by_name() {
        for (name, value) in [
            ("STEADFAST_TASK_INDEX", "4"),
            ("STEADFAST_TASK_INDEX", "-1"),
            ("STEADFAST_TASK_COUNT", "0"),
            ("STEADFAST_ATTEMPT", "first"),
            ("STEADFAST_COORDINATORS", " , "),
            ("STEADFAST_COORDINATORS", "127.0.0.1:8080"),
        ] {
            let error = format!("{:#}", read((name, value)).unwrap_err());
            assert!(error.contains(name), "{name}={value}: {error}");
        }
    }
}
