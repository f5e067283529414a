//! The door for the bench of takeovers: an agent's way to whichever coordinator leads, with its order of
//! attempts and its pauses, and no agent behind it. Compiled only for the bench.

use std::hash::{BuildHasher, Hasher, RandomState};

use steadfast_api::{FromAgent, ToAgent};
use steadfast_client::BaseUrl;

use crate::Timings;
use crate::connection::{Link, LinkEvent, Route};

/// A connection that is opened anew whenever it is gone.
pub struct Line {
    route: Route,
    link: Option<Link>,
}

/// What happens on it.
pub enum Heard {
    /// It is open: say hello.
    Up,
    /// A coordinator says this.
    Message(ToAgent),
    /// It is gone.
    Down,
}

impl Line {
    /// A line to whichever of these coordinators, at least one, leads.
    pub fn new(coordinators: Vec<BaseUrl>) -> Self {
        Self { route: Route::new(coordinators), link: None }
    }

    /// What happens next. May be dropped and asked again at any time.
    pub async fn heard(&mut self) -> Heard {
        let Self { route, link } = self;
        let link = link.get_or_insert_with(|| {
            let jitter = RandomState::new().build_hasher().finish();
            let (url, delay) = route.attempt(jitter);
            Link::open(url, None, delay, Timings::default().silence)
        });
        match link.event().await {
            LinkEvent::Up => Heard::Up,
            LinkEvent::Message(message) => {
                if let ToAgent::Welcome { coordinators, .. } = &message {
                    self.route.welcomed(&link.url, coordinators);
                }
                Heard::Message(message)
            }
            LinkEvent::Down { leader, silent, .. } => {
                if silent {
                    self.route.fell_silent(&link.url);
                }
                self.link = None;
                if let Some(leader) = leader {
                    self.route.redirected(leader);
                }
                Heard::Down
            }
        }
    }

    /// Says it on the connection that is there, if one is.
    pub fn say(&self, message: FromAgent) {
        if let Some(link) = &self.link {
            link.send(message);
        }
    }

    /// Whom it is connected with, or tries to be.
    pub fn url(&self) -> Option<&BaseUrl> {
        self.link.as_ref().map(|link| &link.url)
    }
}
