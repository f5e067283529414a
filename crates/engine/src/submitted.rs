//! What was submitted, as the versions of a job's record share it.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use steadfast_model::JobSpec;

/// A job's spec, which never changes. Every version of the job's record has the same one, so it is shared;
/// and since each version is stored whole, its JSON is made once and not with each commit.
#[derive(Clone, Debug)]
pub struct SubmittedSpec(Arc<Submitted>);

#[derive(Debug)]
struct Submitted {
    spec: JobSpec,
    /// `spec`, as JSON. Only JSON knows what a [`RawValue`] is, and records are stored as nothing else.
    json: Box<RawValue>,
}

impl SubmittedSpec {
    fn new(spec: JobSpec) -> serde_json::Result<Self> {
        let json = serde_json::value::to_raw_value(&spec)?;
        Ok(Self(Arc::new(Submitted { spec, json })))
    }
}

impl From<JobSpec> for SubmittedSpec {
    fn from(spec: JobSpec) -> Self {
        Self::new(spec).expect("a spec has no map whose keys are not strings, so it can be JSON")
    }
}

impl Deref for SubmittedSpec {
    type Target = JobSpec;

    fn deref(&self) -> &JobSpec {
        &self.0.spec
    }
}

impl PartialEq for SubmittedSpec {
    fn eq(&self, other: &Self) -> bool {
        self.0.spec == other.0.spec
    }
}

impl Eq for SubmittedSpec {}

impl Serialize for SubmittedSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SubmittedSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spec = JobSpec::deserialize(deserializer)?;
        Self::new(spec).map_err(serde::de::Error::custom)
    }
}
