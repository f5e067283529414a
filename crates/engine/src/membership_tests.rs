//! The failure detector, told as stories. `listen` lets time pass as a coordinator does that is awake;
//! `passes` lets it pass at once, as for one that was stopped.

use std::collections::BTreeMap;

use super::*;

const A: u128 = 0xa;
const B: u128 = 0xb;

struct Story {
    members: Members,
    now: Timestamp,
    connections: u64,
}

impl Story {
    fn new() -> Self {
        let now = Timestamp::from_millis(1_000_000);
        Self { members: Members::new(Vec::new(), &settings(), now), now, connections: 0 }
    }

    /// A term that begins with these members in its table.
    fn takes_over(uuids: &[u128]) -> Self {
        let now = Timestamp::from_millis(9_000_000);
        let records = uuids.iter().map(|uuid| record(member(*uuid))).collect();
        Self { members: Members::new(records, &settings(), now), now, connections: 0 }
    }

    fn connects(&mut self, uuid: u128) -> Connection {
        self.connections += 1;
        let connection = Connection(self.connections);
        if self.members.get(member(uuid)).is_some() {
            self.members.connect(member(uuid), connection, self.now);
        } else {
            self.members.register(record(member(uuid)), connection, self.now);
        }
        connection
    }

    fn speaks(&mut self, uuid: u128, connection: Connection) -> bool {
        self.members.heard(member(uuid), connection, self.now)
    }

    fn listen(&mut self, ms: u64) {
        for _ in 0..ms / 100 {
            self.passes(100);
        }
    }

    fn passes(&mut self, ms: u64) {
        self.now = self.members.advance(self.now + ms);
    }

    fn lost(&mut self) -> Option<(MemberUuid, LossCause)> {
        self.members.suspect_self(self.now);
        self.members.due().map(|due| (due.member, due.cause))
    }

    fn status(&self, uuid: u128) -> MemberStatus {
        self.members.status(self.members.get(member(uuid)).unwrap())
    }
}

/// Silence of 5 s, a reconnection grace of 300 ms: the published defaults.
fn settings() -> Settings {
    Settings::default()
}

fn member(uuid: u128) -> MemberUuid {
    format!("{uuid:032x}").parse().unwrap()
}

fn record(uuid: MemberUuid) -> MemberRecord {
    MemberRecord {
        uuid,
        host: "host".to_owned(),
        address: "10.0.0.1:5801".to_owned(),
        pid: 1,
        slots: 2,
        tags: BTreeMap::new(),
        version: "test".to_owned(),
        feature_level: 1,
        registered: Timestamp::default(),
        lost: None,
        draining: false,
    }
}

#[test]
fn a_member_that_speaks_is_never_lost() {
    let mut story = Story::new();
    let connection = story.connects(A);
    for _ in 0..100 {
        story.listen(1_000);
        assert!(story.speaks(A, connection));
        assert_eq!(story.lost(), None);
        assert_eq!(story.status(A), MemberStatus::Alive);
    }
}

#[test]
fn silence_makes_a_member_suspected_then_lost() {
    let mut story = Story::new();
    story.connects(A);
    story.listen(1_600);
    assert_eq!(story.status(A), MemberStatus::Alive);
    story.listen(100);
    assert_eq!(story.status(A), MemberStatus::Suspected, "a third of the timeout has passed");
    story.listen(3_200);
    assert_eq!(story.lost(), None);
    story.listen(100);
    assert_eq!(story.lost(), Some((member(A), LossCause::Silence)));
}

#[test]
fn the_timer_starts_with_the_registration_not_with_the_first_word() {
    let mut story = Story::new();
    story.connects(A);
    story.listen(5_000);
    assert_eq!(story.lost(), Some((member(A), LossCause::Silence)), "it never spoke at all");
}

#[test]
fn a_killed_agent_is_noticed_after_the_short_grace() {
    let mut story = Story::new();
    let connection = story.connects(A);
    assert!(story.members.disconnect(member(A), connection, false));
    story.listen(200);
    assert_eq!(story.lost(), None);
    assert_eq!(story.status(A), MemberStatus::Disconnected);
    story.listen(100);
    assert_eq!(story.lost(), Some((member(A), LossCause::ConnectionClosed)));
}

