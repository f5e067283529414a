use std::sync::Arc;

use super::*;
use crate::lease::Lease;

const TERMS: LeaseTerms = LeaseTerms { lease_ms: 15_000, grace_ms: 5_000, schedule_ms: 1_000 };

fn at(ms: u64) -> BootTime {
    BootTime::from_millis(ms)
}

fn poll(urls: &[&str]) -> Poll {
    Poll::new(at(0), urls.iter().map(|url| (*url).to_owned()).collect(), TERMS, 7)
}

fn yes(nonce: u64, epoch: u64) -> ValidityAnswer {
    ValidityAnswer {
        is_valid: true,
        lease_ms: Some(15_000),
        next_poll_ms: Some(1_200),
        fencing_token: Some(FencingToken::new(7)),
        coordinator_epoch: Some(Epoch::new(epoch)),
        nonce: Some(nonce),
        ..ValidityAnswer::default()
    }
}

fn no(nonce: u64, epoch: u64) -> ValidityAnswer {
    let reason = Some(InvalidReason::Superseded);
    ValidityAnswer { is_valid: false, reason, lease_ms: None, ..yes(nonce, epoch) }
}

/// Asks whoever is next at `now` and hears `reply(nonce)` at once; returns whom it asked.
fn exchange(poll: &mut Poll, now: BootTime, reply: impl Fn(u64) -> Reply) -> (String, Heard) {
    let question = poll.due(now).expect("a question is due");
    let heard = poll.heard(now, &reply(question.nonce), at(60_000));
    (question.coordinator, heard)
}

fn useless(_: u64) -> Reply {
    Reply::Useless("connection refused".into())
}

#[test]
fn a_yes_counts_from_its_sending_and_says_when_to_ask_again() {
    let mut poll = poll(&["a"]);
    let question = poll.due(at(100)).unwrap();
    assert_eq!(poll.due(at(100)), None, "one question at a time");
    let heard = poll.heard(at(140), &Reply::Answer(yes(question.nonce, 3)), at(60_000));
    let token = FencingToken::new(7);
    assert_eq!(heard, Heard::Yes { sent_at: at(100), lease_ms: 15_000, token });
    assert_eq!(poll.next_at(), Some(at(140 + 1_200)));
}

#[test]
fn nothing_but_a_verdict_is_a_verdict() {
    let replies: [fn(u64) -> Reply; 7] = [
        useless,
        |_| Reply::Page { status: 404, why: String::new() },
        |_| Reply::Unavailable { coordinators: Vec::new() },
        |nonce| Reply::Answer(yes(nonce ^ 1, 3)),
        |nonce| Reply::Answer(no(nonce ^ 1, 3)),
        |_| Reply::Answer(ValidityAnswer::default()),
        |nonce| Reply::Answer(ValidityAnswer { lease_ms: None, ..yes(nonce, 3) }),
    ];
    for reply in replies {
        assert_eq!(exchange(&mut poll(&["a"]), at(0), reply).1, Heard::Nothing);
    }
}

#[test]
fn a_lower_epoch_is_ignored_and_a_higher_one_obeyed() {
    let mut poll = poll(&["a"]);
    exchange(&mut poll, at(0), |nonce| Reply::Answer(yes(nonce, 3)));
    let (_, old) = exchange(&mut poll, at(10_000), |nonce| Reply::Answer(no(nonce, 2)));
    assert_eq!(old, Heard::Nothing, "a deposed leader ends nobody");
    let (_, old) = exchange(&mut poll, at(20_000), |nonce| Reply::Answer(yes(nonce, 2)));
    assert_eq!(old, Heard::Nothing, "and extends nobody");
    let (_, new) = exchange(&mut poll, at(30_000), |nonce| Reply::Answer(no(nonce, 4)));
    assert_eq!(new, Heard::No(InvalidReason::Superseded));
}

#[test]
fn unknown_asks_each_other_coordinator_once_and_at_once_then_pauses() {
    let mut poll = poll(&["a", "b", "c"]);
    let asked: Vec<_> = (0..3).map(|_| exchange(&mut poll, at(0), useless).0).collect();
    assert_eq!(asked, ["a", "b", "c"]);
    assert_eq!(poll.due(at(0)), None, "a round without a verdict is followed by a pause");
    let pause = poll.next_at().unwrap();
    assert!(pause > at(0) && pause <= at(1_000), "of up to one schedule: {pause:?}");
    // The second round starts at the first again: it may be back where it was.
    let asked: Vec<_> = (0..3).map(|_| exchange(&mut poll, pause, useless).0).collect();
    assert_eq!(asked, ["a", "b", "c"]);
    assert_eq!(poll.next_at(), Some(pause.plus(1_000)), "later pauses are the schedule");
}

