//! "Did you mean …?": the accepted word that is most like the one that was written.

/// Longer words than this are no slip of the pen.
const LONGEST: usize = 100;

/// The candidate that the word was probably meant to be: itself in another spelling, a longer or
/// shorter form, its last part alone, or a few letters away.
pub(super) fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    if word.chars().count() > LONGEST {
        return None;
    }
    let word = plain(word);
    let allowed = word.len() / 4 + 1;
    candidates
        .iter()
        .map(|&candidate| (distance_of_meaning(&word, &plain(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Letters without case, and one separator instead of the several that people use.
fn plain(word: &str) -> Vec<char> {
    let lower = word.chars().flat_map(char::to_lowercase);
    lower.map(|c| if "-_ ".contains(c) { '.' } else { c }).collect()
}

fn distance_of_meaning(word: &[char], candidate: &[char]) -> usize {
    let long_enough = word.len() >= 3;
    let last_part = candidate.ends_with(word) && candidate[candidate.len() - word.len()..] == *word;
    if long_enough && (candidate.starts_with(word) || last_part) {
        return usize::from(word.len() != candidate.len());
    }
    edits(word, candidate)
}

/// How many letters have to be added, removed or replaced (Levenshtein).
fn edits(from: &[char], to: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_are_understood() {
        let keys = ["job.name", "job.retry.times", "job.container.lease.ms", "parallelism"];
        for (word, meant) in [
            ("job.nmae", Some("job.name")),
            ("name", Some("job.name")),
            ("JOB.RETRY_TIMES", Some("job.retry.times")),
            ("job.retries.times", Some("job.retry.times")),
            ("lease.ms", Some("job.container.lease.ms")),
            ("parallel", Some("parallelism")),
            ("paralellism", Some("parallelism")),
            ("colour", None),
            ("x", None),
        ] {
            assert_eq!(closest(word, &keys), meant, "{word}");
        }
    }
}
