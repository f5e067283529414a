//! What containers have written, read from the files that their wrappers own.
//!
//! A wrapper writes and sets files aside while they are read, and nobody waits for anybody: a reader takes
//! the files as they are at one moment, and takes them again where one was set aside meanwhile. A part is
//! small, so whoever asks for an output holds little of it, however long its lines are.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use steadfast_api::{
    LogAnswer, LogOwner, LogPart, LogPosition, LogQuestion, LogRequest, LogStream, LogsFound,
    MAX_PART_BYTES,
};
use steadfast_model::ExecutionId;

use crate::folders::DataDir;
use crate::process::Belonging;

/// Looks at files that are being set aside; each takes less than it takes to write a whole file.
const LOOKS: usize = 10;

/// What a question is answered with.
#[derive(Debug)]
pub(crate) enum Answered {
    Found(LogsFound),
    Part(LogPart),
}

/// Answers a question about output; blocking. `runs` says whether this agent watches a container.
pub(crate) fn answer(
    data: &DataDir,
    asked: LogRequest,
    runs: impl Fn(ExecutionId) -> bool,
) -> Answered {
    let LogRequest { request, question } = asked;
    match question {
        LogQuestion::Find { job_id, task_group_id } => {
            let of_group = data
                .labels()
                .filter(|(_, runs)| (runs.job_id, runs.task_group_id) == (job_id, task_group_id));
            let containers = of_group.map(|(execution_resource_id, runs)| LogOwner {
                execution_resource_id,
                attempt: runs.attempt,
            });
            Answered::Found(LogsFound { request, containers: containers.collect() })
        }
        LogQuestion::Read { execution_resource_id: id, stream, from } => {
            // Containers outlive their agent, so one that is not watched may live all the same.
            let is_over = || !runs(id) && !(Belonging { id, program: None, spare: None }).lives();
            let (answer, bytes) = match read(&data.logs(id), stream, from, is_over) {
                Ok(Some((answer, bytes))) => (answer, bytes),
                Ok(None) => (LogAnswer::NotHere, Vec::new()),
                Err(error) => (LogAnswer::Unreadable { error: error.to_string() }, Vec::new()),
            };
            Answered::Part(LogPart { request, answer, bytes })
        }
    }
}

/// A part of the output in this folder; `None` where there is no such folder.
fn read(
    folder: &Path,
    stream: LogStream,
    from: LogPosition,
    is_over: impl Fn() -> bool,
) -> io::Result<Option<(LogAnswer, Vec<u8>)>> {
    let Some(mut output) = Output::open(folder, stream)? else { return Ok(None) };
    let mut offset = output.place(from)?;
    let mut bytes = output.part(offset)?;
    let is_at_end = |offset: u64, bytes: &[u8], size| offset + bytes.len() as u64 >= size;
    let mut complete = false;
    // Asked only where it matters, and before the last look: what was written until then is in it.
    if is_at_end(offset, &bytes, output.size()) && is_over() {
        let Some(last) = Output::open(folder, stream)? else { return Ok(None) };
        output = last;
        offset = offset.max(output.oldest());
        bytes = output.part(offset)?;
        complete = true;
    }
    let answer = LogAnswer::Part { offset, size: output.size(), complete };
    Ok(Some((answer, bytes)))
}

/// A stretch of the output in one file.
#[derive(Debug)]
struct Stretch {
    file: File,
    begins: u64,
    ends: u64,
}

impl Stretch {
    fn of(file: File, begins: u64) -> io::Result<Self> {
        let ends = begins + file.metadata()?.len();
        Ok(Self { file, begins, ends })
    }
}

/// The kept part of an output at one moment: stretches without a gap between them, oldest first.
#[derive(Debug, Default)]
struct Output {
    stretches: Vec<Stretch>,
}

