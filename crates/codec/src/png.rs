//! PNG through the `png` crate, row by row.
//!
//! ```text
//! magic (8) | length IHDR width height depth colour … crc | … eXIf … | IDAT … | IEND
//! ```
//!
//! For an animation only the default image is read, as libpng does. Its other frames (`acTL`,
//! `fcTL`, `fdAT`) are removed before decoding, since the decoder would check them.

use std::io::Cursor;

use png::{DecodingError, Transformations};

use crate::{
    Error, Format, Header, Limits, Rect,
    picture::{CHANNELS, byte_len, grow},
};

mod notes;

use notes::Notes;

/// The facts that a file gives before its pixels are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Png {
    pub(crate) header: Header,
    /// Whether the file has further frames.
    pub(crate) is_animated: bool,
    /// A violation of the format that does not affect the pixels.
    pub(crate) flaw: Option<&'static str>,
}

/// Reads the chunks before the first `IDAT`, and the notes about the picture behind the pixels.
pub(crate) fn parse(bytes: &[u8]) -> Result<Png, Error> {
    let mut at = FIRST_CHUNK;
    let (kind, ihdr) = next_chunk(bytes, &mut at)?;
    let Some([w3, w2, w1, w0, h3, h2, h1, h0, bit_depth, colour, _, _, interlace]) =
        ihdr.first_chunk().filter(|_| kind == b"IHDR")
    else {
        return Err(Error::corrupt(Format::Png, "it does not start with an `IHDR` chunk"));
    };
    let width = u32::from_be_bytes([*w3, *w2, *w1, *w0]);
    let height = u32::from_be_bytes([*h3, *h2, *h1, *h0]);
    if width == 0 || height == 0 {
        return Err(Error::corrupt(Format::Png, format!("its size is {width} x {height}")));
    }
    let (channels, depths): (u8, &[u8]) = match colour {
        0 => (1, &[1, 2, 4, 8, 16]),
        2 => (3, &[8, 16]),
        3 => (3, &[1, 2, 4, 8]),
        4 => (2, &[8, 16]),
        6 => (4, &[8, 16]),
        _ => return Err(Error::corrupt(Format::Png, format!("colour type {colour}"))),
    };
    if !depths.contains(bit_depth) {
        let detail = format!("{bit_depth} bits a sample with colour type {colour}");
        return Err(Error::corrupt(Format::Png, detail));
    }
    let mut notes = Notes::default();
    loop {
        match next_chunk(bytes, &mut at)? {
            (b"IDAT" | b"IEND", _) => break,
            (kind, data) => notes.add(kind, data),
        }
    }
    // Notes and frames may be behind the pixels; a file that is cut there fails when it is decoded.
    let behind = Chunks { rest: bytes.get(at..).unwrap_or_default() };
    for chunk in behind.take_while(|chunk| chunk.kind != b"IEND") {
        notes.add(chunk.kind, chunk.data);
    }
    let header = Header {
        format: Format::Png,
        width,
        height,
        channels,
        bit_depth: *bit_depth,
        orientation: notes.orientation(),
        progressive: *interlace == 1,
    };
    Ok(Png { header, is_animated: notes.is_animated, flaw: notes.flaw() })
}

/// Offset of the first chunk.
const FIRST_CHUNK: usize = 8;

/// A chunk that is complete.
struct Chunk<'a> {
    kind: &'a [u8],
    data: &'a [u8],
    /// Length, kind, data and checksum.
    all: &'a [u8],
}

/// The chunks from a position on, up to the first that is not complete.
struct Chunks<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    fn next(&mut self) -> Option<Chunk<'a>> {
        let len = usize::try_from(u32::from_be_bytes(*self.rest.first_chunk()?)).ok()?;
        let (all, rest) = self.rest.split_at_checked(len.checked_add(12)?)?;
        self.rest = rest;
        Some(Chunk { kind: all.get(4..8)?, data: all.get(8..8 + len)?, all })
    }
}

/// Returns the file without the frames of its animation, as a still picture.
fn still(bytes: &[u8]) -> Vec<u8> {
    let (magic, rest) = bytes.split_at(FIRST_CHUNK.min(bytes.len()));
    let mut chunks = Chunks { rest };
    let mut still = Vec::with_capacity(bytes.len());
    still.extend(magic);
    for chunk in chunks.by_ref().filter(|chunk| !notes::is_frame(chunk.kind)) {
        still.extend(chunk.all);
    }
    // The rest is a chunk that is cut short.
    still.extend(chunks.rest);
    still
}

