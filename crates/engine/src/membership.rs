//! Who is a member, who is silent, who is lost.
//!
//! A member is lost when its connection has closed and it has not come back within a short grace, or
//! when it has been silent for its timeout, or when it says that it goes. Only time in which the
//! coordinator itself was listening counts: one that was stopped for half a minute declares nobody lost
//! on waking. So silence is measured on a clock that the engine's own steps move, by a bounded stride; and
//! whoever was not listening gives every member one full window after waking, since the connections that
//! broke meanwhile, and the pauses that agents make between tries, are its own doing.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_model::{ExecutionId, LossCause, MemberStatus, MemberUuid, RequestId, Timestamp};

use crate::input::Connection;
use crate::records::MemberRecord;
use crate::settings::Settings;
use crate::suspicion::SelfSuspicion;

/// The engine asks to be stepped at least this often while it has members.
const TICK_MS: u64 = 500;
/// The most that one step moves the listening clock: a longer gap was not listening.
const STRIDE_MS: u64 = 2 * TICK_MS;
/// The least that a new leader gives members to come to it. An agent whose leader was stopped, or cut off,
/// learns nothing: it gives that connection up after 5 s of silence, may then ask the same coordinator again for
/// 2 s, and pauses for up to half a second before each further try. A leader that began meanwhile must not
/// take it for lost, however soon a silent member is to be.
const RETURN_MS: u64 = 8_000;

/// Time in which the coordinator was listening, in milliseconds since its term began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListeningClock {
    last: Timestamp,
    listened_ms: u64,
    /// When it last listened again after a gap.
    woke_ms: Option<u64>,
}

impl ListeningClock {
    pub fn new(now: Timestamp) -> Self {
        Self { last: now, listened_ms: 0, woke_ms: None }
    }

    /// Moves the clock to `now` and returns the instant to work with, which never goes back. `ticking`: a
    /// step was due meanwhile, so that a gap was not listening; with nobody to listen for it says nothing.
    pub fn advance(&mut self, now: Timestamp, ticking: bool) -> Timestamp {
        let now = now.max(self.last);
        let gap_ms = now.millis_since(self.last);
        self.listened_ms += gap_ms.min(STRIDE_MS);
        if ticking && gap_ms > STRIDE_MS {
            self.woke_ms = Some(self.listened_ms);
        }
        self.last = now;
        now
    }
}

/// How a member is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Connected(Connection),
    /// Not connected since `since_ms` of the listening clock; lost after `patience_ms`.
    Away {
        since_ms: u64,
        patience_ms: u64,
        cause: LossCause,
        /// The coordinator closed it.
        by_us: bool,
    },
}

/// One member, and what the engine holds of it in memory.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub record: MemberRecord,
    link: Link,
    /// On the listening clock.
    heard_ms: u64,
    pub last_seen: Timestamp,
    /// Leaves that were planned since it was last heard, or before it was heard in this term.
    pub unheard_since: BTreeSet<RequestId>,
    /// Containers that are, or may still be, there.
    pub containers: BTreeSet<ExecutionId>,
    /// Whether its containers' leases are held back.
    pub held: bool,
}

/// How a member that was heard in this term stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trouble {
    /// Since when it was not heard, or is away; on the listening clock.
    pub since_ms: u64,
    /// Whether it is still connected.
    pub silent: bool,
    /// Whether it is away, or silent for long enough to be suspected.
    pub suspected: bool,
    /// Whether its time has come.
    pub is_due: bool,
}

/// A member whose time has come.
pub(crate) struct Due {
    pub member: MemberUuid,
    pub cause: LossCause,
    pub evidence: String,
}

impl Member {
    pub fn connection(&self) -> Option<Connection> {
        match self.link {
            Link::Connected(connection) => Some(connection),
            Link::Away { .. } => None,
        }
    }

    pub fn is_lost(&self) -> bool {
        self.record.lost.is_some()
    }

    /// Whether nobody knows if it is lost: it is away, or silent for so long that leases are held back. A
    /// drained one's loss is in the journal already.
    pub fn is_in_doubt(&self) -> bool {
        let unheard = self.held || self.connection().is_none();
        unheard && !self.is_lost() && !self.record.draining
    }

    /// Slots that are taken, old copies that are not proven gone included.
    pub fn used_slots(&self) -> u32 {
        u32::try_from(self.containers.len()).unwrap_or(u32::MAX)
    }

    pub fn free_slots(&self) -> u32 {
        self.record.slots.saturating_sub(self.used_slots())
    }

    /// Whether it is away because its connection, which it had in this term, was closed, and not by us.
    pub fn closed_by_itself(&self) -> bool {
        let cause = LossCause::ConnectionClosed;
        matches!(self.link, Link::Away { cause: closed, by_us: false, .. } if closed == cause)
    }

