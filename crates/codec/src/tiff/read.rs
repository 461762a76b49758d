//! Windows of a picture, by the chunks they touch.

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
    /// The longest unused first: file, chunk, samples.
    kept: VecDeque<(u64, usize, Arc<[u8]>)>,
    packed: Vec<u8>,
    scratch: Vec<u8>,
}

impl Chunks {
    /// Keeps chunks of up to `most_bytes`, and one in any case.
    pub fn new(most_bytes: usize) -> Self {
        let (packed, scratch) = (Vec::new(), Vec::new());
        Self { most_bytes, bytes: 0, kept: VecDeque::new(), packed, scratch }
    }

    fn take(&mut self, file: u64, chunk: usize) -> Option<Arc<[u8]>> {
        let at = self.kept.iter().position(|(f, c, _)| (*f, *c) == (file, chunk))?;
        let found = self.kept.remove(at)?;
        let samples = Arc::clone(&found.2);
        self.kept.push_back(found);
        Some(samples)
    }

    fn keep(&mut self, file: u64, chunk: usize, samples: &Arc<[u8]>) {
        self.bytes += samples.len();
        self.kept.push_back((file, chunk, Arc::clone(samples)));
        while self.bytes > self.most_bytes && self.kept.len() > 1 {
            let Some((_, _, oldest)) = self.kept.pop_front() else { return };
            self.bytes -= oldest.len();
        }
    }
}

impl Tiff {
    /// Reads `window` into `out`: `[window.height, window.width, bands]`, little-endian.
    ///
    /// `file` tells files apart in `chunks`. What a sparse file has not is nodata, or 0.
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
        let planes = if self.planar { usize::from(self.bands) } else { 1 };
        let of_plane = self.offsets.len() / planes;
        let (wide, high) = self.chunk;
        for plane in 0..planes {
            for row in window.y / high..=(window.y + window.height - 1) / high {
                for column in window.x / wide..=(window.x + window.width - 1) / wide {
                    let at = row as usize * self.across() as usize + column as usize;
                    let at = plane * of_plane + at;
                    let rows = self.rows_of(row);
                    let samples = match chunks.take(file, at) {
                        Some(samples) => samples,
                        None => {
                            let samples: Arc<[u8]> = self.decode(source, at, rows, chunks)?.into();
                            chunks.keep(file, at, &samples);
                            samples
                        }
                    };
                    let corner = (column * wide, row * high);
                    self.copy(&samples, corner, rows, plane, window, out);
                }
            }
        }
        Ok(())
    }

    /// Rows that the chunks in this row of chunks have: strips end with the picture.
    fn rows_of(&self, row: u32) -> u32 {
        match self.tiled {
            true => self.chunk.1,
            false => self.chunk.1.min(self.height - row * self.chunk.1),
        }
    }

    fn decode<S: Positioned + ?Sized>(
        &self,
        source: &S,
        at: usize,
        rows: u32,
        chunks: &mut Chunks,
    ) -> Result<Vec<u8>, Error> {
        let size = (self.chunk.0, rows);
        let bytes = self.number.bytes();
        let line = size.0 as usize * self.samples();
        let mut samples = Vec::new();
        let len = line * bytes * rows as usize;
        let samples_out = crate::picture::grow(&mut samples, len)?;
        let (offset, length) = (self.offsets[at], self.lengths[at]);
        if offset == 0 || length == 0 {
            self.fill(samples_out);
            return Ok(samples);
        }
        // Samples of less than a byte, in rows of whole bytes.
        let packed_line = (line * usize::from(self.bits)).div_ceil(8);
        let unpacked = packed_line * rows as usize;
        // What packs badly takes somewhat more than it unpacks to.
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
            let bits = usize::from(self.bits);
            for (row, out) in rows.zip(samples_out.chunks_exact_mut(line)) {
                for (i, value) in out.iter_mut().enumerate() {
                    let shift = 8 - bits - i * bits % 8;
                    *value = (row[i * bits / 8] >> shift) & ((1 << bits) - 1);
                }
            }
            return Ok(samples);
        }
        self.compression.unpack(packed, size, samples_out)?;
        if self.predictor == 3 {
            for row in samples_out.chunks_exact_mut(line * bytes) {
                predict::floating(row, self.samples(), self.number, &mut chunks.scratch);
            }
            return Ok(samples);
        }
        predict::to_little(samples_out, bytes, self.order);
        if self.predictor == 2 {
            for row in samples_out.chunks_exact_mut(line * bytes) {
                predict::horizontal(row, self.samples(), bytes);
            }
        }
        Ok(samples)
    }

    /// What was never written.
    fn fill(&self, out: &mut [u8]) {
        let bytes = self.number.bytes();
        let value = self.geo.nodata.and_then(|nodata| self.number.encode(nodata));
        let value = value.filter(|value| value.iter().any(|b| *b != 0));
        if let Some(value) = value {
            out.chunks_exact_mut(bytes).for_each(|cell| cell.copy_from_slice(&value));
        }
    }

    /// Copies what a chunk and the window share.
    fn copy(
        &self,
        samples: &[u8],
        corner: (u32, u32),
        rows: u32,
        plane: usize,
        window: Rect,
        out: &mut [u8],
    ) {
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
            let from = &samples[from..from + n * from_pixel];
            let to = &mut out[to..to + n * to_pixel];
            if from_pixel == to_pixel {
                to.copy_from_slice(from);
            } else {
                let cells = to.chunks_exact_mut(to_pixel).map(|p| &mut p[plane * bytes..][..bytes]);
                cells.zip(from.chunks_exact(bytes)).for_each(|(to, from)| to.copy_from_slice(from));
            }
        }
    }
}
