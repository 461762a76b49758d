//! libjpeg-turbo through its TurboJPEG 3 interface: the only foreign code in this crate.

#![expect(unsafe_code, reason = "libjpeg-turbo is C; every call into it is in this file")]

use std::{
    ffi::{CStr, c_int, c_void},
    ptr::NonNull,
};

use turbojpeg_sys as tj;

use super::{Frame, backend::MAX_SCANS};
use crate::{
    Error, Format, Rect,
    picture::{CHANNELS, byte_len, grow},
};

/// A decompressor, or compressor, for one file.
///
/// It is not kept for the next file: libjpeg carries quantisation and Huffman tables over from one
/// file to the next (for Motion JPEG). So a damaged file would decode, or an undamaged one fail,
/// depending on what was read before. Making one costs a thousandth of a decode.
struct Turbo {
    handle: NonNull<c_void>,
}

/// Decodes a window that contains `region`, both in pixels of `scale` by `scale` stored ones;
/// see [`super::decode`].
///
/// Rows below the window are not read, so damage there is not noticed; only a window over the whole
/// picture checks the whole file.
pub(super) fn decode(
    bytes: &[u8],
    frame: &Frame,
    region: Rect,
    scale: u32,
    strict: bool,
    out: &mut Vec<u8>,
) -> Result<(Rect, Option<Error>), Error> {
    let mut turbo = Turbo::new()?;
    turbo.read_header(bytes, frame)?;
    turbo.scale(scale)?;
    let whole = Rect::whole(frame.width.div_ceil(scale), frame.height.div_ceil(scale));
    let window = turbo.window(frame, region, scale, whole);
    if window != whole {
        turbo.crop(window)?;
    }
    let (format, channels) = match frame.components {
        4 => (tj::TJPF_TJPF_CMYK, 4),
        _ => (tj::TJPF_TJPF_RGB, CHANNELS),
    };
    let pixels = grow(out, byte_len(window.width, window.height, channels)?)?;
    let warning = turbo.decompress(bytes, pixels, format)?;
    if let Some(warning) = &warning
        && (strict || !is_tolerated(warning) || !frame.is_complete(bytes))
    {
        // Only the first warning has a text, and the early end of a file is one.
        let text = if is_tolerated(warning) && !frame.is_complete(bytes) {
            PREMATURE_END.to_owned()
        } else {
            warning.clone()
        };
        return Err(classify(text, pixels.len()));
    }
    if channels == 4 {
        cmyk_to_rgb(pixels);
    }
    let flaw = warning.map(|warning| Error::corrupt(Format::Jpeg, warning));
    Ok((window, flaw))
}

/// Encodes RGB as baseline 4:2:0; sizes and quality are valid.
pub(crate) fn encode(rgb: &[u8], width: u32, height: u32, quality: u8) -> Result<Vec<u8>, Error> {
    let turbo = Turbo::init(tj::TJINIT_TJINIT_COMPRESS)?;
    turbo.set(tj::TJPARAM_TJPARAM_QUALITY, quality.into());
    turbo.set(tj::TJPARAM_TJPARAM_SUBSAMP, tj::TJSAMP_TJSAMP_420 as c_int);
    let mut file = File { start: std::ptr::null_mut(), len: 0 };
    // SAFETY: `rgb` is a live slice of exactly width x height RGB pixels (checked by the
    // caller), only read. TurboJPEG allocates the file, which `File` frees.
    let code = unsafe {
        tj::tj3Compress8(
            turbo.handle.as_ptr(),
            rgb.as_ptr(),
            width as c_int,
            0,
            height as c_int,
            tj::TJPF_TJPF_RGB as c_int,
            &raw mut file.start,
            &raw mut file.len,
        )
    };
    if code != 0 || file.start.is_null() {
        return Err(classify(turbo.message(), rgb.len()));
    }
    // SAFETY: on success pointer and length describe the file just allocated.
    let bytes = unsafe { std::slice::from_raw_parts(file.start, file.len as usize) };
    Ok(bytes.to_vec())
}

/// The encoded file, which TurboJPEG allocated.
struct File {
    start: *mut u8,
    len: tj::size_t,
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the pointer is null, or from tj3Compress8; it is freed once, here.
        unsafe { tj::tj3Free(self.start.cast()) };
    }
}

impl Drop for Turbo {
    fn drop(&mut self) {
        // SAFETY: the handle came from tj3Init and is destroyed once, here.
        unsafe { tj::tj3Destroy(self.handle.as_ptr()) };
    }
}

