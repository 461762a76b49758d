//! Versions, ordered as dpkg orders them (Policy 5.6.12).

use std::cmp::Ordering;
use std::fmt;

/// A version: `[epoch:]upstream[-revision]`.
#[derive(Debug, Clone)]
pub struct Version(String);

impl Version {
    /// Makes a version from any text: what is not a version is ordered like one.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parts(&self) -> (u64, &str, &str) {
        let (epoch, rest) = match self.0.split_once(':') {
            Some((epoch, rest)) => (epoch.parse().unwrap_or(0), rest),
            None => (0, self.0.as_str()),
        };
        let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, "0"));
        (epoch, upstream, revision)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.parts(), other.parts());
        a.0.cmp(&b.0).then_with(|| compare(a.1, b.1)).then_with(|| compare(a.2, b.2))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `1.0` and `1.0-0` are the same version.
impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

/// Compares the parts of two versions, text and numbers in turn, text first.
fn compare(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while !a.is_empty() || !b.is_empty() {
        let (text_a, text_b) = (take(&mut a, false), take(&mut b, false));
        let longer = text_a.len().max(text_b.len());
        // One part more than the longer version has, since the end of the shorter one counts.
        for i in 0..=longer {
            let order = weight(text_a.get(i)).cmp(&weight(text_b.get(i)));
            if order.is_ne() {
                return order;
            }
        }
        let (number_a, number_b) = (digits(take(&mut a, true)), digits(take(&mut b, true)));
        let order = number_a.len().cmp(&number_b.len()).then_with(|| number_a.cmp(number_b));
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// The first run of digits, or of everything else.
fn take<'a>(text: &mut &'a [u8], digits: bool) -> &'a [u8] {
    let end = text.iter().position(|b| b.is_ascii_digit() != digits).unwrap_or(text.len());
    let (run, rest) = text.split_at(end);
    *text = rest;
    run
}

fn digits(run: &[u8]) -> &[u8] {
    let zeros = run.iter().take_while(|b| **b == b'0').count();
    run.get(zeros..).unwrap_or_default()
}

/// `~` before the end of the text, that before letters, those before the rest.
fn weight(byte: Option<&u8>) -> i32 {
    match byte {
        Some(b'~') => -1,
        None => 0,
        Some(letter) if letter.is_ascii_alphabetic() => i32::from(*letter),
        Some(other) => i32::from(*other) + 256,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_policy_says() {
        let ordered = [
            "0~~",
            "0~~a",
            "0~",
            "0",
            "0a",
            "1.0~rc1-1",
            "1.0-1",
            "1.0-1+deb12u1",
            "1.0-1.1",
            "1.0-2",
            "1.0+b1-1",
            "1.0.0-1",
            "1.2-1",
            "1.09-1",
            "1.10-1",
            "2:0.1-1",
            "10:0",
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(Version::new(a).cmp(&Version::new(b)), i.cmp(&j), "{a} and {b}");
            }
        }
        for (a, b) in [("1.0", "1.0-0"), ("0:1", "1"), ("1.0", "1.00"), ("", "0"), ("1a", "1a0")] {
            assert_eq!(Version::new(a), Version::new(b), "{a} and {b}");
        }
    }
}
