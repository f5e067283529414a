//! Golden scenarios: what the engine decides, in words that somebody reads who knows the subject and not
//! the code.
//!
//! A file under `scenarios/` is a list of acts, each one command, `----`, and what the engine decided.
//! The stage around it does at once and without fault what the order law asks for: it freezes, commits,
//! changes the index, tells the last answers back, and notes the effects. `UPDATE_EXPECT=1 cargo test -p
//! steadfast-engine` writes down what happens now; a rewritten file is a claim about behaviour, so read
//! the difference.

#![allow(
    clippy::disallowed_methods,
    reason = "golden files are read, and their update is asked for"
)]

mod stage;

use std::fmt::Write;
use std::path::Path;

use stage::Stage;

/// Plays a file's acts; the file as it should be.
fn play(text: &str) -> String {
    let mut stage = Stage::new();
    let mut played = String::new();
    for block in text.split("\n\n").map(str::trim).filter(|block| !block.is_empty()) {
        let told = block.split("\n----").next().unwrap_or_default();
        played.push_str(told);
        let command: Vec<&str> = told.lines().filter(|line| !line.starts_with('#')).collect();
        if !command.is_empty() {
            let _ = write!(played, "\n----\n{}", stage.act(&command.join(" ")));
        }
        played.truncate(played.trim_end().len());
        played.push_str("\n\n");
    }
    format!("{}\n", played.trim_end())
}

fn scenario(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios").join(name);
    let expected = std::fs::read_to_string(&path).unwrap();
    let played = play(&expected);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &played).unwrap();
        return;
    }
    if played != expected {
        let at = played.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count();
        let line = |text: &str| text.lines().nth(at).unwrap_or("(the end)").to_owned();
        panic!(
            "{name}, line {}:\n  expected  {}\n  happened  {}\n\nall that happened:\n{played}",
            at + 1,
            line(&expected),
            line(&played)
        );
    }
}

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            scenario(concat!(stringify!($name), ".txt"));
        }
    )*

        #[test]
        fn every_file_is_played() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
            let mut files: Vec<String> = std::fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            files.sort();
            assert_eq!(files, [$(concat!(stringify!($name), ".txt")),*]);
        }
    };
}

// In alphabetical order, as the files lie.
scenarios! {
    all_slots_or_none,
    an_error_per_attempt,
    cancel_outlives_the_coordinator,
    cancel_wins_over_member_loss,
    dirty_changes_nothing_else,
    disabled_by_default,
    drain_moves_the_jobs_first,
    drain_outlives_the_coordinator,
    drain_without_room_is_refused,
    drained_member_is_killed,
    drained_member_that_proves_nothing,
    duplicates_are_idempotent,
    ended_job_keeps_its_summary,
    expired_episode_is_parked,
    failed_deployment_counts_again,
    kill_while_deploying,
    killed_around_the_count,
    leases_that_ran_out_are_counted,
    leaving_is_one_loss_and_no_failure,
    ledger_outlives_the_journal,
    loss_journalled_before_its_jobs,
    loss_that_the_journal_lost_is_unknown,
    loss_while_loading,
    lost_before_the_coordinator_noticed,
    member_loss_counts_once_over_two_pipelines,
    member_loss_kept_out_of_the_budget,
    members_lost_at_once,
    missing_ledger_is_unknown,
    mixed_versions_cannot_enable_tracking,
    new_agent_at_the_same_address,
    new_coordinator_restarts_nothing,
    old_copy_of_a_member_in_doubt,
    one_container_cannot_start,
    ordinary_failure_is_not_counted,
    orphan_of_a_silent_member,
    parked_episode_is_reopened_by_a_loss,
    pause_outlives_the_coordinator,
    peer_of_a_lost_member_fails_first,
    pending_cause_settles_once,
    planned_leave_is_excluded,
    planned_leave_needs_a_later_sign_of_life,
    planned_leave_of_a_fast_clock_counts,
    planned_leave_outlives_the_coordinator,
    planned_leave_registered_too_late,
    planned_leave_that_expired_counts,
    queued_job_starts_once,
    recovered_pipelines_failure_is_ordinary,
    refused_deployment_stays_unknown,
    refused_loss_is_caught_up,
    removed_member_is_never_valid_again,
    request_id_is_used_once,
    restored_backup_is_unknown,
    restoring_job_waits_for_a_lost_member,
    retry_budget_outlives_the_coordinator,
    returns_from_a_stopped_leader,
    second_loss_within_the_retry_interval,
    short_disconnect,
    silent_agent_is_told_to_register_anew,
    stale_report_changes_nothing,
    suspects_itself_first,
    terminal_report_while_loading,
    terminal_wins,
    two_losses_join_one_episode,
    unplanned_loss_joins_a_planned_leave,
    waiting_burns_no_retry,
}
