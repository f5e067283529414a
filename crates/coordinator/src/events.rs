//! What readers of `/events` are told: the differences between one published view and the next.
//!
//! They are worked out only while somebody reads. What is kept for slow readers is bounded, for all of them
//! together: whoever falls behind further than that is told so, and begins anew with a snapshot. So nothing
//! here can hold up the loop, and a reader that has a snapshot and all events behind it has the view.

use std::sync::Arc;

use parking_lot::Mutex;
use steadfast_api::Event;
use tokio::sync::broadcast;

/// Publications that a reader may be behind.
const KEPT: usize = 256;
/// Events of one publication; more of them would be more than a snapshot.
const MOST_AT_ONCE: usize = 1_024;

/// What one publication has changed.
pub(crate) struct Published {
    /// Which; a view says how many there were before it.
    pub number: u64,
    /// `None`: it was not worked out, or is too much. Look at the view.
    pub events: Option<Vec<Event>>,
}

/// The events of a term.
pub(crate) struct Feed(Mutex<Option<broadcast::Sender<Arc<Published>>>>);

impl Feed {
    pub fn new() -> Self {
        Self(Mutex::new(Some(broadcast::Sender::new(KEPT))))
    }

    /// Whether anybody reads.
    pub fn is_read(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|sender| sender.receiver_count() > 0)
    }

    /// Everything from now on; `None` when the term is over. Look at the view after this, not before.
    pub fn subscribe(&self) -> Option<broadcast::Receiver<Arc<Published>>> {
        self.0.lock().as_ref().map(broadcast::Sender::subscribe)
    }

    /// Tells everybody who reads.
    pub fn tell(&self, number: u64, events: Option<Vec<Event>>) {
        let events = events.filter(|events| events.len() <= MOST_AT_ONCE);
        if events.as_ref().is_none_or(|events| !events.is_empty())
            && let Some(sender) = &*self.0.lock()
        {
            // The last reader may have gone.
            let _ = sender.send(Arc::new(Published { number, events }));
        }
    }

    /// The term is over: readers are told what there is, and then this.
    pub fn close(&self) {
        self.0.lock().take();
    }
}
