//! The order of samples, and their splits, as functions of keys alone.

use gular_bundle::Split;

use crate::plan::{PackOrder, PlanOptions};

/// The key with upper case folded into lower, letter by letter: unlike
/// `str::to_lowercase`, which writes a Greek sigma by its place in the word.
pub(crate) fn folded(key: &str) -> String {
    if key.is_ascii() {
        return key.to_ascii_lowercase();
    }
    key.chars().flat_map(char::to_lowercase).collect()
}

/// Returns the key by which samples are sorted in the plan.
pub(super) fn order_key(split: Split, key: &str, options: &PlanOptions) -> Vec<u8> {
    let mut sort_key = vec![split as u8];
    match options.order {
        PackOrder::Shuffled => sort_key.extend(hash(b"order", options.seed, key).to_be_bytes()),
        // '/' below every other character gives the order by segments.
        PackOrder::Sorted => sort_key.extend(key.bytes().map(|b| if b == b'/' { 0 } else { b })),
    }
    sort_key
}

/// A number that depends on purpose, seed and key alone, so that a key keeps
/// its split and its place when other files come and go.
pub(crate) fn hash(purpose: &[u8], seed: u64, key: &str) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(b"gular-plan ")
        .update(purpose)
        .update(&seed.to_le_bytes())
        .update(key.as_bytes());
    let hash = hasher.finalize();
    hash.as_bytes().first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b))
}

/// Returns the split of a key.
pub(crate) fn split_by(key: &str, seed: u64, fractions: &[(Split, f64)]) -> Split {
    let unit = (hash(b"split", seed, key) >> 11) as f64 / (1_u64 << 53) as f64;
    let mut sum = 0.0;
    for (split, fraction) in fractions {
        sum += fraction;
        if unit < sum {
            return *split;
        }
    }
    fractions.last().map_or(Split::Train, |(split, _)| *split)
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn letters_of_both_cases_fold_to_one() {
        for (a, b) in [("A/x.JPG", "a/X.jpg"), ("ΟΔΟΣ/x", "οδοσ/x"), ("É.png", "é.png")] {
            assert_eq!(folded(a), folded(b));
        }
        assert_ne!(folded("a/x"), folded("a-x"));
    }
}