impl Output {
    fn open(folder: &Path, stream: LogStream) -> io::Result<Option<Self>> {
        for _ in 0..LOOKS {
            match Self::look(folder, stream) {
                Ok(Some(output)) => return Ok(Some(output)),
                Ok(None) => {}
                // Set aside, removed, or not made yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if !folder.exists() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        // A container that waits for its first "yes" has no output.
        let was_begun = folder.join(stream.file_name()).exists();
        if was_begun { Err(io::ErrorKind::ResourceBusy.into()) } else { Ok(Some(Self::default())) }
    }

    /// One look; `None` where the present file was set aside meanwhile.
    fn look(folder: &Path, stream: LogStream) -> io::Result<Option<Self>> {
        let path = folder.join(stream.file_name());
        let present = File::open(&path)?;
        let mut newest = None;
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            newest = newest.max(name.to_str().and_then(|name| stream.begins(name)));
        }
        let earlier = newest.map(|begins| {
            Stretch::of(File::open(folder.join(stream.earlier_file_name(begins)))?, begins)
        });
        let earlier = earlier.transpose()?;
        // If this is still the file that is written, none was set aside since it was opened.
        if fs::metadata(&path)?.ino() != present.metadata()?.ino() {
            return Ok(None);
        }
        let begins = earlier.as_ref().map_or(0, |stretch| stretch.ends);
        let present = Stretch::of(present, begins)?;
        Ok(Some(Self { stretches: earlier.into_iter().chain([present]).collect() }))
    }

    fn oldest(&self) -> u64 {
        self.stretches.first().map_or(0, |stretch| stretch.begins)
    }

    fn size(&self) -> u64 {
        self.stretches.last().map_or(0, |stretch| stretch.ends)
    }

    fn place(&self, from: LogPosition) -> io::Result<u64> {
        match from {
            LogPosition::Offset(offset) => Ok(offset.max(self.oldest())),
            LogPosition::TailLines(lines) => self.tail(lines),
        }
    }

    /// Where the last lines begin. The last line counts whether or not it has an end.
    fn tail(&self, lines: u64) -> io::Result<u64> {
        let (oldest, size) = (self.oldest(), self.size());
        if lines == 0 {
            return Ok(size);
        }
        // The end of the last line begins no line.
        let (mut missing, mut until) = (lines, size.saturating_sub(1));
        while until > oldest {
            let window = (until - oldest).min(MAX_PART_BYTES as u64);
            let from = self.stretch_before(until).map_or(oldest, |it| it.begins);
            let from = from.max(until - window);
            let bytes = self.read(from, until)?;
            for (at, _) in bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
                missing -= 1;
                if missing == 0 {
                    return Ok(from + at as u64 + 1);
                }
            }
            until = from;
        }
        Ok(oldest)
    }

    /// The stretch that holds the byte before this place.
    fn stretch_before(&self, place: u64) -> Option<&Stretch> {
        self.stretches.iter().find(|stretch| stretch.begins < place && place <= stretch.ends)
    }

    /// At most a part's bytes from here; none at the end.
    fn part(&self, offset: u64) -> io::Result<Vec<u8>> {
        let holds = |stretch: &&Stretch| stretch.begins <= offset && offset < stretch.ends;
        let Some(stretch) = self.stretches.iter().find(holds) else { return Ok(Vec::new()) };
        self.read(offset, stretch.ends.min(offset + MAX_PART_BYTES as u64))
    }

    /// The bytes of one stretch between two places.
    fn read(&self, from: u64, until: u64) -> io::Result<Vec<u8>> {
        let Some(stretch) = self.stretch_before(until) else { return Ok(Vec::new()) };
        let mut bytes = vec![0; usize::try_from(until - from).unwrap_or(MAX_PART_BYTES)];
        stretch.file.read_exact_at(&mut bytes, from - stretch.begins)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new(files: &[(&str, &[u8])]) -> Self {
            let folder = Self(tempfile::tempdir().unwrap());
            for (name, bytes) in files {
                fs::write(folder.0.path().join(name), bytes).unwrap();
            }
            folder
        }

        fn part(&self, from: LogPosition) -> (u64, u64, Vec<u8>) {
            let read = read(self.0.path(), LogStream::Stdout, from, || false).unwrap().unwrap();
            let (LogAnswer::Part { offset, size, complete: false }, bytes) = read else {
                panic!("{read:?}")
            };
            (offset, size, bytes)
        }

        fn tail(&self, lines: u64) -> Vec<u8> {
            self.rest(LogPosition::TailLines(lines))
        }

        fn rest(&self, from: LogPosition) -> Vec<u8> {
            let (begins, size, mut all) = self.part(from);
            while begins + (all.len() as u64) < size {
                let (offset, _, bytes) = self.part(LogPosition::Offset(begins + all.len() as u64));
                assert_eq!(offset, begins + all.len() as u64, "no gap");
                assert!(!bytes.is_empty() && bytes.len() <= MAX_PART_BYTES);
                all.extend(bytes);
            }
            all
        }
    }

