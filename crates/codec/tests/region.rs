//! A decoded region has the pixels of the full decode, for less work.

use crate::fixtures::{
    Random, cut, decoder, exif, jpeg, kinds, picture,
    png::{Png, write},
};
use gular_codec::{Decoder, Error, JpegBackend, Rect, Resize, ResizeFilter, Resizer};

const SIZE: (u32, u32) = (203, 131);

fn regions(random: &mut Random, width: u32, height: u32, count: usize) -> Vec<Rect> {
    let mut below = |end: u32| random.below(u64::from(end)) as u32;
    (0..count)
        .map(|_| {
            let (x, y) = (below(width), below(height));
            Rect::new(x, y, 1 + below(width - x), 1 + below(height - y))
        })
        .collect()
}

/// Compares regions, resized or not, with the same result made slowly from the full decode.
fn check(decoder: &mut Decoder, bytes: &[u8], random: &mut Random, count: usize) {
    let Ok(full) = decoder.decode(bytes) else {
        return assert!(matches!(decoder.decode(bytes), Err(Error::Unsupported { .. })));
    };
    for region in regions(random, full.width(), full.height(), count) {
        let Rect { x, y, width, height } = region;
        let expected = cut(&full, x, y, width, height);
        let image = decoder.decode_region(bytes, region).unwrap();
        assert_eq!((image.width(), image.height()), (width, height));
        assert!(image.data() == expected, "{region}");

        let flip = random.below(2) == 1;
        let to = Resize { width: 24, height: 20, filter: ResizeFilter::Bilinear, flip };
        let mut slow = vec![0; 24 * 20 * 3];
        let whole = Rect::whole(width, height);
        let mut resizer = Resizer::new();
        resizer.crop_resize(&expected, (width, height), whole, &to, &mut slow).unwrap();
        let mut fast = vec![1; slow.len()];
        decoder.crop_resize(bytes, region, &to, &mut fast).unwrap();
        assert!(fast == slow, "{region}");
    }
}

#[test]
fn every_region_of_every_jpeg_equals_the_full_decode() {
    let (width, height) = SIZE;
    let rgb = picture(width, height);
    let mut random = Random(1);
    for kind in kinds() {
        let bytes = jpeg(&rgb, width, height, kind, None);
        for backend in JpegBackend::ALL {
            check(&mut decoder(*backend), &bytes, &mut random, 40);
        }
    }
}

#[test]
fn regions_are_upright_ones() {
    let (width, height) = SIZE;
    let rgb = picture(width, height);
    let mut random = Random(2);
    for kind in kinds().into_iter().step_by(3) {
        for orientation in 2..=8 {
            let bytes = jpeg(&rgb, width, height, kind, Some(&exif(orientation)));
            for backend in JpegBackend::ALL {
                check(&mut decoder(*backend), &bytes, &mut random, 6);
            }
        }
    }
}

#[test]
fn regions_of_small_jpegs_reach_every_border() {
    let mut random = Random(3);
    for kind in kinds() {
        for (width, height) in [(1, 1), (2, 9), (9, 2), (17, 16), (33, 35)] {
            let bytes = jpeg(&picture(width, height), width, height, kind, None);
            for backend in JpegBackend::ALL {
                check(&mut decoder(*backend), &bytes, &mut random, 12);
            }
        }
    }
}

#[test]
fn regions_of_a_png_equal_the_full_decode() {
    let mut random = Random(4);
    for (colour, interlaced) in [(0, false), (2, false), (2, true), (6, false), (4, true)] {
        let (width, height) = (61, 47);
        let png = Png { width, height, depth: 8, colour, interlaced, chunks: &[] };
        let bytes = write(&png, |x, y, c| (x * 3 + y * 5 + c as u32 * 70) as u16 & 255);
        check(&mut decoder(JpegBackend::default()), &bytes, &mut random, 40);
    }
}

#[test]
fn one_decoder_serves_files_of_every_kind_in_any_order() {
    for backend in JpegBackend::ALL {
        let mut reused = decoder(*backend);
        for (n, kind) in kinds().into_iter().enumerate() {
            let (width, height) = if n % 2 == 0 { (120, 90) } else { (31, 45) };
            let bytes = jpeg(&picture(width, height), width, height, kind, None);
            let region = Rect::new(11, 7, 19, 30);
            let once = decoder(*backend).decode_region(&bytes, region);
            assert_eq!(reused.decode_region(&bytes, region), once);
            assert_eq!(reused.decode(&bytes), decoder(*backend).decode(&bytes));
            assert!(reused.decode(&bytes[..bytes.len() / 2]).is_err());
        }
    }
}

#[test]
fn a_region_outside_the_picture_is_refused() {
    let bytes = jpeg(&picture(40, 24), 40, 24, kinds()[0], Some(&exif(6)));
    for backend in JpegBackend::ALL {
        // The upright picture is 24 x 40.
        assert!(decoder(*backend).decode_region(&bytes, Rect::new(0, 0, 24, 40)).is_ok());
        for region in [
            Rect::new(0, 0, 25, 40),
            Rect::new(0, 0, 24, 41),
            Rect::new(24, 0, 1, 1),
            Rect::new(3, 3, 0, 5),
            Rect::new(3, 3, 5, 0),
            Rect::new(u32::MAX, 0, 2, 2),
            Rect::new(1, 1, u32::MAX, u32::MAX),
        ] {
            let error = decoder(*backend).decode_region(&bytes, region).unwrap_err();
            assert_eq!(error, Error::BadRegion { region, width: 24, height: 40 });
        }
    }
}

#[test]
fn a_slot_of_the_wrong_size_is_refused() {
    let bytes = jpeg(&picture(40, 24), 40, 24, kinds()[0], None);
    let region = Rect::whole(40, 24);
    for backend in JpegBackend::ALL {
        for (width, height, len) in [(8, 8, 191), (8, 8, 193), (0, 8, 0), (8, 0, 0), (8, 8, 0)] {
            let mut out = vec![0; len];
            let to = Resize::to(width, height);
            let error = decoder(*backend).crop_resize(&bytes, region, &to, &mut out).unwrap_err();
            assert!(matches!(error, Error::BadBuffer { found, .. } if found == len), "{error}");
        }
    }
}
