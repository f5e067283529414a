//! The decisions: membership, jobs, pipelines, restore, leases.
