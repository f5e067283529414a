//! Golden files of every stored record, in every format ever written.
//!
//! `records/format-<n>/` holds one file per kind of record. What is written today must equal the files of
//! the present format; `UPDATE_EXPECT=1` rewrites those. A record that is written differently needs a new
//! format number and a new folder: the old folders stay, and are read by the other test.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use steadfast_engine::records::Snapshot;
use steadfast_model::{Epoch, FencingToken, JobId, MemberEventSeq, TaskGroupId, Timestamp};
use steadfast_store::conformance::samples;
use steadfast_store::{CheckpointGuard, MemoryStore, Op, Store};

const ENDED: Timestamp = Timestamp::from_millis(1_793_000_100_000);
/// The format that is written today.
const PRESENT: u32 = 6;
const TOKEN: FencingToken = FencingToken::new(2);

fn folder(format: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/records/format-{format}"))
}

/// The file of a key: its kind of record.
fn file_name(key: &str) -> String {
    format!("{}.json", key.split('/').next().unwrap())
}

/// A store with one record of each kind.
fn one_of_each() -> MemoryStore {
    let store = MemoryStore::new();
    let epoch = store.begin_term(&samples::leader(1)).unwrap();
    let (job, task_group) = (JobId::new(1), TaskGroupId::new(1));
    let mut ops = samples::of_every_kind(TOKEN);
    ops.push(Op::EndJob(Arc::new(samples::history(2, ENDED))));
    store.apply(epoch, &ops).unwrap();
    let guard = CheckpointGuard { epoch, job, task_group, token: TOKEN };
    store.put_checkpoint(guard, b"{\"offset\": 4096}").unwrap();
    store
}

/// What is written today, by file name. Rewrites the files first where that was asked for, once, because
/// the tests run at the same time.
static WRITTEN: LazyLock<BTreeMap<String, Vec<u8>>> = LazyLock::new(|| {
    let dump = one_of_each().dump();
    let keys = dump.len();
    let written: BTreeMap<_, _> =
        dump.into_iter().map(|(key, value)| (file_name(&key), value)).collect();
    assert_eq!(written.len(), keys, "one record of each kind");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let folder = folder(PRESENT);
        fs::create_dir_all(&folder).unwrap();
        written.iter().for_each(|(name, value)| fs::write(folder.join(name), value).unwrap());
    }
    written
});

#[test]
fn what_is_written_today_is_the_present_format() {
    let folder = folder(PRESENT);
    let written = &*WRITTEN;
    assert_eq!(fs::read_dir(&folder).unwrap().count(), written.len());
    for (name, value) in written {
        let golden = fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(String::from_utf8_lossy(value), golden, "{name}");
    }
}

#[tokio::test]
async fn every_format_that_was_ever_written_is_read() {
    LazyLock::force(&WRITTEN);
    let keys: Vec<String> = one_of_each().dump().into_keys().collect();
    for entry in fs::read_dir(folder(1).parent().unwrap()).unwrap() {
        let folder = entry.unwrap().path();
        let store = MemoryStore::new();
        for key in &keys {
            // A kind of record that came later is not in an older format's folder.
            if let Ok(value) = fs::read(folder.join(file_name(key))) {
                store.plant(key, &value);
            }
        }
        let loaded = store.snapshot().unwrap();
        // Nobody could plan a leave before format 3.
        let requests = folder.join("request.json").exists().then(|| samples::request(2));
        // Closed episodes lay within the ledger before format 4, and these ledgers had none.
        let is_in_parts = folder.join("episodes.json").exists();
        let ledger = if is_in_parts { samples::ledger_with_history() } else { samples::ledger() };
        // From format 6 on, job and ledger are those of a third loss, which stands in the job's record alone.
        let is_told = fs::read_to_string(folder.join("job.json")).unwrap().contains("redo");
        let (job, ledger) = if is_told { samples::told() } else { (samples::job(1), ledger) };
        let newest = if is_told { 3 } else { 1 };
        let expected = Snapshot {
            member_event_seq: MemberEventSeq::new(newest),
            processed: MemberEventSeq::new(newest),
            journal: vec![samples::event(newest)],
            jobs: vec![job],
            ledgers: [(JobId::new(1), Ok(ledger))].into(),
            members: vec![samples::member(2)],
            requests: requests.into_iter().collect(),
            finished: vec![(JobId::new(2), ENDED)],
        };
        assert_eq!(loaded.snapshot, expected, "{}", folder.display());
        assert_eq!(loaded.leader, Some(samples::leader(1)));
        let history = store.history(JobId::new(2)).await.unwrap();
        assert_eq!(history, Some(samples::history(2, ENDED)));
        let page = store.history_page(None, 2).await.unwrap();
        assert!(page.entries[0].summary.is_ok(), "{:?}", page.entries);
        let checkpoint = store.checkpoint(Epoch::new(1), JobId::new(1), TaskGroupId::new(1));
        assert_eq!(checkpoint.unwrap().unwrap(), "{\"offset\": 4096}");
        let next = store.begin_term(&samples::leader(2)).unwrap();
        store.apply(next, &[Op::ForgetHistory(JobId::new(2))]).unwrap();
        assert_eq!(store.snapshot().unwrap().snapshot.finished, []);
    }
}
