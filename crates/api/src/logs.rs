//! What containers have written, asked of the agents that keep it.
//!
//! A coordinator has no output and does not want any in its loop or its store. It asks over the agent's one
//! connection, a part at a time, so that neither side holds more than [`MAX_PART_BYTES`] of it. A container
//! is found by what it ran, and not only by its id: an agent still knows of attempts that the job's record
//! has forgotten, also after it was itself declared lost and came back under another UUID.
//!
//! Output is bytes, which JSON cannot hold, so a part travels as a binary frame: a line of JSON, then the
//! bytes as they were written.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use steadfast_model::{ExecutionId, JobId, TaskGroupId};

/// The most that one part holds.
pub const MAX_PART_BYTES: usize = 64 * 1024;

/// Which execution of which task group a container is: what its output is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskGroupAttempt {
    /// The job.
    pub job_id: JobId,
    /// The task group.
    pub task_group_id: TaskGroupId,
    /// The deployment, from 1.
    pub attempt: u32,
}

/// Which output of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LogStream {
    /// The program's standard output.
    #[default]
    Stdout,
    /// The program's standard error.
    Stderr,
    /// What the wrapper around it has to say: lease, verdicts, the ladder.
    Wrapper,
}

impl LogStream {
    /// Every stream.
    pub const ALL: [Self; 3] = [Self::Stdout, Self::Stderr, Self::Wrapper];

    /// As it is written in queries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Wrapper => "wrapper",
        }
    }

    /// The file in a container's folder that it is written to: by the wrapper, for the agent to read.
    pub fn file_name(self) -> String {
        format!("{self}.log")
    }

    /// What the file is called once it is set aside as too long. Its name says where in the output its
    /// first byte stood, so that a reader keeps its place however often files are set aside meanwhile.
    pub fn earlier_file_name(self, begins: u64) -> String {
        format!("{self}.log.{begins}")
    }

    /// Where a file that was set aside begins; `None` for any other file.
    pub fn begins(self, file_name: &str) -> Option<u64> {
        let digits = file_name.strip_prefix(self.as_str())?.strip_prefix(".log.")?;
        digits.parse().ok().filter(|begins| self.earlier_file_name(*begins) == file_name)
    }
}

impl fmt::Display for LogStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LogStream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|stream| stream.as_str() == text);
        found.ok_or_else(|| "expected stdout, stderr or wrapper".to_owned())
    }
}

/// A coordinator's question about output. It carries no epoch: looking changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogRequest {
    /// The coordinator's number for it, given back with the answer.
    pub request: u64,
    /// What is asked.
    pub question: LogQuestion,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum LogQuestion {
    /// Which containers of this task group the agent keeps output of. Answered with [`LogsFound`].
    #[serde(rename_all = "camelCase")]
    Find {
        /// The job.
        job_id: JobId,
        /// The task group.
        task_group_id: TaskGroupId,
    },
    /// A part of a container's output. Answered with a [`LogPart`].
    #[serde(rename_all = "camelCase")]
    Read {
        /// Which container.
        execution_resource_id: ExecutionId,
        /// Which output.
        stream: LogStream,
        /// Where the part begins.
        from: LogPosition,
    },
}

/// A place in an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LogPosition {
    /// So many bytes after its beginning, or at the oldest byte that is kept where that comes later.
    Offset(u64),
    /// At the beginning of so many last lines.
    TailLines(u64),
}

/// What an agent keeps of a task group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogsFound {
    /// The question's number.
    pub request: u64,
    /// The containers, in any order.
    pub containers: Vec<LogOwner>,
}

/// A container whose output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogOwner {
    /// Which.
    pub execution_resource_id: ExecutionId,
    /// Its attempt.
    pub attempt: u32,
}

/// A part of an output, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPart {
    /// The question's number.
    pub request: u64,
    /// What is said of the bytes.
    pub answer: LogAnswer,
    /// The bytes; none unless the answer is [`LogAnswer::Part`].
    pub bytes: Vec<u8>,
}

/// What is said of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum LogAnswer {
    /// Bytes follow, possibly none.
    Part {
        /// Where they begin in the output.
        offset: u64,
        /// How long the output was then.
        size: u64,
        /// Nothing of the container is left: the output stays as it is.
        complete: bool,
    },
    /// The agent keeps no output of that container.
    NotHere,
    /// It has a file, and cannot read it.
    Unreadable {
        /// Why.
        error: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    request: u64,
    answer: LogAnswer,
}

/// A binary frame that is no part of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsePartError(String);

impl fmt::Display for ParsePartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no part of an output: {}", self.0)
    }
}

impl std::error::Error for ParsePartError {}

impl LogPart {
    /// The binary frame.
    ///
    /// # Errors
    /// None that these shapes can have.
    pub fn to_frame(&self) -> Result<Vec<u8>, serde_json::Error> {
        let head = Head { request: self.request, answer: self.answer.clone() };
        let mut frame = serde_json::to_vec(&head)?;
        frame.push(b'\n');
        frame.extend_from_slice(&self.bytes);
        Ok(frame)
    }

    /// Reads a binary frame.
    ///
    /// # Errors
    /// A frame without its line of JSON, or with more bytes than a part may have.
    pub fn from_frame(frame: &[u8]) -> Result<Self, ParsePartError> {
        let end = frame.iter().position(|byte| *byte == b'\n');
        let (head, bytes) = end.map_or((frame, &[][..]), |end| (&frame[..end], &frame[end + 1..]));
        let Head { request, answer } =
            serde_json::from_slice(head).map_err(|error| ParsePartError(error.to_string()))?;
        if bytes.len() > MAX_PART_BYTES {
            return Err(ParsePartError(format!("{} bytes are too many", bytes.len())));
        }
        Ok(Self { request, answer, bytes: bytes.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(bytes: Vec<u8>) -> LogPart {
        let answer = LogAnswer::Part { offset: 7, size: 1 << 40, complete: false };
        LogPart { request: 9, answer, bytes }
    }

    #[test]
    fn a_part_carries_any_bytes_as_they_are() {
        let all: Vec<u8> = (0..=255).collect();
        for bytes in [vec![], b"\n\n{".to_vec(), all, vec![b'x'; MAX_PART_BYTES]] {
            let frame = part(bytes.clone()).to_frame().unwrap();
            assert_eq!(LogPart::from_frame(&frame), Ok(part(bytes)));
        }
    }

    #[test]
    fn a_files_name_says_where_it_begins() {
        let name = LogStream::Stderr.earlier_file_name(8_388_608);
        assert_eq!(name, "stderr.log.8388608");
        assert_eq!(LogStream::Stderr.begins(&name), Some(8_388_608));
        assert_eq!(LogStream::Stdout.begins(&name), None);
        for other in
            ["stderr.log", "stderr.log.", "stderr.log.007", "stderr.log.+1", "stderr.log.x"]
        {
            assert_eq!(LogStream::Stderr.begins(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_part_is_refused() {
        assert!(LogPart::from_frame(b"").is_err());
        assert!(LogPart::from_frame(b"hello\n").is_err());
        let long = part(vec![0; MAX_PART_BYTES + 1]).to_frame().unwrap();
        assert!(LogPart::from_frame(&long).is_err());
        let frame = LogPart { request: 1, answer: LogAnswer::NotHere, bytes: vec![] }.to_frame();
        let head = br#"{"request":1,"answer":{"type":"notHere"}}"#;
        assert!(LogPart::from_frame(head).is_ok(), "without bytes the end of the line may miss");
        assert_eq!(frame.unwrap(), [head.as_slice(), b"\n"].concat());
    }
}
