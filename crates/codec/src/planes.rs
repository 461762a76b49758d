//! Resizes pixels that are not 8-bit RGB: any number of channels, of three types.

use fast_image_resize::{
    PixelTrait, ResizeOptions,
    images::{TypedImage, TypedImageRef},
    pixels::{F32, U8, U16},
};

use crate::resize::Plane;
use crate::{Error, Rect, Resize, ResizeFilter, Resizer};

/// The type of a channel that [`Resizer::resize_channels`] takes: `u8`, `u16` or `f32`.
pub trait Sample: Copy + Default + private::Plane {}

mod private {
    use super::{PixelTrait, Plane as Kept, Resizer};

    pub trait Plane: Sized {
        type Pixel: PixelTrait + Default;
        fn pixel(self) -> Self::Pixel;
        fn value(pixel: Self::Pixel) -> Self;
        fn kept(resizer: &mut Resizer)
        -> (&mut fast_image_resize::Resizer, &mut Kept<Self::Pixel>);
    }
}

macro_rules! sample {
    ($type:ty, $pixel:ty, $kept:ident) => {
        impl Sample for $type {}

        impl private::Plane for $type {
            type Pixel = $pixel;

            fn pixel(self) -> $pixel {
                <$pixel>::new(self)
            }

            fn value(pixel: $pixel) -> Self {
                pixel.0
            }

            fn kept(
                resizer: &mut Resizer,
            ) -> (&mut fast_image_resize::Resizer, &mut Plane<$pixel>) {
                (&mut resizer.inner, &mut resizer.$kept)
            }
        }
    };
}

sample!(u8, U8, u8s);
sample!(u16, U16, u16s);
sample!(f32, F32, f32s);

impl Resizer {
    /// Resizes `region` of `src` into `out`, each channel by itself. `src` is `[height, width,
    /// channels]` with `size` = (width, height), and `out` is `[to.height, to.width, channels]`.
    ///
    /// No pixel outside `region` has any influence. `to.flip` mirrors the result.
    ///
    /// # Errors
    /// [`Error::BadBuffer`] when `src` or `out` is not as long as its size asks for;
    /// [`Error::BadRegion`].
    pub fn resize_channels<T: Sample>(
        &mut self,
        src: &[T],
        size: (u32, u32),
        channels: usize,
        region: Rect,
        to: &Resize,
        out: &mut [T],
    ) -> Result<(), Error> {
        let check = |found: usize, width: u32, height: u32| {
            let expected = u64::from(width) * u64::from(height) * channels as u64;
            match expected > 0 && u64::try_from(found) == Ok(expected) {
                true => Ok(()),
                false => Err(Error::BadBuffer { width, height, expected, found }),
            }
        };
        check(src.len(), size.0, size.1)?;
        check(out.len(), to.width, to.height)?;
        region.check(size.0, size.1)?;
        let rows = src
            .chunks_exact(size.0 as usize * channels)
            .skip(region.y as usize)
            .take(region.height as usize);
        let cut = region.x as usize * channels..(region.x + region.width) as usize * channels;
        let rows = rows.map(|row| &row[cut.clone()]);
        let line = to.width as usize * channels;
        if (region.width, region.height) == (to.width, to.height) {
            rows.zip(out.chunks_exact_mut(line)).for_each(|(row, line)| line.copy_from_slice(row));
        } else if to.filter == ResizeFilter::Nearest {
            nearest(&rows.collect::<Vec<_>>(), channels, to, out);
        } else {
            let bad =
                || Error::BadBuffer { width: to.width, height: to.height, expected: 0, found: 0 };
            let options = ResizeOptions::new().resize_alg(to.filter.algorithm());
            let (inner, Plane { from, to: plane }) = T::kept(self);
            plane.resize(to.width as usize * to.height as usize, Default::default());
            for channel in 0..channels {
                from.clear();
                for row in rows.clone() {
                    from.extend(row[channel..].iter().step_by(channels).map(|v| v.pixel()));
                }
                let src = TypedImageRef::new(region.width, region.height, from);
                let dst = TypedImage::from_pixels_slice(to.width, to.height, plane);
                let (src, mut dst) = (src.map_err(|_| bad())?, dst.map_err(|_| bad())?);
                inner.resize_typed(&src, &mut dst, &options).map_err(|_| bad())?;
                let cells = out[channel..].iter_mut().step_by(channels);
                cells.zip(plane.iter()).for_each(|(cell, pixel)| *cell = T::value(*pixel));
            }
        }
        if to.flip {
            out.chunks_exact_mut(line).for_each(|line| mirror(line, channels));
        }
        Ok(())
    }
}

