//! Resizes pictures.

use fast_image_resize::{
    FilterType, ResizeAlg, ResizeOptions,
    images::{TypedCroppedImage, TypedImage, TypedImageRef},
    pixels::{F32, U8, U8x3, U16, U16x3},
};

use crate::{
    Error, Picture, Rect,
    orientation::mirror_row,
    picture::{CHANNELS, View, byte_len, check_buffer, grow},
};

/// The values of one channel before and after resizing; the buffers are kept between pictures.
#[derive(Default)]
pub struct Plane<P> {
    pub(crate) from: Vec<P>,
    pub(crate) to: Vec<P>,
}

/// How a pixel is computed from the source pixels that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResizeFilter {
    /// Triangle filter, widened when shrinking: Pillow's `BILINEAR` to within 1,
    /// torchvision's `BILINEAR` with `antialias=True`.
    #[default]
    Bilinear,
    /// Windowed sinc over three lobes, widened when shrinking: Pillow's `LANCZOS`, but
    /// columns before rows, which shows at hard edges, where overshoot is cut off.
    Lanczos3,
    /// The pixel under the centre; it is for masks, whose values must not be mixed.
    Nearest,
}

impl ResizeFilter {
    pub(crate) fn algorithm(self) -> ResizeAlg {
        match self {
            Self::Bilinear => ResizeAlg::Convolution(FilterType::Bilinear),
            Self::Lanczos3 => ResizeAlg::Convolution(FilterType::Lanczos3),
            Self::Nearest => ResizeAlg::Nearest,
        }
    }
}

/// The size and filter of a resized region, and whether it is mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resize {
    /// Columns of the result.
    pub width: u32,
    /// Rows of the result.
    pub height: u32,
    /// How pixels are mixed.
    pub filter: ResizeFilter,
    /// Whether the result is mirrored left to right.
    pub flip: bool,
}

impl Resize {
    /// Makes options that resize to `width` by `height`, bilinear with antialiasing, not mirrored.
    pub fn to(width: u32, height: u32) -> Self {
        Self { width, height, filter: ResizeFilter::default(), flip: false }
    }
}

/// Resizes pictures and keeps its buffers between them; one per thread.
#[derive(Default)]
pub struct Resizer {
    pub(crate) inner: fast_image_resize::Resizer,
    pub(crate) u8s: Plane<U8>,
    pub(crate) u16s: Plane<U16>,
    pub(crate) f32s: Plane<F32>,
}

impl Resizer {
    /// Makes a resizer that uses the vector instructions of this machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// Resizes `region` of the RGB pixels `src` into `out`. `src` is `[height, width, 3]` with
    /// `size` = (width, height), and `out` is `[to.height, to.width, 3]`.
    ///
    /// No pixel outside `region` has any influence: the result is the same as when the region is
    /// cut out first, and resized then.
    ///
    /// # Errors
    /// [`Error::BadBuffer`] when `src` or `out` is not as long as its size asks for;
    /// [`Error::BadRegion`].
    pub fn crop_resize(
        &mut self,
        src: &[u8],
        size: (u32, u32),
        region: Rect,
        to: &Resize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let (width, height) = size;
        check_buffer(src.len(), width, height)?;
        region.check(width, height)?;
        let view = View { pixels: src, stride: width as usize, rect: region };
        self.resize_part(view, 1, Rect::whole(region.width, region.height), to, out)
    }

