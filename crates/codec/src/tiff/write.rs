//! Writes a GeoTIFF from top to bottom, strip by strip, as BigTIFF if it would be too large for
//! TIFF.
//!
//! ```text
//! header | strips, as they are written | directory | what is too long for it
//! ```

use std::io::{self, Seek, SeekFrom, Write};

use super::crs::{ESRI, is_geographic, is_wkt};
use super::{Geo, Number};

/// How strips are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// No compression.
    None,
    /// Deflate of the differences of integers.
    #[default]
    Deflate,
}

/// Rows per strip.
const STRIP_ROWS: u32 = 16;
/// For files larger than this, offsets of strips need 64 bits.
const MOST_CLASSIC: u64 = (1 << 32) - (1 << 24);

/// Writes one picture, `[height, width, bands]`, in rows.
#[derive(Debug)]
pub struct GeoTiffWriter<W: Write + Seek> {
    out: W,
    big: bool,
    size: (u32, u32),
    bands: u16,
    number: Number,
    geo: Geo,
    packing: Packing,
    /// Rows that wait for their strip.
    rows: Vec<u8>,
    written: u32,
    at: u64,
    strips: Vec<(u64, u64)>,
}

impl<W: Write + Seek> GeoTiffWriter<W> {
    /// Begins a picture of `size` = (columns, rows).
    ///
    /// # Errors
    /// Those of `out`; [`io::ErrorKind::InvalidInput`] for a picture without pixels.
    pub fn new(
        mut out: W,
        size: (u32, u32),
        bands: u16,
        number: Number,
        geo: Geo,
        packing: Packing,
    ) -> io::Result<Self> {
        if size.0 == 0 || size.1 == 0 || bands == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let pixel = u64::from(bands) * number.bytes() as u64;
        let bytes = u64::from(size.0) * u64::from(size.1);
        let big = bytes.saturating_mul(pixel) > MOST_CLASSIC;
        let head: &[u8] = if big { &[0; 16] } else { &[0; 8] };
        out.write_all(head)?;
        let at = head.len() as u64;
        let (rows, strips) = (Vec::new(), Vec::new());
        Ok(Self { out, big, size, bands, number, geo, packing, rows, written: 0, at, strips })
    }

    fn line(&self) -> usize {
        self.size.0 as usize * usize::from(self.bands) * self.number.bytes()
    }

