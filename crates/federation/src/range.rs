//! The `Range` header (RFC 9110, section 14).

use std::ops::Range;

/// The part of an object that a `Range` header asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    /// The whole object: the request has no range, an unknown kind of range, or several ranges,
    /// which a server may answer with the whole object.
    Whole,
    /// These bytes, at least one.
    Part(Range<u64>),
    /// A range that is outside of the object.
    Outside,
}

/// Returns what `header` asks of an object of `len` bytes.
pub(super) fn parse(header: &str, len: u64) -> Asked {
    let spec = header.split_once('=').filter(|(unit, _)| unit.trim().eq_ignore_ascii_case("bytes"));
    let Some((first, last)) = spec.and_then(|(_, spec)| spec.trim().split_once('-')) else {
        return Asked::Whole;
    };
    match (number(first), number(last)) {
        (Some(first), None) if last.is_empty() => part(first..len, len),
        (None, Some(n)) if first.is_empty() => part(len.saturating_sub(n)..len, len),
        (Some(first), Some(last)) if first <= last => {
            part(first..last.saturating_add(1).min(len), len)
        }
        _ => Asked::Whole,
    }
}

fn part(range: Range<u64>, len: u64) -> Asked {
    if range.start < len && !range.is_empty() { Asked::Part(range) } else { Asked::Outside }
}

/// Parses digits; a number that is too large is past any end.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, len: u64, expected: &Asked) {
        assert_eq!(parse(header, len), *expected, "{header} of {len}");
    }

    #[test]
    fn ranges_are_those_of_the_rfc() {
        check("bytes=0-4", 10, &Asked::Part(0..5));
        check("Bytes=3-3", 10, &Asked::Part(3..4));
        check("bytes=5-99", 10, &Asked::Part(5..10));
        check("bytes=5-99999999999999999999999", 10, &Asked::Part(5..10));
        check("bytes=4-", 10, &Asked::Part(4..10));
        check("bytes=-3", 10, &Asked::Part(7..10));
        check("bytes=-30", 10, &Asked::Part(0..10));
        for outside in ["bytes=10-", "bytes=10-12", "bytes=-0", "bytes=99999999999999999999-"] {
            check(outside, 10, &Asked::Outside);
        }
        check("bytes=0-", 0, &Asked::Outside);
        check("bytes=-5", 0, &Asked::Outside);
        for whole in ["", "bytes", "bytes=", "bytes=-", "bytes=5-4", "bytes=a-b", "lines=0-4"] {
            check(whole, 10, &Asked::Whole);
        }
        check("bytes=0-1,4-5", 10, &Asked::Whole);
        check("bytes=+1-4", 10, &Asked::Whole);
    }
}