    #[test]
    fn an_output_is_read_in_parts_over_its_files_untouched() {
        let earlier: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        let present: Vec<u8> = (0..100_000_u32).map(|n| (n % 13) as u8).collect();
        let folder = Folder::new(&[("stdout.log.7", &earlier), ("stdout.log", &present)]);
        let (offset, size, first) = folder.part(LogPosition::Offset(0));
        assert_eq!((offset, size), (7, 300_007), "it begins with the oldest byte that is kept");
        assert_eq!(first, earlier[..MAX_PART_BYTES]);
        let all = [earlier, present].concat();
        assert_eq!(folder.rest(LogPosition::Offset(7)), all);
        assert_eq!(folder.rest(LogPosition::Offset(150_007)), all[150_000..]);
        assert_eq!(folder.part(LogPosition::Offset(300_007)), (300_007, 300_007, vec![]));
    }

    #[test]
    fn the_last_lines_may_be_huge_unended_or_in_the_earlier_file() {
        let huge = vec![b'x'; 3 * MAX_PART_BYTES];
        let earlier = [b"a\n".as_slice(), &huge, b"\n"].concat();
        let folder = Folder::new(&[("stdout.log.0", &earlier), ("stdout.log", b"b\nc\n")]);
        assert_eq!(folder.tail(0), b"");
        assert_eq!(folder.tail(1), b"c\n");
        assert_eq!(folder.tail(2), b"b\nc\n");
        assert_eq!(folder.tail(3), [&huge, b"\nb\nc\n".as_slice()].concat());
        let all = [earlier, b"b\nc\n".to_vec()].concat();
        assert_eq!(folder.tail(4), all);
        assert_eq!(folder.tail(u64::MAX), all);
        assert_eq!(Folder::new(&[("stdout.log", b"a\nb")]).tail(1), b"b");
        assert_eq!(Folder::new(&[("stdout.log", b"\n\n\n")]).tail(2), b"\n\n");
        assert_eq!(Folder::new(&[("stdout.log", b"")]).tail(3), b"");
    }

    #[test]
    fn what_has_not_begun_is_empty_and_what_is_not_here_is_not() {
        let folder = Folder::new(&[]);
        assert_eq!(folder.part(LogPosition::Offset(0)), (0, 0, vec![]));
        let gone = folder.0.path().join("gone");
        let from = LogPosition::Offset(0);
        assert!(read(&gone, LogStream::Stdout, from, || true).unwrap().is_none());
    }

    #[test]
    fn what_was_written_until_the_end_is_in_the_last_part() {
        let folder = Folder::new(&[("stdout.log", b"first ")]);
        // It writes on until the moment in which it is seen to have ended.
        let ends = || fs::write(folder.0.path().join("stdout.log"), "first last").is_ok();
        let from = LogPosition::Offset(0);
        let (answer, bytes) =
            read(folder.0.path(), LogStream::Stdout, from, ends).unwrap().unwrap();
        assert_eq!(answer, LogAnswer::Part { offset: 0, size: 10, complete: true });
        assert_eq!(bytes, b"first last");
    }

    #[test]
    fn a_reader_beside_a_writer_that_sets_files_aside_sees_every_byte_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout.log");
        fs::write(&path, "").unwrap();
        // The byte at each place is the place, modulo a prime.
        let byte = |place: u64| (place % 251) as u8;
        let (files, length) = (400_u64, 100_u64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for file in 0..files {
                    let begins = file * length;
                    let bytes: Vec<u8> = (begins..begins + length).map(byte).collect();
                    fs::write(&path, bytes).unwrap();
                    let aside = |begins| folder.path().join(format!("stdout.log.{begins}"));
                    fs::rename(&path, aside(begins)).unwrap();
                    fs::write(&path, "").unwrap();
                    if file > 0 {
                        fs::remove_file(aside(begins - length)).unwrap();
                    }
                }
            });
            let mut place = 0;
            while place < files * length {
                let from = LogPosition::Offset(place);
                // So fast a writer can set files aside at every look.
                let Ok(read) = read(folder.path(), LogStream::Stdout, from, || false) else {
                    continue;
                };
                let (LogAnswer::Part { offset, .. }, bytes) = read.unwrap() else { panic!() };
                for (at, seen) in (offset..).zip(&bytes) {
                    assert_eq!(*seen, byte(at), "at {at}");
                }
                place = offset + bytes.len() as u64;
            }
        });
    }
}
