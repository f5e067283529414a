//! Which coordinators there are and who of them leads, as this one knows: what it tells whoever asks it and
//! should ask, or know of, another.
//!
//! The list is made when something of it changes, not when somebody asks: every "yes" carries it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use steadfast_store::{LeaderInfo, Rev};

/// The coordinators of one cluster, as one of them sees them.
pub(crate) struct Coordinators {
    /// Its own base URL, first, and what else it was started with.
    configured: Vec<String>,
    known: Mutex<Known>,
    /// Another one, which leads.
    leader: ArcSwapOption<LeaderInfo>,
    urls: ArcSwap<Vec<String>>,
    rev: AtomicU64,
}

#[derive(Default)]
struct Known {
    announced: Vec<String>,
    leads_itself: bool,
}

impl Coordinators {
    /// `configured`: its own base URL first.
    pub fn new(configured: Vec<String>) -> Self {
        Self {
            known: Mutex::default(),
            leader: ArcSwapOption::empty(),
            urls: ArcSwap::from_pointee(configured.clone()),
            rev: AtomicU64::new(0),
            configured,
        }
    }

    /// Base URLs of all that are known: whoever leads first, then the others in an order that is the same
    /// everywhere, so that whoever goes from one list to the next gets round.
    pub fn urls(&self) -> Arc<Vec<String>> {
        self.urls.load_full()
    }

    /// This one's own base URL.
    pub fn own_url(&self) -> &str {
        self.configured.first().map_or("", String::as_str)
    }

    /// Who leads, if it is another one.
    pub fn leader(&self) -> Option<Arc<LeaderInfo>> {
        self.leader.load_full()
    }

    /// The last commit that this one's copy of the state holds.
    pub fn rev(&self) -> Rev {
        Rev(self.rev.load(Ordering::Acquire))
    }

    /// What a commit, of this one or of another, has led to.
    pub fn note_rev(&self, rev: Rev) {
        self.rev.store(rev.0, Ordering::Release);
    }

    /// Another one leads, or none that is known. A record with this one's own URL is left from its last
    /// life: sending anybody there would be a circle.
    pub fn note_leader(&self, leader: Option<LeaderInfo>) {
        let leader = leader.filter(|leader| leader.url != self.own_url());
        self.leader.store(leader.map(Arc::new));
        self.list(|known| known.leads_itself = false);
    }

    /// This one leads.
    pub fn note_leads_itself(&self) {
        self.leader.store(None);
        self.list(|known| known.leads_itself = true);
    }

    /// These are there now, this one among them or not.
    pub fn note_announced(&self, urls: Vec<String>) {
        self.list(|known| known.announced = urls);
    }

    fn list(&self, change: impl FnOnce(&mut Known)) {
        let mut known = self.known.lock();
        change(&mut known);
        let leader = self.leader.load_full().map(|leader| leader.url.clone());
        let leader = leader.or_else(|| known.leads_itself.then(|| self.own_url().to_owned()));
        let mut urls: Vec<String> =
            self.configured.iter().chain(&known.announced).cloned().collect();
        urls.extend(leader.clone());
        urls.sort_unstable_by_key(|url| (Some(url) != leader.as_ref(), url.clone()));
        urls.dedup();
        // Within the lock: of two who list at once, the later one knows everything.
        self.urls.store(Arc::new(urls));
    }
}

#[cfg(test)]
mod tests {
    use steadfast_store::conformance::samples;

    use super::*;

    fn known(own: &[&str]) -> Coordinators {
        Coordinators::new(own.iter().map(|url| (*url).to_owned()).collect())
    }

    fn leader(url: &str) -> Option<LeaderInfo> {
        Some(LeaderInfo { url: url.to_owned(), ..samples::leader(1) })
    }

    #[test]
    fn the_leader_comes_first_and_nobody_twice() {
        let coordinators = known(&["a"]);
        assert_eq!(*coordinators.urls(), ["a"]);
        coordinators.note_announced(["a", "b", "c"].map(str::to_owned).into());
        assert_eq!(*coordinators.urls(), ["a", "b", "c"]);
        coordinators.note_leader(leader("c"));
        assert_eq!(*coordinators.urls(), ["c", "a", "b"]);
        coordinators.note_announced(vec!["b".to_owned()]);
        assert_eq!(*coordinators.urls(), ["c", "a", "b"], "it leads, so it is there");
        coordinators.note_leader(None);
        assert_eq!(*coordinators.urls(), ["a", "b"]);
    }

    #[test]
    fn only_the_leaders_place_depends_on_who_lists() {
        let [b, c] = ["b", "c"].map(|own| known(&[own]));
        for coordinators in [&b, &c] {
            coordinators.note_announced(["a", "b", "c"].map(str::to_owned).into());
            coordinators.note_leader(leader("a"));
        }
        assert_eq!(b.urls(), c.urls());
        b.note_leads_itself();
        c.note_leader(leader("b"));
        assert_eq!((b.urls(), b.leader().is_none()), (c.urls(), true));
        assert_eq!(*b.urls(), ["b", "a", "c"]);
    }

    #[test]
    fn nobody_is_sent_to_the_coordinator_that_sends() {
        let coordinators = known(&["a", "b"]);
        coordinators.note_leader(leader("a"));
        assert!(coordinators.leader().is_none());
        coordinators.note_leader(leader("b"));
        assert_eq!(coordinators.leader().map(|leader| leader.url.clone()).as_deref(), Some("b"));
    }
}
