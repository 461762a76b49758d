//! The compressions of pages, by their numbers in Parquet's `CompressionCodec`
//! (<https://github.com/apache/parquet-format/blob/master/Compression.md>).

use std::io::Read;

const NONE: i64 = 0;
const SNAPPY: i64 = 1;
const GZIP: i64 = 2;
const ZSTD: i64 = 6;

const NAMES: [&str; 8] = ["nothing", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw"];

/// Snappy never unpacks to more than this many times the size of its input.
const SNAPPY_RATIO: u64 = 32;

/// Whether pages with this compression are packed at all.
pub(super) fn is_packed(codec: i64) -> bool {
    codec != NONE
}

/// Whether pages with this compression are read.
pub(super) fn is_read(codec: i64) -> bool {
    [NONE, SNAPPY, GZIP, ZSTD].contains(&codec)
}

pub(super) fn name(codec: i64) -> String {
    let name = usize::try_from(codec).ok().and_then(|codec| NAMES.get(codec).copied());
    name.map_or_else(|| format!("codec {codec}"), str::to_owned)
}

/// Unpacks to `len` bytes; `None` if the bytes are damaged, or are another number.
pub(super) fn unpack(codec: i64, packed: &[u8], len: u64) -> Option<Vec<u8>> {
    let bytes = match codec {
        SNAPPY => {
            let said = snap::raw::decompress_len(packed).ok()? as u64;
            let limit = (packed.len() as u64).checked_mul(SNAPPY_RATIO)?;
            if said != len || said > limit {
                return None;
            }
            snap::raw::Decoder::new().decompress_vec(packed).ok()?
        }
        GZIP => at_most(flate2::read::MultiGzDecoder::new(packed), len)?,
        ZSTD => at_most(zstd::Decoder::with_buffer(packed).ok()?, len)?,
        _ => return None,
    };
    (bytes.len() as u64 == len).then_some(bytes)
}

/// Reads no more than one byte too many, and takes no memory before there are bytes for it.
fn at_most(reader: impl Read, len: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(len.checked_add(1)?).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
