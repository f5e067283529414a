//! The steps, in their order.

use std::ops::ControlFlow;
use std::time::Duration;

use serde::Serialize;

use super::place::Opened;
use super::plan::{Source, Target, plan};
use super::record::{Treatment, difference, on_arrival, raised_head, treatment};
use super::{Copied, CopyError, Location, Progress, Request};
use crate::keys::{self, Kind, Range};
use crate::mark::{Mark, Top};
use crate::random;
use crate::records::{Head, decode, encode};
use crate::store::{LeaderInfo, StoreError, Term};
use crate::table::Write;

/// Rows that are read, and in one batch written, at once.
const PAGE: usize = 500;
/// Bytes of a batch: what every engine takes.
const BATCH_BYTES: usize = 1024 * 1024;
/// Beyond the time that a leader's lease may have left: whoever leads then is alive.
const PATIENCE: Duration = Duration::from_secs(5);

type Tell<'a> = &'a mut (dyn FnMut(Progress) -> ControlFlow<()> + Send);
type Row = (String, Vec<u8>);

/// `damage` is done to the target between writing and comparing: how a test sees what comparing finds.
pub(super) async fn run(
    request: &Request,
    progress: Tell<'_>,
    damage: Option<Write>,
) -> Result<Copied, CopyError> {
    let Request { from, to, .. } = request;
    if from.is(to) {
        return Err(CopyError::Itself(from.to_string()));
    }
    let source = Side::open(from).await?.ok_or_else(|| CopyError::NoStore(from.to_string()))?;
    let target = Side::open(to).await?;
    let target_top = target.as_ref().map(Side::top).transpose()?.flatten();
    let (how, begins) = plan(request, source.top()?, target_top)?;
    // One that goes on keeps its name, so that it can go on once more.
    let copy = match &how {
        Source::Lead => random_id()?,
        Source::Marked { copy, .. } => *copy,
    };
    let mut walk = Walk { request, progress, copy, damage };
    walk.tell(Progress::Lead)?;
    let (source, term) = match how {
        Source::Lead => source.lead(&request.me).await?,
        Source::Marked { last, .. } => (Still { side: source, last }, None),
    };
    let done = walk.go(&source, target, &begins).await;
    if let Some(term) = term {
        // Also after an error: whoever waits to lead need not wait for the lease.
        term.resign().await;
    }
    done
}

fn random_id() -> Result<u64, CopyError> {
    let bytes = random::bytes();
    bytes.map(u64::from_ne_bytes).map_err(|error| CopyError::Store { place: "here".into(), error })
}

/// One of the two stores.
struct Side {
    location: Location,
    opened: Opened,
    /// What its head's key holds: compared by every write.
    head: Option<Vec<u8>>,
}

/// A source that nobody changes, and its last head.
struct Still {
    side: Side,
    last: Head,
}

impl Side {
    async fn open(location: &Location) -> Result<Option<Self>, CopyError> {
        let opened = location.open().map_err(|error| failed(location, error))?;
        let Some(opened) = opened else { return Ok(None) };
        let mut side = Self { location: location.clone(), opened, head: None };
        side.head = side.row(keys::HEAD).await?;
        Ok(Some(side))
    }

    fn top(&self) -> Result<Option<Top>, CopyError> {
        self.head.as_deref().map(Top::decode).transpose().map_err(|error| self.failed(error))
    }

    async fn row(&self, key: &str) -> Result<Option<Vec<u8>>, CopyError> {
        Ok(self.rows(Range::only(key), 1).await?.pop().map(|(_, value)| value))
    }

    async fn rows(&self, range: Range, limit: usize) -> Result<Vec<Row>, CopyError> {
        self.opened.rows(range, limit).await.map_err(|error| self.failed(error))
    }

    /// Writes, and moves the head on to what it becomes.
    async fn write(&mut self, writes: Vec<Write>) -> Result<(), CopyError> {
        let head = writes.iter().find_map(|write| match write {
            Write::Put(key, value) if key == keys::HEAD => Some(value.clone()),
            _ => None,
        });
        let first = writes.first().map(|write| match write {
            Write::Put(key, _) | Write::Delete(key) => key.clone(),
            Write::DeleteRange(range) => range.from.clone(),
        });
        match self.opened.write_if(self.head.clone(), writes).await {
            Ok(true) => {
                self.head = head.or_else(|| self.head.take());
                Ok(())
            }
            Ok(false) => Err(CopyError::Overtaken(self.location.to_string())),
            Err(error) => Err(CopyError::Write {
                place: self.location.to_string(),
                key: first.unwrap_or_default(),
                error,
            }),
        }
    }

