//! Reads windows of a picture, decoding only the chunks that they touch.

use std::collections::VecDeque;
use std::sync::Arc;

use super::directory::{corrupt, io};
use super::{Positioned, Tiff, predict};
use crate::{Error, Rect};

/// Decoded chunks kept for the next window; one per thread.
#[derive(Debug)]
pub struct Chunks {
    most_bytes: usize,
    bytes: usize,
    /// File, chunk and samples of each chunk, the longest unused first.
    kept: VecDeque<(u64, usize, Arc<Vec<u8>>)>,
    packed: Vec<u8>,
    scratch: Vec<u8>,
    /// The memory of a chunk that is no longer kept.
    spare: Vec<u8>,
}

/// A chunk that a window touches.
struct Touched {
    /// Number of the chunk.
    at: usize,
    plane: usize,
    /// Column and row of the chunk's first pixel.
    corner: (u32, u32),
    rows: u32,
}

impl Chunks {
    /// Makes a store that keeps chunks of up to `most_bytes` together, and always at least one.
    pub fn new(most_bytes: usize) -> Self {
        let (packed, scratch, spare) = (Vec::new(), Vec::new(), Vec::new());
        Self { most_bytes, bytes: 0, kept: VecDeque::new(), packed, scratch, spare }
    }

    fn take(&mut self, file: u64, chunk: usize) -> Option<Arc<Vec<u8>>> {
        let at = self.kept.iter().position(|(f, c, _)| (*f, *c) == (file, chunk))?;
        let found = self.kept.remove(at)?;
        let samples = Arc::clone(&found.2);
        self.kept.push_back(found);
        Some(samples)
    }

    fn keep(&mut self, file: u64, chunk: usize, samples: &Arc<Vec<u8>>) {
        self.bytes += samples.capacity();
        self.kept.push_back((file, chunk, Arc::clone(samples)));
        while self.bytes > self.most_bytes && self.kept.len() > 1 {
            let Some((_, _, oldest)) = self.kept.pop_front() else { return };
            self.bytes -= oldest.capacity();
            self.spare = Arc::into_inner(oldest).unwrap_or_default();
        }
    }
}

impl Tiff {
    /// Reads `window` into `out`: `[window.height, window.width, bands]`, little-endian.
    ///
    /// `file` identifies the file in `chunks`. Pixels that a sparse file does not have are nodata,
    /// or 0.
    ///
    /// # Errors
    /// [`Error::BadRegion`], [`Error::BadBuffer`], and whatever is wrong with a chunk.
    pub fn read_window<S: Positioned + ?Sized>(
        &self,
        source: &S,
        file: u64,
        window: Rect,
        chunks: &mut Chunks,
        out: &mut [u8],
    ) -> Result<(), Error> {
        window.check(self.width, self.height)?;
        let expected = self.window_bytes(window)?;
        if out.len() != expected {
            let Rect { width, height, .. } = window;
            let (expected, found) = (expected as u64, out.len());
            return Err(Error::BadBuffer { width, height, expected, found });
        }
        for chunk in self.touched(window) {
            let samples = match chunks.take(file, chunk.at) {
                Some(samples) => samples,
                // A window that is exactly one chunk is decoded in place, since no other window
                // needs the chunk.
                None if self.is_all_of(window, &chunk) => {
                    self.decode(source, &chunk, chunks, out)?;
                    continue;
                }
                None => {
                    let mut samples = std::mem::take(&mut chunks.spare);
                    let pixels = self.chunk.0 as usize * chunk.rows as usize;
                    let len = pixels * self.samples() * self.number.bytes();
                    samples.truncate(len);
                    let room = crate::picture::grow(&mut samples, len)?;
                    self.decode(source, &chunk, chunks, room)?;
                    let samples = Arc::new(samples);
                    chunks.keep(file, chunk.at, &samples);
                    samples
                }
            };
            self.copy(&samples, &chunk, window, out)?;
        }
        Ok(())
    }

    /// Returns whether nothing of `window`, which must be in the picture, was ever written, as in a
    /// sparse file. All its pixels are then nodata, or 0.
    pub fn is_unwritten(&self, window: Rect) -> bool {
        window.check(self.width, self.height).is_ok()
            && self.touched(window).all(|chunk| self.is_hole(chunk.at))
    }

    fn is_hole(&self, at: usize) -> bool {
        self.place(at).is_some_and(|(offset, length)| offset == 0 || length == 0)
    }

    /// Returns the offset of chunk `at`, and its length.
    fn place(&self, at: usize) -> Option<(u64, u64)> {
        Some((*self.offsets.get(at)?, *self.lengths.get(at)?))
    }

