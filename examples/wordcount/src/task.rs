//! One task group's work from start to end: take up, count, commit, publish.
//!
//! The order is what makes it exact. Counts reach the outside only through a checkpoint that the
//! coordinator has accepted, and the part file is written only after the last one: a function of a
//! committed value, the same bytes whoever writes it and however often.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::checkpoint::Checkpoints;
use crate::container::Container;
use crate::count::{Counts, Progress};
use crate::pace::Pace;
use crate::share::Share;
use crate::stop::{Stop, Terminated};
use crate::{Args, say};

/// How old counts may get before they are committed: what is lost with a killed container is
/// counted again. The coordinator takes 10 checkpoints a second of a task group, so this leaves room.
const COMMIT_INTERVAL: Duration = Duration::from_millis(200);

/// How long the checkpoint after SIGTERM may take. It is a courtesy (without it a little is counted
/// again), so it must stay well below the grace, 5 s, after which the process is killed.
const LAST_COMMIT: Duration = Duration::from_secs(1);

/// Counts this task group's share, from its last checkpoint to its end, and writes the part file.
///
/// # Errors
/// [`Terminated`] after SIGTERM; anything else says what is wrong.
pub fn count_share(args: &Args, container: &Container, stop: &Stop) -> Result<()> {
    let (mut input, input_bytes) = open(&args.input)?;
    let (index, count) = (container.task_index, container.task_count);
    let share = Share::cut(&mut input, input_bytes, index, count, stop)?;
    let mut checkpoints = Checkpoints::new(container);
    let saved = match checkpoints.load(stop)? {
        Some(bytes) => Some(Progress::from_checkpoint(&bytes, share)?),
        None => None,
    };
    let progress = saved.unwrap_or(Progress::none_of(share));
    say(&format!(
        "task group {index} of {count}, attempt {}: bytes {} to {}, from byte {}",
        container.attempt,
        share.start,
        share.end,
        progress.position(),
    ));
    input.seek(SeekFrom::Start(progress.position())).context("cannot read the input")?;

    let now = Instant::now();
    let pace = Pace::new(args.rate, now);
    let mut task = Task { progress, saved, saved_at: now, checkpoints, pace, stop };
    let counted = task.count(&mut BufReader::with_capacity(64 * 1024, &input));
    if counted.as_ref().is_err_and(|error| error.is::<Terminated>()) {
        task.commit_last();
    }
    counted?;
    let bytes_now = input.metadata().context("cannot read the input")?.len();
    ensure!(
        bytes_now == input_bytes,
        "the input had {input_bytes} bytes at the start and has {bytes_now} now: the other task \
         groups may have cut it elsewhere. Submit the job anew, on an input that does not change"
    );
    publish(&args.output, index, task.progress.counts())
}

/// Opens the input and tells its length.
fn open(path: &Path) -> Result<(File, u64)> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let facts = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        facts.is_file(),
        "{} is not a regular file: shares are cut by position, which needs one",
        path.display()
    );
    Ok((file, facts.len()))
}

struct Task<'a> {
    progress: Progress,
    /// The last checkpoint that the coordinator has accepted.
    saved: Option<Progress>,
    saved_at: Instant,
    checkpoints: Checkpoints,
    pace: Pace,
    stop: &'a Stop,
}

impl Task<'_> {
    /// Counts to the end of the share and commits the final counts.
    fn count(&mut self, input: &mut impl BufRead) -> Result<()> {
        while let left @ 1.. = self.progress.left().unwrap_or(0) {
            self.stop.check()?;
            let piece = input.fill_buf().context("cannot read the input")?;
            ensure!(
                !piece.is_empty(),
                "the input was cut short while it was counted, at byte {}",
                self.progress.position()
            );
            let piece = &piece[..piece.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            let piece = if self.pace.is_on() { first_line(piece) } else { piece };
            let (length, line_ended) = (piece.len(), piece.ends_with(b"\n"));
            self.progress.count(piece);
            input.consume(length);
            self.commit_if_due()?;
            if line_ended && let Some(next_line) = self.pace.line_counted(Instant::now()) {
                self.wait_for(next_line)?;
            }
        }
        self.commit()
    }

    /// Waits until the next line may be counted, and does not leave the last one uncommitted while
    /// the pace is slow.
    fn wait_for(&mut self, next_line: Instant) -> Result<()> {
        let commit_due = self.saved_at + COMMIT_INTERVAL;
        if self.saved != Some(self.progress) && commit_due < next_line {
            self.stop.wait_until(commit_due)?;
            self.commit()?;
        }
        Ok(self.stop.wait_until(next_line)?)
    }

    fn commit_if_due(&mut self) -> Result<()> {
        if self.saved_at.elapsed() < COMMIT_INTERVAL { Ok(()) } else { self.commit() }
    }

    /// Returns when the coordinator has accepted the progress, which may take as long as there is
    /// no coordinator. Waiting is right: what cannot be committed need not be counted, and if it
    /// lasts too long the lease runs out and ends this process.
    fn commit(&mut self) -> Result<()> {
        if self.saved == Some(self.progress) {
            return Ok(());
        }
        self.checkpoints.save(&self.progress.to_checkpoint(), self.stop)?;
        self.saved = Some(self.progress);
        self.saved_at = Instant::now();
        Ok(())
    }

    /// Tries once more to commit, though the program has to end. Failing is no error: the next
    /// container counts a little again.
    fn commit_last(&mut self) {
        if self.saved == Some(self.progress) {
            return;
        }
        if let Err(error) = self.checkpoints.save_once(&self.progress.to_checkpoint(), LAST_COMMIT)
        {
            say(&format!("no last checkpoint: {error:#}"));
        }
    }
}

/// The bytes through the first newline, or all of them.
fn first_line(bytes: &[u8]) -> &[u8] {
    bytes.split_inclusive(|&byte| byte == b'\n').next().unwrap_or(bytes)
}

/// Puts the part file in its place, as a whole or not at all: a reader never sees half of it, and it
/// survives a power cut.
fn publish(output: &Path, index: u64, counts: Counts) -> Result<()> {
    let part = output.join(format!("part-{index}.json"));
    // One name for all runs, so that a killed one leaves no litter: the lock keeps others away.
    let draft = output.join(format!(".part-{index}.tmp"));
    let write = || -> Result<()> {
        let mut json = serde_json::to_vec(&counts)?;
        json.push(b'\n');
        let mut file = File::create(&draft)?;
        file.write_all(&json)?;
        file.sync_all()?;
        fs::rename(&draft, &part)?;
        // The name is durable only when the folder is.
        File::open(output)?.sync_all()?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", part.display()))?;
    say(&format!(
        "{}: {} lines, {} words, {} bytes",
        part.display(),
        counts.lines,
        counts.words,
        counts.bytes
    ));
    Ok(())
}