    /// Leads, so that nobody else does meanwhile.
    async fn lead(mut self, me: &LeaderInfo) -> Result<(Still, Option<Box<dyn Term>>), CopyError> {
        let patience = PATIENCE + self.location.lease();
        let lead = self.opened.store().lead(me.clone());
        let Ok(term) = tokio::time::timeout(patience, lead).await else {
            return Err(self.led().await);
        };
        let term = term.map_err(|error| self.failed(error))?;
        let bytes = self.row(keys::HEAD).await?.unwrap_or_default();
        let last: Head = decode(keys::HEAD, &bytes).map_err(|error| self.failed(error))?;
        if (last.epoch, last.n) != (term.epoch(), term.rev().0) {
            return Err(CopyError::Overtaken(self.location.to_string()));
        }
        self.head = Some(bytes);
        Ok((Still { side: self, last }, Some(term)))
    }

    async fn led(&self) -> CopyError {
        let leader = self.row(keys::LEADER).await.ok().flatten();
        let leader = leader.and_then(|bytes| decode::<LeaderInfo>(keys::LEADER, &bytes).ok());
        let holder = leader.map_or_else(
            || "an address that is not known".to_owned(),
            |LeaderInfo { url, host, pid, .. }| format!("{url} (pid {pid} on {host})"),
        );
        CopyError::Led { place: self.location.to_string(), holder }
    }

    fn failed(&self, error: StoreError) -> CopyError {
        failed(&self.location, error)
    }
}

fn failed(location: &Location, error: StoreError) -> CopyError {
    CopyError::Store { place: location.to_string(), error }
}

struct Walk<'a> {
    request: &'a Request,
    progress: Tell<'a>,
    copy: u64,
    damage: Option<Write>,
}

