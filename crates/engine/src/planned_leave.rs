//! Planned leaves: what an authenticated operator registers before a member goes, and what that proves.
//!
//! A loss counts unless it is proven that it was planned. So a registration is taken only while its member
//! is seen to be alive, under an id that is used once, and it proves a loss only where the member is known
//! to have gone after it and before it expired. In doubt the loss counts.
//!
//! A drain is such a leave told in advance: its loss is journalled at once, while the agent still runs, so
//! that the containers are moved by the walk of every other loss and are stopped with grace.

use steadfast_model::{
    JobId, LeaveClassification, LossCause, MemberStatus, MemberUuid, PipelineId, RequestId,
    Timestamp,
};

use crate::draft::Draft;
use crate::engine::Engine;
use crate::input::{LeaveRequest, Ticket};
use crate::placement::Rooms;
use crate::records::OperatorRequest;
use crate::step::{MemberWrite, Reply, RequestWrite};

/// For how long a registration is valid where nothing else was asked for.
pub const DEFAULT_LEAVE_VALID_MS: u64 = 10 * 60_000;
/// The shortest validity that can be asked for.
pub const MIN_LEAVE_VALID_MS: u64 = 1_000;
/// The longest one.
pub const MAX_LEAVE_VALID_MS: u64 = 60 * 60_000;

/// How long a request is kept after it has expired, so that its id is used for nothing else.
const KEPT_MS: u64 = 24 * 60 * 60_000;
/// Requests that are kept at most.
const MAX_REQUESTS: usize = 10_000;
/// Requests that one registration forgets at most: its commit is small, whatever has piled up.
const FORGOTTEN_AT_ONCE: usize = 32;

/// An operator's request, in memory.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub request: OperatorRequest,
    /// An earlier term registered it at a moment that this one had not reached when it began. The two
    /// clocks differ, so nobody can say when it expires.
    doubtful: bool,
}

impl Engine {
    /// What earlier terms registered. No member was heard in this one yet.
    pub(crate) fn load_requests(&mut self, requests: Vec<OperatorRequest>) {
        for request in requests {
            if let Some(member) = self.members.get_mut(request.member) {
                member.unheard_since.insert(request.id.clone());
            }
            let doubtful = request.registered > self.began;
            self.requests.insert(request.id.clone(), Registration { request, doubtful });
        }
    }

    /// Registers a planned leave, and begins the drain where that was asked for. A repetition is answered with
    /// what is registered and changes nothing.
    pub(crate) fn plan_leave(&mut self, ticket: Ticket, asked: LeaveRequest, d: &mut Draft) {
        let known = self.requests.get(&asked.id);
        let reply = known.map(|known| repeated(&known.request, &asked));
        let reply = reply.or_else(|| self.refusal(&asked, d.now));
        let reply = reply.unwrap_or_else(|| Reply::LeavePlanned(self.register(asked, d)));
        d.reply(ticket, reply);
    }

    /// Why a request cannot be registered now.
    fn refusal(&self, asked: &LeaveRequest, now: Timestamp) -> Option<Reply> {
        let uuid = asked.member;
        let Some(member) = self.members.get(uuid) else { return Some(Reply::UnknownMember) };
        let status = self.members.status(member);
        let why = if member.is_lost() {
            format!("member {uuid} is lost already: a leave is planned before the member goes")
        } else if member.record.draining {
            format!(
                "member {uuid} is already draining: end its agent when it holds no container any more"
            )
        } else if status != MemberStatus::Alive {
            format!(
                "member {uuid} is {status} and may be gone already: a leave is planned while it is {}",
                MemberStatus::Alive
            )
        } else if self.requests.len() >= MAX_REQUESTS
            && !self.requests.values().any(|known| known.is_forgettable(now))
        {
            format!(
                "{MAX_REQUESTS} requests are kept, each until a day after it has expired: ask again \
                 when the first of them is forgotten"
            )
        } else {
            let missing = if asked.drain { self.slots_missing_without(uuid) } else { 0 };
            if missing == 0 {
                return None;
            }
            format!(
                "member {uuid} cannot be drained: the other members have too few free slots for the \
                 pipelines that have containers there (missing: {missing}): add members, stop a job, or \
                 plan its leave without a drain and let them wait"
            )
        };
        Some(Reply::LeaveRefused(why))
    }

    fn register(&mut self, asked: LeaveRequest, d: &mut Draft) -> OperatorRequest {
        self.forget_requests(d);
        let LeaveRequest { id, member, actor, reason, valid_ms, drain } = asked;
        let expires = d.now + valid_ms.min(MAX_LEAVE_VALID_MS);
        let request =
            OperatorRequest { id, member, actor, reason, registered: d.now, expires, drain };
        d.step.requests.push(RequestWrite::Put(request.clone()));
        if let Some(member) = self.members.get_mut(member) {
            member.unheard_since.insert(request.id.clone());
        }
        let registration = Registration { request: request.clone(), doubtful: false };
        self.requests.insert(request.id.clone(), registration);
        if drain {
            self.drain(&request, d);
        }
        request
    }

