//! A file that only grows, by whole lines or records.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use crate::Error;

#[derive(Debug)]
pub(crate) struct AppendFile {
    file: File,
    path: PathBuf,
    len_bytes: u64,
}

impl AppendFile {
    /// Opens `path`, and shortens it to its first `len_bytes`.
    pub(crate) fn open(path: PathBuf, len_bytes: u64) -> Result<Self, Error> {
        let open = || {
            let file = OpenOptions::new().create(true).append(true).open(&path)?;
            file.set_len(len_bytes)?;
            Ok(file)
        };
        let file = open().map_err(|e| Error::io("open", &path, e))?;
        Ok(Self { file, path, len_bytes })
    }

    /// Appends all of `piece`, unbuffered, or nothing.
    pub(crate) fn append(&mut self, piece: &[u8]) -> Result<(), Error> {
        if let Err(error) = self.file.write_all(piece) {
            // A full disk takes part of a piece; what follows it could not be read.
            let _ = self.file.set_len(self.len_bytes);
            return Err(Error::io("write", &self.path, error));
        }
        self.len_bytes += piece.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn full_disk_is_reported() {
        // The device that is always full; no size can be set, nor need be.
        let path = Path::new("/dev/full").to_path_buf();
        let file = OpenOptions::new().append(true).open(&path).unwrap();
        let error = AppendFile { file, path, len_bytes: 0 }.append(b"line\n").unwrap_err();
        assert!(error.to_string().starts_with("cannot write `/dev/full`"), "{error}");
        assert!(error.hint().is_some());
    }
}
