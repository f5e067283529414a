//! From rows to requests: where keys lie in etcd, and how one transaction of ours becomes one of etcd's.

use std::collections::{BTreeMap, BTreeSet};

use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, KeyValue, PutOptions, Txn, TxnOp, TxnOpResponse,
    TxnResponse,
};

use crate::keys::{self, Range};
use crate::table::Write;

/// Operations of one list; larger transactions are nested. Unless it was told otherwise, etcd takes 128 in
/// the outermost list, and in a list inside another as many less as the outer one has: 60 lists of 60.
pub(super) const LIST: usize = 60;

/// The keys of one cluster.
#[derive(Clone, Debug)]
pub(super) struct Keyspace {
    /// Ends with a slash.
    pub(super) prefix: String,
}

impl Keyspace {
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// A row with the name that it has everywhere else; `None` for one that is not ours.
    pub(super) fn row(&self, found: KeyValue) -> Option<(String, Vec<u8>)> {
        let (key, value) = found.into_key_value();
        let key = String::from_utf8(key).ok()?;
        Some((key.strip_prefix(&self.prefix)?.to_owned(), value))
    }

    /// Reads single keys, at one revision.
    pub(super) fn gets<K: AsRef<str>>(&self, keys: &[K]) -> Txn {
        let gets = keys.iter().map(|key| TxnOp::get(self.key(key.as_ref()), None));
        Txn::new().and_then(gets.collect::<Vec<_>>())
    }

    /// How to ask for a range.
    pub(super) fn range(&self, range: &Range) -> (String, GetOptions) {
        (self.key(&range.from), GetOptions::new().with_range(self.key(&range.to)))
    }

    /// That somebody leads who began at this revision (0: that nobody leads), by equality: an absent key
    /// is *less* than every revision.
    pub(super) fn leader_is(&self, create_revision: i64) -> Compare {
        Compare::create_revision(self.key(keys::LEADER), CompareOp::Equal, create_revision)
    }

    /// That a key was last written at this revision; 0: that it is absent.
    pub(super) fn unchanged(&self, key: &str, mod_revision: i64) -> Compare {
        Compare::mod_revision(self.key(key), CompareOp::Equal, mod_revision)
    }

    /// The operations of a transaction, nested where they are many. The head comes last, so that whoever
    /// follows knows with it that it has seen all of the revision. The leader's key gets `lease`.
    pub(super) fn operations(&self, writes: Vec<Write>, lease: i64) -> Vec<TxnOp> {
        let Apart { ranges, deletes, mut puts } = Apart::of(writes);
        let head = puts.remove(keys::HEAD).map(|value| (keys::HEAD.to_owned(), value));
        let ranges = ranges.into_iter().map(|Range { from, to }| {
            let to = DeleteOptions::new().with_range(self.key(&to));
            TxnOp::delete(self.key(&from), Some(to))
        });
        let deletes = deletes.into_iter().map(|key| TxnOp::delete(self.key(&key), None));
        let puts = puts.into_iter().chain(head).map(|(key, value)| {
            let leased = (key == keys::LEADER).then(|| PutOptions::new().with_lease(lease));
            TxnOp::put(self.key(&key), value, leased)
        });
        nested(ranges.chain(deletes).chain(puts).collect())
    }
}

/// Writes of one transaction of which none touches another's keys: etcd refuses a transaction that names
/// a key twice, be it inside a range.
#[derive(Debug, Default, PartialEq, Eq)]
struct Apart {
    ranges: Vec<Range>,
    deletes: BTreeSet<String>,
    puts: BTreeMap<String, Vec<u8>>,
}

impl Apart {
    /// What `writes` come to: removals first, then puts, as every engine does them.
    fn of(writes: Vec<Write>) -> Self {
        let mut apart = Self::default();
        let mut ranges = Vec::new();
        for write in writes {
            match write {
                Write::Put(key, value) => drop(apart.puts.insert(key, value)),
                Write::Delete(key) => drop(apart.deletes.insert(key)),
                Write::DeleteRange(range) => ranges.push(range),
            }
        }
        apart.deletes.retain(|key| {
            !apart.puts.contains_key(key) && !ranges.iter().any(|range| range.contains(key))
        });
        ranges.sort_by(|one, other| one.from.cmp(&other.from));
        for range in ranges {
            apart.remove(range);
        }
        apart
    }

    /// Adds a range as the pieces that neither an earlier one nor a put takes.
    fn remove(&mut self, range: Range) {
        let Range { mut from, to } = range;
        if let Some(last) = self.ranges.last().filter(|last| last.to > from) {
            from.clone_from(&last.to);
        }
        if from >= to {
            return;
        }
        let kept: Vec<String> =
            self.puts.range(from.clone()..to.clone()).map(|(key, _)| key.clone()).collect();
        for key in kept {
            let behind = format!("{key}\0");
            if from < key {
                self.ranges.push(Range { from, to: key });
            }
            from = behind;
        }
        if from < to {
            self.ranges.push(Range { from, to });
        }
    }
}

fn nested(mut operations: Vec<TxnOp>) -> Vec<TxnOp> {
    while operations.len() > LIST {
        let lists = operations.chunks(LIST);
        operations = lists.map(|list| TxnOp::txn(Txn::new().and_then(list))).collect();
    }
    operations
}

/// What the gets of a transaction found, one for each, in their order.
pub(super) fn found(answer: &TxnResponse) -> Vec<Option<KeyValue>> {
    let gets = answer.op_responses().into_iter().map(|response| match response {
        TxnOpResponse::Get(mut get) => get.take_kvs().into_iter().next(),
        _ => None,
    });
    gets.collect()
}

/// The store's revision when it answered.
pub(super) fn revision(answer: &TxnResponse) -> i64 {
    answer.header().map_or(0, etcd_client::ResponseHeader::revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str) -> Write {
        Write::Put(key.to_owned(), b"v".to_vec())
    }

    fn range(from: &str, to: &str) -> Range {
        Range { from: from.to_owned(), to: to.to_owned() }
    }

    #[test]
    fn no_key_is_named_twice_and_puts_come_after_removals() {
        let writes = vec![
            Write::DeleteRange(range("event/", "event/5")),
            Write::DeleteRange(range("event/", "event/7")),
            Write::DeleteRange(range("token/1/", "token/10")),
            Write::Delete("event/2".to_owned()),
            Write::Delete("job/1".to_owned()),
            Write::Delete("job/2".to_owned()),
            put("event/"),
            put("event/3"),
            put("event/7"),
            put("job/2"),
        ];
        let Apart { ranges, deletes, puts } = Apart::of(writes);
        let pieces = [
            range("event/\0", "event/3"),
            range("event/3\0", "event/5"),
            range("event/5", "event/7"),
            range("token/1/", "token/10"),
        ];
        assert_eq!(ranges, pieces);
        assert_eq!(deletes.into_iter().collect::<Vec<_>>(), ["job/1"]);
        assert_eq!(puts.into_keys().collect::<Vec<_>>(), ["event/", "event/3", "event/7", "job/2"]);
    }

    #[test]
    fn no_list_is_longer_than_etcd_takes() {
        for (count, lists) in [(60, 60), (61, 2), (3_600, 60), (3_601, 2)] {
            let deletes = (0..count).map(|n| TxnOp::delete(n.to_string(), None)).collect();
            assert_eq!(nested(deletes).len(), lists, "{count}");
        }
    }
}
