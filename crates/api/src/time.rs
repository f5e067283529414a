//! Times on the wire: RFC 3339 with an offset.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use steadfast_model::Timestamp;

/// An instant that reads and prints as RFC 3339 with milliseconds, always in UTC (`…Z`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WireTime(Timestamp);

/// A text that is no RFC 3339 time, or lies before 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseTimeError(String);

impl fmt::Display for ParseTimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an RFC 3339 time from 1970 on: {}", self.0)
    }
}

impl std::error::Error for ParseTimeError {}

impl WireTime {
    /// The instant as the core knows it.
    pub const fn timestamp(self) -> Timestamp {
        self.0
    }
}

impl From<Timestamp> for WireTime {
    fn from(timestamp: Timestamp) -> Self {
        Self(timestamp)
    }
}

impl fmt::Display for WireTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX);
        // An instant beyond the calendar can only come from a corrupted record; it still has to print.
        match jiff::Timestamp::from_millisecond(millis) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{}", jiff::Timestamp::MAX),
        }
    }
}

impl FromStr for WireTime {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        let refused = || ParseTimeError(text.chars().take(80).collect());
        let time: jiff::Timestamp = text.parse().map_err(|_| refused())?;
        let millis = u64::try_from(time.as_millisecond()).map_err(|_| refused())?;
        Ok(Self(Timestamp::from_millis(millis)))
    }
}

impl Serialize for WireTime {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WireTime {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_milliseconds_and_reads_any_offset() {
        let time = WireTime::from(Timestamp::from_millis(1_786_500_000_120));
        assert_eq!(time.to_string(), "2026-08-12T02:00:00.120Z");
        assert_eq!("2026-08-12T04:00:00.12+02:00".parse(), Ok(time));
        assert!("yesterday".parse::<WireTime>().is_err());
    }
}