    /// Whether a new container may be placed there.
    pub fn takes_containers(&self) -> bool {
        !self.is_lost() && !self.record.draining && !self.held && self.connection().is_some()
    }
}

/// The table of members, in memory.
#[derive(Clone, Debug)]
pub(crate) struct Members {
    clock: ListeningClock,
    timeout_ms: u64,
    grace_ms: u64,
    lost_listed_ms: u64,
    table: BTreeMap<MemberUuid, Member>,
    pub(crate) suspects_self: bool,
    pub(crate) suspicion: Option<SelfSuspicion>,
}

impl Members {
    /// The table of a new term: every member has its full window from now on, and time to find its way.
    pub fn new(records: Vec<MemberRecord>, settings: &Settings, now: Timestamp) -> Self {
        let away = Link::Away {
            since_ms: 0,
            patience_ms: settings.member_timeout_ms.max(RETURN_MS),
            cause: LossCause::Silence,
            by_us: false,
        };
        let table = records
            .into_iter()
            .map(|record| {
                let member = Member {
                    last_seen: record.lost.unwrap_or(now),
                    link: away,
                    heard_ms: 0,
                    unheard_since: BTreeSet::new(),
                    containers: BTreeSet::new(),
                    held: true,
                    record,
                };
                (member.record.uuid, member)
            })
            .collect();
        Self {
            clock: ListeningClock::new(now),
            timeout_ms: settings.member_timeout_ms,
            grace_ms: settings.reconnect_grace_ms,
            lost_listed_ms: settings.lost_listed_ms,
            table,
            suspects_self: settings.suspect_self,
            suspicion: None,
        }
    }

    pub fn advance(&mut self, now: Timestamp) -> Timestamp {
        let ticking = self.ticks();
        self.clock.advance(now, ticking)
    }

    /// The instant to work with where the listening clock is not to be moved.
    pub fn instant(&self, now: Timestamp) -> Timestamp {
        now.max(self.clock.last)
    }

    pub fn get(&self, member: MemberUuid) -> Option<&Member> {
        self.table.get(&member)
    }

    pub fn get_mut(&mut self, member: MemberUuid) -> Option<&mut Member> {
        self.table.get_mut(&member)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.table.values()
    }

    /// Whether its agent may still speak for it: registered and not declared lost.
    pub fn is_present(&self, member: MemberUuid) -> bool {
        self.table.get(&member).is_some_and(|member| !member.is_lost())
    }

    pub fn register(&mut self, record: MemberRecord, connection: Connection, now: Timestamp) {
        let member = Member {
            record,
            link: Link::Connected(connection),
            heard_ms: self.clock.listened_ms,
            last_seen: now,
            unheard_since: BTreeSet::new(),
            containers: BTreeSet::new(),
            held: false,
        };
        self.table.insert(member.record.uuid, member);
    }

    pub fn connect(&mut self, member: MemberUuid, connection: Connection, now: Timestamp) {
        if let Some(member) = self.table.get_mut(&member) {
            member.link = Link::Connected(connection);
            member.heard_ms = self.clock.listened_ms;
            member.last_seen = now;
            member.unheard_since.clear();
        }
    }

    /// Notes a sign of life; `false` when it came on a connection that is not the member's.
    pub fn heard(&mut self, member: MemberUuid, connection: Connection, now: Timestamp) -> bool {
        let heard_ms = self.clock.listened_ms;
        match self.table.get_mut(&member) {
            Some(member) if member.link == Link::Connected(connection) => {
                member.heard_ms = heard_ms;
                member.last_seen = now;
                member.unheard_since.clear();
                true
            }
            _ => false,
        }
    }

    /// Notes the end of a connection; `false` when it is not the member's present one.
    pub fn disconnect(&mut self, member: MemberUuid, connection: Connection, by_us: bool) -> bool {
        let since_ms = self.clock.listened_ms;
        let patience_ms = if by_us { self.timeout_ms } else { self.grace_ms };
        match self.table.get_mut(&member) {
            Some(member) if member.link == Link::Connected(connection) => {
                let cause = LossCause::ConnectionClosed;
                member.link = Link::Away { since_ms, patience_ms, cause, by_us };
                true
            }
            _ => false,
        }
    }

    pub fn remove(&mut self, member: MemberUuid) {
        self.table.remove(&member);
    }

    /// Milliseconds of listening since the term began.
    pub(crate) fn listened_ms(&self) -> u64 {
        self.clock.listened_ms
    }

    pub(crate) fn timeout_ms(&self) -> u64 {
        self.timeout_ms
    }

