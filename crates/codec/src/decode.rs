//! Decodes files to upright pixels: the whole picture or a region of it.

use crate::{
    Error, Fit, Format, Header, JpegBackend, Limits, Orientation, Picture, Rect, Resize,
    ResizeFilter, Resizer, Scaling, Start, fit,
    jpeg::{self, Frame},
    picture::{CHANNELS, View, byte_len, check_buffer, grow},
    png::{self, Png},
    scale,
    webp::{self, WebP},
};

/// The options of a [`Decoder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DecodeOptions {
    /// Limits on what decoding an image may cost.
    pub limits: Limits,
    /// Whether pictures are turned upright.
    pub orientation: OrientationPolicy,
    /// Which library decodes JPEG.
    pub jpeg: JpegBackend,
    /// Whether a JPEG that shrinks a lot is decoded smaller by
    /// [`crop_resize`](Decoder::crop_resize) and the functions that use it.
    pub scaling: Scaling,
}

/// Whether a file's EXIF orientation is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OrientationPolicy {
    /// The pixels returned are those of the upright picture.
    #[default]
    Apply,
    /// The pixels returned are those of the stored picture.
    Ignore,
}

/// Decodes images and keeps its buffers between them; one per thread.
///
/// A file decodes when Pillow and torchvision decode it, to the same picture: what
/// libjpeg only warns of, and damage beside the pixels, is tolerated, and
/// [`flaw`](Self::flaw) says so. (zune-jpeg tolerates damage in headers alone.) A file
/// that is cut short is always an error. What each call notices:
///
/// - [`decode`](Self::decode): whatever disturbs the decoding of any row, and a file
///   without its end;
/// - a region: the same, but only as far down as it reaches, where the backend can stop
///   there (libjpeg-turbo, PNG that is not interlaced);
/// - [`check`](Self::check): also what leaves the pixels as they are;
/// - [`validate`](Self::validate): the same, and tolerates nothing.
pub struct Decoder {
    options: DecodeOptions,
    resizer: Resizer,
    /// Pixels of the window that was decoded last, as they are stored.
    pixels: Vec<u8>,
    /// The same pixels in upright order, if that needs a copy.
    upright: Vec<u8>,
    /// The resized image, before it is cropped to its centre or padded.
    fitted: Vec<u8>,
    /// The fault that the last call tolerated.
    flaw: Option<Error>,
}

// Buffers larger than this are released after the call: one huge scene must not keep a worker's
// memory for good. 64 MiB are 22 megapixels.
const KEPT_BYTES: usize = 64 << 20;

impl Decoder {
    /// Makes a decoder; allocates nothing yet.
    pub fn new(options: DecodeOptions) -> Self {
        let (pixels, upright, fitted) = (Vec::new(), Vec::new(), Vec::new());
        Self { options, resizer: Resizer::new(), pixels, upright, fitted, flaw: None }
    }

    /// Returns the options that were given.
    pub fn options(&self) -> &DecodeOptions {
        &self.options
    }

    /// Returns the fault of the last file if it was tolerated, as other decoders do; `None` if
    /// there was none.
    pub fn flaw(&self) -> Option<&Error> {
        self.flaw.as_ref()
    }