/// Takes the value under the centre of each pixel of the result, as Pillow's `NEAREST` and
/// torchvision's `NEAREST_EXACT` do.
fn nearest<T: Copy>(rows: &[&[T]], channels: usize, to: &Resize, out: &mut [T]) {
    let columns = rows.first().map_or(0, |row| row.len() / channels);
    let from = |at: usize, n: usize, of: u32| ((2 * at + 1) * n) / (2 * of as usize);
    for (y, line) in out.chunks_exact_mut(to.width as usize * channels).enumerate() {
        let Some(row) = rows.get(from(y, rows.len(), to.height)) else { return };
        for (x, cell) in line.chunks_exact_mut(channels).enumerate() {
            cell.copy_from_slice(&row[from(x, columns, to.width) * channels..][..channels]);
        }
    }
}

/// Mirrors a row of pixels of `channels` values.
fn mirror<T>(line: &mut [T], channels: usize) {
    line.reverse();
    line.chunks_exact_mut(channels).for_each(<[T]>::reverse);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: (u32, u32) = (31, 23);

    fn picture(channels: usize) -> Vec<u8> {
        let n = (SIZE.0 * SIZE.1) as usize * channels;
        (0..n).map(|i| ((i * i / 7 + i * 13) % 256) as u8).collect()
    }

    fn resized<T: Sample>(src: &[T], channels: usize, region: Rect, to: &Resize) -> Vec<T> {
        let mut out = vec![T::default(); (to.width * to.height) as usize * channels];
        Resizer::new().resize_channels(src, SIZE, channels, region, to, &mut out).unwrap();
        out
    }

    #[test]
    fn each_channel_is_resized_as_in_rgb_whatever_their_number_and_type() {
        let (region, rgb) = (Rect::new(3, 2, 25, 20), picture(3));
        for (width, height) in [(12, 9), (40, 31), (25, 20), (25, 7)] {
            for flip in [false, true] {
                let to = Resize { flip, ..Resize::to(width, height) };
                let mut expected = vec![0; (width * height * 3) as usize];
                Resizer::new().crop_resize(&rgb, SIZE, region, &to, &mut expected).unwrap();
                assert_eq!(resized(&rgb, 3, region, &to), expected);
                // The fourth and fifth channel are red again.
                let five: Vec<u8> =
                    rgb.chunks(3).flat_map(|p| [p[0], p[1], p[2], p[0], p[0]]).collect();
                let five = resized(&five, 5, region, &to);
                let again = expected.chunks(3).flat_map(|p| [p[0], p[1], p[2], p[0], p[0]]);
                assert_eq!(five, again.collect::<Vec<_>>());
                // More bits give the same, except for rounding.
                let wide: Vec<u16> = rgb.iter().map(|v| u16::from(*v) * 257).collect();
                let wide = resized(&wide, 3, region, &to);
                let float: Vec<f32> = rgb.iter().map(|v| f32::from(*v)).collect();
                let float = resized(&float, 3, region, &to);
                for ((byte, wide), float) in expected.iter().zip(wide).zip(float) {
                    assert!((f32::from(wide) / 257.0 - float).abs() < 0.01, "{wide} {float}");
                    assert!((f32::from(*byte) - float).abs() <= 1.0, "{byte} {float}");
                }
            }
        }
    }

    #[test]
    fn nearest_takes_the_value_under_the_centre() {
        let to =
            |width, height| Resize { filter: ResizeFilter::Nearest, ..Resize::to(width, height) };
        let check = |row: &[u8], width: u32, expected: &[u8]| {
            let mut out = vec![0; expected.len()];
            let size = (row.len() as u32, 1);
            let all = Rect::whole(size.0, 1);
            Resizer::new().resize_channels(row, size, 1, all, &to(width, 1), &mut out).unwrap();
            assert_eq!(out, expected);
        };
        // The expected values are those of Pillow 13 and numpy.
        check(&[0, 1, 2, 3], 2, &[1, 3]);
        check(&[0, 1, 2, 3, 4], 2, &[1, 3]);
        check(&[0, 1, 2], 6, &[0, 0, 1, 1, 2, 2]);
        check(&[0, 1, 2, 3, 4, 5, 6], 3, &[1, 3, 5]);
    }

    #[test]
    fn buffers_of_another_length_are_refused() {
        let mut out = vec![0_u16; 8];
        let to = Resize::to(2, 2);
        let mut resize = |src: &[u16], region| {
            Resizer::new().resize_channels(src, (3, 3), 2, region, &to, &mut out)
        };
        assert!(resize(&[0; 18], Rect::whole(3, 3)).is_ok());
        assert!(matches!(resize(&[0; 17], Rect::whole(3, 3)), Err(Error::BadBuffer { .. })));
        assert!(matches!(resize(&[0; 18], Rect::new(1, 1, 3, 1)), Err(Error::BadRegion { .. })));
    }
}