impl Turbo {
    fn init(purpose: tj::TJINIT) -> Result<Self, Error> {
        // SAFETY: the call takes no pointer; it returns null when it cannot allocate.
        let handle = unsafe { tj::tj3Init(purpose as c_int) };
        // TurboJPEG asks for a few hundred bytes here.
        let handle = NonNull::new(handle).ok_or(Error::Memory { bytes: 1 << 10 })?;
        Ok(Self { handle })
    }

    fn new() -> Result<Self, Error> {
        let turbo = Self::init(tj::TJINIT_TJINIT_DECOMPRESS)?;
        turbo.set(tj::TJPARAM_TJPARAM_SCANLIMIT, MAX_SCANS.into());
        Ok(turbo)
    }

    /// Reads the file's header and compares it with our own reading, which all sizes are based on.
    fn read_header(&mut self, bytes: &[u8], frame: &Frame) -> Result<(), Error> {
        // SAFETY: pointer and length are of one live slice, which the call only reads.
        let code = unsafe {
            tj::tj3DecompressHeader(self.handle.as_ptr(), bytes.as_ptr(), bytes.len() as _)
        };
        // A warning is repeated when the pixels are read, and judged then.
        if code != 0 && !self.is_warning() {
            return Err(classify(self.message(), bytes.len()));
        }
        let size =
            (self.get(tj::TJPARAM_TJPARAM_JPEGWIDTH), self.get(tj::TJPARAM_TJPARAM_JPEGHEIGHT));
        if (u32::try_from(size.0), u32::try_from(size.1)) != (Ok(frame.width), Ok(frame.height)) {
            return Err(Error::corrupt(Format::Jpeg, "its headers are ambiguous"));
        }
        Ok(())
    }

    /// Returns the window to decode so that `region` within it equals the full decode.
    ///
    /// Cropping starts at iMCU borders. Chroma upsampling looks one sample past the region, and
    /// repeats its last sample at a window's edge, so one iMCU more is decoded on each side. Rows
    /// need no margin, since skipped rows are used for upsampling.
    fn window(&self, frame: &Frame, region: Rect, scale: u32, whole: Rect) -> Rect {
        // The width is a multiple of 8, which is the largest scale.
        let unit = frame.imcu_width / scale;
        // TurboJPEG refuses to crop pictures whose sampling it has no name for.
        let known = self.get(tj::TJPARAM_TJPARAM_SUBSAMP) != tj::TJSAMP_TJSAMP_UNKNOWN;
        if !known || region == whole {
            return whole;
        }
        let margin = if frame.subsampled { unit } else { 0 };
        let left = (region.x / unit * unit).saturating_sub(margin);
        let right = (region.x + region.width + margin).min(whole.width);
        Rect { x: left, width: right - left, ..region }
    }

    /// Makes one pixel out of `scale` by `scale` stored ones, for a scale of 1, 2, 4 or 8.
    fn scale(&mut self, scale: u32) -> Result<(), Error> {
        let factor = tj::tjscalingfactor { num: 1, denom: scale as c_int };
        // SAFETY: the factor is passed by value; one that does not exist is refused.
        let code = unsafe { tj::tj3SetScalingFactor(self.handle.as_ptr(), factor) };
        if code == 0 { Ok(()) } else { Err(classify(self.message(), 0)) }
    }

    fn crop(&mut self, window: Rect) -> Result<(), Error> {
        // The numbers are at most 65,535, the largest that a frame header can contain.
        let [x, y, w, h] = [window.x, window.y, window.width, window.height].map(|n| n as c_int);
        // SAFETY: the region is passed by value.
        let code =
            unsafe { tj::tj3SetCroppingRegion(self.handle.as_ptr(), tj::tjregion { x, y, w, h }) };
        if code == 0 { Ok(()) } else { Err(classify(self.message(), 0)) }
    }

    /// Decodes, and returns the library's first warning if the picture was still completed.
    fn decompress(
        &mut self,
        bytes: &[u8],
        pixels: &mut [u8],
        format: tj::TJPF,
    ) -> Result<Option<String>, Error> {
        // SAFETY: `bytes` is one live slice, only read. With pitch 0 the call writes
        // rows of exactly the cropping region's (or, without one, the scaled picture's)
        // width and number; `pixels` was sized from that region, or from the size that
        // `read_header` saw TurboJPEG itself read from these same bytes, divided by the
        // scale and rounded up, as TurboJPEG's `TJSCALED` does. Were it smaller, the call
        // would write past its end.
        let code = unsafe {
            tj::tj3Decompress8(
                self.handle.as_ptr(),
                bytes.as_ptr(),
                bytes.len() as _,
                pixels.as_mut_ptr(),
                0,
                format as c_int,
            )
        };
        match code {
            0 => Ok(None),
            // An error after a warning is also reported in this way: see `is_tolerated`.
            _ if self.is_warning() => Ok(Some(self.message())),
            _ => Err(classify(self.message(), pixels.len())),
        }
    }