#[test]
fn an_agent_that_comes_back_within_the_grace_was_never_lost() {
    let mut story = Story::new();
    let first = story.connects(A);
    story.members.disconnect(member(A), first, false);
    story.listen(200);
    let second = story.connects(A);
    story.listen(3_000);
    assert_eq!(story.lost(), None);
    assert!(!story.speaks(A, first), "the old connection speaks for nobody");
    assert!(story.speaks(A, second));
}

#[test]
fn late_news_of_an_old_connections_end_is_no_news_of_the_new_one() {
    let mut story = Story::new();
    let first = story.connects(A);
    let second = story.connects(A);
    assert!(!story.members.disconnect(member(A), first, false));
    story.listen(1_000);
    assert_eq!(story.lost(), None);
    assert!(story.members.disconnect(member(A), second, false));
}

#[test]
fn a_connection_that_the_coordinator_closed_is_not_held_against_the_member() {
    let mut story = Story::new();
    let connection = story.connects(A);
    story.members.disconnect(member(A), connection, true);
    story.listen(4_900);
    assert_eq!(story.lost(), None, "the short grace does not apply");
    story.listen(100);
    assert!(story.lost().is_some());
}

#[test]
fn a_coordinator_that_was_stopped_declares_nobody_lost_on_waking() {
    let mut story = Story::new();
    let a = story.connects(A);
    let b = story.connects(B);
    story.members.disconnect(member(B), b, true);
    story.passes(30_000);
    assert_eq!(story.lost(), None, "it was not listening for those thirty seconds");
    story.listen(4_900);
    assert_eq!(story.lost(), None, "each has one full window after it");
    assert!(story.speaks(A, a));
    story.listen(100);
    assert_eq!(story.lost().map(|(lost, _)| lost), Some(member(B)), "its window is bounded");
}

#[test]
fn a_clock_that_goes_back_is_a_clock_that_stands_still() {
    let mut story = Story::new();
    story.connects(A);
    let before = story.now;
    let now = story.members.advance(Timestamp::from_millis(5));
    assert_eq!(now, before);
    story.listen(4_900);
    assert_eq!(story.lost(), None);
}

#[test]
fn a_new_term_gives_every_member_time_to_find_it() {
    let mut story = Story::takes_over(&[A, B]);
    // An agent gives a leader that is stopped up after 5 s, and may then ask it once more for 2 s.
    story.listen(7_000);
    assert_eq!(story.lost(), None, "longer than a member may be silent");
    let a = story.connects(A);
    story.listen(900);
    assert_eq!(story.lost(), None);
    story.speaks(A, a);
    story.listen(100);
    assert_eq!(story.lost(), Some((member(B), LossCause::Silence)), "it never came back");
}

#[test]
fn leases_are_held_back_while_a_members_fate_is_open() {
    let mut story = Story::new();
    let connection = story.connects(A);
    assert_eq!(story.members.hold_changes(), []);
    story.members.disconnect(member(A), connection, false);
    assert_eq!(story.members.hold_changes(), [(member(A), true)]);
    story.members.get_mut(member(A)).unwrap().held = true;
    story.connects(A);
    assert_eq!(story.members.hold_changes(), [(member(A), false)]);
}

#[test]
fn nobody_is_placed_on_a_member_that_is_away_suspected_or_lost() {
    let mut story = Story::new();
    let connection = story.connects(A);
    assert!(story.members.get(member(A)).unwrap().takes_containers());
    story.members.disconnect(member(A), connection, false);
    assert!(!story.members.get(member(A)).unwrap().takes_containers());
    story.connects(A);
    story.members.get_mut(member(A)).unwrap().record.lost = Some(story.now);
    assert!(!story.members.get(member(A)).unwrap().takes_containers());
    assert_eq!(story.lost(), None, "nobody is lost twice");
}

#[test]
fn the_next_deadline_is_never_later_than_a_tick_while_somebody_is_watched() {
    let mut story = Story::new();
    assert_eq!(story.members.next_deadline(), None, "nobody, nothing to do");
    let connection = story.connects(A);
    let next = story.members.next_deadline().unwrap();
    assert!(next <= story.now + TICK_MS, "or time would not count as listening");
    story.members.disconnect(member(A), connection, false);
    assert_eq!(story.members.next_deadline(), Some(story.now + 300));
}

