//! The header of a shard: where its samples begin, and the types of their columns.

use std::collections::HashSet;

use serde::Deserialize;

use crate::envelope::foreign::le::u32_at;
use crate::envelope::foreign::mds::encoding::Encoding;
use crate::{Error, MAX_SHARD_SAMPLES, ReadAt};

/// Descriptions above this are refused; one of 100 columns takes 8 KB.
const MAX_CONFIG: u64 = 1 << 20;
/// More columns than this are not a dataset.
const MAX_COLUMNS: usize = 256;
/// The only version there has been under this name.
const VERSION: u64 = 2;

/// The part of the file before the samples.
#[derive(Debug)]
pub(super) struct Shard {
    /// The first byte of each sample, and the end of the last one.
    pub(super) offsets: Vec<u32>,
    pub(super) columns: Vec<Spec>,
}

/// A column.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) encoding: Encoding,
    /// Bytes of every value, at least 1; `None` if each sample has its own size.
    pub(super) size: Option<u32>,
}

/// The description, as JSON. Other members do not affect the layout.
#[derive(Deserialize)]
struct Config {
    format: String,
    version: u64,
    column_names: Vec<String>,
    column_encodings: Vec<String>,
    column_sizes: Vec<Option<u32>>,
}

impl Shard {
    pub(super) fn open(file: &ReadAt) -> Result<Self, Error> {
        let bad = |reason: &str| Error::malformed(file.path(), reason);
        // Offsets of MDS have 32 bits.
        let len = u32::try_from(file.len_bytes()).map_err(|_| bad("an MDS shard over 4 GiB"))?;
        let mut count = [0; 4];
        file.read_at(0, &mut count).map_err(|_| bad("it is cut short"))?;
        let n = u64::from(u32::from_le_bytes(count));
        let table = n.saturating_add(1).saturating_mul(4);
        let start = table.saturating_add(4);
        if n > MAX_SHARD_SAMPLES || start > u64::from(len) {
            return Err(Error::malformed(file.path(), format!("it has no room for {n} samples")));
        }
        let offsets = read_table(file, table)?;
        let first = offsets.first().copied().unwrap_or(0);
        let rising = offsets.is_sorted() && offsets.last() == Some(&len);
        let config = u64::from(first).checked_sub(start).filter(|_| rising);
        let config =
            config.ok_or_else(|| bad("its last sample does not end at the end of the file"))?;
        if config > MAX_CONFIG {
            let (path, what) = (file.path(), "the description of columns");
            return Err(Error::TooLarge { path, what, found: config, limit: MAX_CONFIG });
        }
        let mut text = vec![0; usize::try_from(config).unwrap_or(0)];
        file.read_at(start, &mut text)?;
        let config: Config = serde_json::from_slice(&text)
            .map_err(|e| Error::malformed(file.path(), format!("its columns: {e}")))?;
        Ok(Self { offsets, columns: config.columns(file)? })
    }
}

/// Reads `bytes` of offsets, after a check that the file is that long.
fn read_table(file: &ReadAt, bytes: u64) -> Result<Vec<u32>, Error> {
    let mut offsets = Vec::with_capacity(usize::try_from(bytes / 4).unwrap_or(0));
    let mut piece = vec![0; 1 << 16];
    let mut done = 0_u64;
    while done < bytes {
        let n = bytes.saturating_sub(done).min(piece.len() as u64);
        let part = piece.get_mut(..usize::try_from(n).unwrap_or(0)).unwrap_or_default();
        file.read_at(done.saturating_add(4), part)?;
        offsets.extend(part.chunks_exact(4).filter_map(|b| u32_at(b, 0)));
        done = done.saturating_add(n);
    }
    Ok(offsets)
}

impl Config {
    fn columns(self, file: &ReadAt) -> Result<Vec<Spec>, Error> {
        let bad = |reason: String| Error::malformed(file.path(), reason);
        if self.format != "mds" || self.version != VERSION {
            let reason = format!(
                "its format is `{}` of version {}, only `mds` of version {VERSION} can be read",
                self.format.chars().take(32).collect::<String>(),
                self.version
            );
            return Err(Error::NotInPlace { path: file.path(), reason });
        }
        let n = self.column_names.len();
        let names: HashSet<&String> = self.column_names.iter().collect();
        let alike = self.column_encodings.len() == n && self.column_sizes.len() == n;
        if !alike || n == 0 || n > MAX_COLUMNS || names.len() != n {
            return Err(bad(format!(
                "it describes {n} columns, {} of them of different names, by {} encodings and {} sizes",
                names.len(),
                self.column_encodings.len(),
                self.column_sizes.len()
            )));
        }
        let spec = |((name, encoding), size): ((String, String), Option<u32>)| {
            let encoding = Encoding::parse(&encoding);
            let fits = encoding.size().is_none_or(|expected| size.map(u64::from) == Some(expected));
            // Each value must take bytes, so that the file's length bounds the number of values.
            if !fits || size == Some(0) {
                return Err(bad(format!(
                    "the values of column `{name}` have {size:?} bytes, which its encoding does not allow"
                )));
            }
            Ok(Spec { name, encoding, size })
        };
        let columns = self.column_names.into_iter().zip(self.column_encodings);
        columns.zip(self.column_sizes).map(spec).collect()
    }
}
