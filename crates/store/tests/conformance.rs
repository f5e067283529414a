//! The suite, run against the engines that need nothing but this crate.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use steadfast_store::conformance::{Place, suite};
use steadfast_store::{Embedded, Fault, MemoryStore, Store};

struct Memory(MemoryStore);

#[async_trait]
impl Place for Memory {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }

    async fn plant(&self, key: &str, value: &[u8]) {
        self.0.plant(key, value);
    }

    fn inject(&self, fault: Fault) -> bool {
        self.0.inject(fault, 1);
        true
    }
}

struct Directory(tempfile::TempDir);

impl Directory {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

#[async_trait]
impl Place for Directory {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(Embedded::open(self.path()).unwrap())
    }

    async fn plant(&self, key: &str, value: &[u8]) {
        let database = rusqlite::Connection::open(self.path().join("steadfast.db")).unwrap();
        let ledger_of = key.strip_prefix("ledger/").and_then(|job| job.parse::<i64>().ok());
        let put = match ledger_of {
            Some(job) => {
                let sql = "INSERT OR REPLACE INTO ledgers (job, value) VALUES (?1, ?2)";
                database.execute(sql, rusqlite::params![job, value])
            }
            None => {
                let sql = "INSERT OR REPLACE INTO records (key, value) VALUES (?1, ?2)";
                database.execute(sql, rusqlite::params![key, value])
            }
        };
        put.unwrap();
    }

    fn inject(&self, _: Fault) -> bool {
        false
    }
}

#[tokio::test]
async fn the_memory_store_conforms() {
    suite(|| Arc::new(Memory(MemoryStore::new()))).await;
}

#[tokio::test]
async fn the_embedded_store_conforms() {
    suite(|| Arc::new(Directory(tempfile::tempdir().unwrap()))).await;
}

/// There it does its work on the threads of the runtime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_store_conforms_on_many_threads() {
    suite(|| Arc::new(Directory(tempfile::tempdir().unwrap()))).await;
}