/// Returns kind and data of the chunk at `at`, and moves `at` behind it. The data of `IDAT` may be
/// cut short, since the pixels' decoder reports that with the row that was reached.
fn next_chunk<'a>(bytes: &'a [u8], at: &mut usize) -> Result<(&'a [u8], &'a [u8]), Error> {
    let ends = || {
        let detail = format!("the file ends at byte {}, before its pixels", bytes.len());
        Error::truncated(Format::Png, detail)
    };
    let rest = bytes.get(*at..).unwrap_or_default();
    let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(ends)?;
    let (kind, rest) = rest.split_at_checked(4).ok_or_else(ends)?;
    if kind == b"IDAT" {
        return Ok((kind, &[]));
    }
    let len = usize::try_from(u32::from_be_bytes(*len)).map_err(|_| ends())?;
    let data = rest.get(..len).ok_or_else(ends)?;
    *at += 12 + len;
    Ok((kind, data))
}

/// Decodes exactly `region` of the stored picture into the start of `out`, as RGB.
///
/// Rows below `region` are not read, unless `region` is the whole picture or `strict` is set.
pub(crate) fn decode(
    bytes: &[u8],
    file: &Png,
    region: Rect,
    limits: &Limits,
    strict: bool,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let header = &file.header;
    let still = (file.is_animated && !strict).then(|| still(bytes));
    let bytes = still.as_deref().unwrap_or(bytes);
    let narrow = Transformations::EXPAND | Transformations::STRIP_16;
    let mut reader = open(bytes, header, limits, narrow, strict)?;
    let samples = reader.output_color_type().0.samples();
    let pixels = grow(out, byte_len(region.width, region.height, CHANNELS)?)?;
    if header.progressive {
        let len = reader.output_buffer_size().ok_or(Error::Memory { bytes: usize::MAX })?;
        let mut whole = Vec::new();
        let whole = grow(&mut whole, len)?;
        reader.next_frame(whole).map_err(|cause| error(cause, None, header))?;
        let rows = whole.chunks_exact(header.width as usize * samples);
        let lines = pixels.chunks_exact_mut(region.width as usize * CHANNELS);
        for (row, line) in rows.skip(region.y as usize).zip(lines) {
            expand(&row[region.x as usize * samples..], samples, line);
        }
    } else {
        for y in 0..region.y {
            next_row(&mut reader, y, header)?;
        }
        let lines = pixels.chunks_exact_mut(region.width as usize * CHANNELS);
        for (y, line) in (region.y..).zip(lines) {
            expand(
                &next_row(&mut reader, y, header)?[region.x as usize * samples..],
                samples,
                line,
            );
        }
    }
    if strict || region == Rect::whole(header.width, header.height) {
        reader.finish().map_err(|cause| error(cause, Some(header.height), header))?;
    }
    Ok(())
}

/// Returns a reader at the beginning of the pixels; with `strict` it compares checksums.
fn open<'a>(
    bytes: &'a [u8],
    header: &Header,
    limits: &Limits,
    transformations: Transformations,
    strict: bool,
) -> Result<png::Reader<Cursor<&'a [u8]>>, Error> {
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), memory_limit(limits));
    decoder.set_transformations(transformations);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    if strict {
        decoder.ignore_checksums(false);
    }
    let reader = decoder.read_info().map_err(|cause| error(cause, None, header))?;
    let info = reader.info();
    if (info.width, info.height) != (header.width, header.height) {
        return Err(Error::corrupt(Format::Png, "its headers are ambiguous"));
    }
    Ok(reader)
}

/// Decodes the whole stored picture as RGB of 16 bits: grey is repeated, alpha dropped. The file
/// must have 16-bit samples.
pub(crate) fn decode_u16(
    bytes: &[u8],
    file: &Png,
    limits: &Limits,
) -> Result<Vec<[u16; CHANNELS]>, Error> {
    let header = &file.header;
    let still = file.is_animated.then(|| still(bytes));
    let bytes = still.as_deref().unwrap_or(bytes);
    let mut reader = open(bytes, header, limits, Transformations::EXPAND, false)?;
    let (colour, depth) = reader.output_color_type();
    if depth != png::BitDepth::Sixteen {
        return Err(Error::corrupt(Format::Png, "its samples are not of 16 bits"));
    }
    let bytes = byte_len(header.width, header.height, CHANNELS * 2)?;
    let mut pixels = Vec::new();
    pixels.try_reserve_exact(bytes / (CHANNELS * 2)).map_err(|_| Error::Memory { bytes })?;
    let samples = colour.samples();
    if header.progressive {
        let len = reader.output_buffer_size().ok_or(Error::Memory { bytes: usize::MAX })?;
        let mut whole = Vec::new();
        let whole = grow(&mut whole, len)?;
        reader.next_frame(whole).map_err(|cause| error(cause, None, header))?;
        push_u16(whole, samples, &mut pixels);
    } else {
        for y in 0..header.height {
            push_u16(next_row(&mut reader, y, header)?, samples, &mut pixels);
        }
    }
    reader.finish().map_err(|cause| error(cause, Some(header.height), header))?;
    Ok(pixels)
}