    /// Decodes a whole picture.
    ///
    /// # Errors
    /// Every variant that says something about a file.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Picture, Error> {
        let file = self.open(bytes)?;
        let (width, height) = file.size();
        self.image(&file, Rect::whole(width, height), false)
    }

    /// Decodes `region`, in upright coordinates. The pixels equal those of the same part of
    /// [`decode`](Self::decode), for less work.
    ///
    /// # Errors
    /// As `decode`, and [`Error::BadRegion`].
    pub fn decode_region(&mut self, bytes: &[u8], region: Rect) -> Result<Picture, Error> {
        let file = self.open(bytes)?;
        self.image(&file, region, false)
    }

    /// Decodes `region` (upright coordinates) and resizes it into `out`, RGB
    /// `[to.height, to.width, 3]`.
    ///
    /// # Errors
    /// As [`decode_region`](Self::decode_region), and [`Error::BadBuffer`] when `out`
    /// has another length. After an error the content of `out` is unspecified.
    pub fn crop_resize(
        &mut self,
        bytes: &[u8],
        region: Rect,
        to: &Resize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let file = self.open(bytes)?;
        let step = self.step(&file, region, to);
        let mut pixels = std::mem::take(&mut self.pixels);
        let done = self.window(&file, region, step, false, &mut pixels).and_then(|window| {
            if step > 1 {
                let (stored, stride) = (file.stored(region), window.outer.width as usize);
                scale::weigh_edges(&mut pixels, stride, window.rect, stored, step);
            }
            let (view, part) = (window.view(&pixels), file.part(region, step));
            if file.orientation == Orientation::Normal {
                return self.resizer.resize_part(view, step, part, to, out);
            }
            let Rect { width, height, .. } = view.rect;
            let (width, height) = file.orientation.upright_size(width, height);
            let upright = grow(&mut self.upright, byte_len(width, height, CHANNELS)?)?;
            file.orientation.copy_upright(view, upright);
            let rect = Rect::whole(width, height);
            let view = View { pixels: upright, stride: width as usize, rect };
            self.resizer.resize_part(view, step, part, to, out)
        });
        self.pixels = pixels;
        self.release();
        done
    }

    /// Decodes a picture and brings it to `to` = (columns, rows): antialiased bilinear,
    /// as `fit` says, into `out`, RGB `[to.1, to.0, 3]`.
    ///
    /// # Errors
    /// As [`crop_resize`](Self::crop_resize). After an error the content of `out` is
    /// unspecified.
    pub fn fit(
        &mut self,
        bytes: &[u8],
        to: (u32, u32),
        fit: Fit,
        out: &mut [u8],
    ) -> Result<Header, Error> {
        check_buffer(out.len(), to.0, to.1)?;
        let file = self.open(bytes)?;
        let place = fit.place(file.size(), to);
        let resize = Resize::to(place.size.0, place.size.1);
        if place.size == to {
            self.crop_resize(bytes, place.region, &resize, out)?;
            return Ok(file.header);
        }
        let mut scratch = std::mem::take(&mut self.fitted);
        let len = byte_len(place.size.0, place.size.1, CHANNELS)?;
        let done = grow(&mut scratch, len).and_then(|resized| {
            self.crop_resize(bytes, place.region, &resize, resized)?;
            fit::lay(&place, resized.as_chunks().0, to, out.as_chunks_mut().0);
            Ok(file.header)
        });
        self.fitted = scratch;
        self.release();
        done
    }

    /// Like [`fit`](Self::fit), with 16 bits per sample. A 16-bit PNG keeps its values; other
    /// images are decoded and resized with 8 bits, then multiplied by 257, so that white
    /// stays white.
    ///
    /// # Errors
    /// Those of `fit`.
    pub fn fit_u16(
        &mut self,
        bytes: &[u8],
        to: (u32, u32),
        fit: Fit,
        out: &mut [[u16; CHANNELS]],
    ) -> Result<Header, Error> {
        let len = byte_len(to.0, to.1, CHANNELS)?;
        check_buffer(out.as_flattened().len(), to.0, to.1)?;
        let file = self.open(bytes)?;
        if file.header.bit_depth != 16 {
            let mut narrow = Vec::new();
            self.fit(bytes, to, fit, grow(&mut narrow, len)?)?;
            let wide = out.as_flattened_mut().iter_mut();
            wide.zip(narrow).for_each(|(wide, v)| *wide = u16::from(v) * 257);
            return Ok(file.header);
        }
        let (pixels, size) = (self.upright_u16(&file)?, file.size());
        let place = fit.place(size, to);
        let resize = Resize::to(place.size.0, place.size.1);
        if place.size == to {
            self.resizer.resize_u16(&pixels, size, place.region, &resize, out)?;
        } else {
            let mut resized = vec![[0; CHANNELS]; byte_len(place.size.0, place.size.1, 1)?];
            self.resizer.resize_u16(&pixels, size, place.region, &resize, &mut resized)?;
            fit::lay(&place, &resized, to, out);
        }
        Ok(file.header)
    }

    /// Like [`crop_resize`](Self::crop_resize), with 16 bits per sample. A 16-bit PNG keeps its
    /// values; other images are decoded and resized with 8 bits, then multiplied by 257.
    ///
    /// # Errors
    /// Those of `crop_resize`.
    pub fn crop_resize_u16(
        &mut self,
        bytes: &[u8],
        region: Rect,
        to: &Resize,
        out: &mut [u16],
    ) -> Result<(), Error> {
        check_buffer(out.len(), to.width, to.height)?;
        let file = self.open(bytes)?;
        if file.header.bit_depth == 16 {
            let pixels = self.upright_u16(&file)?;
            let pixels = pixels.as_flattened();
            return self.resizer.resize_channels(pixels, file.size(), CHANNELS, region, to, out);
        }
        let mut narrow = std::mem::take(&mut self.fitted);
        let done = grow(&mut narrow, out.len()).and_then(|narrow| {
            self.crop_resize(bytes, region, to, narrow)?;
            out.iter_mut().zip(narrow).for_each(|(wide, v)| *wide = u16::from(*v) * 257);
            Ok(())
        });
        self.fitted = narrow;
        self.release();
        done
    }

    /// Decodes the whole picture of a 16-bit file, upright.
    fn upright_u16(&mut self, file: &File<'_>) -> Result<Vec<[u16; CHANNELS]>, Error> {
        let ByFormat::Png(png) = &file.kind else {
            return Err(Error::unsupported(file.header.format, "16 bits a sample"));
        };
        let pixels = png::decode_u16(file.bytes, png, &self.options.limits)?;
        self.flaw = png.flaw.map(|flaw| Error::corrupt(Format::Png, flaw));
        Ok(file.upright(pixels))
    }

    /// Decodes a picture whose values are classes or heights, not colours: a PNG of one channel or
    /// of a palette. Returns (width, height), upright, and the values as they are stored: indices
    /// of a palette, grey of any depth unscaled.
    ///
    /// # Errors
    /// As [`decode`](Self::decode); [`Error::Unsupported`] for other files.
    pub fn decode_values(&mut self, bytes: &[u8]) -> Result<((u32, u32), Vec<u16>), Error> {
        let file = self.open(bytes)?;
        let ByFormat::Png(png) = &file.kind else {
            let detail = "a mask, whose values it changes";
            return Err(Error::unsupported(file.header.format, detail));
        };
        let values = png::decode_values(bytes, png, &self.options.limits)?;
        self.flaw = png.flaw.map(|flaw| Error::corrupt(Format::Png, flaw));
        Ok((file.size(), file.upright(values)))
    }

    /// Decodes the whole picture and refuses every fault, harmful or not: checksums, stray bytes, a
    /// missing end.
    ///
    /// The backends differ here. libjpeg-turbo remarks on stray bytes before the
    /// end-of-image marker, a sign of a flipped bit; zune-jpeg does not. And only here
    /// is zune-jpeg found to have invented the rest of a scan that ends early but
    /// properly, at the price of decoding twice; libjpeg-turbo always remarks on it.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn validate(&mut self, bytes: &[u8]) -> Result<Header, Error> {
        let file = self.open(bytes)?;
        self.whole(&file, true)?;
        Ok(file.header)
    }

    /// Checks like [`validate`](Self::validate), but a fault that [`decode`](Self::decode)
    /// tolerates becomes the [`flaw`](Self::flaw).
    ///
    /// # Errors
    /// As `decode`.
    pub fn check(&mut self, bytes: &[u8]) -> Result<Header, Error> {
        let file = self.open(bytes)?;
        if let Err(flaw) = self.whole(&file, true) {
            self.whole(&file, false)?;
            self.flaw = Some(flaw);
        }
        Ok(file.header)
    }

    /// Decodes the whole picture only to find its faults.
    fn whole(&mut self, file: &File<'_>, strict: bool) -> Result<(), Error> {
        let (width, height) = file.size();
        let mut pixels = std::mem::take(&mut self.pixels);
        let done = self.window(file, Rect::whole(width, height), 1, strict, &mut pixels);
        self.pixels = pixels;
        self.release();
        done.map(drop)
    }

    /// Reads the header, checks the limits and applies the options to the orientation.
    fn open<'a>(&mut self, bytes: &'a [u8]) -> Result<File<'a>, Error> {
        self.flaw = None;
        if bytes.is_empty() {
            return Err(Error::Empty);
        }
        let (header, kind) = match Format::sniff(bytes) {
            Some(Format::Jpeg) => {
                let frame = Frame::parse(bytes)?;
                (frame.header(), ByFormat::Jpeg(frame))
            }
            Some(Format::Png) => {
                let png = png::parse(bytes)?;
                (png.header, ByFormat::Png(png))
            }
            Some(Format::WebP) => {
                let webp = webp::parse(bytes)?;
                (webp.header, ByFormat::WebP(webp))
            }
            Some(Format::Tiff | Format::Jpeg2000 | Format::Nifti) | None => {
                return Err(Error::UnknownFormat { start: Start::of(bytes) });
            }
        };
        self.options.limits.check(header.width, header.height)?;
        let orientation = match self.options.orientation {
            OrientationPolicy::Apply => header.orientation,
            OrientationPolicy::Ignore => Orientation::Normal,
        };
        Ok(File { bytes, header, kind, orientation })
    }

    /// Decodes `region` as a picture of its own.
    fn image(&mut self, file: &File<'_>, region: Rect, strict: bool) -> Result<Picture, Error> {
        let mut pixels = Vec::new();
        let window = self.window(file, region, 1, strict, &mut pixels)?;
        let len = byte_len(region.width, region.height, CHANNELS)?;
        if file.orientation == Orientation::Normal && window.is_exact() {
            pixels.truncate(len);
            return Picture::new(region.width, region.height, pixels);
        }
        let mut upright = Vec::new();
        file.orientation.copy_upright(window.view(&pixels), grow(&mut upright, len)?);
        Picture::new(region.width, region.height, upright)
    }

    /// Returns the factor by which `region` is decoded smaller before it is resized to `to`.
    fn step(&self, file: &File<'_>, region: Rect, to: &Resize) -> u32 {
        let DecodeOptions { scaling, jpeg, .. } = self.options;
        match &file.kind {
            // CMYK is left out: inks are multiplied to colours, and a product of means is not the
            // mean of the products.
            ByFormat::Jpeg(frame) if frame.components != 4 => {
                let scales = jpeg.scales() && to.filter == ResizeFilter::Bilinear;
                let cell = |step| {
                    let (columns, rows) = frame.colour_cell(step)?;
                    Some(file.orientation.upright_size(columns, rows))
                };
                match scaling {
                    Scaling::Reduced if scales => scale::step(region, to, cell),
                    _ => 1,
                }
            }
            _ => 1,
        }
    }

    /// Decodes at least `region` (upright coordinates) as it is stored, in pixels of `step` by
    /// `step`.
    fn window(
        &mut self,
        file: &File<'_>,
        region: Rect,
        step: u32,
        strict: bool,
        pixels: &mut Vec<u8>,
    ) -> Result<Window, Error> {
        let (upright_width, upright_height) = file.size();
        region.check(upright_width, upright_height)?;
        let region = scale::touched(file.stored(region), step);
        let flaw = file.kind.flaw().map(|flaw| Error::corrupt(file.header.format, flaw));
        if let Some(flaw) = flaw.clone().filter(|_| strict) {
            return Err(flaw);
        }
        let (outer, found) = match &file.kind {
            ByFormat::Jpeg(frame) => {
                jpeg::decode(self.options.jpeg, file.bytes, frame, region, step, strict, pixels)?
            }
            ByFormat::Png(png) => {
                png::decode(file.bytes, png, region, &self.options.limits, strict, pixels)?;
                (region, None)
            }
            ByFormat::WebP(webp) => {
                webp::decode(file.bytes, webp, region, &self.options.limits, pixels)?;
                (region, None)
            }
        };
        self.flaw = flaw.or(found);
        Ok(Window { outer, rect: region.within(outer) })
    }

    fn release(&mut self) {
        for buffer in [&mut self.pixels, &mut self.upright, &mut self.fitted] {
            if buffer.len() > KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
    }
}

