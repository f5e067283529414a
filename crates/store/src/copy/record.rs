//! What becomes of a record on the way, kind by kind.

use steadfast_engine::records::JobRecord;
use steadfast_model::{Epoch, FencingToken, Timestamp};

use super::Request;
use crate::keys::Kind;
use crate::records::{Head, decode, encode};
use crate::store::StoreError;

/// What a number grows by at least: more terms, and more containers of one task group, than a source that was
/// started again by mistake comes to before somebody notices.
pub(super) const RAISE: u64 = 1_000_000;

/// How a kind is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Every byte as it is.
    Same,
    /// The tokens that come next are raised.
    Raised,
    /// It is of the place and not of the state.
    Left,
}

/// Every kind is named here, so that a new one cannot be forgotten.
pub(super) fn treatment(kind: Kind) -> Treatment {
    match kind {
        // The epoch is in the head, which the target gets at the very end.
        Kind::Head | Kind::Leader | Kind::Announced => Treatment::Left,
        // How it got its name is in the record of its job: tokens are minted from there.
        Kind::Job => Treatment::Raised,
        // The newest token that was minted: what the checkpoints of a container that lives are compared with.
        Kind::Token => Treatment::Same,
        Kind::Cluster
        | Kind::Processed
        | Kind::Secret
        | Kind::Ledger
        | Kind::Episodes
        | Kind::Checkpoint
        | Kind::Member
        | Kind::Request
        | Kind::Event
        | Kind::History
        | Kind::Finished
        | Kind::Summary => Treatment::Same,
    }
}

/// Beyond everything that the source could give out, and beyond every copy that was made before, of whichever
/// store: the time in seconds grows faster than terms or tokens do.
fn raised(number: u64, now: Timestamp) -> u64 {
    number.saturating_add(RAISE).max(now.as_millis() / 1_000)
}

/// The head that a target gets.
pub(super) fn raised_head(last: &Head, now: Timestamp, commit_id: u64) -> Head {
    let epoch = Epoch::new(raised(last.epoch.get(), now));
    Head { epoch, n: last.n + 1, commit_id }
}

/// What is put at the target.
///
/// # Errors
/// A job's record that cannot be read: no coordinator could start on it either.
pub(super) fn on_arrival(
    treatment: Treatment,
    key: &str,
    value: Vec<u8>,
    request: &Request,
) -> Result<Vec<u8>, StoreError> {
    if treatment != Treatment::Raised {
        return Ok(value);
    }
    let mut job: JobRecord = decode(key, &value)?;
    for token in tokens(&mut job) {
        *token = FencingToken::new(raised(token.get(), request.now));
    }
    job.restored |= request.is_behind();
    encode(&job).map_err(StoreError::Unavailable)
}

/// What is wrong with a record at the target; `None` where it is as it should be. Not by doing the same again:
/// whatever is not a token has to be equal.
pub(super) fn difference(
    treatment: Treatment,
    key: &str,
    source: &[u8],
    target: &[u8],
    is_behind: bool,
) -> Option<String> {
    match treatment {
        Treatment::Left => Some("it should not be there".to_owned()),
        Treatment::Same => (source != target).then(|| "other bytes".to_owned()),
        Treatment::Raised => {
            let read = |bytes| decode::<JobRecord>(key, bytes).map_err(|error| error.to_string());
            match (read(source), read(target)) {
                (Ok(source), Ok(target)) => job_difference(source, target, is_behind),
                (Err(why), _) | (_, Err(why)) => Some(why),
            }
        }
    }
}

fn job_difference(mut source: JobRecord, mut target: JobRecord, is_behind: bool) -> Option<String> {
    for (source, target) in tokens(&mut source).zip(tokens(&mut target)) {
        if target.get() < source.get().saturating_add(RAISE) {
            return Some(format!("the token after {source} is {target}"));
        }
        *target = *source;
    }
    source.restored |= is_behind;
    (source != target).then(|| "another content".to_owned())
}

/// From which each task group's next token is minted.
fn tokens(job: &mut JobRecord) -> impl Iterator<Item = &mut FencingToken> {
    let pipelines = job.pipelines.iter_mut();
    pipelines.flat_map(|pipeline| &mut pipeline.task_groups).map(|group| &mut group.token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::samples;

    const NOW: Timestamp = Timestamp::from_millis(1_793_000_000_999);

    fn request(backup: bool) -> Request {
        let place = || crate::copy::Location::Embedded("nowhere".into());
        let (from, to, me) = (place(), place(), samples::leader(1));
        Request { from, to, me, now: NOW, again: false, backup }
    }

    #[test]
    fn a_raised_number_is_beyond_the_sources_and_beyond_earlier_copies() {
        assert_eq!(raised(7, NOW), 1_793_000_000);
        assert_eq!(raised(1_793_000_000, NOW), 1_794_000_000);
        // A clock that stands at its beginning.
        assert_eq!(raised(7, Timestamp::from_millis(0)), 7 + RAISE);
        assert_eq!(raised(u64::MAX, NOW), u64::MAX);
    }

    #[test]
    fn the_next_token_is_raised_and_the_one_that_a_container_holds_is_not() {
        let job = samples::job(1);
        let source = encode(&job).unwrap();
        let target =
            on_arrival(Treatment::Raised, "job/1", source.clone(), &request(false)).unwrap();
        let arrived: JobRecord = decode("job/1", &target).unwrap();
        for (before, after) in
            job.pipelines[0].task_groups.iter().zip(&arrived.pipelines[0].task_groups)
        {
            assert_eq!(after.token.get(), 1_793_000_000);
            assert_eq!(after.container, before.container);
        }
        assert_eq!(difference(Treatment::Raised, "job/1", &source, &target, false), None);
    }

    #[test]
    fn a_job_out_of_a_backup_says_so() {
        let source = encode(&samples::job(1)).unwrap();
        let arrive = |backup| {
            on_arrival(Treatment::Raised, "job/1", source.clone(), &request(backup)).unwrap()
        };
        let (moved, restored) = (arrive(false), arrive(true));
        let differs = |target: &[u8], is_behind| {
            difference(Treatment::Raised, "job/1", &source, target, is_behind).is_some()
        };
        assert!(!differs(&moved, false) && !differs(&restored, true));
        assert!(differs(&moved, true) && differs(&restored, false));
    }

    #[test]
    fn whatever_else_differs_is_found() {
        let source = encode(&samples::job(1)).unwrap();
        let differs = |target: &JobRecord| {
            let target = encode(target).unwrap();
            difference(Treatment::Raised, "job/1", &source, &target, false).is_some()
        };
        let arrived =
            on_arrival(Treatment::Raised, "job/1", source.clone(), &request(false)).unwrap();
        let arrived: JobRecord = decode("job/1", &arrived).unwrap();
        assert!(!differs(&arrived));
        let mut low = arrived.clone();
        low.pipelines[0].task_groups[3].token = FencingToken::new(RAISE + 1);
        let mut renamed = arrived.clone();
        renamed.error = Some("x".to_owned());
        let mut shorter = arrived;
        shorter.pipelines[0].task_groups.pop();
        for other in [low, renamed, shorter] {
            assert!(differs(&other));
        }
        assert!(difference(Treatment::Raised, "job/1", &source, b"{}", false).is_some());
        assert!(difference(Treatment::Same, "token/1/1", b"a", b"b", false).is_some());
        assert!(difference(Treatment::Left, "leader", b"a", b"a", false).is_some());
    }
}