    /// Resizes `region` of 16-bit RGB pixels, `size` = (width, height), which contain it.
    pub(crate) fn resize_u16(
        &mut self,
        src: &[[u16; CHANNELS]],
        size: (u32, u32),
        region: Rect,
        to: &Resize,
        out: &mut [[u16; CHANNELS]],
    ) -> Result<(), Error> {
        let Rect { x, y, width, height } = region;
        if (width, height) == (to.width, to.height) {
            let rows = src.chunks_exact(size.0 as usize).skip(y as usize);
            for (line, row) in out.chunks_exact_mut(width as usize).zip(rows) {
                line.copy_from_slice(&row[x as usize..][..width as usize]);
            }
            return Ok(());
        }
        let expected = byte_len(size.0, size.1, CHANNELS * 2)? as u64;
        let bad = || Error::BadBuffer { width: size.0, height: size.1, expected, found: src.len() };
        let pixels: Vec<U16x3> = src.iter().map(|p| U16x3::new(*p)).collect();
        let src = TypedImageRef::new(size.0, size.1, &pixels).map_err(|_| bad())?;
        let src = TypedCroppedImage::from_ref(&src, x, y, width, height).map_err(|_| bad())?;
        let mut dst = TypedImage::<U16x3>::new(to.width, to.height);
        let options = ResizeOptions::new().resize_alg(to.filter.algorithm());
        self.inner.resize_typed(&src, &mut dst, &options).map_err(|_| bad())?;
        out.iter_mut().zip(dst.pixels()).for_each(|(to, from)| *to = from.0);
        Ok(())
    }

    /// Resizes `part` of `view.rect`. `part` is in pixels of the file, of which each pixel of the
    /// view covers `step` by `step`, and is within the view's pixels.
    pub(crate) fn resize_part(
        &mut self,
        view: View<'_>,
        step: u32,
        part: Rect,
        to: &Resize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        check_buffer(out.len(), to.width, to.height)?;
        let Rect { x, y, width, height } = view.rect;
        if step == 1 && (width, height) == (to.width, to.height) {
            let lines = out.chunks_exact_mut(width as usize * CHANNELS);
            lines.zip(view.rows()).for_each(|(line, row)| line.copy_from_slice(row));
        } else {
            let rows = view.pixels.len() / (view.stride * CHANNELS);
            // Typed calls are used: the untyped ones compile the resizer for every kind of pixel,
            // which took most of this crate's build.
            let src =
                TypedImageRef::<U8x3>::from_buffer(view.stride as u32, rows as u32, view.pixels)
                    .map_err(unfit(to, view.pixels))?;
            let src = TypedCroppedImage::from_ref(&src, x, y, width, height)
                .map_err(unfit(to, view.pixels))?;
            let mut dst = TypedImage::<U8x3>::from_buffer(to.width, to.height, &mut *out)
                .map_err(unfit(to, view.pixels))?;
            // The division is exact, since a step is a power of two.
            let [x, y, width, height] = [part.x, part.y, part.width, part.height]
                .map(|pixels| f64::from(pixels) / f64::from(step));
            let options = ResizeOptions::new().resize_alg(to.filter.algorithm());
            let options = options.crop(x, y, width, height);
            let done = self.inner.resize_typed(&src, &mut dst, &options);
            done.map_err(unfit(to, view.pixels))?;
        }
        if to.flip {
            out.chunks_exact_mut(to.width as usize * CHANNELS).for_each(mirror_row);
        }
        Ok(())
    }
}

/// Makes the error for sizes that do not match. They were checked before, so it never occurs; but a
/// library does not panic over it.
fn unfit<E>(to: &Resize, pixels: &[u8]) -> impl FnOnce(E) -> Error {
    let Resize { width, height, .. } = *to;
    let found = pixels.len();
    move |_| Error::BadBuffer { width, height, expected: 0, found }
}

/// Resizes a whole picture; see [`Resizer`] for many.
///
/// # Errors
/// [`Error::BadBuffer`] when `to` has no pixels, [`Error::Memory`] when it has too many.
pub fn resize(picture: &Picture, to: &Resize) -> Result<Picture, Error> {
    let mut out = Vec::new();
    grow(&mut out, byte_len(to.width, to.height, CHANNELS)?)?;
    let whole = Rect::whole(picture.width(), picture.height());
    Resizer::new().crop_resize(
        picture.data(),
        (picture.width(), picture.height()),
        whole,
        to,
        &mut out,
    )?;
    Picture::new(to.width, to.height, out)
}
