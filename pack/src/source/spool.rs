//! Unpacks what is compressed as a whole once: nothing in it can be found without unpacking all
//! that is before.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};
use std::path::Path;
use std::sync::atomic::Ordering;

use super::archive::Opening;
use crate::facts::RunError;
use crate::source::{ArchiveLimit, SMALL, SourceError};

/// Bytes that are unpacked at a time.
const PIECE: usize = 1 << 20;
/// After so many bytes the disk is asked for its room again.
const LOOK_AGAIN: u64 = 256 << 20;

/// Unpacks `from` into a nameless file; `packed` is the length of the archive.
pub(super) fn unpack(
    path: &Path,
    mut from: impl Read,
    packed: u64,
    opening: &Opening<'_>,
) -> Result<File, SourceError> {
    let Opening { limits, temp: dir, cancel } = *opening;
    let mut file =
        tempfile::tempfile_in(dir).map_err(|e| SourceError::io("create a file in", dir, e))?;
    let mut piece = vec![0; PIECE];
    let (mut total, mut look) = (0_u64, 0_u64);
    // Headers and the end of a tar are zeros for the most part.
    let most = packed.saturating_mul(limits.ratio).max(SMALL);
    loop {
        if cancel.load(Ordering::Relaxed) {
            return Err(RunError::Cancelled.into());
        }
        if total >= look {
            let free = gular_files::free(dir)?.bytes;
            let to_come = to_come(total, most.min(limits.total_bytes));
            if free < to_come {
                let needed = total.saturating_add(to_come);
                return Err(
                    RunError::NoSpace { path: dir.display().to_string(), needed, free }.into()
                );
            }
            look = total.saturating_add(LOOK_AGAIN);
        }
        let n = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => {
                let reason = format!("it cannot be decompressed beyond {total} bytes: {e}");
                return Err(SourceError::BadArchive { path: path.display().to_string(), reason });
            }
        };
        total = total.saturating_add(n as u64);
        let over = if total > limits.total_bytes {
            Some((ArchiveLimit::Total, limits.total_bytes))
        } else if total > most {
            Some((ArchiveLimit::Ratio, most))
        } else {
            None
        };
        if let Some((limit, most)) = over {
            let reason = format!("it unpacks to more than {most} bytes from only {packed}");
            return Err(SourceError::Expands { path: path.display().to_string(), limit, reason });
        }
        file.write_all(&piece[..n]).map_err(|e| SourceError::io("write in", dir, e))?;
    }
    file.rewind().map_err(|e| SourceError::io("read in", dir, e))?;
    Ok(file)
}

/// Room for what comes until the disk is asked again, of an archive that unpacks to at most `most`
/// bytes.
fn to_come(total: u64, most: u64) -> u64 {
    most.saturating_sub(total).min(LOOK_AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_archive_needs_little_room() {
        assert_eq!(to_come(0, 2 << 20), 2 << 20);
        assert_eq!(to_come(0, 1 << 40), LOOK_AGAIN);
        assert_eq!(to_come(3 << 30, (3 << 30) + 5), 5);
    }
}
