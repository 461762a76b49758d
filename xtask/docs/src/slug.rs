//! The anchors of headings, as GitHub names them.

use std::collections::BTreeMap;

/// Gives each heading of one page its anchor.
#[derive(Debug, Default)]
pub(crate) struct Slugs(BTreeMap<String, usize>);

impl Slugs {
    /// The anchor of the page's next heading: its letters, digits, `-` and `_`, in lower case, with
    /// `-` for each space; the second of a name ends with `-1`.
    pub(crate) fn next(&mut self, heading: &str) -> String {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
        let slug: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter(kept)
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let seen = self.0.entry(slug.clone()).or_default();
        *seen += 1;
        if *seen == 1 { slug } else { format!("{slug}-{}", *seen - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_github() {
        let mut slugs = Slugs::default();
        let mut check = |heading: &str, expected: &str| assert_eq!(slugs.next(heading), expected);
        check("Check: gular job lint", "check-gular-job-lint");
        check("Bits, and a_b's \u{fc}ber-name", "bits-and-a_bs-\u{fc}ber-name");
        check("Speed", "speed");
        check("Speed", "speed-1");
        check("A → B", "a--b");
    }
}
