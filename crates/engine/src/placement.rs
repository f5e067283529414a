//! Where containers go: spread over the members, all slots of a pipeline or none.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use steadfast_model::{MemberUuid, PipelineSpec};

use crate::membership::{Member, Members};

/// A member for each of the pipeline's task groups, or `None` if there are not enough free slots on
/// members that carry its tags.
pub(crate) fn place(members: &Members, pipeline: &PipelineSpec) -> Option<Vec<MemberUuid>> {
    let takers = members.iter().filter(|member| member.takes_containers());
    let placed = Rooms::of(takers).place(pipeline);
    (placed.len() == pipeline.task_group_count() as usize).then_some(placed)
}

/// Free slots, by member.
pub(crate) struct Rooms<'a>(Vec<Room<'a>>);

struct Room<'a> {
    taken: u32,
    /// Below zero where a member came back with fewer slots than it holds.
    free: i64,
    member: MemberUuid,
    tags: &'a BTreeMap<String, String>,
}

impl<'a> Rooms<'a> {
    /// The free slots of these members.
    pub fn of(members: impl Iterator<Item = &'a Member>) -> Self {
        let room = |member: &'a Member| Room {
            taken: 0,
            free: i64::from(member.record.slots) - i64::from(member.used_slots()),
            member: member.record.uuid,
            tags: &member.record.tags,
        };
        Self(members.map(room).collect())
    }

    /// One of the member's slots is going to come free.
    pub fn free(&mut self, member: MemberUuid) {
        for room in self.0.iter_mut().filter(|room| room.member == member) {
            room.free += 1;
        }
    }

    /// Takes a slot for each of the pipeline's task groups, as far as there are any. Members that hold fewest
    /// of this pipeline come first, then those with most free slots, then the lower UUID, so that the choice
    /// is the same in every replay.
    pub fn place(&mut self, pipeline: &PipelineSpec) -> Vec<MemberUuid> {
        let fits = |tags: &BTreeMap<String, String>| {
            pipeline.member_tags.iter().all(|(key, value)| tags.get(key) == Some(value))
        };
        let mut rooms: Vec<&mut Room<'_>> =
            self.0.iter_mut().filter(|room| fits(room.tags)).collect();
        rooms.iter_mut().for_each(|room| room.taken = 0);
        let mut take_one = || {
            let room = rooms
                .iter_mut()
                .filter(|room| room.free > 0)
                .min_by_key(|room| (room.taken, Reverse(room.free), room.member))?;
            room.taken += 1;
            room.free -= 1;
            Some(room.member)
        };
        (0..pipeline.task_group_count()).map_while(|_| take_one()).collect()
    }
}
