//! Byte counts in words.

use std::fmt;

/// A number of bytes, shown with a decimal unit as download pages and `df -H` show it: `1.5 GB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    /// A number with a decimal unit, a binary one (`KiB` or `K`), or none for bytes; of one byte at
    /// least.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match text.get(digits.len()..).unwrap_or_default() {
            "" | "B" => 1_u64,
            "KB" => 1000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            "K" | "KiB" => 1 << 10,
            "M" | "MiB" => 1 << 20,
            "G" | "GiB" => 1 << 30,
            "T" | "TiB" => 1 << 40,
            _ => return None,
        };
        let bytes = digits.trim().parse::<f64>().ok()? * unit as f64;
        (1.0..9e15).contains(&bytes).then_some(Self(bytes as u64))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One decimal is shown, so it does not matter that a float is inexact above 2^53.
        let mut value = self.0 as f64;
        for unit in ["B", "KB", "MB", "GB", "TB"] {
            if value < 1000.0 {
                return match unit {
                    "B" => write!(f, "{} B", self.0),
                    _ => write!(f, "{value:.1} {unit}"),
                };
            }
            value /= 1000.0;
        }
        write!(f, "{value:.1} PB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KB"),
            (1500, "1.5 KB"),
            (72_900_000, "72.9 MB"),
            (2_400_000_000, "2.4 GB"),
            (10_000_000_000_000, "10.0 TB"),
            (u64::MAX, "18446.7 PB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }
}
