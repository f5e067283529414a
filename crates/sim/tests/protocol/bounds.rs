//! How large a world is, how its clocks run, and which rule it lacks.

use steadfast_model::LeaseTerms;

/// How fast clocks run, in percent of true time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Clocks {
    /// The old container's machine's.
    pub machine: u64,
    /// Both coordinators'.
    pub coordinators: u64,
}

impl Clocks {
    /// Each is wrong by 2 %, in opposite directions. What lies between is milder.
    pub const FOUR_PERCENT_APART: &'static [Self] =
        &[Self { machine: 98, coordinators: 102 }, Self { machine: 102, coordinators: 98 }];
}

/// What a clock shows at a true time.
pub fn reading(percent: u64, true_ms: u64) -> u64 {
    true_ms * percent / 100
}

/// The first true time at which a clock shows at least `reading_ms`.
pub fn when(percent: u64, reading_ms: u64) -> u64 {
    (reading_ms * 100).div_ceil(percent)
}

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A launch is taken for a "yes".
    StartsWithoutYes,
    /// An entry answers until the swap.
    NotFrozen,
    /// The same, and what counts as its last answer is what it was when the revocation was decided.
    ReadBeforeTheCommit,
    /// Whoever once led answers.
    NoLeadershipCheck,
    /// A new term takes what it has not answered for never answered.
    NoTakeoverRest,
    /// The container is killed at `L`, and replaced at `L`.
    NoMargin,
    /// The container's lease runs from hearing the answer.
    RunsFromTheAnswer,
    /// The agent's rung begins with the first lease that it is told of, and not with the launch.
    RungWaitsToBeTold,
}

/// The bounds of a world.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub terms: LeaseTerms,
    /// Each makes a world of its own.
    pub clocks: &'static [Clocks],
    /// Halves of a lease until the world ends.
    pub half_leases: u64,
    /// How often the old container asks.
    pub questions: u8,
    /// How often a process is stopped or killed.
    pub faults: u8,
    /// Whether the first leader may be deposed.
    pub takeover: bool,
    /// Whether leases may be held back: by the first leader at any instant, by the second from its takeover.
    pub holds: bool,
    pub mistake: Option<Mistake>,
}

impl Bounds {
    pub fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// The lease as the container has it. Without the margin it is killed `L` after its question: the
    /// kill time of a lease that is longer by its own margin.
    pub fn machine_terms(&self) -> LeaseTerms {
        let mut terms = self.terms;
        while self.makes(Mistake::NoMargin) && terms.kill_after_ms() < self.terms.lease_ms {
            terms.lease_ms += 1;
        }
        terms
    }

    /// How long after the last answer a replacement may start.
    pub fn replace_after_ms(&self) -> u64 {
        match self.mistake {
            Some(Mistake::NoMargin) => self.terms.lease_ms,
            _ => self.terms.replace_after_ms(),
        }
    }

    /// Between two instants at which anything may happen.
    pub fn half_lease_ms(&self) -> u64 {
        self.terms.lease_ms / 2
    }
}