#[test]
fn the_first_pause_after_a_silence_is_spread() {
    let mut pauses: Vec<BootTime> = (0..200)
        .map(|seed| {
            let mut poll = Poll::new(at(0), vec!["a".into()], TERMS, seed);
            exchange(&mut poll, at(0), useless);
            poll.next_at().unwrap()
        })
        .collect();
    pauses.sort();
    assert!(pauses[20] < at(250) && pauses[180] > at(750), "over the whole schedule");
    assert!(pauses[199] <= at(1_000));
}

#[test]
fn pauses_shrink_with_what_is_left_of_the_lease() {
    let mut poll = poll(&["a"]);
    exchange(&mut poll, at(0), useless);
    for (now, next) in [(59_000, 59_500), (59_500, 59_750), (59_990, 60_040)] {
        exchange(&mut poll, at(now), useless);
        assert_eq!(poll.next_at(), Some(at(next)));
    }
}

#[test]
fn whoever_answered_is_asked_first_the_next_time() {
    let mut poll = poll(&["a", "b"]);
    exchange(&mut poll, at(0), useless);
    let (asked, _) = exchange(&mut poll, at(0), |nonce| Reply::Answer(yes(nonce, 1)));
    assert_eq!(asked, "b");
    let (asked, _) = exchange(&mut poll, at(2_000), useless);
    assert_eq!(asked, "b");
    assert_eq!(poll.due(at(2_000)).unwrap().coordinator, "a");
}

#[test]
fn answers_refresh_the_list_and_the_given_ones_stay() {
    let mut poll = poll(&["a", "b"]);
    let list = |urls: &[&str]| {
        Some(Arc::new(urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>()))
    };
    exchange(&mut poll, at(0), |nonce| {
        Reply::Answer(ValidityAnswer { coordinators: list(&["c/"]), ..yes(nonce, 1) })
    });
    let asked: Vec<_> = (0..3).map(|_| exchange(&mut poll, at(2_000), useless).0).collect();
    assert_eq!(asked, ["a", "b", "c"], "on from the one that answered, each once");
    assert_eq!(poll.due(at(2_000)), None);
}

#[test]
fn a_503_may_say_who_can_answer() {
    let mut poll = poll(&["a"]);
    exchange(&mut poll, at(0), |_| Reply::Unavailable { coordinators: vec!["leader".into()] });
    assert_eq!(poll.due(at(0)).unwrap().coordinator, "leader");
}

/// Red where each list that is learned turns the order: `b` and `c` then pass the question to each other.
#[test]
fn the_leader_is_asked_in_the_first_round_in_whatever_order_standbys_list_it() {
    let mut poll = poll(&["b", "c"]);
    let lists = |order: [&'static str; 3]| {
        move |_| Reply::Unavailable { coordinators: order.map(str::to_owned).into() }
    };
    let (first, _) = exchange(&mut poll, at(0), lists(["leader", "b", "c"]));
    let (second, _) = exchange(&mut poll, at(0), lists(["leader", "c", "b"]));
    let third = poll.due(at(0)).map(|question| question.coordinator);
    assert_eq!((first.as_str(), second.as_str(), third.as_deref()), ("b", "c", Some("leader")));
}

#[test]
fn an_answer_without_the_right_nonce_teaches_nothing() {
    let mut poll = poll(&["a"]);
    exchange(&mut poll, at(0), |nonce| {
        let coordinators = Some(Arc::new(vec!["stranger".into()]));
        Reply::Answer(ValidityAnswer { coordinators, ..yes(nonce ^ 1, 9) })
    });
    assert_eq!(poll.coordinators(), ["a"]);
    let (_, heard) = exchange(&mut poll, at(2_000), |nonce| Reply::Answer(yes(nonce, 1)));
    assert!(matches!(heard, Heard::Yes { .. }), "nor is its epoch remembered: {heard:?}");
}

#[test]
fn next_poll_is_obeyed_within_reason() {
    let ask = |next_poll_ms| {
        let mut poll = poll(&["a"]);
        exchange(&mut poll, at(0), |nonce| {
            Reply::Answer(ValidityAnswer { next_poll_ms: Some(next_poll_ms), ..yes(nonce, 1) })
        });
        poll.next_at().unwrap()
    };
    assert_eq!(ask(300), at(300));
    assert_eq!(ask(4_000), at(4_000));
    assert_eq!(ask(0), at(10), "a zero must not become a busy loop");
    // L − G − m = 9,600; half of it leaves room for a second question.
    assert_eq!(ask(u64::MAX), at(4_800));
}

#[test]
fn the_agents_death_is_asked_about_at_once_and_not_answered_by_an_older_question() {
    let mut poll = poll(&["a"]);
    exchange(&mut poll, at(0), |nonce| Reply::Answer(yes(nonce, 1)));
    poll.agent_died(at(50));
    let question = poll.due(at(50)).expect("no pause");
    poll.agent_died(at(60));
    assert_eq!(poll.due(at(60)), None, "still one at a time");
    poll.heard(at(70), &Reply::Answer(yes(question.nonce, 1)), at(60_000));
    assert!(poll.due(at(70)).is_some(), "the answer on its way was older than the news");
    poll.heard(at(80), &useless(0), at(60_000));
    assert_eq!(poll.due(at(80)), None, "then there are pauses again");
}

