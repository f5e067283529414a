//! What an agent knows and decides, without I/O: messages in, effects out.
//!
//! The duties of 03 are rules about *memory*: an end is reported until it is acknowledged, an id that
//! was said to have never started is never started later, a deposed leader is not obeyed. They are kept
//! here, where a test can put the messages in any order. Processes, sockets and time are next door.

use std::collections::BTreeMap;

use steadfast_api::{
    ContainerReport, ContainerSighting, FromAgent, Hello, LaunchOrder, LogRequest, ToAgent,
};
use steadfast_model::{
    ContainerEvent, Epoch, ExecutionId, FEATURE_LEVEL, InvalidReason, MemberUuid, Outcome, Proof,
};

use crate::tombstones::Tombstones;

/// What a stopping agent allows on top of the longest grace.
const STOP_MARGIN_MS: u64 = 2_000;
/// An end that is still not acknowledged is reported again every so many beats, also on the connection
/// that carried the first report: its receiver may have been loading.
const BEATS_PER_REPORT: u64 = 5;

/// What an agent says about itself, and its one wait.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub host: String,
    pub pid: u32,
    pub slots: u32,
    pub tags: BTreeMap<String, String>,
    pub version: String,
    /// How long a leaving agent waits for the coordinator to declare its loss.
    pub leave_wait_ms: u64,
}

/// What the shell does for the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Say this on the open connection.
    Send(FromAgent),
    /// Close the connection, if there is one, *then* open the next.
    Connect,
    /// The connection serves; these coordinators were announced on it.
    Welcomed { coordinators: Vec<String> },
    /// Start a wrapper.
    Launch(LaunchOrder),
    /// Pass a stop on to a wrapper.
    Stop { id: ExecutionId, reason: InvalidReason, grace_ms: u64 },
    /// The end of this container is known for good: its files can go.
    Clear(ExecutionId),
    /// Answer a question about output.
    ReadLogs(LogRequest),
    /// Nothing of the old life runs any more: make a UUID and hand it to [`State::register_as`].
    MakeIdentity,
    /// Call [`State::deadline`] after this long; replaces an earlier one.
    Deadline { after_ms: u64 },
    /// Nothing is left to do.
    Exit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// Declared lost; the containers of the old life are being ended.
    StartingAnew,
    /// `Leaving` is said or will be; no container is touched before the answer.
    Leaving,
    /// Containers are being ended; the process goes when their ends are acknowledged.
    Stopping,
}

/// A container whose end has not been seen.
#[derive(Debug)]
struct Running {
    started: Option<ContainerEvent>,
    grace_ms: u64,
    /// The grace of the stop that was passed on.
    stopping_ms: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct State {
    uuid: MemberUuid,
    profile: Profile,
    highest_epoch: Epoch,
    /// The first one that welcomed it; it is in no other as long as it runs.
    cluster: Option<String>,
    phase: Phase,
    /// A connection is open and `Hello` was said on it.
    connected: bool,
    /// The open connection serves.
    welcomed: bool,
    /// Some connection has served under this UUID.
    registered: bool,
    beats: u64,
    running: BTreeMap<ExecutionId, Running>,
    /// Ends that nobody has acknowledged.
    ended: BTreeMap<ExecutionId, ContainerEvent>,
    acknowledged: Tombstones,
}

impl State {
    pub fn new(uuid: MemberUuid, profile: Profile) -> Self {
        Self {
            uuid,
            profile,
            highest_epoch: Epoch::default(),
            cluster: None,
            phase: Phase::Serving,
            connected: false,
            welcomed: false,
            registered: false,
            beats: 0,
            running: BTreeMap::new(),
            ended: BTreeMap::new(),
            acknowledged: Tombstones::default(),
        }
    }

    /// The containers whose files are still needed.
    pub fn held(&self) -> impl Iterator<Item = ExecutionId> {
        self.running.keys().chain(self.ended.keys()).copied()
    }

    /// A connection is open.
    pub fn connected(&mut self) -> Vec<Effect> {
        self.connected = true;
        self.welcomed = false;
        vec![Effect::Send(FromAgent::Hello(self.hello()))]
    }

    /// The connection closed, or none could be opened.
    pub fn disconnected(&mut self) -> Vec<Effect> {
        self.connected = false;
        self.welcomed = false;
        match self.phase {
            // Nobody would take this UUID back. The next connection is made under the new one.
            Phase::StartingAnew => Vec::new(),
            _ => vec![Effect::Connect],
        }
    }

    /// The coordinator said something.
    pub fn heard(&mut self, message: ToAgent) -> Vec<Effect> {
        match message {
            ToAgent::Welcome { epoch, coordinators, cluster } => {
                self.welcome(epoch, coordinators, cluster)
            }
            ToAgent::RegisterAnew => self.register_anew(),
            ToAgent::Launch(order) => self.launch(order),
            ToAgent::Stop { epoch, execution_resource_id, reason, grace_ms } => {
                self.stop(epoch, execution_resource_id, reason, grace_ms)
            }
            ToAgent::Acknowledge { execution_resource_id } => {
                self.acknowledge(execution_resource_id)
            }
            ToAgent::LeaveAcknowledged => self.leave_acknowledged(),
            ToAgent::Log(request) => vec![Effect::ReadLogs(request)],
        }
    }

