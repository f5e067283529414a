//! The loop: everything that happens goes into [`State`], and what it wants is done.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use steadfast_api::{AgentMessage, FromAgent, LaunchOrder, LogRequest};
use steadfast_model::{ContainerEvent, ExecutionId, MemberUuid};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::Timings;
use crate::connection::{Line, LinkEvent, Said};
use crate::container::{self, Observed, Setup};
use crate::logs::{self, Answered};
use crate::state::{Effect, Profile, State};

/// The variable that tells a container's program whom to ask.
const COORDINATORS: &str = "STEADFAST_COORDINATORS";
/// Questions about output that are answered at once; the others wait.
const LOG_READERS: usize = 4;

pub(crate) struct Agent {
    state: State,
    timings: Timings,
    setup: Arc<Setup>,
    line: Line,
    /// How to reach each container's task.
    orders: BTreeMap<ExecutionId, mpsc::UnboundedSender<AgentMessage>>,
    /// Dropping it drops the sockets, from which the wrappers learn that the agent is gone.
    tasks: JoinSet<()>,
    observed: Observed,
    log_readers: Arc<Semaphore>,
    deadline: Option<Instant>,
    exit: bool,
}

impl Agent {
    pub fn new(
        profile: Profile,
        timings: Timings,
        setup: Setup,
        line: Line,
    ) -> anyhow::Result<(Self, mpsc::UnboundedReceiver<(ExecutionId, ContainerEvent)>)> {
        let (observed, events) = mpsc::unbounded_channel();
        let agent = Self {
            state: State::new(new_uuid()?, profile),
            timings,
            setup: Arc::new(setup),
            line,
            orders: BTreeMap::new(),
            tasks: JoinSet::new(),
            observed,
            log_readers: Arc::new(Semaphore::new(LOG_READERS)),
            deadline: None,
            exit: false,
        };
        Ok((agent, events))
    }

    pub async fn run(
        mut self,
        mut observed: mpsc::UnboundedReceiver<(ExecutionId, ContainerEvent)>,
        shutdown: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        tokio::pin!(shutdown);
        let mut asked_to_go = false;
        let mut beat = tokio::time::interval(self.timings.beat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.perform(vec![Effect::Connect]).await?;
        while !self.exit {
            let effects = tokio::select! {
                event = self.line.event() => self.on_line(event),
                // The agent holds a sender itself, so the channel never closes.
                Some((id, event)) = observed.recv() => self.on_container(id, event),
                _ = beat.tick() => self.state.beat(),
                () = &mut shutdown, if !asked_to_go => {
                    asked_to_go = true;
                    self.state.shutdown()
                }
                () = sleep_until(self.deadline) => {
                    self.deadline = None;
                    self.state.deadline()
                }
                Some(ended) = self.tasks.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a container's task failed");
                    }
                    Vec::new()
                }
            };
            self.perform(effects).await?;
        }
        self.line.close().await;
        Ok(())
    }

    fn on_line(&mut self, event: LinkEvent) -> Vec<Effect> {
        match event {
            LinkEvent::Up => self.state.connected(),
            LinkEvent::Message(message) => self.state.heard(message),
            LinkEvent::Down { .. } => self.state.disconnected(),
        }
    }

    fn on_container(&mut self, id: ExecutionId, event: ContainerEvent) -> Vec<Effect> {
        tracing::info!(%id, ?event, "container");
        if matches!(event, ContainerEvent::Ended { .. }) {
            self.orders.remove(&id);
        }
        self.state.observed(id, event)
    }

    async fn perform(&mut self, effects: Vec<Effect>) -> anyhow::Result<()> {
        let mut effects = effects;
        while !effects.is_empty() {
            let mut then = Vec::new();
            for effect in effects {
                match effect {
                    Effect::MakeIdentity => then.extend(self.state.register_as(new_uuid()?)),
                    Effect::Connect => self.line.open(u64::from_ne_bytes(random()?)).await,
                    other => self.perform_one(other),
                }
            }
            effects = then;
        }
        Ok(())
    }

    fn perform_one(&mut self, effect: Effect) {
        match effect {
            Effect::MakeIdentity | Effect::Connect => {}
            Effect::Send(message) => self.line.send(message),
            Effect::Welcomed { coordinators } => self.line.welcomed(&coordinators),
            Effect::Launch(order) => self.launch(order),
            Effect::Stop { id, reason, grace_ms } => {
                if let Some(orders) = self.orders.get(&id) {
                    // A container whose task has ended has been observed to end.
                    let _ = orders.send(AgentMessage::Stop { reason, grace_ms });
                }
            }
            Effect::Clear(id) => self.clear(id),
            Effect::ReadLogs(request) => self.read_logs(request),
            Effect::Deadline { after_ms } => {
                self.deadline = Some(Instant::now() + Duration::from_millis(after_ms));
            }
            Effect::Exit => self.exit = true,
        }
    }

    fn launch(&mut self, mut order: LaunchOrder) {
        // The coordinator names who is announced, which one that is down just now is not. A program has this list
        // for as long as it runs.
        order.environment.insert(COORDINATORS.to_owned(), self.line.urls().join(","));
        let (orders, orders_out) = mpsc::unbounded_channel();
        self.orders.insert(order.execution_resource_id, orders);
        let (setup, observed) = (Arc::clone(&self.setup), self.observed.clone());
        self.tasks.spawn(container::run(order, setup, orders_out, observed));
    }

    /// Reads off the loop, and answers on the connection that asked.
    fn read_logs(&self, request: LogRequest) {
        let Some(answers) = self.line.answers() else { return };
        let (answers, readers) = (answers, Arc::clone(&self.log_readers));
        let setup = Arc::clone(&self.setup);
        let running: BTreeSet<ExecutionId> = self.orders.keys().copied().collect();
        tokio::spawn(async move {
            // The semaphore is never closed.
            let Ok(turn) = readers.acquire_owned().await else { return };
            let read = move || logs::answer(&setup.data, request, |id| running.contains(&id));
            let Ok(answered) = tokio::task::spawn_blocking(read).await else { return };
            let said = match answered {
                Answered::Found(found) => Said::Message(FromAgent::LogsFound(found)),
                Answered::Part(part) => Said::Part { part, _turn: turn },
            };
            if let Some(answers) = answers.upgrade() {
                let _ = answers.send(said);
            }
        });
    }

    /// Removes files off the loop. What cannot be removed is left to a person; nothing depends on it.
    fn clear(&self, id: ExecutionId) {
        let held: BTreeSet<ExecutionId> = self.state.held().collect();
        let setup = Arc::clone(&self.setup);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = setup.data.clear(id).and_then(|()| setup.data.prune(&held)) {
                tracing::warn!(%id, %error, "files of an ended container stay");
            }
        });
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn new_uuid() -> anyhow::Result<MemberUuid> {
    Ok(MemberUuid::new(uuid::Builder::from_random_bytes(random()?).into_uuid()))
}

fn random<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    // Up to 256 bytes the kernel fills in one go (`getrandom(2)`).
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes)
}