    fn forget_requests(&mut self, d: &mut Draft) {
        let old = self.requests.iter().filter(|(_, known)| known.is_forgettable(d.now));
        let old: Vec<RequestId> = old.map(|(id, _)| id.clone()).take(FORGOTTEN_AT_ONCE).collect();
        for id in old {
            self.requests.remove(&id);
            d.step.requests.push(RequestWrite::Forget(id));
        }
    }

    /// The member takes no containers any more, its loss enters the journal, and what it holds moves.
    fn drain(&mut self, request: &OperatorRequest, d: &mut Draft) {
        let Some(member) = self.members.get_mut(request.member) else { return };
        member.record.draining = true;
        d.step.members.push(MemberWrite::Put(member.record.clone()));
        let OperatorRequest { id, actor, reason, .. } = request;
        let evidence = format!("drained in request {id} by {actor}: {reason}");
        let planned = LeaveClassification::PlannedVerified;
        self.journal_loss(request.member, planned, LossCause::ToldByOperator, evidence, d);
    }

    /// How many free slots the other members lack for the pipelines that have a live container on this one,
    /// all of them together. What those hold elsewhere comes free, since a pipeline restores as a whole.
    /// They are placed in the order in which they will be deployed.
    fn slots_missing_without(&self, uuid: MemberUuid) -> u64 {
        let others = self.members.iter().filter(|member| member.record.uuid != uuid);
        let mut rooms = Rooms::of(others.filter(|member| member.takes_containers()));
        let mut moving: Vec<(Timestamp, JobId, PipelineId)> = Vec::new();
        for (id, stake) in self.stakes_on(uuid) {
            let Some(job) = self.jobs.get(&id) else { continue };
            let created = job.record.created;
            moving.extend(stake.present.keys().map(|pipeline| (created, id, *pipeline)));
        }
        moving.sort_unstable();
        let moving = moving.iter().filter_map(|(_, job, pipeline)| {
            let job = &self.jobs.get(job)?.record;
            let spec = job.spec.pipelines.get((pipeline.get() as usize).checked_sub(1)?)?;
            Some((job.pipeline(*pipeline)?, spec))
        });
        let moving: Vec<_> = moving.collect();
        for group in moving.iter().flat_map(|(record, _)| &record.task_groups) {
            for container in group.container.iter().chain(&group.leftovers).filter(|c| !c.gone) {
                rooms.free(container.member);
            }
        }
        let missing = moving
            .iter()
            .map(|(_, spec)| u64::from(spec.task_group_count()) - rooms.place(spec).len() as u64);
        missing.sum()
    }

    /// A drained member went: its loss is in the journal already. Who waits there for the proof that an old
    /// copy is gone has to wait for the end of its lease now.
    pub(crate) fn lose_drained(&mut self, uuid: MemberUuid, d: &mut Draft) {
        for (job, stake) in self.stakes_on(uuid) {
            debug_assert!(stake.present.is_empty(), "job {job} deployed on a draining member");
            for pipeline in stake.waiting {
                self.advance(job, pipeline, d);
            }
        }
    }

    /// The registration that proves this member's loss to be planned. It has not expired, and the member went
    /// after it: it said so now; or it was heard in this term and closed its connection, which it had when
    /// the leave was registered; or a sign of life came after the registration. The order is that of the
    /// inputs: clocks of two terms may differ, and two inputs may share a millisecond.
    pub(crate) fn plan_of(
        &self,
        uuid: MemberUuid,
        cause: LossCause,
        now: Timestamp,
    ) -> Option<&OperatorRequest> {
        let member = self.members.get(uuid)?;
        let proves = |known: &&Registration| {
            let request = &known.request;
            request.member == uuid
                && !known.doubtful
                && (request.registered..request.expires).contains(&now)
                && match cause {
                    LossCause::Leaving => true,
                    LossCause::ConnectionClosed if member.closed_by_itself() => true,
                    _ => !member.unheard_since.contains(&request.id),
                }
        };
        let proving = self.requests.values().filter(proves).map(|known| &known.request);
        proving.max_by_key(|request| request.registered)
    }
}

impl Registration {
    fn is_forgettable(&self, now: Timestamp) -> bool {
        now >= self.request.expires + KEPT_MS
    }
}

/// The answer to a request under an id that is in use.
fn repeated(known: &OperatorRequest, asked: &LeaveRequest) -> Reply {
    let OperatorRequest { id, member, actor, reason, registered, expires, drain } = known;
    let (valid_ms, asked_ms) =
        (expires.millis_since(*registered), asked.valid_ms.min(MAX_LEAVE_VALID_MS));
    let same = (*member, *drain) == (asked.member, asked.drain)
        && (actor, reason) == (&asked.actor, &asked.reason)
        && valid_ms == asked_ms;
    if same {
        return Reply::LeavePlanned(known.clone());
    }
    let what = if *drain { "drain" } else { "planned leave" };
    Reply::LeaveRefused(format!(
        "request id {id} was used by {actor} for the {what} of member {member}, with the reason \
         \"{reason}\", valid for {} s: take another id",
        valid_ms / 1_000
    ))
}

#[cfg(test)]
#[path = "planned_leave_tests.rs"]
mod tests;
