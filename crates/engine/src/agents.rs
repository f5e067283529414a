//! Agents: who they are, and what they hold compared with what they should hold.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_model::{ContainerEvent, ExecutionId, InvalidReason, LossCause, MemberUuid};

use crate::containers::{Answer, Container};
use crate::draft::Draft;
use crate::engine::Engine;
use crate::input::{Connection, Reporter};
use crate::pipeline::launch_of;
use crate::records::MemberRecord;
use crate::step::{AgentMessage, IndexChange, MemberWrite};

/// From SIGTERM to SIGKILL for a container that no job knows.
const STRANGERS_GRACE_MS: u64 = 5_000;

type Sightings = BTreeMap<ExecutionId, Option<ContainerEvent>>;

impl Engine {
    /// An agent connected. What it says of its containers is taken in first, whoever it is: an end that
    /// it proves is proven. Then it is welcomed, or told to register anew.
    pub(crate) fn hello(
        &mut self,
        connection: Connection,
        mut record: MemberRecord,
        welcomed: bool,
        sightings: &[(ExecutionId, Option<ContainerEvent>)],
        d: &mut Draft,
    ) {
        let uuid = record.uuid;
        let known = self.members.get(uuid).map(|member| member.is_lost());
        let message = match known {
            Some(true) => AgentMessage::RegisterAnew,
            None if welcomed => AgentMessage::RegisterAnew,
            Some(false) => {
                self.members.connect(uuid, connection, d.now);
                self.refresh(record, d);
                AgentMessage::Welcome
            }
            None => {
                record.registered = d.now;
                record.lost = None;
                record.draining = false;
                d.step.members.push(MemberWrite::Put(record.clone()));
                self.members.register(record, connection, d.now);
                AgentMessage::Welcome
            }
        };
        let turned_away = matches!(message, AgentMessage::RegisterAnew);
        d.greet(connection, message);
        for (execution, event) in sightings {
            if let Some(event) = event.clone() {
                let reporter = Reporter::Agent(uuid, connection);
                self.container_event(*execution, event, reporter, d);
            }
        }
        if !turned_away {
            self.compare(uuid, connection, &sightings.iter().cloned().collect(), d);
            self.place_again = true;
        }
    }

    /// An agent spoke. One that was silent for so long that its member was declared lost may still have
    /// its connection: it is told, or it would speak in vain for ever.
    pub(crate) fn heard(&mut self, member: MemberUuid, connection: Connection, d: &mut Draft) {
        if self.members.is_present(member) {
            let _ = self.members.heard(member, connection, d.now);
        } else {
            d.send(connection, AgentMessage::RegisterAnew);
        }
    }

    /// A known member may have come back from another address, or with another number of slots.
    fn refresh(&mut self, said: MemberRecord, d: &mut Draft) {
        let Some(member) = self.members.get_mut(said.uuid) else { return };
        let MemberRecord { registered, draining, .. } = member.record;
        let record = MemberRecord { registered, draining, lost: None, ..said };
        if record != member.record {
            member.record = record.clone();
            d.step.members.push(MemberWrite::Put(record));
        }
    }

    /// What runs there against what should: a container that it never got is launched again under the
    /// same id, a revoked one is stopped, a stranger is stopped, and what matches is kept.
    fn compare(
        &mut self,
        uuid: MemberUuid,
        connection: Connection,
        sightings: &Sightings,
        d: &mut Draft,
    ) {
        let Some(member) = self.members.get(uuid) else { return };
        for execution in member.containers.clone() {
            let seen = sightings.contains_key(&execution);
            match self.containers.get(execution).map(|at| at.answer) {
                None => {}
                Some(Answer::Live) if seen => {}
                Some(Answer::Live) => self.launch_again(execution, connection, d),
                Some(_) => self.stop_again(execution, connection, d),
            }
        }
        for (execution, event) in sightings {
            let ended = matches!(event, Some(ContainerEvent::Ended { .. }));
            let here = self.containers.get(*execution).is_some_and(|at| at.member == uuid);
            if !ended && !here {
                let reason = InvalidReason::UnknownId;
                let grace_ms = STRANGERS_GRACE_MS;
                d.send(connection, AgentMessage::Stop { execution: *execution, reason, grace_ms });
            }
        }
    }

