//! How far one word is from another.

/// Words whose lengths differ by more are no misspellings of each other.
const MOST_LONGER: usize = 8;

/// The number of letters that differ, as Damerau and Levenshtein count them; the largest number for
/// words of very different lengths, since comparing long ones takes time.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    match one.len().abs_diff(other.len()) > MOST_LONGER {
        true => usize::MAX,
        false => strsim::damerau_levenshtein(one, other),
    }
}
