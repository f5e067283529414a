//! How an exhaustive model's answer is judged.

use std::fmt::Debug;

use stateright::{Checker, Model};

/// Nothing says no to `always`, each of `reached` was seen to happen, and the world was looked at whole and is
/// no smaller than it was.
#[track_caller]
pub fn judge<M>(
    checker: &impl Checker<M>,
    always: &[&'static str],
    reached: &[&'static str],
    at_least: usize,
) where
    M: Model<State: Clone + PartialEq, Action: Clone + PartialEq + Debug>,
{
    let states = checker.unique_state_count();
    for property in always {
        if let Some(path) = checker.discovery(property) {
            let actions = path.into_actions();
            panic!("one of {states} unique states says no to {property:?}: {actions:#?}");
        }
    }
    for property in reached {
        assert!(
            checker.discovery(property).is_some(),
            "{states} unique states, never {property:?}"
        );
    }
    assert!(checker.is_done(), "{states} unique states, and more that nobody looked at");
    assert!(states >= at_least, "{states} unique states: this is a smaller world than it was");
}