/// The first answer may come from a coordinator that has not noticed the death yet.
#[test]
fn a_container_without_its_agent_asks_often() {
    let mut poll = poll(&["a"]);
    poll.agent_died(at(0));
    exchange(&mut poll, at(0), |nonce| Reply::Answer(yes(nonce, 1)));
    assert_eq!(poll.next_at(), Some(at(200)), "a yes says 1,200");
    let sooner = ValidityAnswer { next_poll_ms: Some(70), ..yes(0, 1) };
    exchange(&mut poll, at(200), |nonce| {
        Reply::Answer(ValidityAnswer { nonce: Some(nonce), ..sooner.clone() })
    });
    assert_eq!(poll.next_at(), Some(at(270)));
    exchange(&mut poll, at(270), useless);
    let next = poll.next_at().unwrap();
    assert!(next <= at(470), "nor does it wait long when nobody knows: {next:?}");
    exchange(&mut poll, next, useless);
    assert_eq!(poll.next_at(), Some(next.plus(200)));
}

#[test]
fn a_late_reply_is_nobodys() {
    let mut poll = poll(&["a"]);
    assert_eq!(poll.heard(at(0), &Reply::Answer(no(0, 9)), at(60_000)), Heard::Nothing);
}

#[test]
fn a_hanging_coordinator_leaves_time_for_the_others() {
    assert_eq!(poll(&["a"]).due(at(0)).unwrap().timeout_ms, 2_000);
    let short = LeaseTerms { lease_ms: 1_500, grace_ms: 300, schedule_ms: 100 };
    let question = Poll::new(at(0), vec!["a".into()], short, 1).due(at(0)).unwrap();
    // L − G − m = 1,500 − 300 − 130 = 1,070.
    assert_eq!(question.timeout_ms, 356);
}

#[test]
fn questions_say_that_the_program_runs_once_it_does() {
    let mut poll = poll(&["a"]);
    assert_eq!(poll.due(at(0)).unwrap().started, None);
    poll.heard(at(0), &useless(0), at(60_000));
    let started = Started { pid: 11, wrapper_pid: 10 };
    poll.program_started(started);
    assert_eq!(poll.due(at(2_000)).unwrap().started, Some(started));
}

/// Ten thousand containers that have come to ask in the same millisecond, and a coordinator that is away
/// for five seconds, in simulated time. Seen red with a first pause that is not random: then all of them
/// come back in one millisecond.
#[test]
fn a_crowd_comes_back_from_an_outage_spread_and_with_every_lease() {
    const CONTAINERS: usize = 10_000;
    const END_MS: usize = 20_000;
    let (away_from, back_at) = (4_500, 9_500);
    let mut crowd: Vec<(Poll, Lease)> = (0..CONTAINERS as u64)
        .map(|seed| (Poll::new(at(0), vec!["a".into()], TERMS, seed), Lease::new(TERMS)))
        .collect();
    let mut due_at: Vec<Vec<usize>> = vec![Vec::new(); END_MS];
    due_at[0] = (0..CONTAINERS).collect();
    let mut asked_at = vec![0; END_MS];
    for ms in 0..END_MS {
        let now = at(ms as u64);
        for container in std::mem::take(&mut due_at[ms]) {
            let (poll, lease) = &mut crowd[container];
            let question = poll.due(now).expect("it said that it would ask now");
            asked_at[ms] += 1;
            let is_away = (away_from..back_at).contains(&ms);
            let answer = ValidityAnswer { next_poll_ms: Some(1_000), ..yes(question.nonce, 3) };
            let reply = if is_away { useless(0) } else { Reply::Answer(answer) };
            if let Heard::Yes { sent_at, lease_ms, .. } = poll.heard(now, &reply, lease.stop_at()) {
                assert!(lease.extend(now, sent_at, lease_ms), "a lease was lost at {ms}");
            }
            let next = poll.next_at().unwrap().millis_since(at(0));
            if let Some(due) = due_at.get_mut(usize::try_from(next).unwrap()) {
                due.push(container);
            }
        }
    }
    assert!(asked_at[1_000] == CONTAINERS, "they began together");
    let seconds = (END_MS - back_at) / 1_000;
    let average = asked_at[back_at..].iter().sum::<usize>() / (10 * seconds);
    let most = asked_at[back_at..].windows(100).map(|window| window.iter().sum::<usize>()).max();
    assert!(most < Some(3 * average), "{most:?} questions in 100 ms, {average} on average");
    for (_, lease) in &crowd {
        assert!(lease.stop_at() > at(END_MS as u64), "every container holds its lease");
    }
}
