//! Cuts the input into one share per task group, at line boundaries.
//!
//! Every task group does this for itself, with no word to the others, and yet the shares must cover
//! the file exactly once. So a cut depends on nothing but the file's bytes, its length, and the
//! number of task groups: the cut between share *i − 1* and share *i* is the first start of a line
//! at or behind `length · i / count`, and both neighbours find the same one. A line longer than a
//! share, or more task groups than lines, makes some shares empty, never wrong.
//!
//! A newline is white space and ends a line, so no line and no word lies in two shares.

use std::io::{Read, Seek, SeekFrom};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::stop::Stop;

/// A range of bytes of the input, and the input's length when it was cut. The length is kept because
/// another length means other cuts, and the shares would no longer fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Share {
    /// Length of the whole input in bytes.
    pub input_bytes: u64,
    /// The first byte's position in the input.
    pub start: u64,
    /// The position behind the last byte.
    pub end: u64,
}

impl Share {
    /// The share of task group `index` of `count`, of an input of `input_bytes`. Reads the lines in
    /// which the two cuts fall, and nothing else.
    ///
    /// # Errors
    /// If the input cannot be read or is shorter than it was said to be, and
    /// [`Terminated`](crate::stop::Terminated).
    pub fn cut(
        input: &mut (impl Read + Seek),
        input_bytes: u64,
        index: u64,
        count: u64,
        stop: &Stop,
    ) -> Result<Self> {
        let mut cut = |index| {
            let even = u128::from(input_bytes) * u128::from(index) / u128::from(count);
            let even = u64::try_from(even).context("the index is above the count")?;
            line_start_from(input, even, input_bytes, stop)
        };
        Ok(Self { input_bytes, start: cut(index)?, end: cut(index + 1)? })
    }
}

/// The first position at or behind `position` at which a line starts, or the end of the input.
fn line_start_from(
    input: &mut (impl Read + Seek),
    position: u64,
    input_bytes: u64,
    stop: &Stop,
) -> Result<u64> {
    if position == 0 || position == input_bytes {
        return Ok(position);
    }
    // A line starts behind a newline, so the newline right before `position` counts too.
    let mut at = position - 1;
    input.seek(SeekFrom::Start(at)).context("cannot read the input")?;
    let mut buffer = vec![0; 64 * 1024];
    while at < input_bytes {
        // A single line may be as long as the disk is large.
        stop.check()?;
        let read = input.read(&mut buffer).context("cannot read the input")?;
        if read == 0 {
            bail!("the input was cut short while it was read, at byte {at} of {input_bytes}");
        }
        if let Some(newline) = buffer[..read].iter().position(|&byte| byte == b'\n') {
            return Ok((at + newline as u64 + 1).min(input_bytes));
        }
        at += read as u64;
    }
    Ok(input_bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    fn cuts(input: &[u8], count: u64) -> Vec<(u64, u64)> {
        let stop = Stop::by_hand();
        let cut = |index| {
            Share::cut(&mut Cursor::new(input), input.len() as u64, index, count, &stop).unwrap()
        };
        (0..count).map(cut).map(|share| (share.start, share.end)).collect()
    }

    #[test]
    fn cuts_fall_on_line_starts() {
        assert_eq!(cuts(b"", 3), [(0, 0), (0, 0), (0, 0)]);
        assert_eq!(cuts(b"one line", 2), [(0, 8), (8, 8)]);
        assert_eq!(cuts(b"a\nb\n", 2), [(0, 2), (2, 4)]);
        assert_eq!(cuts(b"a\r\nb\r\nc", 2), [(0, 3), (3, 7)]);
        assert_eq!(cuts(b"a\nlong second line", 2), [(0, 18), (18, 18)]);
        assert_eq!(cuts(b"\n\n", 4), [(0, 0), (0, 1), (1, 1), (1, 2)]);
    }

    #[test]
    fn a_line_longer_than_any_buffer_stays_whole() {
        let mut input = vec![b'x'; 300_000];
        input.push(b'\n');
        input.push(b'y');
        assert_eq!(cuts(&input, 3), [(0, 300_001), (300_001, 300_001), (300_001, 300_002)]);
    }

    #[test]
    fn an_input_that_shrank_and_a_stop_are_told_apart() {
        let stop = Stop::by_hand();
        let error = Share::cut(&mut Cursor::new(b"abc"), 10, 0, 2, &stop).unwrap_err();
        assert!(error.to_string().contains("cut short"), "{error}");
        stop.tell();
        let error = Share::cut(&mut Cursor::new(b"abc"), 3, 0, 2, &stop).unwrap_err();
        assert!(error.is::<crate::stop::Terminated>(), "{error}");
    }

    proptest! {
        #[test]
        fn shares_cover_every_input_once(
            input in proptest::collection::vec(
                prop_oneof![Just(b'\n'), Just(b'\r'), Just(b' '), any::<u8>()], 0..400),
            count in 1_u64..10,
        ) {
            let cuts = cuts(&input, count);
            prop_assert_eq!(cuts[0].0, 0);
            prop_assert_eq!(cuts[cuts.len() - 1].1, input.len() as u64);
            for pair in cuts.windows(2) {
                prop_assert_eq!(pair[0].1, pair[1].0);
            }
            for &(start, end) in &cuts {
                prop_assert!(start <= end);
                let at_line_start = start == 0
                    || start == input.len() as u64
                    || input[usize::try_from(start).unwrap() - 1] == b'\n';
                prop_assert!(at_line_start);
            }
        }
    }
}
