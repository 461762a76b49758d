//! Unpacks the bytes of a chunk to its samples.

use super::directory::corrupt;
use super::lerc::Lerc;
use super::{Number, outside};
use crate::{Error, Format, JpegBackend, Limits, Rect, jpeg, webp};

/// How chunks are compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Lzw,
    Deflate,
    PackBits,
    Zstd,
    Lzma,
    Lerc(Lerc),
    /// Pictures of three or four samples.
    WebP,
    Jpeg {
        /// The beginning of every chunk's stream, up to its own tables and scans.
        start: Vec<u8>,
    },
}

impl Compression {
    pub(super) fn new(
        (kind, parameters): (u64, &[u64]),
        photometric: u64,
        samples: u16,
        (bits, number): (u64, Number),
        tables: &[u8],
    ) -> Result<Self, Error> {
        match kind {
            1 => Ok(Self::None),
            5 => Ok(Self::Lzw),
            8 | 32_946 => Ok(Self::Deflate),
            32_773 => Ok(Self::PackBits),
            50_000 => Ok(Self::Zstd),
            34_887 if bits == number.bytes() as u64 * 8 => {
                Lerc::new(parameters, number, samples).map(Self::Lerc)
            }
            34_925 => Ok(Self::Lzma),
            50_001 if bits == 8 && matches!(samples, 3 | 4) => Ok(Self::WebP),
            50_001 => Err(outside::other(format!("WebP of {samples} samples of {bits} bits"))),
            7 => jpeg_start(photometric, samples, bits, tables),
            _ => Err(outside::compression(kind)),
        }
    }

    /// Returns whether the packed samples may be differences.
    pub(super) fn has_predictor(&self) -> bool {
        matches!(self, Self::Lzw | Self::Deflate | Self::Zstd | Self::Lzma)
    }

    /// Fills `out` with the samples of a chunk of `size` = (columns, rows).
    pub(super) fn unpack(
        &self,
        packed: &[u8],
        size: (u32, u32),
        out: &mut [u8],
    ) -> Result<(), Error> {
        let ends = |n: usize, of: usize| {
            Error::truncated(Format::Tiff, format!("a chunk has {n} of {of} bytes"))
        };
        let wanted = out.len();
        match self {
            Self::None => {
                let all = packed.get(..wanted).ok_or_else(|| ends(packed.len(), wanted))?;
                out.copy_from_slice(all);
            }
            Self::Deflate => inflate(packed, out)?,
            Self::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(packed)
                    .map_err(|e| corrupt(format!("a chunk cannot be decompressed: {e}")))?;
                // 128 MiB is libzstd's own limit on what it allocates for a stream.
                decoder.window_log_max(27).map_err(|e| corrupt(e.to_string()))?;
                read_all(&mut decoder, out)?;
            }
            Self::Lzma => {
                // Each chunk is an xz stream, whose dictionary takes the memory that it says.
                let stream = liblzma::stream::Stream::new_stream_decoder(LZMA_MEMORY, 0)
                    .map_err(|e| corrupt(format!("a chunk cannot be decompressed: {e}")))?;
                read_all(&mut liblzma::bufread::XzDecoder::new_stream(packed, stream), out)?;
            }
            Self::Lerc(lerc) => lerc.unpack(packed, size, out)?,
            Self::WebP => webp_chunk(packed, size, out)?,
            Self::Lzw => {
                let order = weezl::BitOrder::Msb;
                let mut decoder = weezl::decode::Decoder::with_tiff_size_switch(order, 8);
                let (mut from, mut at) = (packed, 0);
                while at < wanted {
                    let room = out.get_mut(at..).unwrap_or_default();
                    let step = decoder.decode_bytes(from, room);
                    let status = step.status.map_err(|e| corrupt(format!("a chunk's LZW: {e}")))?;
                    from = from.get(step.consumed_in..).unwrap_or_default();
                    at += step.consumed_out;
                    let is_stuck = step.consumed_in == 0 && step.consumed_out == 0;
                    if is_stuck || matches!(status, weezl::LzwStatus::Done) {
                        break;
                    }
                }
                if at < wanted {
                    return Err(ends(at, wanted));
                }
            }
            Self::PackBits => {
                let n = pack_bits(packed, out);
                if n < wanted {
                    return Err(ends(n, wanted));
                }
            }
            Self::Jpeg { start } => jpeg_chunk(start, packed, size, out)?,
        }
        Ok(())
    }
}

