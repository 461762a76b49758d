//! Resizing and encoding, compared with slow and obvious versions.

use crate::fixtures::{decoder, distance, picture};
use gular_codec::{
    Error, JpegBackend, Picture, Rect, Resize, ResizeFilter, Resizer, encode_jpeg, encode_png,
    resize,
};

/// Returns the weights of the `len` source samples in destination sample `at` of `out`: Pillow's
/// filter, widened by the shrink factor, cut at the borders and normalised.
fn weights(len: u32, out: u32, at: u32, filter: ResizeFilter) -> Vec<f64> {
    let step = f64::from(len) / f64::from(out);
    let scale = step.max(1.0);
    let (kernel, support): (fn(f64) -> f64, f64) = match filter {
        ResizeFilter::Bilinear => (|x| (1.0 - x.abs()).max(0.0), 1.0),
        _ => (lanczos3, 3.0),
    };
    let centre = (f64::from(at) + 0.5) * step;
    let first = (centre - support * scale + 0.5).floor().max(0.0) as u32;
    let last = ((centre + support * scale + 0.5).floor() as u32).min(len);
    let weight = |n| {
        let inside = (first..last).contains(&n);
        if inside { kernel((f64::from(n) - centre + 0.5) / scale) } else { 0.0 }
    };
    let weights: Vec<f64> = (0..len).map(weight).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

fn lanczos3(x: f64) -> f64 {
    let sinc = |x: f64| {
        let x = x * std::f64::consts::PI;
        if x == 0.0 { 1.0 } else { x.sin() / x }
    };
    if x.abs() < 3.0 { sinc(x) * sinc(x / 3.0) } else { 0.0 }
}

/// Resizes columns first, rounded to bytes, then rows. (Pillow takes rows first, which makes a
/// difference where Lanczos overshoots and the bytes between the passes cut it off.)
fn slow_resize(rgb: &[u8], size: (u32, u32), to: &Resize) -> Vec<u8> {
    let turned = transpose(rgb, size);
    let high = pass(&turned, (size.1, size.0), to.height, to.filter);
    let upright = transpose(&high, (to.height, size.0));
    pass(&upright, (size.0, to.height), to.width, to.filter)
}

fn pass(rgb: &[u8], (width, height): (u32, u32), out: u32, filter: ResizeFilter) -> Vec<u8> {
    let mut result = Vec::new();
    let columns: Vec<Vec<f64>> = (0..out).map(|at| weights(width, out, at, filter)).collect();
    for row in rgb.chunks(width as usize * 3).take(height as usize) {
        for column in &columns {
            for channel in 0..3 {
                let samples = row.iter().skip(channel).step_by(3);
                let sum: f64 = samples.zip(column).map(|(v, w)| f64::from(*v) * w).sum();
                result.push(sum.round().clamp(0.0, 255.0) as u8);
            }
        }
    }
    result
}

fn transpose(rgb: &[u8], (width, height): (u32, u32)) -> Vec<u8> {
    let at = |x: u32, y: u32| ((y * width + x) * 3) as usize;
    (0..width)
        .flat_map(|x| (0..height).flat_map(move |y| rgb[at(x, y)..at(x, y) + 3].to_vec()))
        .collect()
}

#[test]
fn filters_are_pillows_but_for_the_order_of_passes() {
    for filter in [ResizeFilter::Bilinear, ResizeFilter::Lanczos3] {
        for (size, (width, height)) in [
            ((97, 61), (32, 32)),
            ((97, 61), (96, 60)),
            ((31, 17), (64, 50)),
            ((5, 200), (40, 7)),
            ((1, 1), (4, 4)),
            ((200, 3), (1, 1)),
        ] {
            let to = Resize { width, height, filter, flip: false };
            let image = Picture::new(size.0, size.1, picture(size.0, size.1)).unwrap();
            let fast = resize(&image, &to).unwrap();
            let (largest, _) = distance(fast.data(), &slow_resize(image.data(), size, &to));
            // Weights are fixed-point; Lanczos has six of them per sample, some negative.
            let bound = if filter == ResizeFilter::Bilinear { 1 } else { 2 };
            assert!(largest <= bound, "{filter:?} {size:?} -> {width} x {height}: {largest}");
        }
    }
}

#[test]
fn nearest_takes_the_pixel_under_the_centre() {
    let (w, h) = (13, 7);
    let image = Picture::new(w, h, picture(w, h)).unwrap();
    for (width, height) in [(5, 3), (26, 14), (40, 9), (1, 1)] {
        let to = Resize { width, height, filter: ResizeFilter::Nearest, flip: false };
        let mut expected = Vec::new();
        for y in 0..height {
            for x in 0..width {
                let centre = |at: u32, len: u32, out: u32| (2 * at + 1) * len / (2 * out);
                let at = ((centre(y, h, height) * w + centre(x, w, width)) * 3) as usize;
                expected.extend_from_slice(&image.data()[at..at + 3]);
            }
        }
        assert!(resize(&image, &to).unwrap().data() == expected, "{width} x {height}");
    }
}

#[test]
fn a_size_without_or_with_absurdly_many_pixels_is_refused() {
    let image = Picture::new(3, 2, picture(3, 2)).unwrap();
    let check = |width, height| resize(&image, &Resize::to(width, height)).unwrap_err();
    assert!(matches!(check(0, 4), Error::BadBuffer { .. }));
    assert!(matches!(check(4, 0), Error::BadBuffer { .. }));
    assert!(matches!(check(u32::MAX, u32::MAX), Error::Memory { .. }));
}

#[test]
fn a_flip_mirrors_the_result() {
    let image = Picture::new(30, 20, picture(30, 20)).unwrap();
    for (width, height) in [(11, 9), (30, 20)] {
        let to = Resize::to(width, height);
        let plain = resize(&image, &to).unwrap();
        let flipped = resize(&image, &Resize { flip: true, ..to }).unwrap();
        let mirror = |row: &[u8]| row.chunks(3).rev().flatten().copied().collect::<Vec<u8>>();
        let expected: Vec<u8> = plain.data().chunks(width as usize * 3).flat_map(mirror).collect();
        assert!(flipped.data() == expected);
    }
}

#[test]
fn pixels_outside_the_region_have_no_influence() {
    let (width, height) = (50, 40);
    let region = Rect::new(13, 9, 21, 17);
    let to = Resize::to(16, 30);
    let run = |outside: u8| {
        let mut pixels = vec![outside; 50 * 40 * 3];
        for y in 9..26 {
            pixels[(y * 50 + 13) * 3..(y * 50 + 34) * 3].fill(90);
        }
        let mut out = vec![0; 16 * 30 * 3];
        Resizer::new().crop_resize(&pixels, (width, height), region, &to, &mut out).unwrap();
        out
    };
    assert!(run(0).iter().all(|v| *v == 90));
    assert!(run(255).iter().all(|v| *v == 90));
}

/// Returns the FNV-1a hash, which is enough to see that bytes changed.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[test]
fn encoded_bytes_are_the_same_everywhere() {
    let rgb = picture(61, 47);
    let grey: Vec<u8> = rgb.iter().step_by(3).copied().collect();
    let check = |bytes: Vec<u8>, expected: (usize, u64)| {
        assert_eq!((bytes.len(), fingerprint(&bytes)), expected);
    };
    check(encode_jpeg(&rgb, 61, 47, 90).unwrap(), (1235, 7146164183854697104));
    check(encode_png(&rgb, 61, 47).unwrap(), (1900, 18296488641726653751));
    check(encode_png(&grey, 61, 47).unwrap(), (289, 11567410841752190804));
}

#[test]
fn what_is_encoded_decodes_again() {
    let (width, height) = (61, 47);
    let rgb = picture(width, height);
    for backend in JpegBackend::ALL {
        let png = encode_png(&rgb, width, height).unwrap();
        assert!(decoder(*backend).decode(&png).unwrap().data() == rgb);
        let mut last = f64::INFINITY;
        for quality in [0, 30, 90, 100] {
            let bytes = encode_jpeg(&rgb, width, height, quality).unwrap();
            let image = decoder(*backend).decode(&bytes).unwrap();
            let (_, mean) = distance(image.data(), &rgb);
            assert!(mean < last, "quality {quality}: {mean}, before it {last}");
            last = mean;
        }
        assert!(last < 6.0, "{last}");
    }
    let grey = &rgb[..(width * height) as usize];
    let image = decoder(JpegBackend::default()).decode(&encode_png(grey, width, height).unwrap());
    let expected: Vec<u8> = grey.iter().flat_map(|v| [*v; 3]).collect();
    assert!(image.unwrap().data() == expected);
}