    fn set(&self, param: tj::TJPARAM, value: c_int) {
        // SAFETY: the call passes integers; an unknown one is refused and changes nothing.
        unsafe { tj::tj3Set(self.handle.as_ptr(), param as c_int, value) };
    }

    fn get(&self, param: tj::TJPARAM) -> c_int {
        // SAFETY: the call passes integers; an unknown one gives -1.
        unsafe { tj::tj3Get(self.handle.as_ptr(), param as c_int) }
    }

    fn is_warning(&self) -> bool {
        // SAFETY: the call reads a field of the live instance.
        let code = unsafe { tj::tj3GetErrorCode(self.handle.as_ptr()) };
        code == tj::TJERR_TJERR_WARNING as c_int
    }

    /// The last message, without the name of the C function.
    fn message(&self) -> String {
        // SAFETY: the pointer is to a NUL-terminated buffer of the instance, or of this
        // thread, valid until the next call; it is copied before.
        let text = unsafe { CStr::from_ptr(tj::tj3GetErrorStr(self.handle.as_ptr())) };
        let text = text.to_string_lossy().replace('\n', " ");
        text.split_once("(): ").map_or(text.as_str(), |(_, rest)| rest).trim().to_owned()
    }
}

const PREMATURE_END: &str = "Premature end of JPEG file";

/// The warnings (libjpeg's `jerror.h`) after which the picture is the same that Pillow, torchvision
/// and other users of the library get.
///
/// Warnings are listed, because an error that comes after a warning is reported as a warning, with
/// its own text. [`PREMATURE_END`] is not listed, since no other program accepts a file that is cut
/// short.
const TOLERATED: [&str; 9] = [
    "Unknown Adobe color transform code ",
    "Inconsistent progression sequence for component ",
    " extraneous bytes before marker 0x",
    "Corrupt JPEG data: premature end of data segment",
    "Corrupt JPEG data: bad Huffman code",
    "Corrupt JPEG data: bad ICC marker",
    "unknown JFIF revision number ",
    " instead of RST",
    "Invalid SOS parameters for sequential JPEG",
];

fn is_tolerated(warning: &str) -> bool {
    TOLERATED.iter().any(|known| warning.contains(known))
}

/// Returns the error that a message stands for, in a call that worked on `bytes` bytes.
fn classify(message: String, bytes: usize) -> Error {
    if message.contains(PREMATURE_END) {
        Error::truncated(Format::Jpeg, "the file ends within a scan")
    } else if message.contains("nsufficient memory") || message.contains("allocation failure") {
        Error::Memory { bytes }
    } else {
        Error::corrupt(Format::Jpeg, message)
    }
}

/// Turns inverted CMYK, as Adobe stores it, into RGB at the start of the same buffer.
fn cmyk_to_rgb(pixels: &mut [u8]) {
    for pixel in 0..pixels.len() / 4 {
        let [c, m, y, k] = [0, 1, 2, 3].map(|channel| pixels[pixel * 4 + channel]);
        for (channel, ink) in [c, m, y].into_iter().enumerate() {
            pixels[pixel * CHANNELS + channel] = multiply(ink, k);
        }
    }
}