/// Memory for decompressing a chunk of LZMA: the dictionaries of `xz -9` have 64 MiB.
const LZMA_MEMORY: u64 = 128 << 20;

fn inflate(packed: &[u8], out: &mut [u8]) -> Result<(), Error> {
    use fdeflate::DecompressionError as Fault;
    let damaged = |fault: &Fault| corrupt(format!("a chunk cannot be decompressed: {fault:?}"));
    let mut inflater = fdeflate::Decompressor::new();
    let n = match inflater.read(packed, out, 0, true) {
        Err(Fault::InsufficientInput) => return Err(too_short(out)),
        read => read.map_err(|fault| damaged(&fault))?,
    };
    if n.1 < out.len() {
        return Err(too_short(out));
    }
    // These are the bytes after the last number: only the checksum, if all is well.
    let rest = packed.get(n.0..).unwrap_or_default();
    inflater.read(rest, out, n.1, true).map(drop).map_err(|fault| damaged(&fault))
}

fn too_short(out: &[u8]) -> Error {
    Error::truncated(Format::Tiff, format!("a chunk unpacks to less than {} bytes", out.len()))
}

fn read_all(from: &mut dyn std::io::Read, out: &mut [u8]) -> Result<(), Error> {
    from.read_exact(out).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => too_short(out),
        _ => corrupt(format!("a chunk cannot be decompressed: {e}")),
    })
}

/// Unpacks runs and literals, and returns the number of bytes written.
fn pack_bits(mut packed: &[u8], out: &mut [u8]) -> usize {
    let wanted = out.len();
    let mut room = out;
    while let (Some((head, rest)), false) = (packed.split_first(), room.is_empty()) {
        packed = rest;
        match *head {
            128 => {}
            literals @ 0..128 => {
                let (from, rest) = packed.split_at((usize::from(literals) + 1).min(packed.len()));
                packed = rest;
                let (to, left) = room.split_at_mut(from.len().min(room.len()));
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                room = left;
            }
            run => {
                let Some((value, rest)) = packed.split_first() else { break };
                packed = rest;
                let (to, left) = room.split_at_mut((257 - usize::from(run)).min(room.len()));
                to.fill(*value);
                room = left;
            }
        }
    }
    wanted - room.len()
}

