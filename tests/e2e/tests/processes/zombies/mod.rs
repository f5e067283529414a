//! No zombie: every way in which an old copy of a task group could outlive its right to run, with real
//! processes and a detector that has each of them say every 20 ms that it lives.
//!
//! In each: no line of an old copy behind one of a new copy, the outcome that the design names, and sums
//! that are those of `wc`. Bounds in milliseconds are the scenes' (`src/bin/scenes`, `zombie_…`).
//!
//! Which test shows which situation stands in `docs/acceptance.md`, "With real processes".

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
