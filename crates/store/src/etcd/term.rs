//! A term on etcd: its commits, and its end.

use std::sync::Arc;

use async_trait::async_trait;
use steadfast_model::Epoch;
use tokio::sync::watch;

use super::campaign::Won;
use super::lease::Lease;
use super::settle::{Guard, Settled, refusal, settle};
use super::{LIMITS, Shared};
use crate::batch::{self, EncodedBatch};
use crate::ops::Op;
use crate::store::{CommitError, Refusal, Rev, Term};
use crate::table::Write;
use crate::tenure::Tenure;

pub(super) struct EtcdTerm {
    shared: Arc<Shared>,
    won: Won,
}

impl EtcdTerm {
    pub(super) fn new(shared: Arc<Shared>, won: Won) -> Self {
        Self { shared, won }
    }

    /// Ends the term, which is in doubt or known to be over.
    fn over(&self, error: CommitError) -> CommitError {
        self.won.keeper.end();
        error
    }

    /// The batch as writes, after a look at the rows that it depends on. They do not change before the
    /// commit: it compares the head, and only this term moves that.
    async fn writes(&self, batch: &EncodedBatch) -> Result<Vec<Write>, Refusal> {
        let reads: Vec<String> = batch.reads().collect();
        let mut found = Vec::new();
        for reads in reads.chunks(super::request::LIST) {
            found.extend(self.shared.get(reads).await.map_err(refusal)?);
        }
        let ((), writes) = self.shared.table(found).stage(|rows| batch.write(rows))?;
        Ok(writes)
    }
}

#[async_trait]
impl Term for EtcdTerm {
    fn epoch(&self) -> Epoch {
        self.won.head.epoch
    }

    fn rev(&self) -> Rev {
        Rev(self.won.head.n)
    }

    fn tenure(&self) -> Tenure {
        self.won.keeper.tenure.clone()
    }

    async fn commit(&mut self, ops: Vec<Op>) -> Result<Rev, CommitError> {
        if !self.won.keeper.tenure.holds() {
            return Err(self.over(CommitError::Fenced));
        }
        let next = self.won.head.next();
        let batch = batch::encode(&ops, &next, LIMITS).map_err(CommitError::NotApplied)?;
        let writes = self.writes(&batch).await.map_err(CommitError::NotApplied)?;
        let Shared { endpoints, keyspace, .. } = &*self.shared;
        let operations = keyspace.operations(writes, self.won.keeper.lease.id);
        let mut lost = self.won.keeper.lost.subscribe();
        // What it gives locks the channel, so it must not outlive the waiting.
        let over = async move { drop(lost.wait_for(|lost| *lost).await) };
        let settled = tokio::select! {
            biased;
            settled = settle(endpoints, keyspace, self.won.guard, &next, operations) => settled,
            () = over => {
                let reason = "the lease ran out before etcd could say".to_owned();
                return Err(self.over(CommitError::Unknown(reason)));
            }
        };
        match settled {
            Settled::Applied(revision) => {
                self.won.guard = Guard { head: revision, ..self.won.guard };
                self.won.head = next;
                Ok(self.rev())
            }
            Settled::Refused(failure) => Err(CommitError::NotApplied(refusal(failure))),
            Settled::Superseded => Err(self.over(CommitError::Fenced)),
        }
    }

    fn lost(&self) -> watch::Receiver<bool> {
        self.won.keeper.lost.subscribe()
    }

    /// The lease's end removes the leader's key, and nobody else's.
    async fn resign(self: Box<Self>) {
        self.won.keeper.end();
        let lease = self.won.keeper.lease.id;
        if let Err(failure) = Lease::revoke(&self.shared.endpoints, lease).await {
            tracing::warn!(%failure, "the others wait until the lease has run out");
        }
    }
}
