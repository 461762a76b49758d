//! The part of a plan that this machine packs.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Part `number` of `of`, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Numbers", into = "Numbers")]
pub struct Part {
    number: u32,
    of: u32,
}

#[derive(Serialize, Deserialize)]
struct Numbers {
    /// The number of the part, counted from 1.
    number: u32,
    /// How many parts there are.
    of: u32,
}

impl Part {
    /// Makes a part; `None` unless `number` is from 1 to `of`.
    #[must_use]
    pub fn new(number: u32, of: u32) -> Option<Self> {
        (1..=of).contains(&number).then_some(Self { number, of })
    }

    /// Reads `3/8`.
    ///
    /// # Errors
    /// A text that says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').map(|(i, n)| (i.trim().parse(), n.trim().parse()));
        match numbers {
            Some((Ok(number), Ok(of))) => Self::new(number, of).ok_or(match of {
                0 => "`0` parts cannot be packed; expected a part such as `1/8`".to_owned(),
                _ => format!("parts are numbered from 1: expected `1/{of}` to `{of}/{of}`"),
            }),
            _ => Err(format!("`{text}` is not a part; expected for example `1/8`")),
        }
    }

    /// The number of this part, counted from 1.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }

    /// The number of all parts.
    #[must_use]
    pub fn of(self) -> u32 {
        self.of
    }

    /// Returns the part's shards among all `n`; each shard is in exactly one part.
    pub(crate) fn shards(self, n: usize) -> Range<usize> {
        let before = |parts: u32| {
            let shards = n as u128 * u128::from(parts) / u128::from(self.of);
            usize::try_from(shards).unwrap_or(n)
        };
        before(self.number - 1)..before(self.number)
    }
}

impl From<Part> for Numbers {
    fn from(part: Part) -> Self {
        Self { number: part.number, of: part.of }
    }
}

impl TryFrom<Numbers> for Part {
    type Error = String;

    fn try_from(Numbers { number, of }: Numbers) -> Result<Self, String> {
        Self::new(number, of).ok_or_else(|| format!("there is no part {number} of {of}"))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_together_have_every_shard_once() {
        for n in [0, 1, 2, 7, 100, 100_000] {
            for of in [1, 2, 3, 7, 13, 1000] {
                let parts = (1..=of).map(|i| Part::new(i, of).unwrap().shards(n));
                let (mut next, mut most, mut least) = (0, 0, usize::MAX);
                for range in parts {
                    assert_eq!(range.start, next);
                    (most, least) = (most.max(range.len()), least.min(range.len()));
                    next = range.end;
                }
                assert_eq!(next, n);
                assert!(most - least <= 1, "{n} shards in {of} parts: {least} to {most}");
            }
        }
        let most = Part::new(u32::MAX, u32::MAX).unwrap();
        assert_eq!(most.shards(usize::MAX).end, usize::MAX);
    }

    #[test]
    fn what_is_no_part_is_said() {
        assert_eq!(Part::parse("3/8").unwrap().to_string(), "3/8");
        for (text, expected) in [
            ("0/8", "numbered from 1"),
            ("9/8", "`8/8`"),
            ("0/0", "`0` parts cannot"),
            ("3", "example `1/8`"),
            ("-1/8", "example `1/8`"),
            ("1/8/2", "example `1/8`"),
        ] {
            let error = Part::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(serde_json::from_str::<Part>(r#"{"number":3,"of":2}"#).is_err());
    }
}
