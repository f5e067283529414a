//! What a container is told by its environment (03), read once.

use std::str::FromStr;

use steadfast_model::{ExecutionId, LeaseTerms, ValidatorKind};

/// Who the container is, whom it asks, and what one "yes" is worth.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// `EXECUTION_RESOURCE_ID`.
    pub execution_resource_id: ExecutionId,
    /// `STEADFAST_CONTAINER_SECRET`.
    pub secret: String,
    /// `STEADFAST_COORDINATORS`: base URLs, comma-separated, at least one.
    pub coordinators: Vec<String>,
    /// `STEADFAST_LEASE_MS`, `STEADFAST_GRACE_MS`, `STEADFAST_SCHEDULE_MS`.
    pub lease: LeaseTerms,
    /// `STEADFAST_VALIDATOR_ENABLED`, true where it is not set. False: nobody is asked, there is no
    /// lease, and two copies may run.
    pub validator_enabled: bool,
    /// `STEADFAST_VALIDATOR`, `wrapper` where it is not set. `library`: the program holds a lease itself,
    /// shuts itself down, and a wrapper around it sends no SIGTERM, only the last SIGKILL.
    pub validator: ValidatorKind,
}

/// An environment that is not a container's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A variable is not set.
    #[error("{0} is not set: a container gets it from its agent")]
    Missing(&'static str),
    /// A variable has a value that cannot be.
    #[error("{name} is \"{value}\": {expected}")]
    Malformed {
        /// Its name.
        name: &'static str,
        /// Its value, shortened.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// `lease − grace − margin` leaves no time to run.
    #[error(
        "a lease of {} ms with a grace of {} ms and a margin of {} ms leaves no time to run",
        .0.lease_ms, .0.grace_ms, .0.margin_ms()
    )]
    NoTimeToRun(LeaseTerms),
}

impl Settings {
    /// Reads the process's own environment.
    ///
    /// # Errors
    /// Names the first variable that is missing or malformed.
    pub fn from_env() -> Result<Self, SettingsError> {
        // A value that is not UTF-8 is no value of ours.
        Self::read(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn read(variable: impl Fn(&'static str) -> Option<String>) -> Result<Self, SettingsError> {
        let text = |name| variable(name).ok_or(SettingsError::Missing(name));
        let ms = |name| parse::<u64>(name, &text(name)?, "milliseconds, a whole number");
        let id = "EXECUTION_RESOURCE_ID";
        let enabled = "STEADFAST_VALIDATOR_ENABLED";
        let coordinators: Vec<String> = text("STEADFAST_COORDINATORS")?
            .split(',')
            .map(|url| url.trim().trim_end_matches('/').to_owned())
            .filter(|url| !url.is_empty())
            .collect();
        if coordinators.is_empty() {
            return Err(SettingsError::Missing("STEADFAST_COORDINATORS"));
        }
        let lease = LeaseTerms {
            lease_ms: ms("STEADFAST_LEASE_MS")?,
            grace_ms: ms("STEADFAST_GRACE_MS")?,
            schedule_ms: ms("STEADFAST_SCHEDULE_MS")?,
        };
        if lease.stop_after_ms() == 0 {
            return Err(SettingsError::NoTimeToRun(lease));
        }
        Ok(Self {
            execution_resource_id: parse(id, &text(id)?, "an execution resource id")?,
            secret: text("STEADFAST_CONTAINER_SECRET")?,
            coordinators,
            lease,
            validator_enabled: match variable(enabled) {
                None => true,
                Some(value) => parse(enabled, &value, "true or false")?,
            },
            validator: match variable("STEADFAST_VALIDATOR") {
                None => ValidatorKind::Wrapper,
                Some(value) => parse("STEADFAST_VALIDATOR", &value, "wrapper or library")?,
            },
        })
    }
}

/// The secret stays out of logs.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            execution_resource_id,
            secret: _,
            coordinators,
            lease,
            validator_enabled,
            validator,
        } = self;
        f.debug_struct("Settings")
            .field("execution_resource_id", execution_resource_id)
            .field("coordinators", coordinators)
            .field("lease", lease)
            .field("validator_enabled", validator_enabled)
            .field("validator", validator)
            .finish_non_exhaustive()
    }
}

fn parse<T: FromStr>(
    name: &'static str,
    value: &str,
    expected: &'static str,
) -> Result<T, SettingsError> {
    value.parse().map_err(|_| {
        let value = value.chars().take(80).collect();
        SettingsError::Malformed { name, value, expected }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn environment() -> BTreeMap<&'static str, &'static str> {
        BTreeMap::from([
            ("EXECUTION_RESOURCE_ID", "container_00000000000000ab_7"),
            ("STEADFAST_CONTAINER_SECRET", "hidden-value"),
            ("STEADFAST_COORDINATORS", "http://127.0.0.1:1/, http://127.0.0.1:2,"),
            ("STEADFAST_LEASE_MS", "15000"),
            ("STEADFAST_GRACE_MS", "5000"),
            ("STEADFAST_SCHEDULE_MS", "1000"),
        ])
    }

    fn read(environment: &BTreeMap<&'static str, &'static str>) -> Result<Settings, SettingsError> {
        Settings::read(|name| environment.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn reads_what_an_agent_sets() {
        let settings = read(&environment()).unwrap();
        assert_eq!(settings.coordinators, ["http://127.0.0.1:1", "http://127.0.0.1:2"]);
        assert_eq!(settings.lease.kill_after_ms(), 14_600);
        assert!(settings.validator_enabled);
        assert!(!format!("{settings:?}").contains("hidden-value"));
    }

    #[test]
    fn every_variable_is_missed_by_name() {
        for name in environment().keys() {
            let mut environment = environment();
            environment.remove(name);
            assert_eq!(read(&environment), Err(SettingsError::Missing(name)));
        }
    }

    #[test]
    fn a_malformed_value_is_named_with_what_it_should_be() {
        for (name, value) in [
            ("EXECUTION_RESOURCE_ID", "somebody&else"),
            ("STEADFAST_LEASE_MS", "15s"),
            ("STEADFAST_VALIDATOR_ENABLED", "no"),
            ("STEADFAST_VALIDATOR", "samza"),
        ] {
            let mut environment = environment();
            environment.insert(name, value);
            let error = read(&environment).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }

    #[test]
    fn a_lease_without_time_to_run_is_refused() {
        let mut environment = environment();
        // m = 100 + 2 % of 5,102 = 202, so L − G − m would be negative.
        environment.insert("STEADFAST_LEASE_MS", "5102");
        assert!(matches!(read(&environment), Err(SettingsError::NoTimeToRun(_))));
    }
}
