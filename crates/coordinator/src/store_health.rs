//! What keeps the store from taking what has to be written, if anything: said wherever somebody looks.
//!
//! A store that is full, or that nobody can reach, is no reason to give up: the loop, or the candidate, tries
//! again until it can. Meanwhile it is noted here, once when it begins and once when it is over, and read by
//! health, `/overview`, the metrics, and whoever wants something recorded.

use steadfast_api::{StoreStatus, StoreTrouble};
use steadfast_store::StoreError;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::clock::Clock;

/// What to do about a full store, in one sentence for everybody who meets it.
const FULL: &str = "the store is full, so nothing can be recorded or decided; what runs goes on. Make room: on \
                    the disk, or in etcd by compacting and defragmenting it or raising its quota, and \
                    disarm its alarm";

/// The store, as this coordinator meets it.
pub(crate) struct StoreHealth(watch::Sender<Option<StoreTrouble>>);

impl StoreHealth {
    pub fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Why nothing can be recorded; `None` as far as is known.
    pub fn trouble(&self) -> Option<StoreTrouble> {
        self.0.borrow().clone()
    }

    /// The sentence for whoever wants something recorded while the store is full.
    pub fn full(&self) -> Option<String> {
        self.trouble().filter(|trouble| trouble.status == StoreStatus::Full).map(|it| it.message)
    }

    /// Until the store is full.
    pub async fn until_full(&self) {
        let is_full = |trouble: &Option<StoreTrouble>| {
            trouble.as_ref().is_some_and(|trouble| trouble.status == StoreStatus::Full)
        };
        // Nobody drops the sender while this is borrowed. What it gives locks the channel.
        drop(self.0.subscribe().wait_for(is_full).await);
    }

    /// It has no room.
    pub fn note_full(&self) {
        self.note(StoreStatus::Full, FULL.to_owned());
    }

    /// Waiting may mend this error of leading, loading or following; every other one is given back.
    ///
    /// # Errors
    /// What does not mend itself.
    pub fn note_error(&self, error: StoreError) -> Result<(), StoreError> {
        match error {
            StoreError::Full => self.note_full(),
            StoreError::Unavailable(_) => {
                let message = format!("{error}; it is asked again until it answers");
                self.note(StoreStatus::Unavailable, message);
            }
            other => return Err(other),
        }
        Ok(())
    }

    /// It took what had to be written, or others lead and write.
    pub fn note_well(&self) {
        if self.0.send_if_modified(|trouble| trouble.take().is_some()) {
            info!("the store takes writes again");
        }
    }

    fn note(&self, status: StoreStatus, message: String) {
        self.0.send_if_modified(|trouble| {
            let since = match trouble {
                Some(known) if known.status == status => known.since,
                _ => {
                    warn!("{message}");
                    Clock::start().now().into()
                }
            };
            let now = Some(StoreTrouble { status, since, message });
            let changed = *trouble != now;
            *trouble = now;
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_since_when_and_what_waiting_cannot_mend_is_given_back() {
        let health = StoreHealth::new();
        assert_eq!((health.trouble(), health.full()), (None, None));
        health.note_error(StoreError::Unavailable("no node".to_owned())).unwrap();
        let first = health.trouble().unwrap();
        assert!(first.message.contains("no node"), "{first:?}");
        assert_eq!((first.status, health.full()), (StoreStatus::Unavailable, None));
        health.note_error(StoreError::Unavailable("another".to_owned())).unwrap();
        let second = health.trouble().unwrap();
        assert_eq!(second.since, first.since, "it has been away since then");
        assert!(second.message.contains("another"), "{second:?}");
        health.note_error(StoreError::Full).unwrap();
        assert!(health.full().is_some());
        let denied = StoreError::Denied("no".to_owned());
        assert_eq!(health.note_error(denied.clone()), Err(denied));
        health.note_well();
        assert_eq!(health.trouble(), None);
    }
}