#[test]
fn a_lost_member_stays_listed_for_its_time() {
    let mut story = Story::new();
    story.connects(A);
    story.members.get_mut(member(A)).unwrap().record.lost = Some(story.now);
    let unlisted_at = story.now + settings().lost_listed_ms;
    assert_eq!(story.members.next_deadline(), Some(unlisted_at));
    assert_eq!(story.members.to_unlist(story.now), []);
    assert_eq!(story.members.to_unlist(unlisted_at), [member(A)]);
}

/// Five members that all speak until now.
fn five() -> (Story, Vec<Connection>) {
    let mut story = Story::new();
    let connections = (1..=5).map(|uuid| story.connects(uuid)).collect();
    (story, connections)
}

#[test]
fn when_most_members_go_at_once_the_coordinator_suspects_itself_for_one_more_timeout() {
    let (mut story, connections) = five();
    for uuid in 1..=3 {
        let connection = connections[uuid as usize - 1];
        assert!(story.members.disconnect(member(uuid), connection, false));
    }
    for _ in 0..52 {
        story.listen(100);
        story.speaks(4, connections[3]);
        story.speaks(5, connections[4]);
        assert_eq!(story.lost(), None, "held, though their grace of 300 ms is over");
    }
    assert_eq!(story.members.suspicion.map(|suspicion| suspicion.members), Some(3));
    story.listen(100);
    assert_eq!(
        story.lost(),
        Some((member(1), LossCause::ConnectionClosed)),
        "held once, not twice"
    );
}

#[test]
fn who_returns_while_the_coordinator_suspects_itself_was_never_lost() {
    let (mut story, connections) = five();
    for uuid in 1..=3 {
        let connection = connections[uuid as usize - 1];
        assert!(story.members.disconnect(member(uuid), connection, false));
    }
    story.listen(400);
    assert_eq!(story.lost(), None);
    story.connects(1);
    story.connects(2);
    assert_eq!(story.lost(), None, "the last one has as long as the first");
    story.connects(3);
    assert_eq!(story.lost(), None);
    assert_eq!(story.members.suspicion, None, "all are back");
}

#[test]
fn half_of_the_members_or_two_of_two_are_no_reason_to_suspect_oneself() {
    let mut story = Story::new();
    let connections: Vec<Connection> = (1..=4).map(|uuid| story.connects(uuid)).collect();
    for uuid in 1..=2 {
        let connection = connections[uuid as usize - 1];
        assert!(story.members.disconnect(member(uuid), connection, false));
    }
    story.listen(300);
    assert!(story.lost().is_some(), "two of four");

    let mut story = Story::new();
    let (a, b) = (story.connects(A), story.connects(B));
    assert!(story.members.disconnect(member(A), a, false));
    assert!(story.members.disconnect(member(B), b, false));
    story.listen(300);
    assert!(story.lost().is_some(), "two of two");
}

#[test]
fn most_members_silent_together_are_held_too() {
    let (mut story, connections) = five();
    for _ in 0..49 {
        story.listen(100);
        story.speaks(5, connections[4]);
    }
    assert_eq!(story.lost(), None);
    story.listen(100);
    assert_eq!(story.lost(), None, "four of five are silent for five seconds");
    assert_eq!(story.members.suspicion.map(|suspicion| suspicion.members), Some(4));
}

#[test]
fn after_a_gap_a_connection_that_broke_meanwhile_has_a_full_window_too() {
    let mut story = Story::new();
    let connection = story.connects(A);
    story.speaks(A, connection);
    story.passes(20_000);
    // The news of the closed connection waited in the coordinator's own queue.
    assert!(story.members.disconnect(member(A), connection, false));
    story.listen(4_900);
    assert_eq!(
        story.lost(),
        None,
        "an agent's pause between tries has grown longer than the grace"
    );
    story.listen(100);
    assert_eq!(story.lost(), Some((member(A), LossCause::ConnectionClosed)), "bounded");

    let connection = story.connects(B);
    story.listen(100);
    assert!(story.members.disconnect(member(B), connection, false));
    story.listen(300);
    assert!(story.lost().is_some(), "the window is over: the short grace applies again");
}