/// Returns `a * b / 255`, rounded, as Pillow and zune-jpeg do.
fn multiply(a: u8, b: u8) -> u8 {
    let product = u32::from(a) * u32::from(b) + 128;
    ((product + (product >> 8)) >> 8) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DecodeOptions, Decoder, JpegBackend};

    const SIZE: (u32, u32) = (75, 41);

    /// Encodes a picture of smooth slopes, all components in one scan.
    fn encode(sampling: tj::TJSAMP) -> Vec<u8> {
        let (width, height) = SIZE;
        let slope = |x: u32, y: u32| [x * 3, y * 6, 255 - x - y].map(|v| v as u8);
        let rgb: Vec<u8> =
            (0..height).flat_map(|y| (0..width).flat_map(move |x| slope(x, y))).collect();
        let (mut file, mut len) = (std::ptr::null_mut(), 0);
        // SAFETY: the picture holds width x height RGB pixels; TurboJPEG allocates the
        // file, whose pointer and length are used before it is freed.
        unsafe {
            let handle = tj::tj3Init(tj::TJINIT_TJINIT_COMPRESS as c_int);
            tj::tj3Set(handle, tj::TJPARAM_TJPARAM_QUALITY as c_int, 95);
            tj::tj3Set(handle, tj::TJPARAM_TJPARAM_SUBSAMP as c_int, sampling as c_int);
            let (w, h) = (width as c_int, height as c_int);
            let format = tj::TJPF_TJPF_RGB as c_int;
            let code = tj::tj3Compress8(
                handle,
                rgb.as_ptr(),
                w,
                0,
                h,
                format,
                &raw mut file,
                &raw mut len,
            );
            assert_eq!(code, 0);
            let bytes = std::slice::from_raw_parts(file, len as usize).to_vec();
            tj::tj3Free(file.cast());
            tj::tj3Destroy(handle);
            bytes
        }
    }

    fn decoder(jpeg: JpegBackend) -> Decoder {
        Decoder::new(DecodeOptions { jpeg, ..DecodeOptions::default() })
    }

    #[test]
    fn samplings_in_one_scan_are_read_alike_or_refused() {
        for (sampling, zune_reads_it) in [
            (tj::TJSAMP_TJSAMP_444, true),
            (tj::TJSAMP_TJSAMP_422, true),
            (tj::TJSAMP_TJSAMP_420, true),
            (tj::TJSAMP_TJSAMP_440, true),
            (tj::TJSAMP_TJSAMP_411, true),
            (tj::TJSAMP_TJSAMP_441, false),
        ] {
            let bytes = encode(sampling);
            let turbo = decoder(JpegBackend::Turbo).decode(&bytes).unwrap();
            let zune = decoder(JpegBackend::Zune).decode(&bytes);
            if !zune_reads_it {
                assert!(matches!(zune, Err(Error::Unsupported { .. })), "{zune:?}");
                continue;
            }
            let pairs = turbo.data().iter().zip(zune.as_ref().unwrap().data());
            let largest = pairs.map(|(a, b)| a.abs_diff(*b)).max();
            assert!(largest <= Some(8), "{sampling}: {largest:?}");
        }
    }

    /// A window that is decoded at a fraction of its size has the pixels of the whole picture
    /// decoded so.
    #[test]
    fn windows_of_a_smaller_picture_are_parts_of_it() {
        for sampling in [
            tj::TJSAMP_TJSAMP_444,
            tj::TJSAMP_TJSAMP_422,
            tj::TJSAMP_TJSAMP_420,
            tj::TJSAMP_TJSAMP_440,
            tj::TJSAMP_TJSAMP_411,
            tj::TJSAMP_TJSAMP_441,
            tj::TJSAMP_TJSAMP_GRAY,
        ] {
            let bytes = encode(sampling);
            let frame = Frame::parse(&bytes).unwrap();
            for step in [2, 4, 8] {
                let part = |region: Rect| {
                    let mut out = Vec::new();
                    let (window, flaw) =
                        decode(&bytes, &frame, region, step, true, &mut out).unwrap();
                    assert_eq!(
                        (flaw, out.len()),
                        (None, (window.width * window.height * 3) as usize)
                    );
                    (window, out)
                };
                let (width, height) = (SIZE.0.div_ceil(step), SIZE.1.div_ceil(step));
                let (window, whole) = part(Rect::whole(width, height));
                assert_eq!(window, Rect::whole(width, height));
                for x in 0..width {
                    for y in 0..height {
                        let (w, h) = ((width - x).min(1 + y), (height - y).min(1 + x));
                        let (window, pixels) = part(Rect::new(x, y, w, h));
                        assert_eq!((window.y, window.height), (y, h));
                        for row in 0..h {
                            let at = |x, y, width: u32| ((y * width + x) * 3) as usize;
                            let found = &pixels[at(x - window.x, row, window.width)..];
                            let expected = &whole[at(x, y + row, width)..];
                            let len = w as usize * 3;
                            assert_eq!(
                                found[..len],
                                expected[..len],
                                "{sampling} 1/{step} {x} {y}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn multiplying_bytes_rounds_to_the_nearest() {
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                let exact = f64::from(a) * f64::from(b) / 255.0;
                assert_eq!(multiply(a, b), exact.round() as u8);
            }
        }
    }
}