    /// Adds whole rows, little-endian.
    ///
    /// # Errors
    /// Those of the file; [`io::ErrorKind::InvalidInput`] when there are more than fit or `rows`
    /// does not end with a row.
    pub fn push(&mut self, mut rows: &[u8]) -> io::Result<()> {
        let line = self.line();
        let n = u32::try_from(rows.len() / line).unwrap_or(u32::MAX);
        if !rows.len().is_multiple_of(line) || n > self.size.1 - self.written {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.written += n;
        let strip = line * STRIP_ROWS as usize;
        while !rows.is_empty() {
            let (now, later) = rows.split_at((strip - self.rows.len()).min(rows.len()));
            self.rows.extend_from_slice(now);
            rows = later;
            if self.rows.len() == strip {
                let whole = std::mem::replace(&mut self.rows, Vec::with_capacity(strip));
                self.strip(whole)?;
            }
        }
        Ok(())
    }

    fn strip(&mut self, mut strip: Vec<u8>) -> io::Result<()> {
        if self.packing == Packing::Deflate {
            if !self.number.is_float() {
                let (line, bytes) = (self.line(), self.number.bytes());
                for row in strip.chunks_exact_mut(line) {
                    differences(row, usize::from(self.bands), bytes);
                }
            }
            let level = flate2::Compression::new(6);
            let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), level);
            packed.write_all(&strip)?;
            strip = packed.finish()?;
        }
        self.out.write_all(&strip)?;
        self.strips.push((self.at, strip.len() as u64));
        self.at += strip.len() as u64;
        Ok(())
    }

    /// Writes the directory, and returns the file.
    ///
    /// # Errors
    /// Those of the file; [`io::ErrorKind::InvalidInput`] when rows are missing.
    pub fn finish(mut self) -> io::Result<W> {
        if self.written < self.size.1 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let last = std::mem::take(&mut self.rows);
        if !last.is_empty() {
            self.strip(last)?;
        }
        if !self.at.is_multiple_of(8) {
            let gap = 8 - self.at % 8;
            self.out.write_all(&vec![0; usize::try_from(gap).unwrap_or(0)])?;
            self.at += gap;
        }
        let directory = self.directory();
        self.out.write_all(&directory)?;
        self.out.seek(SeekFrom::Start(0))?;
        match self.big {
            true => {
                self.out.write_all(b"II\x2b\0\x08\0\0\0")?;
                self.out.write_all(&self.at.to_le_bytes())?;
            }
            false => {
                self.out.write_all(b"II\x2a\0")?;
                let at = u32::try_from(self.at).map_err(|_| io::ErrorKind::InvalidInput)?;
                self.out.write_all(&at.to_le_bytes())?;
            }
        }
        self.out.flush()?;
        Ok(self.out)
    }

    fn directory(&self) -> Vec<u8> {
        let mut tags = Tags { big: self.big, tags: Vec::new() };
        let bits = u16::try_from(self.number.bytes() * 8).unwrap_or(8);
        let format = match self.number {
            Number::U8 | Number::U16 | Number::U32 => 1,
            Number::I8 | Number::I16 | Number::I32 | Number::I64 => 2,
            Number::F16 | Number::F32 | Number::F64 => 3,
        };
        let each = |value: u16| vec![value; usize::from(self.bands)];
        let packing = if self.packing == Packing::None { 1 } else { 8 };
        let predictor =
            if self.packing == Packing::Deflate && !self.number.is_float() { 2 } else { 1 };
        tags.longs(256, &[self.size.0.into()]);
        tags.longs(257, &[self.size.1.into()]);
        tags.shorts(258, &each(bits));
        tags.shorts(259, &[packing]);
        tags.shorts(262, &[1]);
        tags.places(273, &self.strips.iter().map(|(at, _)| *at).collect::<Vec<_>>());
        tags.shorts(277, &[self.bands]);
        tags.longs(278, &[STRIP_ROWS.into()]);
        tags.places(279, &self.strips.iter().map(|(_, n)| *n).collect::<Vec<_>>());
        tags.shorts(284, &[1]);
        tags.shorts(317, &[predictor]);
        if self.bands > 1 {
            tags.shorts(338, &vec![0; usize::from(self.bands) - 1]);
        }
        tags.shorts(339, &each(format));
        let Geo { ref bands, ref gcps, ref rpc, ref scales, .. } = self.geo;
        if let Some([x, a, b, y, d, e]) = self.geo.transform {
            if b == 0.0 && d == 0.0 && a > 0.0 && e < 0.0 {
                tags.doubles(33_550, &[a, -e, 0.0]);
                tags.doubles(33_922, &[0.0, 0.0, 0.0, x, y, 0.0]);
            } else {
                let m = [a, b, 0.0, x, d, e, 0.0, y, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
                tags.doubles(34_264, &m);
            }
        } else if !gcps.is_empty() {
            let point = |[i, j, x, y, z]: &[f64; 5]| [*i, *j, 0.0, *x, *y, *z];
            let points: Vec<[f64; 6]> = gcps.iter().map(point).collect();
            tags.doubles(33_922, points.as_flattened());
        }
        self.keys(&mut tags);
        if !bands.is_empty() || !scales.is_empty() {
            tags.text(42_112, &metadata(bands, scales));
        }
        if let Some(nodata) = self.geo.nodata {
            tags.text(42_113, &if nodata.is_nan() { "nan".to_owned() } else { nodata.to_string() });
        }
        if !rpc.is_empty() {
            tags.doubles(50_844, rpc);
        }
        tags.finish(self.at)
    }

    /// Writes the CRS. Whether it is geographic is known only from its number: most geographic ones
    /// are registered below 5000. GDAL looks up the number in any case. Of other texts, GDAL reads
    /// WKT in a citation that begins like ESRI's.
    fn keys(&self, tags: &mut Tags) {
        let Some(crs) = &self.geo.crs else { return };
        match crs.strip_prefix("EPSG:").and_then(|code| code.parse::<u16>().ok()) {
            Some(code) if (4001..=4999).contains(&code) || is_geographic(code.into()) => {
                tags.shorts(34_735, &[1, 1, 0, 3, 1024, 0, 1, 2, 1025, 0, 1, 1, 2048, 0, 1, code]);
            }
            Some(code) => {
                tags.shorts(34_735, &[1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, code]);
            }
            None => {
                let (before, model) = if is_wkt(crs) { (ESRI, 32_767) } else { ("", 1) };
                let text = format!("{before}{crs}|");
                let n = u16::try_from(text.len()).unwrap_or(u16::MAX);
                let keys = [
                    [1, 1, 0, 4],
                    [1024, 0, 1, model],
                    [1025, 0, 1, 1],
                    [3072, 0, 1, 32_767],
                    [3073, 34_737, n, 0],
                ];
                tags.shorts(34_735, keys.as_flattened());
                tags.text(34_737, &text);
            }
        }
    }
}

