//! Parsers of what flags are given in: bytes, times, shares, splits, envelopes.

use std::time::Duration;

use gular_bundle::{Envelope, Split};
use gular_pelican::Check;

pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "" | "B" => 1_u64,
        "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        other => {
            return Err(format!("`{other}` is not a unit; expected KiB, MiB, GiB, KB, MB or GB"));
        }
    };
    let number: f64 = digits.trim().parse().map_err(|_| format!("`{text}` is not a size"))?;
    let bytes = number * unit as f64;
    if (1.0..9e15).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err(format!("`{text}` is not a size"))
    }
}

/// Bytes per second: a size, with `/s` or without.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    bytes(text.strip_suffix("/s").unwrap_or(text))
}

pub(crate) fn lifetime(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "s" => 1_u64,
        "m" => 60,
        "h" => 3600,
        other => return Err(format!("`{other}` is not a unit of time; expected s, m or h")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a time"))?;
    number.checked_mul(unit).map(Duration::from_secs).ok_or(format!("`{text}` is too long"))
}

pub(crate) fn share(text: &str) -> Result<f64, String> {
    let (digits, unit) = match text.strip_suffix('%') {
        Some(digits) => (digits, 100.0),
        None => (text, 1.0),
    };
    let share =
        digits.trim().parse::<f64>().map_err(|_| format!("`{text}` is not a share"))? / unit;
    if share > 0.0 && share <= 1.0 {
        Ok(share)
    } else {
        Err("a share is above 0 and at most 100%".to_owned())
    }
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
            if adopted { "only read, by `gular adopt`, never written" } else { "not an envelope" };
        format!("`{text}` is {what}; expected one of {}", names.join(", "))
    })
}

/// A time in its largest fitting unit.
pub(crate) fn span(span: Duration) -> String {
    match span.as_secs() {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s / 60),
        s @ 7200..172_800 => format!("{} h", s / 3600),
        s => format!("{} days", s / 86400),
    }
}

pub(crate) fn check(text: &str) -> Result<Check, String> {
    match text {
        "size" => Ok(Check::Size),
        "digest" => Ok(Check::Digest),
        "bytes" => Ok(Check::Bytes),
        _ => Err(format!("`{text}` cannot be compared; expected `size`, `digest` or `bytes`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
