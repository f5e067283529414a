//! A member's loss costs what it affects: the matrix of the first proposal (A15), with one size more, in
//! numbers that no machine changes. How long it takes is for `cargo xtask bench ledger` to judge.
//!
//! Seen to fail when an unaffected job is written too, as a watermark in each of them would have it, and when
//! a ledger's record is written beside its job's.

use steadfast_sim::RunningJobs;
use steadfast_store::{Op, ops_of};

/// The journal's entry, the lost member, that it is listed no longer (here at once), and how far every job
/// has been processed.
const OF_THE_CLUSTER: usize = 4;

#[test]
fn a_loss_writes_what_it_affects_and_nothing_of_the_others() {
    for jobs in [100, 1_000, 10_000] {
        for affected in [jobs, jobs / 100, 0] {
            for tracked in [true, false] {
                let (mut cluster, _) = RunningJobs::new(jobs, affected, tracked);
                let ops = ops_of(&cluster.lose());
                let all = usize::try_from(affected).expect("a small number");
                let count = |such: fn(&&Op) -> bool| ops.iter().filter(such).count();
                let what = format!("{affected} of {jobs}, tracked: {tracked}");
                assert_eq!(count(|op| matches!(op, Op::PutJob(_))), all, "{what}");
                let told = count(|op| matches!(op, Op::PutJob(job) if !job.redo.is_empty()));
                assert_eq!(told, if tracked { all } else { 0 }, "{what}");
                assert_eq!(ops.len(), all + OF_THE_CLUSTER, "{what}");
            }
        }
    }
}
