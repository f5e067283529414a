//! What the loop and the handlers share: the term that is served now, and how to reach its loop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use steadfast_api::ToAgent;
use steadfast_engine::{Connection, Input, Reply, Ticket};
use steadfast_model::Epoch;
use steadfast_store::{LeaderInfo, Store};
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::credentials::Credentials;
use crate::index::ValidityIndex;
use crate::secrets::Secrets;
use crate::view::View;

/// Inputs that may wait for the loop. Beyond it askers wait, which is what bounds memory.
pub(crate) const INBOX: usize = 4_096;

/// One term as its handlers see it.
pub(crate) struct Term {
    pub epoch: Epoch,
    pub clock: Clock,
    pub leader: LeaderInfo,
    pub index: ValidityIndex,
    pub secrets: Secrets,
    pub view: watch::Receiver<View>,
    inbox: mpsc::Sender<Input>,
    tickets: Mutex<BTreeMap<Ticket, oneshot::Sender<Reply>>>,
    agents: Mutex<BTreeMap<Connection, mpsc::UnboundedSender<ToAgent>>>,
    numbers: AtomicU64,
}

/// The term ended before the answer was durable: nothing can be said about it.
#[derive(Debug)]
pub(crate) struct TermOver;

impl Term {
    pub fn new(
        epoch: Epoch,
        clock: Clock,
        leader: LeaderInfo,
        secrets: Secrets,
        view: watch::Receiver<View>,
        inbox: mpsc::Sender<Input>,
    ) -> Self {
        Self {
            epoch,
            clock,
            leader,
            index: ValidityIndex::new(),
            secrets,
            view,
            inbox,
            tickets: Mutex::default(),
            agents: Mutex::default(),
            numbers: AtomicU64::new(1),
        }
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Hands an input to the loop.
    pub async fn tell(&self, input: Input) -> Result<(), TermOver> {
        self.inbox.send(input).await.map_err(|_| TermOver)
    }

    /// Hands an input to the loop and waits until its answer is durable.
    pub async fn ask(&self, input: impl FnOnce(Ticket) -> Input) -> Result<Reply, TermOver> {
        let ticket = Ticket(self.number());
        let (answer, answered) = oneshot::channel();
        self.tickets.lock().insert(ticket, answer);
        self.tell(input(ticket)).await?;
        answered.await.map_err(|_| TermOver)
    }

    /// Answers somebody who waits.
    pub fn answer(&self, ticket: Ticket, reply: Reply) {
        if let Some(waiting) = self.tickets.lock().remove(&ticket) {
            // Whoever asked may have gone; what was decided stands all the same.
            let _ = waiting.send(reply);
        }
    }

    /// Opens a numbered way to an agent.
    pub fn connect(&self) -> (Connection, mpsc::UnboundedReceiver<ToAgent>) {
        let connection = Connection(self.number());
        let (sender, receiver) = mpsc::unbounded_channel();
        self.agents.lock().insert(connection, sender);
        (connection, receiver)
    }

    /// The connection is gone.
    pub fn disconnect(&self, connection: Connection) {
        self.agents.lock().remove(&connection);
    }

    /// Sends to an agent, if it is still connected: what is lost here is found when it comes back.
    pub fn send(&self, connection: Connection, message: ToAgent) {
        if let Some(agent) = self.agents.lock().get(&connection) {
            let _ = agent.send(message);
        }
    }

    /// No verdict, answer or message leaves from now on.
    pub fn close(&self) {
        self.index.close();
        self.tickets.lock().clear();
        self.agents.lock().clear();
    }
}

/// What all handlers share.
pub(crate) struct Shared {
    pub store: Arc<dyn Store>,
    pub urls: Vec<String>,
    /// Who may call; `None` where everybody may who reaches the loopback address.
    pub credentials: Option<Credentials>,
    term: ArcSwapOption<Term>,
}

impl Shared {
    pub fn new(store: Arc<dyn Store>, urls: Vec<String>, credentials: Option<Credentials>) -> Self {
        Self { store, urls, credentials, term: ArcSwapOption::empty() }
    }

    /// The term that is served, once it has been reconciled.
    pub fn term(&self) -> Option<Arc<Term>> {
        self.term.load_full()
    }

    pub fn serve(&self, term: Arc<Term>) {
        self.term.store(Some(term));
    }

    pub fn stop_serving(&self) {
        if let Some(term) = self.term.swap(None) {
            term.close();
        }
    }
}