/// Applies predictor 2 to a row.
fn differences(row: &mut [u8], samples: usize, bytes: usize) {
    match bytes {
        1 => subtract(row, samples, |[a]: [u8; 1], [b]| [a.wrapping_sub(b)]),
        2 => subtract(row, samples, |a, b| {
            u16::from_le_bytes(a).wrapping_sub(u16::from_le_bytes(b)).to_le_bytes()
        }),
        4 => subtract(row, samples, |a, b| {
            u32::from_le_bytes(a).wrapping_sub(u32::from_le_bytes(b)).to_le_bytes()
        }),
        _ => subtract(row, samples, |a, b| {
            u64::from_le_bytes(a).wrapping_sub(u64::from_le_bytes(b)).to_le_bytes()
        }),
    }
}

/// Subtracts from each number the number `samples` before it, from the end of the row.
fn subtract<const B: usize>(
    row: &mut [u8],
    samples: usize,
    less: impl Fn([u8; B], [u8; B]) -> [u8; B],
) {
    let numbers = row.as_chunks_mut::<B>().0;
    for at in (samples..numbers.len()).rev() {
        if let Some([before, .., now]) = numbers.get_mut(at - samples..=at) {
            *now = less(*now, *before);
        }
    }
}

fn metadata(bands: &[String], scales: &[[f64; 2]]) -> String {
    let item = |name: &str, i: usize, text: &str| {
        let role = name.to_ascii_lowercase();
        format!("<Item name=\"{name}\" sample=\"{i}\" role=\"{role}\">{text}</Item>")
    };
    // A name is escaped twice, since GDAL reads it so.
    let names = bands.iter().enumerate();
    let names = names.map(|(i, name)| item("DESCRIPTION", i, &escaped(&escaped(name))));
    let scales = scales.iter().enumerate().map(|(i, [scale, offset])| {
        item("OFFSET", i, &offset.to_string()) + &item("SCALE", i, &scale.to_string())
    });
    format!("<GDALMetadata>{}</GDALMetadata>", names.chain(scales).collect::<String>())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Entries of the directory, in the order of their tags.
struct Tags {
    big: bool,
    tags: Vec<(u16, u16, u64, Vec<u8>)>,
}

impl Tags {
    fn shorts(&mut self, tag: u16, values: &[u16]) {
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tags.push((tag, 3, values.len() as u64, data));
    }

    fn longs(&mut self, tag: u16, values: &[u64]) {
        let narrow = |v: &u64| u32::try_from(*v).unwrap_or(u32::MAX).to_le_bytes();
        let data = values.iter().flat_map(narrow).collect();
        self.tags.push((tag, 4, values.len() as u64, data));
    }

    /// Writes numbers as wide as the file's offsets.
    fn places(&mut self, tag: u16, values: &[u64]) {
        if !self.big {
            return self.longs(tag, values);
        }
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tags.push((tag, 16, values.len() as u64, data));
    }

    fn doubles(&mut self, tag: u16, values: &[f64]) {
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tags.push((tag, 12, values.len() as u64, data));
    }

    fn text(&mut self, tag: u16, text: &str) {
        let data = [text.as_bytes(), b"\0"].concat();
        self.tags.push((tag, 2, data.len() as u64, data));
    }

    /// Returns the directory for position `at`, and behind it the values that are too long for its
    /// entries.
    fn finish(self, at: u64) -> Vec<u8> {
        let (of_count, of_entry, room) = if self.big { (8, 20, 8) } else { (2, 12, 4) };
        let word = |n: u64| n.to_le_bytes().into_iter().take(room);
        let length = of_count + of_entry * self.tags.len() + room;
        let count = self.tags.len() as u64;
        let mut out: Vec<u8> = count.to_le_bytes().into_iter().take(of_count).collect();
        let mut behind = Vec::new();
        for (tag, kind, count, mut data) in self.tags {
            out.extend(tag.to_le_bytes());
            out.extend(kind.to_le_bytes());
            out.extend(word(count));
            if data.len() <= room {
                data.resize(room, 0);
                out.append(&mut data);
            } else {
                out.extend(word(at + (length + behind.len()) as u64));
                behind.append(&mut data);
                behind.resize(behind.len().next_multiple_of(8), 0);
            }
        }
        out.extend(word(0));
        out.append(&mut behind);
        out
    }
}
