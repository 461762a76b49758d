//! Decoded pixels with their width and height.

use std::fmt;

use crate::{Error, Rect};

/// Bytes of one pixel: red, green, blue.
pub(crate) const CHANNELS: usize = 3;

/// A decoded picture: 8-bit RGB, row-major `[height, width, 3]`.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    width: u32,
    height: u32,
    data: Vec<u8>,
}

impl Picture {
    /// Wraps pixels; `data.len()` must be `width * height * 3`.
    ///
    /// # Errors
    /// [`Error::BadBuffer`] on any other length.
    pub fn new(width: u32, height: u32, data: Vec<u8>) -> Result<Self, Error> {
        check_buffer(data.len(), width, height)?;
        Ok(Self { width, height, data })
    }

    /// Pixels in a row.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The pixels, `[height, width, 3]`.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The pixels, without a copy.
    pub fn into_data(self) -> Vec<u8> {
        self.data
    }
}

impl fmt::Debug for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Picture({} x {})", self.width, self.height)
    }
}

impl Rect {
    /// Fails unless the rectangle has pixels and is within `width` by `height`.
    pub(crate) fn check(self, width: u32, height: u32) -> Result<(), Error> {
        let fits = |start: u32, len: u32, end| {
            len > 0 && start.checked_add(len).is_some_and(|stop| stop <= end)
        };
        if fits(self.x, self.width, width) && fits(self.y, self.height, height) {
            Ok(())
        } else {
            Err(Error::BadRegion { region: self, width, height })
        }
    }
}

/// Part of a decoded picture: `rect` of pixels whose rows are `stride` pixels long.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub pixels: &'a [u8],
    pub stride: usize,
    pub rect: Rect,
}

impl<'a> View<'a> {
    /// Returns the rows of `rect`, top to bottom, `rect.width * 3` bytes each.
    pub(crate) fn rows(self) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator {
        let start = self.rect.x as usize * CHANNELS;
        let len = self.rect.width as usize * CHANNELS;
        self.pixels
            .chunks_exact(self.stride * CHANNELS)
            .skip(self.rect.y as usize)
            .take(self.rect.height as usize)
            .map(move |row| &row[start..start + len])
    }
}

pub(crate) fn check_buffer(found: usize, width: u32, height: u32) -> Result<(), Error> {
    let expected = u64::from(width) * u64::from(height) * CHANNELS as u64;
    if width == 0 || height == 0 || u64::try_from(found) != Ok(expected) {
        return Err(Error::BadBuffer { width, height, expected, found });
    }
    Ok(())
}

/// Returns the bytes of `width` by `height` pixels of `channels` bytes each.
pub(crate) fn byte_len(width: u32, height: u32, channels: usize) -> Result<usize, Error> {
    (width as usize)
        .checked_mul(height as usize)
        .and_then(|pixels| pixels.checked_mul(channels))
        .ok_or(Error::Memory { bytes: usize::MAX })
}

/// Makes `buffer` at least `len` bytes long, keeping what it has: a reused buffer is
/// neither cleared nor paged in again.
pub(crate) fn grow(buffer: &mut Vec<u8>, len: usize) -> Result<&mut [u8], Error> {
    if let Some(more) = len.checked_sub(buffer.len()) {
        if buffer.is_empty() {
            // A new allocation of zeros needs no pass over its pages, since they were never
            // written.
            *buffer = zeroed(len)?;
        } else {
            buffer.try_reserve_exact(more).map_err(|_| Error::Memory { bytes: len })?;
            buffer.resize(len, 0);
        }
    }
    Ok(&mut buffer[..len])
}

fn zeroed(len: usize) -> Result<Vec<u8>, Error> {
    // `vec![0; n]` is calloc, but aborts when memory is short, so this asks first.
    Vec::<u8>::new().try_reserve_exact(len).map_err(|_| Error::Memory { bytes: len })?;
    Ok(vec![0; len])
}
