//! The durable store: what a coordinator has acknowledged is in here, whoever dies.
//!
//! The engine keeps its state in memory and needs no point reads, so the store is its log: one task
//! leads, collects what is queued, and commits it as one transaction. Two traits say what every engine
//! below must do, [`Store`] and [`Term`]; [`MemoryStore`] serves tests and the simulator, [`Embedded`]
//! one machine, `EtcdStore` (feature `etcd`) coordinators on several. They share one mapping of records to keys and one conformance suite, and no notion of
//! any one engine appears in the traits.
//!
//! ```text
//! Step ─ ops_of ─▶ [Op] ─ mapping ─▶ Batch of keys and values ─ compare the head, write ─▶ durable
//! ```
//!
//! A commit has three outcomes besides success, and the caller must tell them apart: not applied (try
//! again, or isolate the job), fenced (step down), unknown (step down and load again).

mod batch;
pub mod conformance;
pub mod copy;
mod embedded;
#[cfg(feature = "etcd")]
mod etcd;
mod history;
mod keys;
mod mark;
mod memory;
mod ops;
mod random;
mod records;
mod standby;
mod store;
mod table;
mod tenure;
mod transaction;

pub use embedded::Embedded;
#[cfg(feature = "etcd")]
pub use etcd::{EtcdLocation, EtcdStore, LocationError};
pub use history::{HistoryCursor, HistoryEntry, HistoryPage, HistorySummary};
pub use keys::Kind;
pub use memory::{Fault, MemoryStore};
pub use ops::{Op, ops_of};
pub use standby::{Missed, Standby};
pub use store::{
    CheckpointError, CheckpointGuard, CommitError, LeaderInfo, Limits, Loaded,
    MAX_CHECKPOINT_BYTES, Refusal, Rev, SecretKey, Store, StoreError, Term,
};
pub use tenure::Tenure;
