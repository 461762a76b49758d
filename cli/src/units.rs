//! Parsers for the values of flags: bytes, times, shares, splits, envelopes.

use std::num::NonZeroUsize;
use std::time::Duration;

use gular_bundle::{Envelope, Split};
use gular_files::Size;
use gular_pelican::CompareBy;

/// Parses a size with its unit, of at least one byte.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    size(text).ok_or_else(|| {
        format!(
            "`{text}` is not a size; expected a number above 0 with a unit (KiB, MiB, GiB, KB, MB \
             or GB), such as `256MiB`, or a number of bytes"
        )
    })
}

/// A size with its unit: of a job nobody means bytes by a bare number.
pub(crate) fn with_unit(text: &str) -> Result<u64, String> {
    if text.ends_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("`{text}` has no unit; write for example `{text}GB`"));
    }
    size(text).ok_or_else(|| {
        format!("`{text}` is not a size; expected a number above 0 with KB, MB, GB or TB, such as `16GB`")
    })
}

/// A size with its unit, as HTCondor and Slurm count: 1 GB is 2^30 bytes.
pub(crate) fn request(text: &str) -> Result<u64, String> {
    // `with_unit` reads `16G` as binary and `16GB` as decimal, so the `B` is removed.
    let letter = text.strip_suffix('B').filter(|text| text.ends_with(['K', 'M', 'G', 'T']));
    with_unit(letter.unwrap_or(text))
}

/// Bytes per second: a size, with `/s` or without.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    size(text.strip_suffix("/s").unwrap_or(text)).ok_or_else(|| {
        format!("`{text}` is not a rate; expected bytes per second above 0, such as `50MB/s`")
    })
}

fn size(text: &str) -> Option<u64> {
    Size::parse(text).map(|size| size.0)
}

/// Parses a number of threads.
pub(crate) fn jobs(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| {
        format!("`{text}` is not a number of threads; expected 1 or more, such as `4`")
    })
}

/// Parses a number of things.
pub(crate) fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| format!("`{text}` is not a count; expected 1 or more, such as `3`"))
}

pub(crate) fn lifetime(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "s" => 1_u64,
        "m" => 60,
        "h" => 3600,
        _ => return Err(not_a_time(text)),
    };
    let number: u64 = digits.parse().map_err(|_| not_a_time(text))?;
    number.checked_mul(unit).map(Duration::from_secs).ok_or(format!("`{text}` is too long"))
}

/// Parses a delay of at most a minute.
pub(crate) fn delay(text: &str) -> Result<Duration, String> {
    let millis = match text.strip_suffix("ms") {
        Some(number) => number.parse::<u64>().ok(),
        None => text.strip_suffix('s').and_then(|n| n.parse::<u64>().ok()?.checked_mul(1000)),
    };
    let delay = millis.filter(|millis| *millis <= 60_000).map(Duration::from_millis);
    delay.ok_or_else(|| {
        format!("`{text}` is not a delay; expected ms or s, at most a minute, such as `20ms`")
    })
}

fn not_a_time(text: &str) -> String {
    format!("`{text}` is not a time; expected a number with s, m or h, such as `30m`")
}

pub(crate) fn share(text: &str) -> Result<f64, String> {
    let (digits, unit) = match text.strip_suffix('%') {
        Some(digits) => (digits, 100.0),
        None => (text, 1.0),
    };
    let share = digits.trim().parse::<f64>().ok().map(|number| number / unit);
    share.filter(|share| *share > 0.0 && *share <= 1.0).ok_or_else(|| {
        format!(
            "`{text}` is not a share; expected above 0 and at most 100%, such as `1%` or `0.01`"
        )
    })
}

pub(crate) fn split(text: &str) -> Result<Split, String> {
    Split::parse(text.trim())
        .ok_or(format!("`{text}` is not a split; expected `train`, `val` or `test`"))
}

pub(crate) fn envelope(text: &str) -> Result<Envelope, String> {
    let all = Envelope::ALL;
    all.into_iter().find(|e| e.name() == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|e| e.name()).collect();
        let adopted = Envelope::ADOPTED.iter().any(|e| e.name() == text);
        let what =
            if adopted { "read by `gular adopt`, but never written" } else { "not an envelope" };
        format!("`{text}` is {what}; expected one of {}", names.join(", "))
    })
}

/// Formats a time in its largest fitting unit.
pub(crate) fn span(span: Duration) -> String {
    match span.as_secs() {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s / 60),
        s @ 7200..172_800 => format!("{} h", s / 3600),
        s => format!("{} days", s / 86400),
    }
}

pub(crate) fn check(text: &str) -> Result<CompareBy, String> {
    match text {
        "size" => Ok(CompareBy::Size),
        "digest" => Ok(CompareBy::Digest),
        "bytes" => Ok(CompareBy::Bytes),
        _ => Err(format!("`{text}` is not a way to compare; expected `size`, `digest` or `bytes`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_told_with_an_example() {
        let check = |told: Result<(), String>, given: &str, example: &str| {
            let told = told.unwrap_err();
            assert!(told.contains(&format!("`{given}` is not a")), "{told}");
            assert!(told.contains(&format!("such as `{example}`")), "{told}");
        };
        for bad in ["fast", "0", "1XB/s", ""] {
            check(rate(bad).map(drop), bad, "50MB/s");
        }
        for bad in ["0", "1XB", "GiB"] {
            check(bytes(bad).map(drop), bad, "256MiB");
        }
        for bad in ["0", "-1", "x", "1.5"] {
            check(jobs(bad).map(drop), bad, "4");
        }
        check(lifetime("30").map(drop), "30", "30m");
        check(share("x").map(drop), "x", "1%");
        for bad in ["20", "-1ms", "61s", "s", "1m"] {
            check(delay(bad).map(drop), bad, "20ms");
        }
        assert_eq!(delay("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(delay("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(rate("50MB/s"), Ok(50_000_000));
        assert_eq!(jobs("3").unwrap().get(), 3);
    }

    #[test]
    fn sizes_of_jobs_have_units_and_are_counted_as_batch_systems_do() {
        assert_eq!(request("16GB"), Ok(16 << 30));
        assert_eq!((request("16GiB"), request("16G")), (request("16GB"), request("16GB")));
        assert_eq!((request("3696MB"), with_unit("1.5MB")), (Ok(3696 << 20), Ok(1_500_000)));
        for parse in [request, with_unit] {
            assert!(parse("16").unwrap_err().contains("`16` has no unit"));
            for bad in ["", "GB", "16XB", "0GB", "B"] {
                assert!(parse(bad).unwrap_err().contains("such as `16GB`"), "{bad}");
            }
        }
    }

    #[test]
    fn sizes_and_shares_parse() {
        assert_eq!(bytes("1GiB"), Ok(1 << 30));
        assert_eq!(bytes("1.5MB"), Ok(1_500_000));
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(lifetime("30m"), Ok(Duration::from_secs(1800)));
        for bad in ["", "30", "m", "-1m", "1d", "99999999999999999999h", "9999999999999999999h"] {
            assert!(lifetime(bad).is_err(), "{bad}");
        }
        assert_eq!(share("1%"), Ok(0.01));
        assert_eq!(share("0.5"), Ok(0.5));
        for bad in ["", "GiB", "1XB", "-1", "0", "nan"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
        for bad in ["", "0", "101%", "x", "nan"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }
}