    fn touched(&self, window: Rect) -> impl Iterator<Item = Touched> + '_ {
        let planes = usize::from(self.planes.max(1));
        let of_plane = self.offsets.len() / planes;
        let (wide, high) = self.chunk;
        let along = |from: u32, n: u32, by: u32| from / by..=(from + n - 1) / by;
        let columns = along(window.x, window.width, wide);
        let rows = along(window.y, window.height, high);
        let places = (0..planes).flat_map(move |plane| rows.clone().map(move |row| (plane, row)));
        places.flat_map(move |(plane, row)| {
            columns.clone().map(move |column| Touched {
                at: plane * of_plane + row as usize * self.across() as usize + column as usize,
                plane,
                corner: (column * wide, row * high),
                rows: self.rows_of(row),
            })
        })
    }

    /// Returns whether a window is one chunk, and has its samples in the same order.
    fn is_all_of(&self, window: Rect, chunk: &Touched) -> bool {
        self.planes == 1
            && (window.x, window.y) == chunk.corner
            && (window.width, window.height) == (self.chunk.0, chunk.rows)
    }

    /// Returns the number of rows of the chunks in this row of chunks; strips end with the picture.
    fn rows_of(&self, row: u32) -> u32 {
        match self.tiled {
            true => self.chunk.1,
            false => self.chunk.1.min(self.height - row * self.chunk.1),
        }
    }

    /// Fills `out` with the samples of a chunk.
    fn decode<S: Positioned + ?Sized>(
        &self,
        source: &S,
        chunk: &Touched,
        chunks: &mut Chunks,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let (at, rows) = (chunk.at, chunk.rows);
        let size = (self.chunk.0, rows);
        let bytes = self.number.bytes();
        let line = size.0 as usize * self.samples();
        let place = self.place(at);
        let (offset, length) = place.ok_or_else(|| corrupt(format!("chunk {at} is missing")))?;
        if self.is_hole(at) {
            self.fill(out);
            return Ok(());
        }
        // Samples smaller than a byte are stored in rows of whole bytes.
        let packed_line = (line * usize::from(self.bits)).div_ceil(8);
        let unpacked = packed_line * rows as usize;
        // Incompressible data takes slightly more than it unpacks to.
        if length > unpacked as u64 * 2 + (1 << 16) {
            return Err(corrupt(format!(
                "chunk {at} takes {length} bytes and unpacks to {unpacked}"
            )));
        }
        if source.len_bytes().map_err(|e| io(&e, offset))?.saturating_sub(offset) < length {
            return Err(io(&std::io::ErrorKind::UnexpectedEof.into(), offset));
        }
        let packed = &mut chunks.packed;
        packed.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
        source.read_at(offset, packed).map_err(|e| io(&e, offset))?;
        if self.bits < 8 {
            chunks.scratch.resize(unpacked, 0);
            self.compression.unpack(packed, size, &mut chunks.scratch)?;
            let rows = chunks.scratch.chunks_exact(packed_line);
            // Samples have 1, 2 or 4 bits, so none is in two bytes.
            let bits = self.bits;
            for (row, out) in rows.zip(out.chunks_exact_mut(line)) {
                for (byte, values) in row.iter().zip(out.chunks_mut(usize::from(8 / bits))) {
                    for (value, shift) in values.iter_mut().zip((0..8).step_by(bits.into()).rev()) {
                        *value = (byte >> shift) & ((1 << bits) - 1);
                    }
                }
            }
            return Ok(());
        }
        self.compression.unpack(packed, size, out)?;
        if self.predictor == 3 {
            for row in out.chunks_exact_mut(line * bytes) {
                predict::floating(row, self.samples(), self.number, &mut chunks.scratch);
            }
            return Ok(());
        }
        predict::to_little(out, bytes, self.order);
        if self.predictor == 2 {
            for row in out.chunks_exact_mut(line * bytes) {
                predict::horizontal(row, self.samples(), bytes);
            }
        }
        Ok(())
    }

    /// Fills `out` with the value of pixels that were never written.
    fn fill(&self, out: &mut [u8]) {
        let bytes = self.number.bytes();
        let value = self.geo.nodata.and_then(|nodata| self.number.encode(nodata));
        match value.filter(|value| value.iter().any(|b| *b != 0)) {
            None => out.fill(0),
            Some(value) => {
                out.chunks_exact_mut(bytes).for_each(|cell| cell.copy_from_slice(&value));
            }
        }
    }

    /// Copies the pixels that are in both a chunk and the window.
    fn copy(
        &self,
        samples: &[u8],
        chunk: &Touched,
        window: Rect,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let Touched { plane, corner, rows, .. } = *chunk;
        let first = (corner.0.max(window.x), corner.1.max(window.y));
        let end_x = corner.0.saturating_add(self.chunk.0).min(window.x + window.width);
        let end_y = corner.1.saturating_add(rows).min(window.y + window.height);
        let bytes = self.number.bytes();
        let (from_pixel, to_pixel) = (self.samples() * bytes, usize::from(self.bands) * bytes);
        let n = end_x.saturating_sub(first.0) as usize;
        for y in first.1..end_y {
            let row = (y - corner.1) as usize * self.chunk.0 as usize;
            let from = (row + (first.0 - corner.0) as usize) * from_pixel;
            let line = (y - window.y) as usize * window.width as usize;
            let to = (line + (first.0 - window.x) as usize) * to_pixel;
            let from = samples.get(from..from + n * from_pixel);
            let (Some(from), Some(to)) = (from, out.get_mut(to..to + n * to_pixel)) else {
                return Err(corrupt(format!("chunk {} does not reach row {y}", chunk.at)));
            };
            if from_pixel == to_pixel {
                to.copy_from_slice(from);
            } else {
                let (bands, samples) = (usize::from(self.bands), self.samples());
                match bytes {
                    _ if samples > 1 => {
                        let first = plane * from_pixel;
                        let pixels = to.chunks_exact_mut(to_pixel);
                        for (to, from) in pixels.zip(from.chunks_exact(from_pixel)) {
                            if let Some(to) = to.get_mut(first..first + from_pixel) {
                                to.copy_from_slice(from);
                            }
                        }
                    }
                    1 => spread::<1>(from, plane, bands, to),
                    2 => spread::<2>(from, plane, bands, to),
                    4 => spread::<4>(from, plane, bands, to),
                    _ => spread::<8>(from, plane, bands, to),
                }
            }
        }
        Ok(())
    }
}

/// Copies the numbers of one band to their places among those of all bands.
fn spread<const B: usize>(from: &[u8], plane: usize, bands: usize, to: &mut [u8]) {
    let places = to.as_chunks_mut::<B>().0.iter_mut().skip(plane).step_by(bands);
    places.zip(from.as_chunks::<B>().0).for_each(|(to, from)| *to = *from);
}
