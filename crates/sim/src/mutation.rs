//! Mistakes made on purpose in what surrounds the engine, one for each invariant, so that a test can
//! show for ever that the invariant sees it.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// An entry that is being revoked goes on answering "valid" until after its last answer was told.
    IndexNotFrozen,
    /// Every revoked container is said never to have had a "yes".
    LeaseNotWaitedFor,
    /// The ledger's part is not in the transaction of its job, and nobody says so.
    LedgerApart,
    /// A new term is given the ledgers as they were some commits ago.
    OldLedgers,
    /// A new term forgets which jobs were dirty, and cannot read a ledger.
    DirtForgotten,
    /// A change of coordinator gives every pipeline its retries back.
    BudgetForgotten,
    /// The index goes on answering "valid" for what was revoked.
    RevokedGoesOn,
    /// A job ends with its ledger of some commits ago.
    HistoryOfOldLedger,
    /// The history of a ledger never drops.
    EpisodesKept,
    /// What is said of a failure grows with every failure.
    WordsKept,
    /// The index forgets nobody.
    ContainersRemembered,
    /// The index does not tell its last answers.
    LastAnswersUntold,
    /// Answers are given before the commit.
    AcknowledgedTooSoon,
    /// A planned leave is told to the engine as if it were valid for an hour.
    ExpiryIgnored,
    /// What a drain writes of its jobs has one restore more burned.
    DrainBurnsARestore,
    /// A new term does not know which members are drained.
    DrainForgotten,
    /// A commit whose ledger part is refused is not applied at all.
    LabelStandsInTheWay,
    /// A leader answers containers without a look at its tenure.
    VerdictPastTenure,
    /// A leader carries out what is durable without a look at its tenure.
    EffectsPastTenure,
    /// A commit compares who leads, and not the head.
    HeadNotCompared,
    /// A commit compares the head, and not who leads.
    LeaderNotCompared,
    /// A commit compares neither.
    NothingCompared,
    /// A commit that nobody answers is taken for one that was not applied.
    UnknownTakenForRefused,
    /// A checkpoint is put without a look whether it is still the one that was seen.
    CheckpointNotCompared,
    /// A new leader starts from what was durable before the last commit of the one before it.
    StartsBehind,
    /// A new leader assumes of no container that it was told "valid".
    NothingAssumed,
}