    /// Something happened to a container.
    pub fn observed(&mut self, id: ExecutionId, event: ContainerEvent) -> Vec<Effect> {
        match &event {
            ContainerEvent::Started { .. } => {
                let Some(running) = self.running.get_mut(&id) else { return Vec::new() };
                running.started = Some(event.clone());
            }
            ContainerEvent::Ended { .. } => {
                if self.running.remove(&id).is_none() {
                    return Vec::new();
                }
                self.ended.insert(id, event.clone());
            }
        }
        let mut effects = self.report(id, event);
        effects.extend(self.done());
        effects
    }

    /// A second passed.
    pub fn beat(&mut self) -> Vec<Effect> {
        if !self.connected {
            return Vec::new();
        }
        self.beats += 1;
        let mut effects = vec![Effect::Send(FromAgent::Beat)];
        if self.welcomed && self.beats.is_multiple_of(BEATS_PER_REPORT) {
            effects.extend(self.report_ends());
        }
        effects
    }

    /// Somebody asked the agent to go.
    pub fn shutdown(&mut self) -> Vec<Effect> {
        match self.phase {
            Phase::Serving => {
                self.phase = Phase::Leaving;
                let mut effects = vec![Effect::Deadline { after_ms: self.profile.leave_wait_ms }];
                effects.extend(self.say_leaving());
                effects
            }
            // The loss is declared already; there is nothing to announce.
            Phase::StartingAnew => self.stop_and_go(),
            Phase::Leaving | Phase::Stopping => Vec::new(),
        }
    }

    /// The time that [`Effect::Deadline`] named has come.
    pub fn deadline(&mut self) -> Vec<Effect> {
        match self.phase {
            Phase::Serving | Phase::StartingAnew => Vec::new(),
            Phase::Leaving => {
                tracing::warn!("no coordinator acknowledged the leave in time");
                self.stop_and_go()
            }
            Phase::Stopping => {
                let (running, ended) = (self.running.len(), self.ended.len());
                tracing::warn!(running, unacknowledged = ended, "leaving with work undone");
                vec![Effect::Exit]
            }
        }
    }

    /// The UUID of the next life.
    pub fn register_as(&mut self, uuid: MemberUuid) -> Vec<Effect> {
        self.uuid = uuid;
        self.registered = false;
        self.phase = Phase::Serving;
        vec![Effect::Connect]
    }

    fn hello(&self) -> Hello {
        let Profile { host, pid, slots, tags, version, leave_wait_ms: _ } = self.profile.clone();
        let sighting = |execution_resource_id, last_event| ContainerSighting {
            execution_resource_id,
            last_event,
        };
        let running = self.running.iter().map(|(id, it)| sighting(*id, it.started.clone()));
        let ended = self.ended.iter().map(|(id, event)| sighting(*id, Some(event.clone())));
        Hello {
            uuid: self.uuid,
            host,
            pid,
            slots,
            tags,
            version,
            feature_level: FEATURE_LEVEL,
            welcomed: self.registered,
            highest_epoch: self.highest_epoch,
            cluster: self.cluster.clone(),
            containers: running.chain(ended).collect(),
        }
    }

    fn welcome(
        &mut self,
        epoch: Epoch,
        coordinators: Vec<String>,
        cluster: Option<String>,
    ) -> Vec<Effect> {
        if !self.obeys(epoch, "welcome") {
            return self.disconnected();
        }
        self.cluster = self.cluster.take().or(cluster);
        self.welcomed = true;
        self.registered = true;
        let mut effects = vec![Effect::Welcomed { coordinators }];
        effects.extend(self.report_ends());
        effects.extend(self.say_leaving());
        effects
    }

    fn register_anew(&mut self) -> Vec<Effect> {
        match self.phase {
            Phase::Serving => {
                tracing::warn!(uuid = %self.uuid, "declared lost: ending every container");
                self.phase = Phase::StartingAnew;
                let mut effects = self.stop_all();
                effects.extend(self.done());
                effects
            }
            // The loss is declared, which is what a leave asks for.
            Phase::Leaving => self.stop_and_go(),
            Phase::StartingAnew | Phase::Stopping => Vec::new(),
        }
    }

