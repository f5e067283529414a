//! The good-bye after the proof: told to the agent, or, where there is none that takes note, to the
//! coordinators. It shortens somebody's wait; the lease would end the wait too, so it may give up.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use steadfast_api::{AgentMessage, ContainerEnded, WrapperMessage};
use steadfast_model::{Outcome, Proof};

use super::Event;
use super::agent_link::AgentLink;
use crate::http::Http;

/// How long an agent may take to take note.
const AGENT_PATIENCE: Duration = Duration::from_millis(500);
/// How long the coordinators are asked to take note.
const COORDINATORS_PATIENCE: Duration = Duration::from_secs(60);
/// Between two rounds of all coordinators.
const ROUND_PAUSE: Duration = Duration::from_millis(500);

/// Tells the agent; whether it has taken note.
pub(super) fn to_agent(
    agent: &AgentLink,
    events: &Receiver<Event>,
    outcome: &Outcome,
    proof: Proof,
) -> bool {
    agent.tell(WrapperMessage::Ended { outcome: outcome.clone(), proof });
    let until = Instant::now() + AGENT_PATIENCE;
    loop {
        match events.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Event::Agent(AgentMessage::EndSeen)) => return true,
            Ok(Event::AgentGone) | Err(_) => return false,
            Ok(_) => {}
        }
    }
}

/// Tells each coordinator in turn until one has taken note, for a minute at most, or until somebody
/// asks the wrapper itself to go.
pub(super) fn to_coordinators(
    http: &Http,
    coordinators: &[String],
    events: &Receiver<Event>,
    end: &ContainerEnded,
) {
    let until = Instant::now() + COORDINATORS_PATIENCE;
    while Instant::now() < until {
        for coordinator in coordinators {
            if http.say_good_bye(coordinator, end) {
                return;
            }
        }
        let next_round = Instant::now() + ROUND_PAUSE;
        while let Ok(event) =
            events.recv_timeout(next_round.saturating_duration_since(Instant::now()))
        {
            if matches!(event, Event::Signal(signal) if signal != signal_hook::consts::SIGCHLD) {
                return;
            }
        }
    }
    tracing::warn!("no coordinator has taken note of the end");
}
