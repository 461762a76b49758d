//! How numbers, tables and JSON are written.

use std::io::Write as _;

use crate::exit::Failure;

/// Bytes with a decimal unit: 1.5 GB.
pub(crate) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{value:.1} PB")
}

/// One JSON object on stdout.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Failure::new(format!("cannot write JSON: {e}"), None))?;
    stdout(&format!("{text}\n"))
}

/// Text on stdout; a reader that went away ends the program quietly.
pub(crate) fn stdout(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        for (bytes, text) in [(0, "0 B"), (999, "999 B"), (1500, "1.5 KB"), (72_900_000, "72.9 MB")]
        {
            assert_eq!(size(bytes), text);
        }
    }
}
