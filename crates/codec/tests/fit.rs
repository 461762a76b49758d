//! Pictures fitted to a fixed size, with 8 and with 16 bits per sample.

use crate::fixtures::{
    self, decoder, exif, picture,
    png::{Png, samples, write},
};
use gular_codec::{
    Error, Fit, JpegBackend, Orientation, Rect, Resize, bit_depth, encode_jpeg, encode_png, resize,
};

const FITS: [Fit; 3] = [Fit::Crop, Fit::Pad, Fit::Stretch];

fn fit(file: &[u8], to: (u32, u32), fit: Fit) -> Vec<u8> {
    let mut out = vec![99; to.0 as usize * to.1 as usize * 3];
    decoder(JpegBackend::default()).fit(file, to, fit, &mut out).unwrap();
    out
}

fn fit_u16(file: &[u8], to: (u32, u32), fit: Fit) -> Vec<u16> {
    let mut out = vec![[99; 3]; to.0 as usize * to.1 as usize];
    decoder(JpegBackend::default()).fit_u16(file, to, fit, &mut out).unwrap();
    out.into_flattened()
}

#[test]
fn each_fit_is_resizing_and_cutting_the_whole_picture() {
    let file = encode_jpeg(&picture(60, 40), 60, 40, 90).unwrap();
    let image = decoder(JpegBackend::default()).decode(&file).unwrap();
    let stretched = resize(&image, &Resize::to(20, 20)).unwrap();
    assert_eq!(fit(&file, (20, 20), Fit::Stretch), stretched.data());
    let covering = resize(&image, &Resize::to(30, 20)).unwrap();
    assert_eq!(fit(&file, (20, 20), Fit::Crop), fixtures::cut(&covering, 5, 0, 20, 20));
    let within = resize(&image, &Resize::to(20, 13)).unwrap();
    let padded = fit(&file, (20, 20), Fit::Pad);
    assert_eq!(padded[3 * 60..16 * 60], *within.data());
    assert!(padded[..3 * 60].iter().chain(&padded[16 * 60..]).all(|v| *v == 0));
}

#[test]
fn a_picture_of_the_size_is_not_resized() {
    let file = encode_png(&picture(30, 20), 30, 20).unwrap();
    for how in FITS {
        assert_eq!(fit(&file, (30, 20), how), picture(30, 20));
    }
}

#[test]
fn buffers_of_another_size_are_refused() {
    let file = encode_png(&picture(3, 2), 3, 2).unwrap();
    let mut decoder = decoder(JpegBackend::default());
    let refused = decoder.fit(&file, (2, 2), Fit::Crop, &mut [0; 11]);
    assert!(matches!(refused, Err(Error::BadBuffer { .. })), "{refused:?}");
    let refused = decoder.fit_u16(&file, (2, 2), Fit::Crop, &mut [[0; 3]; 5]);
    assert!(matches!(refused, Err(Error::BadBuffer { .. })), "{refused:?}");
}

fn sample(x: u32, y: u32, channel: usize) -> u16 {
    (x * 2711 + y * 977 + channel as u32 * 7919) as u16
}

#[test]
fn sixteen_bits_come_out_as_they_are_and_upright() {
    for colour in [0, 2, 4, 6] {
        for interlaced in [false, true] {
            for value in 1..=8 {
                let orientation = Orientation::from_exif(value).unwrap();
                let chunks: &[(&[u8; 4], &[u8])] = &[(b"eXIf", &exif(value as u8))];
                let png = Png { width: 5, height: 3, depth: 16, colour, interlaced, chunks };
                let file = write(&png, sample);
                let swap = value > 4;
                let to = if swap { (3, 5) } else { (5, 3) };
                let found = fit_u16(&file, to, Fit::Crop);
                // The high bytes are the same picture as with 8 bits.
                let high: Vec<u8> = found.iter().map(|v| (v >> 8) as u8).collect();
                assert_eq!(high, fit(&file, to, Fit::Crop), "{colour} {orientation:?}");
                if value == 1 {
                    let cells = (0..3).flat_map(|y| (0..5).map(move |x| (x, y)));
                    let last = if samples(colour) < 3 { 0 } else { 2 };
                    let expected: Vec<u16> = cells
                        .flat_map(|(x, y)| [0, 1, 2].map(|c| sample(x, y, c.min(last))))
                        .collect();
                    assert_eq!(found, expected, "{colour} {interlaced}");
                }
            }
        }
    }
}

#[test]
fn sixteen_bits_are_resized_as_eight_are() {
    let (width, height) = (40, 30);
    let png = Png { width, height, depth: 16, colour: 2, interlaced: false, chunks: &[] };
    let slope = |x: u32, y: u32, c: usize| (x * 800 + y * 900 + c as u32 * 1000) as u16;
    let wide = write(&png, slope);
    for how in FITS {
        for to in [(16, 16), (9, 20), (64, 60)] {
            let (found, narrow) = (fit_u16(&wide, to, how), fit(&wide, to, how));
            let far = found.iter().zip(&narrow).map(|(a, b)| (a >> 8).abs_diff(u16::from(*b)));
            assert!(far.max() <= Some(1), "{how:?} {to:?}");
        }
    }
}

#[test]
fn eight_bits_become_sixteen_with_white_white() {
    let file = encode_jpeg(&picture(30, 20), 30, 20, 90).unwrap();
    for how in FITS {
        let narrow = fit(&file, (12, 12), how);
        let expected: Vec<u16> = narrow.into_iter().map(|v| u16::from(v) * 257).collect();
        assert_eq!(fit_u16(&file, (12, 12), how), expected);
    }
}

#[test]
fn damage_in_sixteen_bits_is_an_error() {
    let png = Png { width: 5, height: 3, depth: 16, colour: 2, interlaced: false, chunks: &[] };
    let file = write(&png, sample);
    let mut decoder = decoder(JpegBackend::default());
    for end in 34..file.len() {
        let mut out = [[0; 3]; 15];
        let cut = decoder.fit_u16(&file[..end], (5, 3), Fit::Crop, &mut out);
        assert!(cut.is_err() || end + 12 > file.len(), "cut at {end} of {}", file.len());
    }
}

#[test]
fn a_strip_of_one_pixel_fills_any_size() {
    let file = encode_png(&picture(1, 5000), 1, 5000).unwrap();
    for how in FITS {
        assert_eq!(fit(&file, (64, 32), how).len(), 64 * 32 * 3);
    }
    // Only the middle is compared, since that is what the crop keeps.
    let image =
        decoder(JpegBackend::default()).decode_region(&file, Rect::new(0, 2499, 1, 2)).unwrap();
    let middle = fit(&file, (1, 2), Fit::Crop);
    assert_eq!(middle, image.data());
}

#[test]
fn depth_stands_in_the_first_bytes() {
    let png = Png { width: 5, height: 3, depth: 16, colour: 0, interlaced: false, chunks: &[] };
    assert_eq!(bit_depth(&write(&png, sample)[..25]), Some(16));
    assert_eq!(bit_depth(&encode_png(&[0; 12], 2, 2).unwrap()[..25]), Some(8));
    assert_eq!(bit_depth(&encode_jpeg(&picture(3, 2), 3, 2, 90).unwrap()[..25]), Some(8));
    assert_eq!(bit_depth(&write(&png, sample)[..24]), None);
    assert_eq!(bit_depth(b"GIF89a"), None);
}