/// A file whose header was read and accepted.
struct File<'a> {
    bytes: &'a [u8],
    header: Header,
    kind: ByFormat,
    orientation: Orientation,
}

/// The facts about a file that depend on its format.
enum ByFormat {
    Jpeg(Frame),
    Png(Png),
    WebP(WebP),
}

impl ByFormat {
    /// Returns the fault that was found before any pixel was decoded.
    fn flaw(&self) -> Option<&'static str> {
        match self {
            Self::Jpeg(frame) => frame.flaw,
            Self::Png(png) => png.flaw,
            Self::WebP(webp) => webp.flaw,
        }
    }
}

impl File<'_> {
    /// Returns all pixels of the stored picture in upright order.
    fn upright<T: Copy>(&self, pixels: Vec<T>) -> Vec<T> {
        if self.orientation == Orientation::Normal {
            return pixels;
        }
        let stored = (self.header.width as usize, self.header.height as usize);
        let (width, height) = self.size();
        let all = (0..height as usize).flat_map(|y| (0..width as usize).map(move |x| (x, y)));
        let at = all.map(|at| self.orientation.stored_pixel(at, stored));
        at.map(|(x, y)| pixels[y * stored.0 + x]).collect()
    }

    fn size(&self) -> (u32, u32) {
        self.orientation.upright_size(self.header.width, self.header.height)
    }

    /// Returns the stored rectangle of `region`, which is in upright coordinates.
    fn stored(&self, region: Rect) -> Rect {
        self.orientation.stored_rect(region, self.header.width, self.header.height)
    }

    /// Returns the position of `region` within the blocks of `step` by `step` pixels that it
    /// touches, in upright coordinates; it is in pixels of the file, and has the same size.
    fn part(&self, region: Rect, step: u32) -> Rect {
        let stored = self.stored(region);
        let Rect { x, y, width, height } = scale::touched(stored, step);
        let outer = Rect::new(x * step, y * step, width * step, height * step);
        self.orientation.upright_rect(stored.within(outer), outer.width, outer.height)
    }
}

/// The rectangle that a backend decoded (`outer`, in the picture), and the one that was requested
/// (`rect`, in `outer`).
struct Window {
    outer: Rect,
    rect: Rect,
}

impl Window {
    fn is_exact(&self) -> bool {
        (self.rect.width, self.rect.height) == (self.outer.width, self.outer.height)
    }

    fn view<'a>(&self, pixels: &'a [u8]) -> View<'a> {
        let len = self.outer.width as usize * self.outer.height as usize * CHANNELS;
        View { pixels: &pixels[..len], stride: self.outer.width as usize, rect: self.rect }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_moves_to_its_thread() {
        let moved = std::thread::spawn({
            let mut decoder = Decoder::new(DecodeOptions::default());
            move || decoder.decode(b"")
        });
        assert_eq!(moved.join().unwrap(), Err(Error::Empty));
    }

    #[test]
    fn huge_buffers_are_given_back() {
        let (width, height) = (6000, 4000);
        let file =
            crate::encode_png(&vec![9; width * height], width as u32, height as u32).unwrap();
        let mut decoder = Decoder::new(DecodeOptions::default());
        decoder.validate(&file).unwrap();
        assert!(decoder.pixels.is_empty());
    }
}
