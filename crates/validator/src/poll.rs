//! Whom to ask, when, and what an answer means, as a value: no socket, no clock, no random source
//! (`now` and a seed come in). The library and the wrapper both stand on it.
//!
//! One question is in flight at a time. What does not count as a verdict is *unknown*: the next known
//! coordinator is asked at once, each one once; then there is a pause. Only a real "no" ends anything.
//!
//! # What a question says
//!
//! `GET /isContainerValid?execution_resource_id=ID&nonce=N`, and once the program runs
//! `&state=started&pid=P&wrapperPid=W` (from a wrapper) and `&progress=S`. `S` counts the steps that the
//! program has reported since it started: the bytes that it wrote to `STEADFAST_PROGRESS_FD`, or its
//! calls of [`Progress::step`](crate::Progress::step). It never falls within one execution id. Where a
//! wrapper and the library ask for one container each sends its own count, so that the greatest is the
//! container's; a program that reports nothing has 0 for ever. What follows from a count that stands
//! still (`STALLED`, after `task.progress.timeout.ms`) is the coordinator's business; it ends nobody.

use steadfast_api::ValidityAnswer;
use steadfast_model::{Epoch, FencingToken, InvalidReason, LeaseTerms, Verdict};

use crate::clock::BootTime;

/// One answer may take this long; then the next coordinator is asked.
const LONGEST_ANSWER_MS: u64 = 2_000;
/// Nobody is asked more often than this, whatever an answer says.
const SHORTEST_PAUSE_MS: u64 = 10;
/// After a round without a verdict the pause shrinks with what is left of the lease, down to this.
const SHORTEST_RETRY_MS: u64 = 50;
/// A container whose agent died asks this often. Its first question may arrive before the coordinator has
/// noticed that death, and a "yes" in its usual rhythm would then let the old copy live for a second.
const LONGEST_PAUSE_ALONE_MS: u64 = 200;
/// More coordinators than anybody runs; an answer that lists more is not believed to the end.
const MOST_COORDINATORS: usize = 16;

/// A request to be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The coordinator's base URL.
    pub(crate) coordinator: String,
    /// To be echoed by the answer.
    pub(crate) nonce: u64,
    /// How long the answer may take.
    pub(crate) timeout_ms: u64,
    /// What runs, once it runs.
    pub(crate) started: Option<Started>,
    /// Steps that the program has reported, once it runs.
    pub(crate) progress: Option<u64>,
}

/// The part of a question that says that the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Started {
    /// The program's pid.
    pub(crate) pid: u32,
    /// The wrapper's pid.
    pub(crate) wrapper_pid: u32,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A 200 whose body parses.
    Answer(ValidityAnswer),
    /// A 503: it cannot know; it may say who can.
    Unavailable {
        /// Base URLs, possibly none.
        coordinators: Vec<String>,
    },
    /// Somebody answers, and with no verdict: another status, a body that does not parse.
    Page {
        /// The status.
        status: u16,
        /// What is wrong with the body, to be read behind the status; empty where it was not looked at.
        why: String,
    },
    /// Nobody answers: a network error, a time-out.
    Useless(String),
}

/// What a reply means for the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It may go on.
    Yes {
        /// When the question was sent; the lease runs from here.
        sent_at: BootTime,
        /// How long.
        lease_ms: u64,
        /// The container's token.
        token: FencingToken,
    },
    /// It must stop; final.
    No(InvalidReason),
    /// The lease runs on.
    Nothing,
}

/// The state of asking.
#[derive(Clone, Debug)]
pub(crate) struct Poll {
    /// As the environment gave them. They stay in the list whatever the answers say, since a
    /// coordinator may come back where it was.
    given: Vec<String>,
    known: Vec<String>,
    current: usize,
    asked_in_round: usize,
    had_silence: bool,
    highest_epoch: Option<Epoch>,
    next_at: BootTime,
    in_flight: Option<InFlight>,
    again_at_once: bool,
    alone: bool,
    started: Option<Started>,
    progress: Option<u64>,
    terms: LeaseTerms,
    random: u64,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    nonce: u64,
    sent_at: BootTime,
}

impl Poll {
    /// Asks for the first time at `now`. `seed` decides nonces and pauses; it must differ between
    /// containers.
    pub(crate) fn new(
        now: BootTime,
        coordinators: Vec<String>,
        terms: LeaseTerms,
        seed: u64,
    ) -> Self {
        Self {
            known: coordinators.clone(),
            given: coordinators,
            current: 0,
            asked_in_round: 0,
            had_silence: false,
            highest_epoch: None,
            next_at: now,
            in_flight: None,
            again_at_once: false,
            alone: false,
            started: None,
            progress: None,
            terms,
            random: seed,
        }
    }

    /// The question that is due, if one is. It counts as sent at `now`.
    pub(crate) fn due(&mut self, now: BootTime) -> Option<Question> {
        if self.in_flight.is_some() || now < self.next_at {
            return None;
        }
        let coordinator = self.known.get(self.current)?.clone();
        // 53 bits survive readers that keep JSON numbers as doubles.
        let nonce = self.next_random() >> 11;
        self.in_flight = Some(InFlight { nonce, sent_at: now });
        self.again_at_once = false;
        // A coordinator that hangs must leave time to ask the others within the same lease.
        let timeout_ms = (self.terms.stop_after_ms() / 3).clamp(100, LONGEST_ANSWER_MS);
        let Self { started, progress, .. } = *self;
        Some(Question { coordinator, nonce, timeout_ms, started, progress })
    }

