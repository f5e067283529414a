//! What the exhaustive tests share: one job of two pipelines with one task group each, its members, and
//! a reference that was written from the proposal's text.

// Each test takes what it needs.
#![allow(dead_code)]

pub mod cluster;
pub mod reference;

use std::collections::BTreeMap;

use steadfast_engine::Settings;
use steadfast_engine::records::MemberRecord;
use steadfast_model::{
    ContainerPolicy, FEATURE_LEVEL, JobMode, JobSpec, LeaseTerms, MemberUuid, PipelineSpec,
    RetryPolicy, Timestamp,
};
use steadfast_sim::task;

/// Attempts that make the job dirty.
pub const THRESHOLD: u64 = 2;

/// When everything happens: nothing here waits for time to pass, so nothing depends on it.
pub const BEGIN: Timestamp = Timestamp::from_millis(1_000_000);

/// Nobody is lost by silence and nothing is forgotten: who is lost says so, or is said to be.
pub fn settings() -> Settings {
    const NEVER_MS: u64 = 1 << 40;
    Settings {
        member_timeout_ms: NEVER_MS,
        suspect_self: false,
        pending_incident_ttl_ms: NEVER_MS,
        lost_listed_ms: NEVER_MS,
        ..Settings::default()
    }
}

/// The job, which gives up the promise of one valid container: leases are time, and time is not what
/// these tests are about.
pub fn job(retries: u32) -> JobSpec {
    JobSpec {
        name: "small".to_owned(),
        mode: JobMode::Streaming,
        retry: RetryPolicy {
            times: retries,
            count_member_loss: true,
            reset_after_minutes: 0,
            interval_seconds: 0,
        },
        dirty_threshold: THRESHOLD as i64,
        container: ContainerPolicy {
            validator_enabled: false,
            lease: LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 },
            samza: false,
        },
        pipelines: vec![pipeline("left"), pipeline("right")],
    }
}

fn pipeline(name: &str) -> PipelineSpec {
    PipelineSpec { name: name.to_owned(), member_tags: BTreeMap::new(), tasks: vec![task()] }
}

/// The members' names in order: where slots are equal, the lower one is taken first.
pub fn member(number: u64) -> MemberUuid {
    let text = format!("00000000-0000-4000-8000-{number:012x}");
    text.parse().unwrap_or_else(|error| unreachable!("twelve hex digits make a UUID: {error}"))
}

/// What a member says of itself. Any one of them can hold the whole job.
pub fn member_record(uuid: MemberUuid) -> MemberRecord {
    MemberRecord {
        uuid,
        host: "host".to_owned(),
        address: "10.0.0.1:5801".to_owned(),
        pid: 1,
        slots: 2,
        tags: BTreeMap::new(),
        version: "small".to_owned(),
        feature_level: FEATURE_LEVEL,
        registered: Timestamp::default(),
        lost: None,
        draining: false,
    }
}
