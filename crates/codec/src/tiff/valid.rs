//! Which pixels have a value: by alpha and by the file's mask.
//!
//! ```text
//! directory 0: the picture ─▶ its overviews, masks of these, …
//!                          └▶ NewSubfileType with bit 2, as large as the picture: its mask
//! ```

use super::directory::{Directory, FileHeader};
use super::{Chunks, Positioned, Tiff};
use crate::{Error, Limits, Rect};

/// Directories that are searched for the mask. GDAL writes up to two for each overview, of which
/// each has half the size of the one before.
const MOST_DIRECTORIES: usize = 64;

/// Set in the number of the file whose mask a chunk belongs to.
const OF_MASK: u64 = 1 << 63;

/// Returns the number of the band that is alpha.
pub(super) fn alpha<S: Positioned + ?Sized>(of: &Directory<'_, S>, bands: u16) -> Option<u16> {
    let extra = of.integers(338).ok().flatten().unwrap_or_default();
    let at = extra.iter().position(|kind| matches!(kind, 1 | 2));
    let first = usize::from(bands).checked_sub(extra.len());
    let band = at.zip(first).and_then(|(at, first)| u16::try_from(first + at).ok());
    // An only band is the picture.
    band.filter(|_| bands > 1)
}

impl Tiff {
    /// Looks for the picture's mask in the directories from `at` on. One of a kind that is not read
    /// is ignored.
    pub(super) fn with_mask<S: Positioned + ?Sized>(
        mut self,
        source: &S,
        header: &FileHeader,
        mut at: u64,
        limits: &Limits,
    ) -> Self {
        let size = (Some(u64::from(self.width)), Some(u64::from(self.height)));
        for _ in 0..MOST_DIRECTORIES {
            if at == 0 {
                break;
            }
            let Ok(directory) = Directory::read(source, header, at) else { break };
            let number = |tag| directory.integer(tag).ok().flatten();
            let is_mask = number(254).is_some_and(|kind| kind & 4 != 0) || number(262) == Some(4);
            if is_mask && (number(256), number(257)) == size {
                let mask = Self::of(&directory, limits).ok().filter(|mask| mask.bands == 1);
                self.mask = mask.map(Box::new);
                break;
            }
            at = directory.next;
        }
        self
    }

    /// Returns whether the file says by alpha or by a mask which pixels have a value.
    pub fn is_masked(&self) -> bool {
        self.alpha.is_some() || self.mask.is_some()
    }

    /// Returns for each pixel of a window whether it has a value by alpha and by the file's mask: 0
    /// if not. `values` are those of the window, and `None` is returned if the file has neither.
    ///
    /// # Errors
    /// Those of [`Tiff::read_window`].
    pub fn valid_window<S: Positioned + ?Sized>(
        &self,
        source: &S,
        file: u64,
        window: Rect,
        chunks: &mut Chunks,
        values: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        if !self.is_masked() {
            return Ok(None);
        }
        let mut valid = vec![1; window.width as usize * window.height as usize];
        if let Some(mask) = &self.mask {
            let bytes = mask.number.bytes();
            let mut found = vec![0; mask.window_bytes(window)?];
            mask.read_window(source, file | OF_MASK, window, chunks, &mut found)?;
            for (valid, found) in valid.iter_mut().zip(found.chunks_exact(bytes)) {
                *valid = u8::from(found.iter().any(|byte| *byte != 0));
            }
        }
        if let Some(alpha) = self.alpha {
            let bytes = self.number.bytes();
            let pixels = values.chunks_exact(bytes * usize::from(self.bands));
            let at = bytes * usize::from(alpha);
            for (valid, pixel) in valid.iter_mut().zip(pixels) {
                let alpha = pixel.get(at..at + bytes).unwrap_or_default();
                *valid &= u8::from(alpha.iter().any(|byte| *byte != 0));
            }
        }
        Ok(Some(valid))
    }
}
