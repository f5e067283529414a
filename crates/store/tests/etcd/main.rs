//! The store on etcd, against real etcd nodes that these tests start, pause, cut off and kill: the
//! conformance suite, and each thing that was seen to go wrong (`docs/adr/0013-etcd-store.md`).

mod announcements;
mod cluster;
mod conformance;
mod copying;
mod credentials;
mod following;
mod ghosts;
mod leadership;
mod limits;
mod link;
mod node;
mod nodes;
mod wait;

use std::sync::Arc;

use steadfast_model::{FencingToken, JobId, TaskGroupId};
use steadfast_store::conformance::samples;
use steadfast_store::{CheckpointGuard, Op, Store, Term};

/// So long that nothing here waits for it, nor loses its lease because the machine is slow.
const LONG_TTL: u32 = 60;
/// The shortest, where a lease has to run out.
const SHORT_TTL: u32 = 2;

async fn lead(store: &dyn Store) -> Box<dyn Term> {
    store.lead(samples::leader(1)).await.expect("it leads")
}

/// The job with a mark in it, by which two versions are told apart.
fn put_job(n: u64, mark: &str) -> Op {
    let mut job = samples::job(n);
    job.error = Some(mark.to_owned());
    Op::PutJob(Arc::new(job))
}

fn put_token(job: u64, task_group: u32, token: u64) -> Op {
    let (job, task_group) = (JobId::new(job), TaskGroupId::new(task_group));
    Op::PutToken { job, task_group, token: FencingToken::new(token) }
}

fn guard(term: &dyn Term, job: u64, token: u64) -> CheckpointGuard {
    CheckpointGuard {
        epoch: term.epoch(),
        job: JobId::new(job),
        task_group: TaskGroupId::new(1),
        token: FencingToken::new(token),
    }
}

/// The marks of all jobs that are there.
async fn marks(store: &dyn Store) -> Vec<(u64, String)> {
    let loaded = store.load().await.expect("it loads");
    let jobs = loaded.snapshot.jobs.into_iter();
    jobs.map(|job| (job.id.get(), job.error.unwrap_or_default())).collect()
}
