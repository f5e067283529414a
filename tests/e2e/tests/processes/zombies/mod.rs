//! No zombie: every way in which an old copy of a task group could outlive its right to run, with real
//! processes and a detector that has each of them say every 20 ms that it lives.
//!
//! In each: no line of an old copy behind one of a new copy, the outcome that the design names, and sums
//! that are those of `wc`. Bounds in milliseconds are the scenes' (`src/bin/scenes`, `zombie_…`).
//!
//! | what happens | test |
//! | --- | --- |
//! | agent `kill -9`, machine alive | `agent_killed`, `members_killed`, `everything_killed` |
//! | a run loop that ignores the shutdown, or catches everything, or leaves a descendant | `agent_killed` |
//! | program `kill -STOP` beyond its lease, wrapper alive and heard | `program_stopped::a_stopped_program_whose_wrapper_is_heard_…` |
//! | … and nobody says "yes" any more | `program_stopped::a_stopped_program_is_killed_by_its_wrapper_…` |
//! | wrapper `kill -STOP` beyond the lease, then `-CONT`; or never | `wrapper_hurt` |
//! | wrapper `kill -9` | `wrapper_hurt`, `wrapper_killed` |
//! | wrapper and agent `kill -9` together | `wrapper_hurt` |
//! | all of it, and its agent, `kill -STOP`, then `-CONT` (the limit that is stated) | `stopped_past_its_lease` |
//! | container cut off from the coordinator, its agent not | `cut_off` |
//! | coordinator killed for less than a lease, for more, for ever | `coordinator_away` |
//! | coordinator back in time: nothing restarted; loading: not one `false` | `coordinator_away::a_coordinator_that_is_back_in_time_…` |
//! | a poller thread that panics | `poller_panics`; `crates/validator/tests/poller.rs` |

mod agent_killed;
mod coordinator_away;
mod cut_off;
mod poller_panics;
mod program_stopped;
mod wrapper_hurt;

use steadfast_e2e::{Cluster, Container, LastWords, PATIENCE, wait_until};

/// Waits until nothing of a container is left, and gives its wrapper's last words.
#[track_caller]
fn wait_until_gone(cluster: &Cluster, container: &Container) -> Option<LastWords> {
    let what = format!("the end of all of container {}", container.id);
    wait_until(PATIENCE, &what, || container.is_gone(cluster).then_some(()));
    container.last_words(cluster)
}

/// Whether a sentence of the job's story says this.
#[track_caller]
fn assert_story_says(cluster: &Cluster, id: &str, text: &str) {
    let story = cluster.rest().explain(id);
    assert!(story.iter().any(|one| one.text.contains(text)), "nothing says {text:?}: {story:#?}");
}
