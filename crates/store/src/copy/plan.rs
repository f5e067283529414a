//! What may be copied where: decided by the two heads alone.

use super::{CopyError, Location, Request};
use crate::mark::{Mark, Top};
use crate::records::Head;
use crate::store::StoreError;

/// How the source is kept still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// It is led; nobody else can.
    Lead,
    /// Its mark does it, which was put there by this copy. The head that it had.
    Marked { copy: u64, last: Head },
}

/// What the target begins as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    New,
    /// An earlier copy has left something.
    Unfinished,
}

pub(super) fn plan(
    request: &Request,
    source: Option<Top>,
    target: Option<Top>,
) -> Result<(Source, Target), CopyError> {
    let Request { from, to, again, .. } = request;
    let refused = |place: &Location, error| CopyError::Store { place: place.to_string(), error };
    // A copy that was ended between its last two steps: both places are marked, by the same copy.
    let unfinished = match &target {
        Some(Top::Mark(Mark::Copying { copy, .. })) => Some(*copy),
        _ => None,
    };
    let source = match source.ok_or_else(|| CopyError::NoStore(from.to_string()))? {
        Top::Head(_) => Source::Lead,
        Top::Mark(Mark::Moved { copy, head, .. }) if *again || unfinished == Some(copy) => {
            Source::Marked { copy, last: head }
        }
        Top::Mark(Mark::Moved { to, .. }) => {
            return Err(refused(from, StoreError::Moved { to }));
        }
        Top::Mark(Mark::Copying { from: origin, .. }) => {
            return Err(refused(from, StoreError::Unfinished { from: origin }));
        }
    };
    let target = match target {
        None => Target::New,
        Some(Top::Mark(Mark::Copying { .. })) => Target::Unfinished,
        Some(Top::Head(_) | Top::Mark(Mark::Moved { .. })) => {
            return Err(CopyError::NotEmpty { place: to.to_string(), advice: to.advice() });
        }
    };
    Ok((source, target))
}

#[cfg(test)]
mod tests {
    use steadfast_model::Timestamp;

    use super::*;
    use crate::conformance::samples;

    #[test]
    fn what_may_be_copied_is_said_by_the_two_heads() {
        let at = Timestamp::from_millis(1);
        let head = || Some(Top::Head(Head::default()));
        let copying = |copy| Some(Top::Mark(Mark::Copying { from: "x".into(), copy, phase: 9 }));
        let moved = |copy| {
            let head = Head::default();
            Some(Top::Mark(Mark::Moved { to: "y".into(), at, copy, head }))
        };
        let request = |again| Request {
            from: Location::Embedded("a".into()),
            to: Location::Embedded("b".into()),
            me: samples::leader(1),
            now: at,
            again,
            backup: false,
        };
        let allowed = |again, source, target| plan(&request(again), source, target).ok();
        let marked = Source::Marked { copy: 1, last: Head::default() };
        assert_eq!(allowed(false, head(), None), Some((Source::Lead, Target::New)));
        assert_eq!(allowed(false, head(), copying(1)), Some((Source::Lead, Target::Unfinished)));
        // The same copy goes on; another's mark needs to be told.
        let goes_on = Some((marked.clone(), Target::Unfinished));
        assert_eq!(allowed(false, moved(1), copying(1)), goes_on);
        assert_eq!(allowed(false, moved(1), copying(2)), None);
        assert_eq!(allowed(true, moved(1), copying(2)), goes_on);
        assert_eq!(allowed(false, moved(1), None), None);
        assert_eq!(allowed(true, moved(1), None), Some((marked, Target::New)));
        for again in [false, true] {
            for (source, target) in [
                (None, None),
                (copying(1), None),
                (head(), head()),
                (head(), moved(1)),
                (moved(1), moved(1)),
                (moved(1), head()),
            ] {
                assert_eq!(allowed(again, source, target), None);
            }
        }
    }
}
