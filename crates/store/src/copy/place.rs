//! A store as a place with rows: what copying needs of an engine, and no more.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::embedded::Embedded;
#[cfg(feature = "etcd")]
use crate::etcd::{EtcdLocation, EtcdStore};
use crate::keys::Range;
use crate::store::{CommitError, Store, StoreError};
use crate::table::Write;

/// Where a store lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In a directory of this machine.
    Embedded(PathBuf),
    /// In an etcd.
    #[cfg(feature = "etcd")]
    Etcd(EtcdLocation),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(directory) => {
                // It is read by somebody else, later, who is somewhere else.
                let whole = std::path::absolute(directory);
                write!(f, "embedded:{}", whole.as_ref().unwrap_or(directory).display())
            }
            #[cfg(feature = "etcd")]
            Self::Etcd(location) => location.fmt(f),
        }
    }
}

impl Location {
    /// Whether both are certainly the same. Two names of one etcd are not known to be; there the head, which
    /// is compared by every write, tells.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Embedded(one), Self::Embedded(other)) => {
                let (whole, other_whole) = (one.canonicalize(), other.canonicalize());
                one == other || whole.is_ok_and(|whole| other_whole.is_ok_and(|one| one == whole))
            }
            #[cfg(feature = "etcd")]
            _ => self == other,
        }
    }

    /// How to make room there.
    pub(super) fn advice(&self) -> String {
        match self {
            Self::Embedded(directory) => {
                format!("name a directory that is not there, or move {} away", directory.display())
            }
            #[cfg(feature = "etcd")]
            Self::Etcd(location) => format!(
                "name another prefix (?prefix=…). `steadfast coordinators` says whether somebody leads there; only \
                 what nobody leads and nobody needs may go: `etcdctl del --prefix {}`",
                location.prefix
            ),
        }
    }

    /// Opens it whatever mark it has; `None` where there is no place for it yet.
    pub(crate) fn open(&self) -> Result<Option<Opened>, StoreError> {
        match self {
            Self::Embedded(directory) if !Embedded::is_at(directory) => Ok(None),
            _ => self.make().map(Some),
        }
    }

    /// The store as its coordinators open it.
    pub(crate) async fn store(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match self {
            Self::Embedded(directory) => Arc::new(Embedded::open(directory)?),
            #[cfg(feature = "etcd")]
            Self::Etcd(location) => Arc::new(EtcdStore::open(location)?),
        })
    }

    /// Opened whatever mark it has, with a place for it: without any record.
    pub(crate) fn make(&self) -> Result<Opened, StoreError> {
        Ok(match self {
            Self::Embedded(directory) => Opened::Embedded(Embedded::open_marked(directory)?),
            #[cfg(feature = "etcd")]
            Self::Etcd(location) => Opened::Etcd(EtcdStore::open(location)?),
        })
    }

    /// How long somebody who is gone may still be taken for the leader.
    pub(super) fn lease(&self) -> Duration {
        match self {
            Self::Embedded(_) => Duration::ZERO,
            #[cfg(feature = "etcd")]
            Self::Etcd(location) => Duration::from_secs(location.ttl_seconds.into()),
        }
    }
}

/// A store that was opened.
#[derive(Clone, Debug)]
pub(crate) enum Opened {
    Embedded(Embedded),
    #[cfg(feature = "etcd")]
    Etcd(EtcdStore),
}

impl Opened {
    /// The same as a store, for leading it.
    pub(super) fn store(&self) -> &dyn Store {
        match self {
            Self::Embedded(store) => store,
            #[cfg(feature = "etcd")]
            Self::Etcd(store) => store,
        }
    }

    /// At most `limit` rows of a range, in order of their keys.
    pub(crate) async fn rows(
        &self,
        range: Range,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        match self {
            Self::Embedded(store) => store.rows(range, limit).await,
            #[cfg(feature = "etcd")]
            Self::Etcd(store) => store.rows(range, limit).await,
        }
    }

    /// Writes all or nothing, durably, if the head's key holds this (`None`: nothing). Says whether it did.
    pub(crate) async fn write_if(
        &self,
        head: Option<Vec<u8>>,
        writes: Vec<Write>,
    ) -> Result<bool, CommitError> {
        match self {
            Self::Embedded(store) => store.write_if(head, writes).await,
            #[cfg(feature = "etcd")]
            Self::Etcd(store) => store.write_if(head, writes).await,
        }
    }
}
