//! Counting, as a state that can be put away at any byte and taken up again.
//!
//! The numbers mean what `wc` means by them: lines are newline characters (so a last line without
//! one is not counted), words are runs of bytes between the white space of the C locale. Bytes that
//! are no printable ASCII are part of words, as POSIX has it; some releases of `wc` leave them out.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::share::Share;

/// The result, as it goes into the part file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Newline characters.
    pub lines: u64,
    /// Runs of bytes that are not white space.
    pub words: u64,
    /// All bytes.
    pub bytes: u64,
}

/// How far a share has been counted, and to what result: one value, so that a checkpoint can never
/// hold a position without its counts. Its JSON is the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Progress {
    share: Share,
    counts: Counts,
    /// Whether the last byte counted belongs to a word, which the next byte then goes on with.
    in_word: bool,
}

impl Progress {
    /// Nothing counted yet.
    pub fn none_of(share: Share) -> Self {
        Self { share, counts: Counts::default(), in_word: false }
    }

    /// The progress in a checkpoint of an earlier container, which must be about the same `share`.
    ///
    /// # Errors
    /// If the bytes are no checkpoint of this program, or are about another input.
    pub fn from_checkpoint(bytes: &[u8], share: Share) -> Result<Self> {
        let saved: Self = serde_json::from_slice(bytes)
            .context("the task group's checkpoint was not written by this program")?;
        ensure!(
            saved.share.input_bytes == share.input_bytes,
            "the input has {} bytes, but had {} when this job began to count it: counts of two \
             inputs do not add up. Submit the job anew, on an input that does not change",
            share.input_bytes,
            saved.share.input_bytes,
        );
        ensure!(
            saved.share == share,
            "this share is now bytes {} to {} of the input, but was {} to {} when this job began \
             to count it: the lines have changed. Submit the job anew, on an input that does not \
             change",
            share.start,
            share.end,
            saved.share.start,
            saved.share.end,
        );
        ensure!(saved.left().is_some(), "the task group's checkpoint lies behind its share's end");
        Ok(saved)
    }

    /// The checkpoint's bytes.
    pub fn to_checkpoint(self) -> Vec<u8> {
        serde_json::to_vec(&self).expect("numbers and booleans under fixed names are always JSON")
    }

    /// Counts the next bytes of the share.
    pub fn count(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.counts.lines += u64::from(byte == b'\n');
            let in_word = !is_space(byte);
            self.counts.words += u64::from(in_word && !self.in_word);
            self.in_word = in_word;
        }
        self.counts.bytes += bytes.len() as u64;
    }

    /// The position in the input of the next byte to count.
    pub fn position(&self) -> u64 {
        self.share.start.saturating_add(self.counts.bytes)
    }

    /// How many bytes are left; `None` if there are less than none.
    pub fn left(&self) -> Option<u64> {
        self.share.end.checked_sub(self.position())
    }

    /// What has been counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// White space as `isspace` of the C locale has it: unlike Rust's `is_ascii_whitespace` with the