    fn launch(&mut self, order: LaunchOrder) -> Vec<Effect> {
        let id = order.execution_resource_id;
        if !self.obeys(order.epoch, "launch") {
            return Vec::new();
        }
        if let Some(running) = self.running.get(&id) {
            let started = running.started.clone();
            return started.map_or_else(Vec::new, |event| self.report(id, event));
        }
        if let Some(effects) = self.report_known_end(id) {
            return effects;
        }
        if self.phase != Phase::Serving {
            let error = "the agent is on its way out and starts nothing".into();
            return self.never_started(id, Some(Outcome::NotStarted { error }));
        }
        let grace_ms = order.lease.grace_ms;
        self.running.insert(id, Running { started: None, grace_ms, stopping_ms: None });
        vec![Effect::Launch(order)]
    }

    fn stop(
        &mut self,
        epoch: Epoch,
        id: ExecutionId,
        reason: InvalidReason,
        grace_ms: u64,
    ) -> Vec<Effect> {
        if !self.obeys(epoch, "stop") {
            return Vec::new();
        }
        if let Some(running) = self.running.get_mut(&id) {
            return running.stop(id, reason, grace_ms).into_iter().collect();
        }
        self.report_known_end(id).unwrap_or_else(|| self.never_started(id, None))
    }

    fn acknowledge(&mut self, id: ExecutionId) -> Vec<Effect> {
        let Some(event) = self.ended.remove(&id) else { return Vec::new() };
        self.acknowledged.insert(id, event);
        let mut effects = vec![Effect::Clear(id)];
        // Only a leaving agent waits for acknowledgements.
        if self.phase == Phase::Stopping {
            effects.extend(self.done());
        }
        effects
    }

    fn leave_acknowledged(&mut self) -> Vec<Effect> {
        if self.phase == Phase::Leaving { self.stop_and_go() } else { Vec::new() }
    }

    /// Whether a command of this term is obeyed; raises the highest term seen.
    fn obeys(&mut self, epoch: Epoch, command: &str) -> bool {
        let obeys = epoch >= self.highest_epoch;
        if obeys {
            self.highest_epoch = epoch;
        } else {
            tracing::warn!(%epoch, highest = %self.highest_epoch, command, "deposed leader refused");
        }
        obeys
    }

    /// Reports an end that was seen before; `None` for an id without one.
    fn report_known_end(&mut self, id: ExecutionId) -> Option<Vec<Effect>> {
        if let Some(event) = self.acknowledged.take(id) {
            self.ended.insert(id, event);
        }
        let event = self.ended.get(&id)?.clone();
        Some(self.report(id, event))
    }

    /// Answers for an id that is not known here. The answer is remembered like any other end, so that a
    /// launch of it that was under way does not make it untrue.
    fn never_started(&mut self, id: ExecutionId, outcome: Option<Outcome>) -> Vec<Effect> {
        let proof = (!self.acknowledged.is_incomplete()).then_some(Proof::NeverStarted);
        let event = ContainerEvent::Ended { outcome, proof };
        self.ended.insert(id, event.clone());
        self.report(id, event)
    }

    fn report(&self, id: ExecutionId, event: ContainerEvent) -> Vec<Effect> {
        if !self.connected {
            return Vec::new();
        }
        vec![Effect::Send(FromAgent::Report(ContainerReport { execution_resource_id: id, event }))]
    }

    fn report_ends(&self) -> Vec<Effect> {
        self.ended.iter().flat_map(|(id, event)| self.report(*id, event.clone())).collect()
    }

    fn say_leaving(&self) -> Option<Effect> {
        (self.phase == Phase::Leaving && self.welcomed).then_some(Effect::Send(FromAgent::Leaving))
    }

    fn stop_all(&mut self) -> Vec<Effect> {
        let stop = |(id, running): (&ExecutionId, &mut Running)| {
            running.stop(*id, InvalidReason::MemberLost, running.grace_ms)
        };
        self.running.iter_mut().filter_map(stop).collect()
    }

    fn stop_and_go(&mut self) -> Vec<Effect> {
        self.phase = Phase::Stopping;
        let longest_ms = self.running.values().map(|running| running.grace_ms).max().unwrap_or(0);
        let mut effects = self.stop_all();
        effects.push(Effect::Deadline { after_ms: longest_ms.saturating_add(STOP_MARGIN_MS) });
        effects.extend(self.done());
        effects
    }

    /// What becomes possible when nothing runs any more.
    fn done(&self) -> Option<Effect> {
        match self.phase {
            Phase::StartingAnew if self.running.is_empty() => Some(Effect::MakeIdentity),
            Phase::Stopping if self.running.is_empty() && self.ended.is_empty() => {
                Some(Effect::Exit)
            }
            _ => None,
        }
    }
}

impl Running {
    /// Passes a stop on once, and again only if it leaves less time than the one before.
    fn stop(&mut self, id: ExecutionId, reason: InvalidReason, grace_ms: u64) -> Option<Effect> {
        if self.stopping_ms.is_some_and(|earlier_ms| earlier_ms <= grace_ms) {
            return None;
        }
        self.stopping_ms = Some(grace_ms);
        Some(Effect::Stop { id, reason, grace_ms })
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