/// Decodes the whole stored picture of one channel, or with a palette, as it is stored.
pub(crate) fn decode_values(bytes: &[u8], file: &Png, limits: &Limits) -> Result<Vec<u16>, Error> {
    let header = &file.header;
    let still = file.is_animated.then(|| still(bytes));
    let bytes = still.as_deref().unwrap_or(bytes);
    let mut reader = open(bytes, header, limits, Transformations::IDENTITY, false)?;
    let info = reader.info();
    if !matches!(info.color_type, png::ColorType::Grayscale | png::ColorType::Indexed) {
        let detail = "a mask with more than one channel and no palette";
        return Err(Error::unsupported(Format::Png, detail));
    }
    let bits = info.bit_depth as usize;
    let len = reader.output_buffer_size().ok_or(Error::Memory { bytes: usize::MAX })?;
    let mut whole = Vec::new();
    let whole = grow(&mut whole, len)?;
    reader.next_frame(whole).map_err(|cause| error(cause, None, header))?;
    reader.finish().map_err(|cause| error(cause, Some(header.height), header))?;
    let width = header.width as usize;
    let mut values = Vec::new();
    let bytes = byte_len(header.width, header.height, 2)?;
    values.try_reserve_exact(bytes / 2).map_err(|_| Error::Memory { bytes })?;
    for row in whole.chunks_exact((width * bits).div_ceil(8)) {
        match bits {
            16 => values.extend(row.as_chunks().0.iter().map(|pair| u16::from_be_bytes(*pair))),
            8 => values.extend(row.iter().map(|v| u16::from(*v))),
            // Values are packed from the high bits of each byte on.
            _ => values.extend((0..width).map(|x| {
                let shift = 8 - bits - x * bits % 8;
                u16::from(row[x * bits / 8] >> shift) & ((1 << bits) - 1)
            })),
        }
    }
    Ok(values)
}

/// Appends big-endian samples as RGB.
fn push_u16(row: &[u8], samples: usize, pixels: &mut Vec<[u16; CHANNELS]>) {
    let (values, _) = row.as_chunks::<2>();
    pixels.extend(values.chunks_exact(samples).map(|pixel| {
        let value = |at: usize| u16::from_be_bytes(pixel[at]);
        if samples < CHANNELS { [value(0); CHANNELS] } else { [value(0), value(1), value(2)] }
    }));
}

fn next_row<'r>(
    reader: &'r mut png::Reader<Cursor<&[u8]>>,
    y: u32,
    header: &Header,
) -> Result<&'r [u8], Error> {
    match reader.next_row() {
        Ok(Some(row)) => Ok(row.data()),
        Ok(None) => {
            Err(Error::truncated(Format::Png, format!("it has {y} of {} rows", header.height)))
        }
        Err(cause) => Err(error(cause, Some(y), header)),
    }
}

/// Writes one row as RGB: grey is repeated, alpha dropped. `row` may be longer.
fn expand(row: &[u8], samples: usize, line: &mut [u8]) {
    let cells = line.as_chunks_mut::<CHANNELS>().0.iter_mut();
    match samples {
        3 => line.copy_from_slice(&row[..line.len()]),
        4 => {
            for (cell, [r, g, b, _]) in cells.zip(row.as_chunks::<4>().0) {
                *cell = [*r, *g, *b];
            }
        }
        _ => {
            for (cell, grey) in cells.zip(row.iter().step_by(samples)) {
                *cell = [*grey; CHANNELS];
            }
        }
    }
}

/// Returns a limit of a few rows of the widest picture allowed, at 8 bytes per pixel.
fn memory_limit(limits: &Limits) -> png::Limits {
    let bytes = limits.max_pixels.saturating_mul(32).saturating_add(64 << 20);
    png::Limits { bytes: usize::try_from(bytes).unwrap_or(usize::MAX) }
}

fn error(cause: DecodingError, rows: Option<u32>, header: &Header) -> Error {
    let reached =
        rows.map_or(String::new(), |rows| format!(" after {rows} of {} rows", header.height));
    match cause {
        DecodingError::IoError(cause) if cause.kind() == std::io::ErrorKind::UnexpectedEof => {
            Error::truncated(Format::Png, format!("the file ends{reached}"))
        }
        DecodingError::LimitsExceeded => Error::corrupt(
            Format::Png,
            format!("a chunk needs more memory than the picture{reached}"),
        ),
        other => Error::corrupt(Format::Png, format!("{other}{reached}")),
    }
}