    /// When to call [`Poll::due`] again; `None` while a question is in flight.
    pub(crate) fn next_at(&self) -> Option<BootTime> {
        self.in_flight.is_none().then_some(self.next_at)
    }

    /// The agent died: its member may be lost, and nobody but a coordinator can say so now. Asks without
    /// waiting, and often from now on. A question that is in flight may have been answered before the
    /// death, so it does not count as this one.
    pub(crate) fn agent_died(&mut self, now: BootTime) {
        self.next_at = now;
        self.again_at_once = true;
        self.alone = true;
    }

    /// From now on every question says that the program runs.
    pub(crate) fn program_started(&mut self, started: Started) {
        self.started = Some(started);
    }

    /// From now on questions say that the program has done so many steps.
    pub(crate) fn progress_is(&mut self, steps: u64) {
        self.progress = Some(steps);
    }

    /// Base URLs of all coordinators, the next one to ask first.
    pub(crate) fn coordinators(&self) -> Vec<String> {
        let (asked, next) = self.known.split_at(self.current.min(self.known.len()));
        next.iter().chain(asked).cloned().collect()
    }

    /// Takes the reply to the question in flight. `give_up_at` is when a "yes" comes too late.
    pub(crate) fn heard(&mut self, now: BootTime, reply: &Reply, give_up_at: BootTime) -> Heard {
        let Some(InFlight { nonce, sent_at }) = self.in_flight.take() else {
            return Heard::Nothing;
        };
        match self.verdict(reply, nonce) {
            Verdict::Valid { lease_ms, next_poll_ms, token, .. } => {
                self.asked_in_round = 0;
                self.had_silence = false;
                // It is obeyed as long as it leaves room for a second question within the lease.
                let longest = (self.terms.stop_after_ms() / 2).max(SHORTEST_PAUSE_MS);
                self.pause(now, next_poll_ms.clamp(SHORTEST_PAUSE_MS, longest));
                Heard::Yes { sent_at, lease_ms, token }
            }
            Verdict::Invalid { reason, .. } => Heard::No(reason),
            Verdict::Unknown => {
                self.ask_the_next(now, give_up_at);
                Heard::Nothing
            }
        }
    }

    /// The verdict of a reply, after the rules on nonces (in the answer's own reading) and epochs.
    fn verdict(&mut self, reply: &Reply, nonce: u64) -> Verdict {
        let answer = match reply {
            Reply::Answer(answer) => answer,
            Reply::Unavailable { coordinators } => {
                self.learn(coordinators);
                return Verdict::Unknown;
            }
            Reply::Page { .. } | Reply::Useless(_) => return Verdict::Unknown,
        };
        let verdict = answer.verdict(nonce);
        let epoch = match verdict {
            Verdict::Valid { epoch, .. } | Verdict::Invalid { epoch, .. } => epoch,
            Verdict::Unknown => return Verdict::Unknown,
        };
        if self.highest_epoch.is_some_and(|highest| epoch < highest) {
            return Verdict::Unknown;
        }
        self.highest_epoch = Some(epoch);
        if let Some(coordinators) = &answer.coordinators {
            self.learn(coordinators);
        }
        verdict
    }

    /// Takes over a newer list of coordinators and stays with the one just asked. Whoever is known already
    /// keeps its place: coordinators list each other in orders of their own, and where the order turned with
    /// each answer, a round could pass by the one that leads.
    fn learn(&mut self, coordinators: &[String]) {
        let current = self.known.get(self.current).cloned();
        let mut known: Vec<String> = Vec::new();
        let named = coordinators.iter().take(MOST_COORDINATORS).chain(&self.given).chain(&current);
        let named: Vec<&str> = named.map(|url| url.trim_end_matches('/')).collect();
        let stays = self.known.iter().map(String::as_str).filter(|url| named.contains(url));
        for url in stays.chain(named.iter().copied()) {
            if !url.is_empty() && !known.iter().any(|other| other == url) {
                known.push(url.to_owned());
            }
        }
        self.current = known.iter().position(|url| Some(url) == current.as_ref()).unwrap_or(0);
        self.known = known;
    }

    fn ask_the_next(&mut self, now: BootTime, give_up_at: BootTime) {
        self.current = (self.current + 1) % self.known.len().max(1);
        self.asked_in_round += 1;
        if self.asked_in_round < self.known.len() {
            return self.pause(now, 0);
        }
        self.asked_in_round = 0;
        let rest_ms = give_up_at.millis_since(now);
        let retry_ms = self.terms.schedule_ms.min((rest_ms / 2).max(SHORTEST_RETRY_MS));
        // Ten thousand containers lose their coordinator in one millisecond and must not come back in
        // one: the first pause after a silence is random, and the later ones keep what it spread.
        let pause_ms =
            if self.had_silence { retry_ms } else { self.next_random() % retry_ms.max(1) };
        self.had_silence = true;
        self.pause(now, pause_ms.max(SHORTEST_PAUSE_MS));
    }

    fn pause(&mut self, now: BootTime, ms: u64) {
        let ms = if self.alone { ms.min(LONGEST_PAUSE_ALONE_MS) } else { ms };
        self.next_at = if self.again_at_once { now } else { now.plus(ms) };
    }

    /// SplitMix64: enough to spread pauses and to tell answers apart. What keeps strangers from
    /// answering is the secret, not this.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A seed that differs between processes. The standard library keys its hash maps from the system's
/// random source; this is the only way to it without another dependency.
pub(crate) fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
#[path = "poll_tests.rs"]
mod tests;
