//! The store where one machine is not enough: etcd, which its users already trust.
//!
//! ```text
//! lead ─ campaign ─▶ leader key (with a lease) and head, in one transaction ─▶ term
//! commit ─ batch ─▶ compare leader and head, write, move the head ─ settle ─▶ applied, refused, superseded
//! ```
//!
//! Two keys guard every commit. `leader` says who leads: it is made by one transaction, lives as long as
//! its lease, and a commit compares the revision at which it was made. `head` says which commit was the
//! last, and a commit compares the revision at which it was written. `docs/adr/0013-etcd-store.md` tells what
//! goes wrong without either.

mod announce;
mod campaign;
mod checkpoint;
mod endpoints;
mod follow;
mod lease;
mod load;
mod location;
mod request;
mod settle;
mod term;
mod whole;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use etcd_client::{Client, Txn};
use steadfast_engine::records::HistoryRecord;
use steadfast_model::{Epoch, JobId, TaskGroupId};
use tokio::sync::OnceCell;

use self::endpoints::{Endpoints, Failure};
use self::lease::Lease;
pub use self::location::{EtcdLocation, LocationError};
use self::request::Keyspace;
use self::term::EtcdTerm;
use crate::history::{HistoryCursor, HistoryPage};
use crate::keys::{self, Range};
use crate::standby::Standby;
use crate::store::{
    CheckpointError, CheckpointGuard, LeaderInfo, Limits, Loaded, Store, StoreError, Term,
};
use crate::table::Table;
use crate::{random, transaction};

/// etcd takes 1.5 MiB in one request. The bytes here are those of keys and values; beside them each
/// operation has a prefix and an envelope, together less than 100 bytes.
const LIMITS: Limits = Limits { max_ops: 4_000, max_bytes: 1024 * 1024 };
/// Keys of one page. An answer of 4 MiB is the most that the client takes.
const PAGE: usize = 1_000;

/// The keys of one cluster in an etcd. Clones share it.
#[derive(Clone)]
pub struct EtcdStore {
    shared: Arc<Shared>,
    /// The last term of this process: it ends when the next one begins.
    present: Arc<Mutex<Option<Present>>>,
}

struct Shared {
    endpoints: Arc<Endpoints>,
    keyspace: Keyspace,
    ttl_seconds: u32,
    /// That there is a store here, once it is known.
    exists: OnceCell<()>,
}

/// What ends a term of this process.
struct Present {
    lease: i64,
    tenure: crate::Tenure,
    lost: tokio::sync::watch::Sender<bool>,
}

impl EtcdStore {
    /// The store at this place. No node is asked yet: whoever first leads, loads or follows finds it, or makes
    /// it, with a new secret key, where there is none. So a coordinator can start, and say what it waits for,
    /// before its etcd does.
    ///
    /// # Errors
    /// [`StoreError::Directory`] for a file that cannot be read.
    pub fn open(location: &EtcdLocation) -> Result<Self, StoreError> {
        let shared = Shared {
            endpoints: Arc::new(Endpoints::new(location)?),
            keyspace: Keyspace { prefix: location.prefix.clone() },
            ttl_seconds: location.ttl_seconds,
            exists: OnceCell::new(),
        };
        Ok(Self { shared: Arc::new(shared), present: Arc::default() })
    }

    /// Ends the last term of this process, whose lease would otherwise have to run out first.
    async fn end_present(&self) -> Result<(), StoreError> {
        let present = self.present.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Present { lease, tenure, lost }) = present else { return Ok(()) };
        tenure.end();
        lost.send_replace(true);
        let revoked = Lease::revoke(&self.shared.endpoints, lease).await;
        if revoked.is_err() {
            let present = Some(Present { lease, tenure, lost });
            *self.present.lock().unwrap_or_else(PoisonError::into_inner) = present;
        }
        Ok(revoked?)
    }
}

impl Shared {
    /// There is a store here from now on.
    async fn exists(&self) -> Result<(), StoreError> {
        self.exists.get_or_try_init(|| self.find_or_create()).await.copied()
    }

    async fn find_or_create(&self) -> Result<(), StoreError> {
        let secret = random::bytes()?;
        let ((), writes) = Table::default().stage(|rows| transaction::create(rows, secret))?;
        let absent = self.keyspace.unchanged(keys::HEAD, 0);
        let create = Txn::new().when([absent]).and_then(self.keyspace.operations(writes, 0));
        let mut trouble = None;
        // Twice: the first answer may be lost, and somebody else may be faster.
        for _ in 0..2 {
            let rows = self.table(self.get(&[keys::HEAD]).await?);
            if !rows.as_map().is_empty() {
                // A store of a newer format must be refused before anything is written into it.
                transaction::head(&rows)?;
                return Ok(());
            }
            let send = |mut client: Client| {
                let create = create.clone();
                async move { client.txn(create).await }
            };
            match self.endpoints.once(send).await {
                Ok(answer) if answer.succeeded() => return Ok(()),
                Ok(_) => {}
                Err(failure) => trouble = Some(failure),
            }
        }
        let unknown = || Failure::Doubt("it could not be made".to_owned());
        Err(trouble.unwrap_or_else(unknown).into())
    }
}

#[async_trait]
impl Store for EtcdStore {
    fn limits(&self) -> Limits {
        LIMITS
    }

    async fn load(&self) -> Result<Loaded, StoreError> {
        self.shared.exists().await?;
        let rows = load::read(&self.shared, Range::loaded()).await?;
        transaction::load(&rows.table)
    }

    async fn lead(&self, me: LeaderInfo) -> Result<Box<dyn Term>, StoreError> {
        self.shared.exists().await?;
        self.end_present().await?;
        let commit_id = u64::from_ne_bytes(random::bytes()?);
        let won = campaign::campaign(&self.shared, &me, commit_id).await?;
        let (tenure, lost) = (won.keeper.tenure.clone(), won.keeper.lost.clone());
        let present = Present { lease: won.keeper.lease.id, tenure, lost };
        *self.present.lock().unwrap_or_else(PoisonError::into_inner) = Some(present);
        Ok(Box::new(EtcdTerm::new(self.shared.clone(), won)))
    }

    async fn follow(&self) -> Result<Option<Standby>, StoreError> {
        self.shared.exists().await?;
        follow::follow(&self.shared).await.map(Some)
    }

    fn announce(&self, url: &str) -> Option<tokio::sync::watch::Receiver<Vec<String>>> {
        Some(announce::announce(&self.shared, url))
    }

    async fn history(&self, job: JobId) -> Result<Option<HistoryRecord>, StoreError> {
        let found = self.shared.get(&[keys::history(job)]).await?;
        transaction::history(&self.shared.table(found), job)
    }

    async fn history_page(
        &self,
        after: Option<HistoryCursor>,
        limit: usize,
    ) -> Result<HistoryPage, StoreError> {
        let range = transaction::page_range(after);
        let mut rows = Table::default();
        let more = limit.saturating_add(1);
        load::read_range(&self.shared, &range, 0, more, &mut rows).await?;
        transaction::history_page(&rows, after, limit)
    }

    async fn read_checkpoint(
        &self,
        epoch: Epoch,
        job: JobId,
        task_group: TaskGroupId,
    ) -> Result<Option<Bytes>, CheckpointError> {
        checkpoint::read(&self.shared, epoch, job, task_group).await
    }

    async fn write_checkpoint(
        &self,
        guard: CheckpointGuard,
        value: Bytes,
    ) -> Result<(), CheckpointError> {
        checkpoint::write(&self.shared, guard, value).await
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore").field("prefix", &self.shared.keyspace.prefix).finish()
    }
}
