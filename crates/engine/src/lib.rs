//! The decisions: membership, jobs, pipelines, restore, leases.
pub mod input;
pub mod records;
pub mod step;
