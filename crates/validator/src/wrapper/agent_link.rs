//! The socket to the agent. Reading and writing have a thread each, so that an agent that is stopped and
//! does not read holds up nobody.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Sender};
use std::thread;

use steadfast_api::{AgentMessage, WrapperMessage};

use super::Event;

/// The wrapper's end.
#[derive(Debug)]
pub(super) struct AgentLink {
    to_agent: Sender<WrapperMessage>,
}

impl AgentLink {
    /// Takes standard input for the agent's socket. What the agent says, and its death, come as events.
    pub(super) fn on_stdin(events: Sender<Event>) -> io::Result<Self> {
        // A copy, because standard input is never closed under the standard library's feet. It is not
        // passed on: copies are close-on-exec, and the program gets /dev/null as descriptor 0.
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let writing = socket.try_clone()?;
        let (to_agent, messages) = mpsc::channel::<WrapperMessage>();
        thread::Builder::new()
            .name("agent-reader".into())
            .spawn(move || read(BufReader::new(socket), &events))?;
        thread::Builder::new()
            .name("agent-writer".into())
            .spawn(move || write(writing, messages.iter()))?;
        Ok(Self { to_agent })
    }

    /// Sends without waiting. A dead agent is noticed by the reader.
    pub(super) fn tell(&self, message: WrapperMessage) {
        let _ = self.to_agent.send(message);
    }
}

fn read(socket: impl BufRead, events: &Sender<Event>) {
    for line in socket.lines().map_while(Result::ok) {
        match serde_json::from_str::<AgentMessage>(&line) {
            Ok(message) => {
                if events.send(Event::Agent(message)).is_err() {
                    return;
                }
            }
            // An agent of another version may know more than this wrapper.
            Err(error) => tracing::warn!(%error, "a message of the agent is not understood"),
        }
    }
    let _ = events.send(Event::AgentGone);
}

fn write(mut socket: impl Write, messages: impl Iterator<Item = WrapperMessage>) {
    for message in messages {
        let Ok(mut line) = serde_json::to_vec(&message) else { continue };
        line.push(b'\n');
        if socket.write_all(&line).is_err() {
            return;
        }
    }
}
