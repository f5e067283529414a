//! What every store must do, as code: each engine's tests run [`suite`].
//!
//! It knows only the traits, and a [`Place`] where a store can be opened again and damaged. A case that
//! does not hold panics; the message names it.

mod cases;
pub mod copying;
mod damage;
mod operators;
pub mod samples;
mod standbys;

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{Fault, Store};

/// Where a store lies, beyond the life of a handle on it.
#[async_trait]
pub trait Place: Send + Sync {
    /// Opens the store. The suite drops every earlier handle and term before.
    async fn open(&self) -> Arc<dyn Store>;

    /// Puts bytes under a key past every guard, as damage or a newer version would.
    async fn plant(&self, key: &str, value: &[u8]);

    /// Makes the next commit fail so; false where this engine cannot be made to.
    fn inject(&self, fault: Fault) -> bool;
}

type Outcome = Pin<Box<dyn Future<Output = ()> + Send>>;
type Case = (&'static str, fn(Arc<dyn Place>) -> Outcome);

/// Runs every case, each at a place of its own that `fresh` makes. Needs a Tokio runtime.
///
/// # Panics
/// When a case does not hold.
pub async fn suite(mut fresh: impl FnMut() -> Arc<dyn Place>) {
    for (name, case) in
        [cases::ALL, damage::ALL, operators::ALL, standbys::ALL].into_iter().flatten()
    {
        let outcome = tokio::spawn(case(fresh())).await;
        assert!(outcome.is_ok(), "the store does not conform: {name}");
    }
}
