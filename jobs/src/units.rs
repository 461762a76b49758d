//! Sizes and times as HTCondor and Slurm read them.

/// A size in a submit file: a number, and `K`, `M`, `G` or `T`, with a `B` or without.
/// `None`: an expression, or nothing that HTCondor reads. Bare numbers are in `unit` bytes.
pub(crate) fn condor_bytes(text: &str, unit: u64) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let unit = match suffix.trim().to_ascii_uppercase().as_str() {
        "" => unit,
        "K" | "KB" => 1 << 10,
        "M" | "MB" => 1 << 20,
        "G" | "GB" => 1 << 30,
        "T" | "TB" => 1 << 40,
        _ => return None,
    };
    bounded(number * unit as f64)
}

/// A size in an sbatch script: `K`, `M` (bare numbers too), `G` or `T`.
pub(crate) fn slurm_bytes(text: &str) -> Option<u64> {
    condor_bytes(text, 1 << 20).filter(|_| !text.contains(['.', ' ']))
}

fn bounded(bytes: f64) -> Option<u64> {
    (0.0..9e18).contains(&bytes).then_some(bytes as u64)
}

/// A time limit of Slurm in seconds: `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M`, `D-H:M:S`.
pub(crate) fn slurm_seconds(text: &str) -> Option<u64> {
    if ["unlimited", "infinite", "-1"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Some(u64::MAX);
    }
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(days.parse::<u64>().ok()?), rest),
        None => (None, text),
    };
    let parts: Option<Vec<u64>> = rest.split(':').map(|part| part.parse().ok()).collect();
    let (h, m, s) = match (days, parts?.as_slice()) {
        (None, [m]) => (0, *m, 0),
        (None, [m, s]) => (0, *m, *s),
        (None | Some(_), [h, m, s]) => (*h, *m, *s),
        (Some(_), [h]) => (*h, 0, 0),
        (Some(_), [h, m]) => (*h, *m, 0),
        _ => return None,
    };
    let days = days.unwrap_or(0).checked_mul(86400)?;
    days.checked_add(h.checked_mul(3600)?)?.checked_add(m.checked_mul(60)?)?.checked_add(s)
}

/// Bytes as a submit file and sbatch have them: whole GB or MB, rounded up.
pub(crate) fn request(bytes: u64) -> String {
    let (gib, mib) = (1_u64 << 30, 1_u64 << 20);
    if bytes >= 4 * gib {
        format!("{} GB", bytes.div_ceil(gib))
    } else {
        format!("{} MB", bytes.div_ceil(mib).max(1))
    }
}

/// Bytes in words, as HTCondor counts them: 1 GB is 2^30.
pub(crate) fn words(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["bytes", "KB", "MB", "GB"] {
        if value < 1024.0 {
            return if unit == "bytes" {
                format!("{bytes} bytes")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TB")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are those of HTCondor 24.12.24 for `request_disk`, in KiB, and those in
    /// Slurm's manual.
    #[test]
    fn sizes_and_times_are_read_as_the_schedulers_read_them() {
        for (text, kib) in [
            ("16", Some(16)),
            ("16GB", Some(16_777_216)),
            ("16 Gb", Some(16_777_216)),
            ("1.5GB", Some(1_572_864)),
            ("16TB", Some(17_179_869_184)),
            ("16 KB", Some(16)),
            ("16GiB", None),
            ("16B", None),
            ("16 gigs", None),
            ("lots", None),
            ("", None),
        ] {
            assert_eq!(condor_bytes(text, 1024).map(|bytes| bytes / 1024), kib, "{text}");
        }
        for (text, seconds) in [
            ("30", Some(1800)),
            ("30:10", Some(1810)),
            ("1:0:0", Some(3600)),
            ("2-3", Some(2 * 86400 + 3 * 3600)),
            ("1-0:30", Some(86400 + 1800)),
            ("1h", None),
            ("99999999999999999999", None),
            ("9999999999999999-0", None),
            ("1:2:3:4", None),
        ] {
            assert_eq!(slurm_seconds(text), seconds, "{text}");
        }
        assert_eq!(slurm_bytes("16G"), Some(16 << 30));
        assert_eq!(slurm_bytes("1.5G"), None);
        assert_eq!(
            [request(1), request(5 << 30), request((5 << 30) + 1)],
            ["1 MB", "5 GB", "6 GB"]
        );
        assert_eq!([words(3), words(1536), words(3 << 40)], ["3 bytes", "1.5 KB", "3.0 TB"]);
    }
}
