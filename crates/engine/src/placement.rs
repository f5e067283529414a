//! Where containers go: spread over the members, all slots of a pipeline or none.

use std::collections::BTreeMap;

use steadfast_model::{MemberUuid, PipelineSpec};

use crate::membership::Members;

/// A member for each of the pipeline's task groups, or `None` if there are not enough free slots on
/// members that carry its tags. Members that hold fewest of this pipeline come first, then those with
/// most free slots, then the lower UUID, so that the choice is the same in every replay.
pub(crate) fn place(members: &Members, pipeline: &PipelineSpec) -> Option<Vec<MemberUuid>> {
    let fits = |tags: &BTreeMap<String, String>| {
        pipeline.member_tags.iter().all(|(key, value)| tags.get(key) == Some(value))
    };
    let mut rooms: Vec<Room> = members
        .iter()
        .filter(|member| member.takes_containers() && fits(&member.record.tags))
        .map(|member| Room { taken: 0, free: member.free_slots(), member: member.record.uuid })
        .collect();
    (0..pipeline.task_group_count())
        .map(|_| {
            let room = rooms
                .iter_mut()
                .filter(|room| room.free > 0)
                .min_by_key(|room| (room.taken, u32::MAX - room.free, room.member))?;
            room.taken += 1;
            room.free -= 1;
            Some(room.member)
        })
        .collect()
}

struct Room {
    taken: u32,
    free: u32,
    member: MemberUuid,
}
