//! The compressions of pages, by their numbers in Parquet's `CompressionCodec`
//! (<https://github.com/apache/parquet-format/blob/master/Compression.md>).

use std::io::Read;

const NONE: i64 = 0;
const SNAPPY: i64 = 1;
const GZIP: i64 = 2;
const ZSTD: i64 = 6;

const NAMES: [&str; 8] = ["nothing", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw"];

/// What a page may unpack to: this many times its size, which Snappy never exceeds, or so many
/// bytes, which is more than writers put into a page that packs better.
const MOST_TIMES: u64 = 32;
const MOST_BYTES: u64 = 64 << 20;

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

/// Unpacks to `len` bytes; `None` if the bytes are damaged, or are another number, or are too many.
pub(super) fn unpack(codec: i64, packed: &[u8], len: u64) -> Option<Vec<u8>> {
    let times = (packed.len() as u64).saturating_mul(MOST_TIMES);
    let least = if codec == SNAPPY { 0 } else { MOST_BYTES };
    if len > times.max(least) {
        return None;
    }
    let bytes = match codec {
        SNAPPY if snap::raw::decompress_len(packed).ok()? as u64 != len => return None,
        SNAPPY => snap::raw::Decoder::new().decompress_vec(packed).ok()?,
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_page_that_unpacks_to_too_much_is_refused_before_it_is_unpacked() {
        let gzip = |bytes: &[u8]| {
            let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            to.write_all(bytes).unwrap();
            to.finish().unwrap()
        };
        let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
        let zeros = vec![0; 1 << 20];
        let len = zeros.len() as u64;
        for (codec, packed) in [(GZIP, gzip(&zeros)), (ZSTD, zstd(&zeros))] {
            assert_eq!(unpack(codec, &packed, len).as_deref(), Some(&zeros[..]), "{codec}");
            for other in [len - 1, len + 1, MOST_BYTES + 1, u64::MAX] {
                assert_eq!(unpack(codec, &packed, other), None, "{codec}");
            }
        }
        let snappy = snap::raw::Encoder::new().compress_vec(&zeros[..1000]).unwrap();
        assert_eq!(unpack(SNAPPY, &snappy, 1000).as_deref(), Some(&zeros[..1000]));
        assert_eq!(unpack(SNAPPY, &snappy, 100 * snappy.len() as u64), None);
    }
}