/// vertical tab.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;
    use crate::stop::Stop;

    /// What the counts of all of `input` are, in the most obvious way.
    fn oracle(input: &[u8]) -> Counts {
        let words = input.split(|byte| b" \t\n\x0b\x0c\r".contains(byte));
        Counts {
            lines: input.iter().filter(|&&byte| byte == b'\n').count() as u64,
            words: words.filter(|word| !word.is_empty()).count() as u64,
            bytes: input.len() as u64,
        }
    }

    /// Counts one share in pieces of the given lengths, over and over, and after each piece goes on
    /// with what the checkpoint holds, as another container would.
    fn count_in_pieces(input: &[u8], share: Share, pieces: &[usize]) -> Counts {
        let mut progress = Progress::none_of(share);
        let mut lengths = pieces.iter().cycle();
        while progress.left() != Some(0) {
            let start = usize::try_from(progress.position()).unwrap();
            let left = usize::try_from(progress.left().unwrap()).unwrap();
            let length = left.min(*lengths.next().unwrap());
            progress.count(&input[start..start + length]);
            progress = Progress::from_checkpoint(&progress.to_checkpoint(), share).unwrap();
        }
        progress.counts()
    }

    fn sum_of_shares(input: &[u8], count: u64, pieces: &[usize]) -> Counts {
        let stop = Stop::by_hand();
        let mut sum = Counts::default();
        for index in 0..count {
            let bytes = input.len() as u64;
            let share = Share::cut(&mut Cursor::new(input), bytes, index, count, &stop).unwrap();
            let part = count_in_pieces(input, share, pieces);
            sum.lines += part.lines;
            sum.words += part.words;
            sum.bytes += part.bytes;
        }
        sum
    }

    #[test]
    fn counts_mean_what_wc_means() {
        let counts = |lines, words, bytes| Counts { lines, words, bytes };
        for (input, expected) in [
            (&b""[..], counts(0, 0, 0)),
            (b"\n", counts(1, 0, 1)),
            (b"one", counts(0, 1, 3)),
            (b"one\ntwo", counts(1, 2, 7)),
            (b"one\r\ntwo\r\n", counts(2, 2, 10)),
            (b"\r\n\r\n", counts(2, 0, 4)),
            (b"  a\tb\x0bc\x0cd\re  \n", counts(1, 5, 14)),
            (b"no-break\xc2\xa0space", counts(0, 1, 15)),
            (b"nul\0and\x1cseparators", counts(0, 1, 18)),
        ] {
            assert_eq!(oracle(input), expected, "{input:?}");
            for count in 1..4 {
                assert_eq!(sum_of_shares(input, count, &[1]), expected, "{input:?} in {count}");
            }
        }
    }

    #[test]
    fn a_checkpoint_of_something_else_is_refused_with_the_reason() {
        let share = Share { input_bytes: 100, start: 10, end: 20 };
        let mut progress = Progress::none_of(share);
        progress.count(b"five ");
        let checkpoint = progress.to_checkpoint();
        let refusal =
            |share| format!("{:#}", Progress::from_checkpoint(&checkpoint, share).unwrap_err());
        assert_eq!(Progress::from_checkpoint(&checkpoint, share).unwrap(), progress);
        let longer = refusal(Share { input_bytes: 101, ..share });
        assert!(longer.contains("101 bytes, but had 100"), "{longer}");
        let moved = refusal(Share { end: 21, ..share });
        assert!(moved.contains("10 to 21") && moved.contains("10 to 20"), "{moved}");

        let foreign = Progress::from_checkpoint(b"offset=5", share).unwrap_err();
        assert!(foreign.to_string().contains("not written by this program"), "{foreign}");
        progress.count(b"more than fits");
        let behind = Progress::from_checkpoint(&progress.to_checkpoint(), share).unwrap_err();
        assert!(behind.to_string().contains("behind its share's end"), "{behind}");
    }

    proptest! {
        #[test]
        fn shares_add_up_wherever_containers_stop(
            input in proptest::collection::vec(
                prop_oneof![3 => Just(b'\n'), 3 => Just(b' '), 1 => Just(b'\r'),
                            6 => Just(b'a'), 3 => any::<u8>()], 0..300),
            count in 1_u64..10,
            pieces in proptest::collection::vec(1_usize..40, 1..6),
        ) {
            prop_assert_eq!(sum_of_shares(&input, count, &pieces), oracle(&input));
        }
    }

    #[test]
    fn real_logs_add_up_to_their_known_counts() {
        let known = [
            ("HDFS_2k.log", Counts { lines: 2000, words: 24_885, bytes: 287_848 }),
            ("Hadoop_2k.log", Counts { lines: 1999, words: 29_145, bytes: 384_948 }),
            ("Zookeeper_2k.log", Counts { lines: 1999, words: 24_639, bytes: 279_891 }),
        ];
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/");
        for (name, expected) in known {
            // The logs lie beside the checkout and are not part of it. Without them the property
            // above still holds; this only shows it on text that nobody made up.
            let Ok(input) = std::fs::read(format!("{folder}{name}")) else { continue };
            for count in [1, 2, 3, 4, 7, 9] {
                assert_eq!(sum_of_shares(&input, count, &[4099]), expected, "{name} in {count}");
            }
        }
    }
}
