//! Decoding at reduced size: its result is close to the full decode, and it is used only where
//! documented.

use crate::fixtures::{
    BASELINE, Colour, JpegKind, jpeg, picture,
    png::{Png, write},
};
#[cfg(feature = "turbo")]
use crate::fixtures::{Random, distance, exif, kinds};
use gular_codec::{DecodeOptions, Decoder, JpegBackend, Rect, Resize, ResizeFilter, Scaling};

const SIZE: (u32, u32) = (413, 331);

fn crop(
    scaling: Scaling,
    backend: JpegBackend,
    bytes: &[u8],
    region: Rect,
    to: &Resize,
) -> Vec<u8> {
    let mut out = vec![1; (to.width * to.height * 3) as usize];
    let options = DecodeOptions { scaling, jpeg: backend, ..DecodeOptions::default() };
    Decoder::new(options).crop_resize(bytes, region, to, &mut out).unwrap();
    out
}

/// Decodes the same region in full and smaller.
fn both(backend: JpegBackend, bytes: &[u8], region: Rect, to: &Resize) -> (Vec<u8>, Vec<u8>) {
    let full = crop(Scaling::Full, backend, bytes, region, to);
    (full, crop(Scaling::Reduced, backend, bytes, region, to))
}

/// Returns pictures that each have one characteristic.
#[cfg(feature = "turbo")]
fn pictures() -> [(&'static str, Vec<u8>); 4] {
    let (width, height) = SIZE;
    let mut random = Random(7);
    let made = |pixel: &mut dyn FnMut(u32, u32) -> [u8; 3]| {
        (0..height)
            .flat_map(|y| (0..width).map(move |x| (x, y)))
            .flat_map(|(x, y)| pixel(x, y))
            .collect()
    };
    [
        (
            "slopes",
            made(&mut |x, y| {
                [x * 255 / width, y * 255 / height, 255 - x * 200 / width].map(|v| v as u8)
            }),
        ),
        ("noise", made(&mut |_, _| [0; 3].map(|_| random.below(256) as u8))),
        (
            "edges",
            made(&mut |x, y| {
                [x / 37 + y / 23, x / 11, y / 51].map(|v| if v % 2 == 0 { 10 } else { 245 })
            }),
        ),
        ("textured", picture(width, height)),
    ]
}

#[cfg(feature = "turbo")]
#[test]
fn smaller_decodes_stay_within_the_stated_tolerance() {
    let (width, height) = SIZE;
    let mut random = Random(8);
    let mut differing = 0;
    for (name, rgb) in pictures() {
        for kind in kinds() {
            if matches!(kind.colour, Colour::Cmyk | Colour::Ycck) {
                continue;
            }
            for orientation in [1, 2 + random.below(7) as u8] {
                let bytes = jpeg(&rgb, width, height, kind, Some(&exif(orientation)));
                let (w, h) = if orientation < 5 { (width, height) } else { (height, width) };
                // 4:4:4 and 4:2:0 are decoded with each step, other samplings with fewer.
                for shrink in [6, 12, 24, 48] {
                    let mut below = |end: u32| random.below(u64::from(end)) as u32;
                    let (x, y) = (below(w / 3), below(h / 3));
                    let region = Rect::new(x, y, w - x - below(w / 3), h - y - below(h / 3));
                    let flip = below(2) == 1;
                    let to =
                        Resize::to((region.width / shrink).max(1), (region.height / shrink).max(1));
                    let (full, smaller) =
                        both(JpegBackend::Turbo, &bytes, region, &Resize { flip, ..to });
                    let (largest, mean) = distance(&full, &smaller);
                    // The limits are those in the documentation of `Scaling::Reduced`.
                    assert!(
                        largest <= 24 && mean <= 5.0,
                        "{name} {kind:?} turned {orientation}, {region} / {shrink}: {largest}, {mean}"
                    );
                    differing += usize::from(largest > 0);
                }
            }
        }
    }
    assert!(differing > 300, "only {differing} differ: was anything scaled?");
}

#[cfg(feature = "turbo")]
#[test]
fn a_smaller_decode_depends_on_file_and_region_alone() {
    let (width, height) = SIZE;
    let options = DecodeOptions { scaling: Scaling::Reduced, ..DecodeOptions::default() };
    let mut reused = Decoder::new(options);
    for (n, kind) in kinds().into_iter().enumerate() {
        let bytes =
            jpeg(&picture(width, height), width, height, kind, Some(&exif(n as u8 % 8 + 1)));
        for region in [Rect::new(7, 5, 290, 300), Rect::new(100, 90, 200, 220)] {
            let mut out = vec![0; 9 * 8 * 3];
            reused.crop_resize(&bytes, region, &Resize::to(9, 8), &mut out).unwrap();
            assert_eq!(
                out,
                crop(Scaling::Reduced, JpegBackend::Turbo, &bytes, region, &Resize::to(9, 8))
            );
            reused.decode(&bytes).unwrap();
        }
    }
}

#[cfg(feature = "turbo")]
#[test]
fn a_file_cut_short_is_an_error_at_any_scale() {
    let (width, height) = SIZE;
    let bytes = jpeg(&picture(width, height), width, height, BASELINE, None);
    let options = DecodeOptions { scaling: Scaling::Reduced, ..DecodeOptions::default() };
    let mut decoder = Decoder::new(options);
    for side in [4, 10, 50] {
        let mut out = vec![0; side * side * 3];
        let to = Resize::to(side as u32, side as u32);
        let mut crop =
            |bytes| decoder.crop_resize(bytes, Rect::whole(width, height), &to, &mut out);
        assert!(crop(&bytes).is_ok());
        assert!(crop(&bytes[..bytes.len() * 2 / 3]).is_err());
        assert!(crop(&bytes[..bytes.len() - 2]).is_err());
    }
}

/// Checks that both results are equal to the bit, where the full decode is expected.
fn check_full(backend: JpegBackend, bytes: &[u8], region: Rect, to: &Resize) {
    let (full, smaller) = both(backend, bytes, region, to);
    assert!(full == smaller, "{backend:?} {region} to {to:?}");
}

#[test]
fn what_hardly_shrinks_is_decoded_in_full() {
    let (width, height) = SIZE;
    let bytes = jpeg(&picture(width, height), width, height, BASELINE, None);
    for backend in JpegBackend::ALL {
        // Only one side shrinks to a sixth.
        let region = Rect::new(3, 2, 300, 300);
        for (w, h) in [(51, 20), (20, 51), (300, 300), (400, 10)] {
            check_full(*backend, &bytes, region, &Resize::to(w, h));
        }
    }
}

#[test]
fn what_cannot_be_scaled_is_decoded_in_full() {
    let (width, height) = SIZE;
    let (rgb, whole) = (picture(width, height), Rect::whole(width, height));
    let bytes = jpeg(&rgb, width, height, BASELINE, None);
    check_full(JpegBackend::Zune, &bytes, whole, &Resize::to(16, 16));
    for filter in [ResizeFilter::Nearest, ResizeFilter::Lanczos3] {
        let to = Resize { filter, ..Resize::to(16, 16) };
        check_full(JpegBackend::default(), &bytes, whole, &to);
    }
    for colour in [Colour::Cmyk, Colour::Ycck] {
        let bytes = jpeg(&rgb, width, height, JpegKind { colour, ..BASELINE }, None);
        check_full(JpegBackend::default(), &bytes, whole, &Resize::to(16, 16));
    }
    let png = Png { width, height, depth: 8, colour: 2, interlaced: false, chunks: &[] };
    let bytes = write(&png, |x, y, c| (x * 3 + y * 5 + c as u32 * 70) as u16 & 255);
    check_full(JpegBackend::default(), &bytes, whole, &Resize::to(16, 16));
}