impl Walk<'_> {
    fn tell(&mut self, step: Progress) -> Result<(), CopyError> {
        match (self.progress)(step) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(CopyError::Stopped),
        }
    }

    async fn go(
        &mut self,
        source: &Still,
        target: Option<Side>,
        begins: &Target,
    ) -> Result<Copied, CopyError> {
        let mut target = self.begin(target, begins).await?;
        for kind in Kind::ALL.iter().filter(|kind| treatment(**kind) != Treatment::Left) {
            self.copy_kind(*kind, &source.side, &mut target).await?;
        }
        if let Some(damage) = self.damage.take() {
            target.write(vec![damage]).await?;
        }
        let mut records = Vec::new();
        for kind in Kind::ALL.iter().filter(|kind| treatment(**kind) != Treatment::Left) {
            records.push((*kind, self.verify_kind(*kind, &source.side, &target).await?));
        }
        self.finish(source, target, records).await
    }

    /// Marks the target, and removes what an earlier copy has left.
    async fn begin(&mut self, target: Option<Side>, begins: &Target) -> Result<Side, CopyError> {
        self.tell(Progress::Begin)?;
        let to = &self.request.to;
        let mut target = match target {
            Some(target) => target,
            None => {
                let opened = to.make().map_err(|error| failed(to, error))?;
                Side { location: to.clone(), opened, head: None }
            }
        };
        if *begins == Target::New {
            for kind in Kind::ALL {
                if !target.rows(kind.range(), 1).await?.is_empty() {
                    return Err(CopyError::NotEmpty { place: to.to_string(), advice: to.advice() });
                }
            }
        }
        self.mark(&mut target).await?;
        if *begins == Target::Unfinished {
            for kind in Kind::ALL.iter().filter(|kind| **kind != Kind::Head) {
                self.tell(Progress::Clean)?;
                target.write(vec![Write::DeleteRange(kind.range())]).await?;
            }
            self.tell(Progress::Begin)?;
            // A removal that arrives late must not find the mark that it was sent under.
            self.mark(&mut target).await?;
        }
        Ok(target)
    }

    async fn mark(&self, target: &mut Side) -> Result<(), CopyError> {
        let from = self.request.from.to_string();
        let mark = Mark::Copying { from, copy: self.copy, phase: random_id()? };
        target.write(vec![put(keys::HEAD, &mark, target)?]).await
    }

    async fn copy_kind(
        &mut self,
        kind: Kind,
        source: &Side,
        target: &mut Side,
    ) -> Result<(), CopyError> {
        let mut copied = 0;
        let mut pages = Pages::of(kind);
        while let Some((rows, _)) = pages.next(source).await? {
            let mut rows = rows.into_iter().peekable();
            while rows.peek().is_some() {
                let mut batch = Vec::new();
                let mut bytes = 0;
                while let Some((key, value)) = rows.next_if(|(key, value)| {
                    batch.is_empty() || fits(batch.len(), bytes + key.len() + value.len())
                }) {
                    let arrives = on_arrival(treatment(kind), &key, value, self.request);
                    let value = arrives.map_err(|error| source.failed(error))?;
                    bytes += key.len() + value.len();
                    batch.push(Write::Put(key, value));
                }
                self.tell(Progress::Copy(kind, copied))?;
                copied += batch.len() as u64;
                target.write(batch).await?;
            }
        }
        Ok(())
    }

    /// Reads both sides and compares record by record; there may be nothing else.
    async fn verify_kind(
        &mut self,
        kind: Kind,
        source: &Side,
        target: &Side,
    ) -> Result<u64, CopyError> {
        let differs = |key: &str, reason: &str| CopyError::Differs {
            place: target.location.to_string(),
            key: key.to_owned(),
            reason: reason.to_owned(),
        };
        let mut verified = 0;
        let mut pages = Pages::of(kind);
        while let Some((expected, covered)) = pages.next(source).await? {
            self.tell(Progress::Verify(kind, verified))?;
            let found = target.rows(covered, usize::MAX).await?;
            let mut found = found.into_iter();
            for (key, value) in &expected {
                let (there, arrived) = found.next().ok_or_else(|| differs(key, "it is missing"))?;
                if there != *key {
                    return Err(differs(key, &format!("{there} is in its place")));
                }
                let is_behind = self.request.is_behind();
                if let Some(reason) = difference(treatment(kind), key, value, &arrived, is_behind) {
                    return Err(differs(key, &reason));
                }
            }
            if let Some((key, _)) = found.next() {
                return Err(differs(&key, "nothing of the kind was copied"));
            }
            verified += expected.len() as u64;
        }
        Ok(verified)
    }

    /// First nobody can start on the source any more, then somebody can on the target.
    async fn finish(
        &mut self,
        source: &Still,
        mut target: Side,
        records: Vec<(Kind, u64)>,
    ) -> Result<Copied, CopyError> {
        let Request { to, now, .. } = self.request;
        // The mark that both get tells a later copy that they belong together.
        let Still { side, last } = source;
        self.tell(Progress::Move)?;
        let mark =
            Mark::Moved { to: to.to_string(), at: *now, copy: self.copy, head: last.clone() };
        let mut source = Side {
            location: side.location.clone(),
            opened: side.opened.clone(),
            head: side.head.clone(),
        };
        let writes = vec![put(keys::HEAD, &mark, &source)?, Write::Delete(keys::LEADER.to_owned())];
        source.write(writes).await?;
        self.tell(Progress::Finish)?;
        let head = raised_head(last, *now, random_id()?);
        target.write(vec![put(keys::HEAD, &head, &target)?]).await?;
        Ok(Copied { records, epoch_before: last.epoch, epoch: head.epoch })
    }
}

fn put(key: &str, record: &impl Serialize, side: &Side) -> Result<Write, CopyError> {
    let bytes = encode(record).map_err(|why| side.failed(StoreError::Unavailable(why)))?;
    Ok(Write::Put(key.to_owned(), bytes))
}

fn fits(rows: usize, bytes: usize) -> bool {
    rows < PAGE && bytes <= BATCH_BYTES
}

/// The records of a kind, page by page; each with the range of keys that it is all of, and these ranges
/// together are the kind's.
struct Pages {
    kind: Kind,
    rest: Option<Range>,
}

impl Pages {
    fn of(kind: Kind) -> Self {
        Self { kind, rest: Some(kind.range()) }
    }

    async fn next(&mut self, source: &Side) -> Result<Option<(Vec<Row>, Range)>, CopyError> {
        let Some(rest) = self.rest.take() else { return Ok(None) };
        // The embedded store keeps ledgers in another order, so that it has them all at once or not at all;
        // every leader has them in memory, too.
        let limit = if self.kind == Kind::Ledger { usize::MAX } else { PAGE };
        let rows = source.rows(rest.clone(), limit).await?;
        let mut covered = rest.clone();
        if let Some((last, _)) = rows.last().filter(|_| rows.len() == limit) {
            let behind = format!("{last}\0");
            covered.to.clone_from(&behind);
            self.rest = Some(Range { from: behind, to: rest.to });
        }
        Ok(Some((rows, covered)))
    }
}
