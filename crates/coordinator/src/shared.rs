//! What the loop and the handlers share: the term that is served now, and how to reach its loop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use steadfast_api::{LogQuestion, LogRequest, ToAgent};
use steadfast_engine::{Connection, Input, Reply, Ticket};
use steadfast_model::{Epoch, MemberUuid};
use steadfast_store::{LeaderInfo, Store, Tenure};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::coordinators::Coordinators;
use crate::credentials::Credentials;
use crate::events::Feed;
use crate::index::ValidityIndex;
use crate::metrics::Metrics;
use crate::outputs::{NoAnswer, Questions, Told};
use crate::secrets::Secrets;
use crate::stalls::Stalls;
use crate::store_health::StoreHealth;
use crate::view::View;

/// Inputs that may wait for the loop. Beyond it askers wait, which is what bounds memory.
pub(crate) const INBOX: usize = 4_096;
/// Outputs that are read at once; each takes a part's memory, and a place at an agent.
const LOG_READERS: usize = 64;
/// Readers of events at once; each takes a connection, and a snapshot when it begins.
const EVENT_READERS: usize = 64;

/// One term as its handlers see it.
pub(crate) struct Term {
    pub epoch: Epoch,
    /// Until when anything may leave. Whoever sends looks at it; nobody waits to be told.
    pub tenure: Tenure,
    pub clock: Clock,
    pub leader: LeaderInfo,
    pub index: ValidityIndex,
    pub secrets: Secrets,
    pub view: watch::Receiver<View>,
    /// What changes from one view to the next.
    pub feed: Feed,
    inbox: mpsc::Sender<Input>,
    tickets: Mutex<BTreeMap<Ticket, oneshot::Sender<Reply>>>,
    agents: Mutex<BTreeMap<Connection, Agent>>,
    pub stalls: Stalls,
    /// What agents are asked past the loop.
    pub outputs: Questions,
    numbers: AtomicU64,
}

/// An agent's end of a connection.
struct Agent {
    member: MemberUuid,
    sender: mpsc::UnboundedSender<ToAgent>,
}

/// The term ended before the answer was durable: nothing can be said about it.
#[derive(Debug)]
pub(crate) struct TermOver;

impl Term {
    pub fn new(
        epoch: Epoch,
        tenure: Tenure,
        clock: Clock,
        leader: LeaderInfo,
        secrets: Secrets,
        view: watch::Receiver<View>,
        inbox: mpsc::Sender<Input>,
    ) -> Self {
        Self {
            epoch,
            index: ValidityIndex::new(tenure.clone()),
            tenure,
            clock,
            leader,
            secrets,
            view,
            feed: Feed::new(),
            inbox,
            tickets: Mutex::default(),
            agents: Mutex::default(),
            stalls: Stalls::default(),
            outputs: Questions::default(),
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

    /// Hands the loop what will be said again, unless it has enough to do already: while it waits for its
    /// store, what comes only once shall find room. Says whether it was handed over.
    pub fn hint(&self, input: Input) -> bool {
        self.inbox.capacity() > self.inbox.max_capacity() / 2 && self.inbox.try_send(input).is_ok()
    }

    /// Hands an input to the loop and waits until its answer is durable.
    pub async fn ask(&self, input: impl FnOnce(Ticket) -> Input) -> Result<Reply, TermOver> {
        let ticket = Ticket(self.number());
        let (answer, answered) = oneshot::channel();
        self.tickets.lock().insert(ticket, answer);
        self.tell(input(ticket)).await?;
        answered.await.map_err(|_| TermOver)
    }

    /// Answers somebody who waits. After the term's end it tells nobody anything.
    pub fn answer(&self, ticket: Ticket, reply: Reply) {
        if let Some(waiting) = self.tickets.lock().remove(&ticket)
            && self.tenure.holds()
        {
            // Whoever asked may have gone; what was decided stands all the same.
            let _ = waiting.send(reply);
        }
    }

    /// Opens a numbered way to an agent.
    pub fn connect(&self, member: MemberUuid) -> (Connection, mpsc::UnboundedReceiver<ToAgent>) {
        let connection = Connection(self.number());
        let (sender, receiver) = mpsc::unbounded_channel();
        self.agents.lock().insert(connection, Agent { member, sender });
        (connection, receiver)
    }

    /// The connection is gone.
    pub fn disconnect(&self, connection: Connection) {
        self.agents.lock().remove(&connection);
        self.outputs.disconnected(connection);
    }

    /// Sends to an agent, if it is still connected and the term still holds: what is lost here is found
    /// when it comes back.
    pub fn send(&self, connection: Connection, message: ToAgent) {
        if let Some(agent) = self.agents.lock().get(&connection)
            && self.tenure.holds()
        {
            let _ = agent.sender.send(message);
        }
    }

    /// The newest connection of each member that has one.
    pub fn connected(&self) -> BTreeMap<MemberUuid, Connection> {
        let agents = self.agents.lock();
        // In the order of the connections, so the newest is what stays.
        agents.iter().map(|(connection, agent)| (agent.member, *connection)).collect()
    }

    /// Asks an agent about output.
    pub async fn ask_agent(
        &self,
        connection: Connection,
        question: LogQuestion,
    ) -> Result<Told, NoAnswer> {
        let request = self.number();
        let message = ToAgent::Log(LogRequest { request, question });
        self.outputs.ask(request, connection, || self.send(connection, message)).await
    }

    /// No verdict, answer or message leaves from now on.
    pub fn close(&self) {
        self.index.close();
        self.tickets.lock().clear();
        self.agents.lock().clear();
        self.outputs.close();
        self.feed.close();
    }
}

/// What all handlers share.
pub(crate) struct Shared {
    pub store: Arc<dyn Store>,
    /// Who else there is, and who leads.
    pub coordinators: Coordinators,
    /// What keeps the store from taking writes.
    pub store_health: StoreHealth,
    /// Who may call; `None` where everybody may who reaches the loopback address.
    pub credentials: Option<Credentials>,
    /// What this process counts, over all its terms.
    pub metrics: Metrics,
    /// Turns for those who read outputs.
    pub log_readers: Arc<Semaphore>,
    /// Turns for those who read events.
    pub event_readers: Arc<Semaphore>,
    term: ArcSwapOption<Term>,
}

impl Shared {
    pub fn new(store: Arc<dyn Store>, urls: Vec<String>, credentials: Option<Credentials>) -> Self {
        Self {
            store,
            coordinators: Coordinators::new(urls),
            store_health: StoreHealth::new(),
            credentials,
            metrics: Metrics::new(),
            log_readers: Arc::new(Semaphore::new(LOG_READERS)),
            event_readers: Arc::new(Semaphore::new(EVENT_READERS)),
            term: ArcSwapOption::empty(),
        }
    }

    /// How many read the events now.
    pub fn event_readers(&self) -> usize {
        EVENT_READERS - self.event_readers.available_permits()
    }

    /// The term that is served, once it has been reconciled, and while it holds: a process that was stopped
    /// may be asked before its loop has been woken.
    pub fn term(&self) -> Option<Arc<Term>> {
        self.term.load_full().filter(|term| term.tenure.holds())
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
