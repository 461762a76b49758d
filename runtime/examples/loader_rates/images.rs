//! Makes JPEGs for machines without photographs: noise at several scales, which takes as long to
//! decode as a photograph. The bytes are the same on every machine.

use std::error::Error;
use std::fs;
use std::path::Path;

use gular_codec::encode_jpeg;
use gular_runtime::order::KeyedRng;

/// Size of the images: the median size of an ImageNet photograph.
const SIZE: (usize, usize) = (500, 375);

/// Cells across a picture, and how much each layer of noise adds.
const LAYERS: [(usize, f64); 4] = [(4, 90.0), (16, 50.0), (64, 25.0), (250, 14.0)];

/// Writes `n` images in ten classes: `class-0/000000.jpg` and so on.
pub(crate) fn write(dir: &Path, n: u64) -> Result<(), Box<dyn Error>> {
    for number in 0..n {
        let folder = dir.join(format!("class-{}", number % 10));
        fs::create_dir_all(&folder)?;
        let (width, height) = (SIZE.0 as u32, SIZE.1 as u32);
        let jpeg = encode_jpeg(&picture(number), width, height, 92)?;
        fs::write(folder.join(format!("{number:06}.jpg")), jpeg)?;
    }
    Ok(())
}

fn picture(number: u64) -> Vec<u8> {
    let mut rng = KeyedRng::of_sample(0, 0, number);
    let mut sums = vec![128.0; SIZE.0 * SIZE.1 * 3];
    for (cells, weight) in LAYERS {
        // A corner more than cells, and the same of each side for simplicity's sake.
        let side = cells + 1;
        let corners: Vec<f64> =
            (0..side * side * 3).map(|_| rng.between(-1.0, 1.0) * weight).collect();
        for (y, row) in sums.chunks_exact_mut(SIZE.0 * 3).enumerate() {
            let (top, down) = place(y, SIZE.0, cells);
            for (x, pixel) in row.chunks_exact_mut(3).enumerate() {
                let (left, right) = place(x, SIZE.0, cells);
                for (channel, sum) in pixel.iter_mut().enumerate() {
                    let at = |x: usize, y: usize| corners[(y * side + x) * 3 + channel];
                    let mix = |a: f64, b: f64, part: f64| a + (b - a) * part;
                    let above = mix(at(left, top), at(left + 1, top), right);
                    let below = mix(at(left, top + 1), at(left + 1, top + 1), right);
                    *sum += mix(above, below, down);
                }
            }
        }
    }
    sums.into_iter().map(|sum| sum.clamp(0.0, 255.0) as u8).collect()
}

/// The cell that `at` of `length` is in, and how far.
fn place(at: usize, length: usize, cells: usize) -> (usize, f64) {
    let place = at as f64 * cells as f64 / length as f64;
    (place as usize, place.fract())
}
