//! What was seen to happen around a change of leader. What is never played is not shown to hold, so a test
//! looks whether all of it is.

use std::collections::BTreeMap;

/// Something that a seed is hoped to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sight {
    /// A lease ran out, and another term began.
    LeaseRanOut,
    /// A leader woke when another one led, with a commit under way.
    DeposedInCommit,
    /// A leader woke when another one led, with a commit decided and not sent.
    DeposedBeforeSending,
    /// A leader woke when another one led, with effects of what was durable left.
    DeposedInEffects,
    /// A leader ended its term by its own clock.
    TenureOver,
    /// A commit landed that another one of the same leader had overtaken.
    GhostOfLeader,
    /// A commit landed when a later leader had begun.
    GhostOfDeposed,
    /// Nobody had answered, and the commit was found applied.
    FoundApplied,
    /// Nobody had answered, and the same commit was sent again.
    SentAgain,
    /// Nobody had answered, and another one led.
    FoundFenced,
    /// What became of a commit was not known in time.
    NeverKnown,
    /// A message of an earlier leader reached an agent when the next one had begun.
    LateMessage,
    /// A "valid" of an earlier leader reached a container when the next one had begun.
    LateVerdict,
}

impl Sight {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::LeaseRanOut,
        Self::DeposedInCommit,
        Self::DeposedBeforeSending,
        Self::DeposedInEffects,
        Self::TenureOver,
        Self::GhostOfLeader,
        Self::GhostOfDeposed,
        Self::FoundApplied,
        Self::SentAgain,
        Self::FoundFenced,
        Self::NeverKnown,
        Self::LateMessage,
        Self::LateVerdict,
    ];
}

/// How often each was seen.
pub type Sights = BTreeMap<Sight, u64>;
