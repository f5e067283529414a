//! The door for the bench of takeovers: an agent's way to whichever coordinator leads, with its order of
//! attempts and its pauses, and no agent behind it. Compiled only for the bench.

use std::hash::{BuildHasher, Hasher, RandomState};

use steadfast_api::{FromAgent, ToAgent};
use steadfast_client::BaseUrl;

use crate::Timings;
use crate::connection::{self, LinkEvent};

/// A connection that is opened anew whenever it is gone.
pub struct Line(connection::Line);

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
        Self(connection::Line::new(coordinators, None, Timings::default().silence))
    }

    /// What happens next. May be dropped and asked again at any time.
    pub async fn heard(&mut self) -> Heard {
        let Self(line) = self;
        if line.url().is_none() {
            line.open(RandomState::new().build_hasher().finish()).await;
        }
        match line.event().await {
            LinkEvent::Up => Heard::Up,
            LinkEvent::Message(message) => {
                if let ToAgent::Welcome { coordinators, .. } = &message {
                    line.welcomed(coordinators);
                }
                Heard::Message(message)
            }
            LinkEvent::Down { .. } => Heard::Down,
        }
    }

    /// Says it on the connection that is there, if one is.
    pub fn say(&self, message: FromAgent) {
        self.0.send(message);
    }

    /// Whom it is connected with, or tries to be.
    pub fn url(&self) -> Option<&BaseUrl> {
        self.0.url()
    }
}