    /// Every present member that was heard in this term. Who never came back after a takeover cannot have
    /// gone in it.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = Trouble> {
        self.table.values().filter(|member| !member.is_lost()).filter_map(|member| {
            let (since_ms, silent) = match member.link {
                Link::Connected(_) => (member.heard_ms, true),
                Link::Away { since_ms, cause: LossCause::ConnectionClosed, .. } => {
                    (since_ms, false)
                }
                Link::Away { .. } => return None,
            };
            let suspected = self.is_held(member);
            Some(Trouble { since_ms, silent, suspected, is_due: self.decided_in_ms(member) == 0 })
        })
    }

    /// The first member whose time has come, if any, and unless the coordinator suspects itself.
    pub fn due(&self) -> Option<Due> {
        if self.holds_declarations() {
            return None;
        }
        let listened_ms = self.clock.listened_ms;
        self.table.values().filter(|member| !member.is_lost()).find_map(|member| {
            let (from_ms, cause) = match member.link {
                Link::Connected(_) => (member.heard_ms, LossCause::Silence),
                Link::Away { since_ms, cause, .. } => (since_ms, cause),
            };
            let waited_ms = listened_ms.saturating_sub(from_ms);
            (self.decided_in_ms(member) == 0).then(|| Due {
                member: member.record.uuid,
                cause,
                evidence: match cause {
                    LossCause::ConnectionClosed => {
                        format!("its connection closed and it did not come back for {waited_ms} ms")
                    }
                    _ => format!("silent for {waited_ms} ms"),
                },
            })
        })
    }

    /// Members whose hold does not fit their state any more, with the hold that would. A member is held
    /// while it is away, or silent for a third of the timeout.
    pub fn hold_changes(&self) -> Vec<(MemberUuid, bool)> {
        self.table
            .values()
            .filter(|member| !member.is_lost())
            .map(|member| (member, self.is_held(member)))
            .filter(|(member, held)| member.held != *held)
            .map(|(member, held)| (member.record.uuid, held))
            .collect()
    }

    fn is_held(&self, member: &Member) -> bool {
        match member.link {
            Link::Connected(_) => self.silent_ms(member) >= self.suspect_ms(),
            Link::Away { .. } => true,
        }
    }

    fn silent_ms(&self, member: &Member) -> u64 {
        self.clock.listened_ms.saturating_sub(member.heard_ms)
    }

    fn suspect_ms(&self) -> u64 {
        (self.timeout_ms / 3).max(1)
    }

    /// Milliseconds of listening until the member's fate is decided.
    pub fn decided_in_ms(&self, member: &Member) -> u64 {
        let until_ms = match member.link {
            Link::Connected(_) => member.heard_ms + self.timeout_ms,
            Link::Away { since_ms, patience_ms, .. } => since_ms + patience_ms,
        };
        let window_ms = self.clock.woke_ms.map_or(0, |woke_ms| woke_ms + self.timeout_ms);
        until_ms.max(window_ms).saturating_sub(self.clock.listened_ms)
    }

    /// Lost members that need not be listed any longer.
    pub fn to_unlist(&self, now: Timestamp) -> Vec<MemberUuid> {
        self.table
            .values()
            .filter(|member| {
                member.record.lost.is_some_and(|lost| now >= lost + self.lost_listed_ms)
            })
            .map(|member| member.record.uuid)
            .collect()
    }

    /// Whether somebody is listened for, so that the engine is stepped every [`TICK_MS`].
    pub(crate) fn ticks(&self) -> bool {
        self.table.values().any(|member| !member.is_lost())
    }

    /// When to look again.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.table
            .values()
            .map(|member| match member.record.lost {
                Some(lost) => lost + self.lost_listed_ms,
                None => {
                    let suspected_in_ms = match member.link {
                        Link::Connected(_) if !member.held => {
                            self.suspect_ms().saturating_sub(self.silent_ms(member))
                        }
                        _ => u64::MAX,
                    };
                    let decided_in_ms = match self.suspicion {
                        Some(held) if self.holds_declarations() => {
                            held.until_ms - self.clock.listened_ms
                        }
                        _ => self.decided_in_ms(member),
                    };
                    let wait_ms = decided_in_ms.min(suspected_in_ms).min(TICK_MS);
                    self.clock.last + wait_ms
                }
            })
            .min()
    }

    /// The member as an operator sees it.
    pub fn status(&self, member: &Member) -> MemberStatus {
        match member.link {
            _ if member.is_lost() => MemberStatus::Lost,
            Link::Away { .. } => MemberStatus::Disconnected,
            Link::Connected(_) if self.is_held(member) => MemberStatus::Suspected,
            Link::Connected(_) if member.record.draining => MemberStatus::Draining,
            Link::Connected(_) => MemberStatus::Alive,
        }
    }
}

#[cfg(test)]
#[path = "membership_tests.rs"]
mod tests;
