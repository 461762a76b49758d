//! Every kind of JPEG, on every backend of the build.

use crate::fixtures::{
    BASELINE, Colour, JpegKind, decoder, distance, exif, expected, jpeg, kinds, picture,
    raw_decoder,
};
use gular_codec::{Error, Format, JpegBackend, Limits, Orientation, Picture, read_header};
use jpeg_encoder::SamplingFactor;

const SIZES: [(u32, u32); 8] =
    [(1, 1), (7, 5), (8, 8), (16, 16), (17, 33), (40, 3), (3, 40), (131, 77)];

/// Returns whether zune-jpeg refuses a kind: the encoder writes these, when they are sequential,
/// with the planes in separate scans.
fn is_refused_by_zune(kind: JpegKind) -> bool {
    use SamplingFactor::{F_1_4, F_2_4, F_4_1, F_4_2};
    !kind.progressive && matches!(kind.sampling, F_4_1 | F_4_2 | F_1_4 | F_2_4)
}

#[test]
fn every_kind_decodes_to_what_was_encoded() {
    for kind in kinds() {
        for (width, height) in SIZES {
            let rgb = picture(width, height);
            let bytes = jpeg(&rgb, width, height, kind, None);
            for backend in JpegBackend::ALL {
                let image = decoder(*backend).decode(&bytes);
                assert_eq!(decoder(*backend).validate(&bytes).err(), image.as_ref().err().cloned());
                if *backend == JpegBackend::Zune && is_refused_by_zune(kind) {
                    assert!(matches!(image, Err(Error::Unsupported { .. })), "{kind:?} {image:?}");
                    continue;
                }
                let image = image.unwrap();
                assert_eq!((image.width(), image.height()), (width, height));
                // Subsampled chroma is blurred, most in the smallest pictures, whose slopes are
                // steep. Misread planes differ by 90 and more.
                let (_, mean) = distance(image.data(), &expected(&rgb, kind.colour));
                let bound = if width.min(height) < 16 { 40.0 } else { 16.0 };
                assert!(mean < bound, "{kind:?} {width} x {height} {backend:?}: {mean}");
            }
        }
    }
}

#[test]
fn backends_differ_by_rounding_alone() {
    for kind in kinds().into_iter().filter(|kind| !is_refused_by_zune(*kind)) {
        for (width, height) in [(16, 16), (17, 33), (131, 77), (320, 200)] {
            let bytes = jpeg(&picture(width, height), width, height, kind, None);
            let images: Vec<Picture> = JpegBackend::ALL
                .iter()
                .map(|backend| decoder(*backend).decode(&bytes).unwrap())
                .collect();
            for image in &images {
                let (largest, mean) = distance(image.data(), images[0].data());
                // Without subsampling only IDCT and colour conversion are rounded.
                let bound = if kind.sampling == SamplingFactor::F_1_1 { 0.05 } else { 0.7 };
                assert!(largest <= 8 && mean < bound, "{kind:?}: {largest}, {mean}");
            }
        }
    }
}

#[test]
fn header_tells_what_is_stored() {
    let (width, height) = (131, 77);
    for kind in kinds() {
        let bytes = jpeg(&picture(width, height), width, height, kind, Some(&exif(6)));
        let header = read_header(&bytes, &Limits::default()).unwrap();
        assert_eq!(header.format, Format::Jpeg);
        assert_eq!((header.width, header.height), (width, height));
        assert_eq!(header.upright_size(), (height, width));
        assert_eq!(header.orientation, Orientation::Rotate90);
        assert_eq!(header.progressive, kind.progressive);
        assert_eq!(header.bit_depth, 8);
        let channels = match kind.colour {
            Colour::Grey => 1,
            Colour::Rgb => 3,
            Colour::Cmyk | Colour::Ycck => 4,
        };
        assert_eq!(header.channels, channels);
    }
}

#[test]
fn pictures_stand_upright_unless_told_otherwise() {
    let (width, height) = (40, 24);
    let rgb = picture(width, height);
    for backend in JpegBackend::ALL {
        let stored = decoder(*backend).decode(&jpeg(&rgb, width, height, BASELINE, None)).unwrap();
        for value in 1..=8 {
            let bytes = jpeg(&rgb, width, height, BASELINE, Some(&exif(value)));
            assert_eq!(raw_decoder(*backend).decode(&bytes).unwrap(), stored);
            let upright = decoder(*backend).decode(&bytes).unwrap();
            assert_eq!(upright, turn(&stored, value), "orientation {value}");
        }
    }
}

/// Turns a picture by the table of the EXIF standard, in a slow and obvious way.
fn turn(stored: &Picture, orientation: u8) -> Picture {
    let (w, h) = (stored.width(), stored.height());
    let (width, height) = if orientation >= 5 { (h, w) } else { (w, h) };
    let mut data = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let (column, row) = match orientation {
                1 => (x, y),
                2 => (w - 1 - x, y),
                3 => (w - 1 - x, h - 1 - y),
                4 => (x, h - 1 - y),
                5 => (y, x),
                6 => (y, h - 1 - x),
                7 => (w - 1 - y, h - 1 - x),
                _ => (w - 1 - y, x),
            };
            let at = ((row * w + column) * 3) as usize;
            data.extend_from_slice(&stored.data()[at..at + 3]);
        }
    }
    Picture::new(width, height, data).unwrap()
}

#[test]
fn an_absurd_orientation_is_none() {
    let rgb = picture(16, 8);
    for value in [0, 9, 255] {
        let bytes = jpeg(&rgb, 16, 8, BASELINE, Some(&exif(value)));
        let header = read_header(&bytes, &Limits::default()).unwrap();
        assert_eq!(header.orientation, Orientation::Normal);
    }
}

#[test]
fn bytes_behind_the_end_are_of_no_account() {
    let mut bytes = jpeg(&picture(40, 24), 40, 24, BASELINE, None);
    for backend in JpegBackend::ALL {
        let image = decoder(*backend).decode(&bytes).unwrap();
        bytes.extend_from_slice(b"appended by a camera");
        assert_eq!(decoder(*backend).decode(&bytes).unwrap(), image);
        assert!(decoder(*backend).validate(&bytes).is_ok());
    }
}

#[test]
fn stray_bytes_before_the_end_change_no_pixel() {
    let bytes = jpeg(&picture(40, 24), 40, 24, BASELINE, None);
    let mut stray = bytes.clone();
    stray.splice(bytes.len() - 2..bytes.len() - 2, *b"stray");
    for backend in JpegBackend::ALL {
        let mut decoder = decoder(*backend);
        assert_eq!(decoder.decode(&stray).unwrap(), decoder.decode(&bytes).unwrap());
    }
}

#[cfg(feature = "turbo")]
#[test]
fn stray_bytes_before_the_end_do_not_validate() {
    let mut bytes = jpeg(&picture(40, 24), 40, 24, BASELINE, None);
    bytes.splice(bytes.len() - 2..bytes.len() - 2, *b"stray");
    let error = decoder(JpegBackend::Turbo).validate(&bytes).unwrap_err().to_string();
    assert!(error.contains("extraneous bytes before marker 0xd9"), "{error}");
}
