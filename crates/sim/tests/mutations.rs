//! Each invariant sees the mistake that it is there for, by itself: the others are not judged. An
//! invariant that nothing can break is a comment.

use steadfast_sim::{Failure, Invariant, Mutation, Options, play, play_twins};

/// Seeds within which a mistake must be seen.
const SEEDS: u64 = 1_500;

fn sees(invariant: Invariant, mutation: Mutation) {
    let options = Options { mutation: Some(mutation), only: Some(invariant), ..Options::default() };
    let failure = (0..SEEDS).find_map(|seed| {
        let played = match invariant {
            Invariant::Twin => play_twins(seed, &options),
            _ => play(seed, &options),
        };
        // Without the mistake the same seed holds.
        let failure: Box<Failure> = played.err()?;
        // A mistake may also keep everything from healing, or the engine from going on.
        if failure.invariant != invariant {
            return None;
        }
        let right = Options { mutation: None, ..options.clone() };
        assert!(play(seed, &right).is_ok(), "seed {seed} fails without {mutation:?} too");
        Some(failure)
    });
    assert!(failure.is_some(), "{invariant} does not see {mutation:?}");
}

#[test]
fn an_entry_that_is_not_frozen_lets_two_containers_run() {
    sees(Invariant::OneContainer, Mutation::IndexNotFrozen);
}

#[test]
fn a_lease_that_is_not_waited_for_lets_two_containers_run() {
    sees(Invariant::OneContainer, Mutation::LeaseNotWaitedFor);
}

#[test]
fn a_ledger_outside_the_transaction_of_its_job_miscounts() {
    sees(Invariant::CountEqualsOracle, Mutation::LedgerApart);
}

#[test]
fn old_ledgers_take_a_count_back() {
    sees(Invariant::Forever, Mutation::OldLedgers);
}

#[test]
fn a_forgotten_mark_takes_dirty_back() {
    sees(Invariant::Forever, Mutation::DirtForgotten);
}

#[test]
fn a_forgotten_budget_restores_for_ever() {
    sees(Invariant::RestoresWithinLimit, Mutation::BudgetForgotten);
}

#[test]
fn answers_before_the_commit_promise_what_is_not_kept() {
    sees(Invariant::Kept, Mutation::AcknowledgedTooSoon);
}

#[test]
fn a_leave_that_never_expires_excuses_losses_that_count() {
    sees(Invariant::CountEqualsOracle, Mutation::ExpiryIgnored);
}

#[test]
fn a_drain_that_burns_a_restore_is_seen() {
    sees(Invariant::RestoresWithinLimit, Mutation::DrainBurnsARestore);
}

#[test]
fn a_drain_that_is_forgotten_is_journalled_twice() {
    sees(Invariant::Drains, Mutation::DrainForgotten);
}

#[test]
fn an_index_that_goes_on_saying_yes_keeps_a_zombie_alive() {
    sees(Invariant::ZombieStops, Mutation::RevokedGoesOn);
}

#[test]
fn an_old_ledger_in_the_history_is_not_the_last_one() {
    sees(Invariant::HistoryIsLastLedger, Mutation::HistoryOfOldLedger);
}

#[test]
fn a_history_that_never_drops_outgrows_its_bound() {
    sees(Invariant::Bounded, Mutation::EpisodesKept);
}

#[test]
fn words_that_grow_outgrow_the_stated_bytes() {
    sees(Invariant::Bounded, Mutation::WordsKept);
}

#[test]
fn an_index_that_forgets_nobody_outgrows_the_jobs() {
    sees(Invariant::Bounded, Mutation::ContainersRemembered);
}

#[test]
fn untold_last_answers_make_a_pipeline_wait_for_ever() {
    sees(Invariant::Heals, Mutation::LastAnswersUntold);
}

#[test]
fn a_label_that_stands_in_the_way_changes_the_jobs_fate() {
    sees(Invariant::Twin, Mutation::LabelStandsInTheWay);
}

#[test]
fn a_verdict_without_a_look_at_the_tenure_is_seen() {
    sees(Invariant::ActsWithinLease, Mutation::VerdictPastTenure);
}

#[test]
fn effects_without_a_look_at_the_tenure_are_seen() {
    sees(Invariant::ActsWithinLease, Mutation::EffectsPastTenure);
}

#[test]
fn a_commit_that_compares_who_leads_alone_lets_ghosts_in() {
    sees(Invariant::DeposedChangesNothing, Mutation::HeadNotCompared);
}

#[test]
fn a_commit_that_does_not_compare_who_leads_outlives_its_lease() {
    sees(Invariant::DeposedChangesNothing, Mutation::LeaderNotCompared);
}

#[test]
fn a_commit_that_compares_nothing_takes_back_what_the_next_leader_wrote() {
    sees(Invariant::DeposedChangesNothing, Mutation::NothingCompared);
}

#[test]
fn a_ghost_takes_back_what_was_acknowledged() {
    sees(Invariant::Kept, Mutation::NothingCompared);
}

#[test]
fn a_leader_that_starts_behind_miscounts() {
    sees(Invariant::CountEqualsOracle, Mutation::StartsBehind);
}

#[test]
fn an_unknown_outcome_that_is_taken_for_a_refusal_commits_twice() {
    sees(Invariant::DeposedChangesNothing, Mutation::UnknownTakenForRefused);
}

#[test]
fn a_leader_that_starts_behind_takes_back_what_was_acknowledged() {
    sees(Invariant::Kept, Mutation::StartsBehind);
}

#[test]
fn a_leader_that_starts_behind_stops_what_it_does_not_know() {
    sees(Invariant::OnlyTheRevokedStop, Mutation::StartsBehind);
}

#[test]
fn a_takeover_without_its_rest_lets_two_containers_run() {
    sees(Invariant::OneContainer, Mutation::NothingAssumed);
}

#[test]
fn a_checkpoint_that_does_not_compare_itself_takes_a_later_one_back() {
    sees(Invariant::Kept, Mutation::CheckpointNotCompared);
}
