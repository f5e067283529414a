//! `GET /events`: what changes, as server-sent events.
//!
//! Every stream begins with who leads and a snapshot; from then on it has the differences. A reader that
//! falls behind is told so and gets a new snapshot, and so does one that comes back: nothing is kept for who
//! is not there, and `Last-Event-ID` is not looked at.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use steadfast_api::{Change, Event};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::respond::{Failure, leading, not_leading};
use crate::convert;
use crate::events::Published;
use crate::shared::{Shared, Term};
use crate::view::View;

/// A comment goes out after so long without an event, so that neither side takes a quiet stream for dead.
const QUIET: Duration = Duration::from_secs(10);

pub(crate) async fn events(State(shared): State<Arc<Shared>>) -> Result<Response, Failure> {
    let term = leading(&shared)?;
    let turn = Arc::clone(&shared.event_readers).try_acquire_owned().map_err(|_| {
        Failure::too_many("as many read the events as can at once; ask again later")
    })?;
    let reader = Reader::new(term, turn).ok_or_else(|| not_leading(&shared))?;
    let stream = unfold(reader, async |mut reader| {
        let event = reader.next().await?;
        Some((Ok::<_, Infallible>(on_the_wire(&event)), reader))
    });
    let kept_alive = Sse::new(stream).keep_alive(KeepAlive::new().interval(QUIET));
    // Proxies would gather what is to be seen at once.
    Ok(([(header::CACHE_CONTROL, "no-store")], kept_alive).into_response())
}

fn on_the_wire(event: &Event) -> sse::Event {
    let named = sse::Event::default().event(event.change.name());
    // Only a defect of the shapes keeps one from being JSON; its reader then sees that something was.
    named.json_data(event).unwrap_or_else(|_| sse::Event::default().event("resync"))
}

/// One who reads.
struct Reader {
    term: Arc<Term>,
    /// `None` once the last event has been told.
    published: Option<Receiver<Arc<Published>>>,
    /// The last publication that it has seen all of.
    seen: u64,
    waiting: VecDeque<Event>,
    _turn: OwnedSemaphorePermit,
}

impl Reader {
    /// `None` when the term is over.
    fn new(term: Arc<Term>, turn: OwnedSemaphorePermit) -> Option<Self> {
        let published = Some(term.feed.subscribe()?);
        let mut reader = Self { term, published, seen: 0, waiting: VecDeque::new(), _turn: turn };
        let leader = Some(reader.term.leader.url.clone());
        reader.say(Change::Leadership { epoch: reader.term.epoch, leader });
        reader.take_snapshot();
        Some(reader)
    }

    /// The next event, once there is one; `None` behind the last one.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let published = self.published.as_mut()?;
            if self.term.tenure.holds() {
                if let Some(event) = self.waiting.pop_front() {
                    return Some(event);
                }
                match published.recv().await {
                    Ok(next) => {
                        self.take_in(&next);
                        continue;
                    }
                    Err(RecvError::Lagged(_)) => {
                        self.begin_anew();
                        continue;
                    }
                    Err(RecvError::Closed) => {}
                }
            }
            self.published = None;
            let change = Change::Leadership { epoch: self.term.epoch, leader: None };
            return Some(Event { time: self.term.clock.now().into(), change });
        }
    }

    fn take_in(&mut self, published: &Published) {
        // A snapshot may hold what was published while it was taken.
        if published.number <= self.seen {
            return;
        }
        match &published.events {
            Some(events) => {
                self.seen = published.number;
                self.waiting.extend(events.iter().cloned());
            }
            None => self.begin_anew(),
        }
    }

    fn begin_anew(&mut self) {
        self.say(Change::Resync);
        self.take_snapshot();
    }

    fn take_snapshot(&mut self) {
        let view = self.term.view.borrow().clone();
        self.seen = view.number;
        self.say(snapshot(&view));
    }

    fn say(&mut self, change: Change) {
        self.waiting.push_back(Event { time: self.term.clock.now().into(), change });
    }
}

fn snapshot(view: &View) -> Change {
    let jobs = view
        .jobs
        .values()
        .map(|job| convert::summary(&job.record, Some(&job.evaluation(view.watermarks))));
    Change::Snapshot {
        members: view.members.iter().map(convert::member_info).collect(),
        jobs: jobs.collect(),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::sync::Semaphore;

    use super::super::stage::Stage;
    use super::*;

    fn reader(stage: &Stage) -> Reader {
        let turn = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        Reader::new(Arc::clone(&stage.term), turn).unwrap()
    }

    /// What can be read without waiting, by name; ends with the stream.
    fn told(reader: &mut Reader) -> Vec<&'static str> {
        let mut told = Vec::new();
        while let Some(Some(event)) = reader.next().now_or_never() {
            told.push(event.change.name());
        }
        told
    }

    fn publish(stage: &Stage, number: u64, events: Option<usize>) {
        let event = Event { time: stage.term.clock.now().into(), change: Change::Resync };
        stage.term.feed.tell(number, events.map(|count| vec![event; count]));
    }

    const BEGIN: [&str; 2] = ["leadership", "snapshot"];

    /// Red where a reader that is behind goes on with what is left.
    #[test]
    fn who_is_too_slow_is_told_so_and_begins_anew() {
        let stage = Stage::leading();
        let mut slow = reader(&stage);
        for number in 1..=300 {
            publish(&stage, number, Some(1));
        }
        let told = told(&mut slow);
        assert_eq!(told[..4], ["leadership", "snapshot", "resync", "snapshot"]);
        assert_eq!(told.len(), 4 + 256, "and all that is kept, none of which is in the snapshot");
    }

    #[test]
    fn what_is_too_much_at_once_or_was_not_worked_out_is_a_snapshot() {
        let stage = Stage::leading();
        for events in [None, Some(5_000)] {
            let mut reader = reader(&stage);
            assert_eq!(told(&mut reader), BEGIN);
            publish(&stage, 1, events);
            assert_eq!(told(&mut reader), ["resync", "snapshot"]);
        }
    }

    /// Red where an event is told that the snapshot before it holds already.
    #[test]
    fn what_the_snapshot_holds_is_not_told_again() {
        let stage = Stage::leading();
        let mut reader = reader(&stage);
        publish(&stage, 0, Some(1));
        assert_eq!(told(&mut reader), BEGIN);
        publish(&stage, 1, Some(0));
        assert_eq!(told(&mut reader), [""; 0], "nothing has changed");
    }

    /// Red where a stream looks at nothing but its channel: nobody has told it that the tenure is over.
    #[test]
    fn a_stream_ends_with_the_tenure_and_with_the_term() {
        for tenure_ends in [true, false] {
            let stage = Stage::leading();
            let mut reader = reader(&stage);
            publish(&stage, 1, Some(3));
            match tenure_ends {
                true => stage.term.tenure.end(),
                false => stage.term.close(),
            }
            let expected: &[&str] = match tenure_ends {
                true => &["leadership"],
                false => &["leadership", "snapshot", "resync", "resync", "resync", "leadership"],
            };
            assert_eq!(told(&mut reader), expected);
            assert!(reader.next().now_or_never().is_some_and(|event| event.is_none()), "the end");
        }
    }
}