/// Makes the beginning of every JPEG chunk. Chunks lack the tables that they share, and do not say
/// how their colours are stored; the file does. An Adobe segment tells the decoder.
fn jpeg_start(
    photometric: u64,
    samples: u16,
    bits: u64,
    tables: &[u8],
) -> Result<Compression, Error> {
    if bits != 8 || !matches!(samples, 1 | 3) {
        let detail = format!("JPEG of {samples} samples of {bits} bits");
        return Err(outside::other(detail));
    }
    let mut start = b"\xff\xd8".to_vec();
    if samples == 3 {
        let transform = u8::from(photometric == 6);
        start.extend_from_slice(b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00");
        start.push(transform);
    }
    if !tables.is_empty() {
        let inner = tables.strip_prefix(b"\xff\xd8").and_then(|t| t.strip_suffix(b"\xff\xd9"));
        start.extend_from_slice(inner.ok_or_else(|| corrupt("its JPEG tables are damaged"))?);
    }
    Ok(Compression::Jpeg { start })
}

fn jpeg_chunk(start: &[u8], packed: &[u8], size: (u32, u32), out: &mut [u8]) -> Result<(), Error> {
    let scans = packed.strip_prefix(b"\xff\xd8");
    let scans = scans.ok_or_else(|| corrupt("a chunk is not a JPEG"))?;
    let file = [start, scans].concat();
    let in_chunk = |e: Error| corrupt(format!("a chunk of JPEG: {e}"));
    let frame = jpeg::Frame::parse(&file).map_err(in_chunk)?;
    let pixels = size.0 as usize * size.1 as usize;
    let channels = out.len() / pixels.max(1);
    if (frame.width, frame.height) != size || usize::from(frame.components) != channels {
        let (w, h, n) = (frame.width, frame.height, frame.components);
        return Err(corrupt(format!(
            "a chunk of JPEG is {w} x {h} x {n}, expected {} x {} x {channels}",
            size.0, size.1
        )));
    }
    let mut rgb = Vec::new();
    let whole = Rect::whole(size.0, size.1);
    jpeg::decode(JpegBackend::default(), &file, &frame, whole, 1, false, &mut rgb)
        .map_err(in_chunk)?;
    match channels {
        3 => {
            let rgb = rgb.get(..out.len());
            out.copy_from_slice(rgb.ok_or_else(|| corrupt("a chunk of JPEG is too short"))?);
        }
        _ => out.iter_mut().zip(rgb.as_chunks().0).for_each(|(grey, [red, _, _])| *grey = *red),
    }
    Ok(())
}

fn webp_chunk(packed: &[u8], size: (u32, u32), out: &mut [u8]) -> Result<(), Error> {
    let in_chunk = |e: Error| corrupt(format!("a chunk of WebP: {e}"));
    let pixels = size.0 as usize * size.1 as usize;
    let samples = out.len() / pixels.max(1);
    let limits = Limits { max_pixels: pixels as u64 };
    let found = webp::samples(packed, size, samples, &limits, out).map_err(in_chunk)?;
    if found != size {
        return Err(corrupt(format!(
            "a chunk of WebP is {} x {}, expected {} x {}",
            found.0, found.1, size.0, size.1
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deflated_chunk_is_checked_to_its_end() {
        let plain: Vec<u8> = (0..5000_u32).map(|i| (i * i / 7) as u8).collect();
        let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut writer, &plain).unwrap();
        let mut packed = writer.finish().unwrap();
        let unpack = |packed: &[u8], len: usize| {
            let mut out = vec![0; len];
            inflate(packed, &mut out).map(|()| out)
        };
        assert_eq!(unpack(&packed, 5000).unwrap(), plain);
        // A chunk may contain more than its picture, and bytes behind its numbers are ignored.
        assert_eq!(unpack(&packed, 4000).unwrap(), plain[..4000]);
        assert_eq!(unpack(&packed[..packed.len() - 4], 5000).unwrap(), plain);
        for end in [0, 1, packed.len() / 2] {
            assert!(matches!(unpack(&packed[..end], 5000), Err(Error::Truncated { .. })), "{end}");
        }
        assert!(matches!(unpack(&packed, 5001), Err(Error::Truncated { .. })));
        *packed.last_mut().unwrap() ^= 1;
        assert!(matches!(unpack(&packed, 5000), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn runs_and_literals_unpack() {
        // This is the example in Apple's technical note 1023.
        let packed = b"\xfe\xaa\x02\x80\x00\x2a\xfd\xaa\x03\x80\x00\x2a\x22\xf7\xaa";
        let plain = b"\xaa\xaa\xaa\x80\x00\x2a\xaa\xaa\xaa\xaa\x80\x00\x2a\x22\xaa\xaa\xaa\xaa\
            \xaa\xaa\xaa\xaa\xaa\xaa";
        let mut out = [0; 24];
        assert_eq!(pack_bits(packed, &mut out), 24);
        assert_eq!(&out, plain);
        for end in 0..packed.len() {
            assert!(pack_bits(&packed[..end], &mut out) <= 24);
        }
        assert_eq!(pack_bits(b"\x81\x07", &mut out[..5]), 5);
    }
}