    /// The launch never arrived: it is sent again, and starts nothing twice. A container that had been
    /// reported started cannot be forgotten by its agent; if it is, nobody can prove its end.
    fn launch_again(&mut self, execution: ExecutionId, connection: Connection, d: &mut Draft) {
        let Some(at) = self.containers.get(execution) else { return };
        let Some(job) = self.jobs.get(&at.job) else { return };
        let Some(pipeline) = job.record.pipeline(at.pipeline) else { return };
        let Some((group, container)) = pipeline.task_groups.iter().find_map(|group| {
            let container = group.container.as_ref().filter(|c| c.id == execution)?;
            Some((group, container))
        }) else {
            return;
        };
        if container.started.is_none() {
            let launch = launch_of(&job.record, pipeline, group, container);
            d.send(connection, AgentMessage::Launch(Box::new(launch)));
        } else {
            let vanished = ContainerEvent::Ended { outcome: None, proof: None };
            self.note_event(execution, vanished, d);
        }
    }

    /// Revoked and not proven gone: its agent is told again, unless it has already said that it cannot
    /// prove the end.
    fn stop_again(&self, execution: ExecutionId, connection: Connection, d: &mut Draft) {
        let Some(at) = self.containers.get(execution) else { return };
        let Some(job) = self.jobs.get(&at.job) else { return };
        let leftovers = job.record.pipeline(at.pipeline).map(|pipeline| pipeline.leftovers());
        let Some(old) = leftovers.into_iter().flatten().find(|old| old.id == execution) else {
            return;
        };
        if !old.ended_unproven {
            let grace_ms = job.record.spec.container.lease.grace_ms;
            let reason = old.revoked.unwrap_or(InvalidReason::Superseded);
            d.send(connection, AgentMessage::Stop { execution, reason, grace_ms });
        }
    }

    /// An agent says that it goes. The loss is declared in this step and acknowledged after its commit,
    /// before the agent stops a container: so their ends are never taken for ordinary failures.
    pub(crate) fn leaving(&mut self, uuid: MemberUuid, connection: Connection, d: &mut Draft) {
        if self.members.is_present(uuid) && self.members.heard(uuid, connection, d.now) {
            let evidence = "its agent said that it leaves".to_owned();
            self.declare_lost(uuid, LossCause::Leaving, evidence, d);
        }
        d.send(connection, AgentMessage::LeaveAcknowledged);
    }

    /// Containers of a member that is away or suspected get what is left of their lease, not a new one. Once it
    /// is heard again, it no longer matters to who waits there for an old copy's end whether it is lost.
    pub(crate) fn apply_holds(&mut self, d: &mut Draft) {
        for (uuid, held) in self.members.hold_changes() {
            let Some(member) = self.members.get(uuid) else { continue };
            let ask_in_ms = self.members.decided_in_ms(member);
            let mut waiting = BTreeSet::new();
            for execution in &member.containers {
                match self.containers.get(*execution) {
                    None => {}
                    Some(Container { answer: Answer::Live, .. }) => d.step.index.push(if held {
                        IndexChange::Hold(*execution, ask_in_ms)
                    } else {
                        IndexChange::Release(*execution)
                    }),
                    Some(old) => drop(waiting.insert((old.job, old.pipeline))),
                }
            }
            if let Some(member) = self.members.get_mut(uuid) {
                member.held = held;
            }
            self.place_again |= !held;
            if !held {
                for (job, pipeline) in waiting {
                    self.advance(job, pipeline, d);
                }
            }
        }
    }
}
