//! The limit on the size of values.

use crate::facts::Fault;

/// The largest value of a field. Format: `FORMAT.md`, "Limits".
pub(crate) const MOST_BYTES: u64 = (1 << 31) - 1;

/// Checks that a value may have so many bytes.
pub(crate) fn check_bytes(bytes: u64) -> Result<(), Fault> {
    if bytes > MOST_BYTES {
        let reason = format!("it has {bytes} bytes, and a sample may have at most {MOST_BYTES}");
        return Err(Fault::new(reason, Some("split it into smaller files")));
    }
    Ok(())
}
