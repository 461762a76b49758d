//! Writes the images of `cargo xtask demo`: a small set that a network can learn to tell apart.
//!
//! `demo_images DIR` writes `DIR/{train,val}/{class}/{number}.{jpg,png}`: four classes (discs,
//! squares, stripes, rings) in random colours, places and sizes over a noisy background; 80 to
//! 420 pixels per side; three of four are JPEG, the fourth PNG. Equal runs write equal bytes.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The classes, which are folder names below each split.
const CLASSES: [&str; 4] = ["disc", "ring", "square", "stripes"];
/// Each split, and its images per class, which are 320 to learn from and 80 to test in all.
const SPLITS: [(&str, usize); 2] = [("train", 80), ("val", 20)];

fn main() -> Result<()> {
    let dir = env::args_os().nth(1).ok_or("usage: demo_images DIR")?;
    for (split, n) in SPLITS {
        for (class, name) in CLASSES.into_iter().enumerate() {
            let folder = Path::new(&dir).join(split).join(name);
            fs::create_dir_all(&folder)?;
            for i in 0..n {
                let (extension, bytes) = image(class, i % 4 == 3, &mut Rng::new(split, class, i))?;
                fs::write(folder.join(format!("{i:04}.{extension}")), bytes)?;
            }
        }
    }
    Ok(())
}

fn image(class: usize, png: bool, rng: &mut Rng) -> Result<(&'static str, Vec<u8>)> {
    let (w, h) = (rng.between(80, 420), rng.between(80, 420));
    let pixels = draw(class, w, h, rng);
    let (w, h) = (w as u32, h as u32);
    Ok(if png {
        ("png", gular_codec::encode_png(&pixels, w, h)?)
    } else {
        ("jpg", gular_codec::encode_jpeg(&pixels, w, h, 85)?)
    })
}

fn draw(class: usize, w: usize, h: usize, rng: &mut Rng) -> Vec<u8> {
    let short = w.min(h) as f64;
    let size = short * (0.2 + 0.2 * rng.unit());
    let x0 = size + (w as f64 - 2.0 * size) * rng.unit();
    let y0 = size + (h as f64 - 2.0 * size) * rng.unit();
    let angle = std::f64::consts::PI * rng.unit();
    let (sin, cos) = angle.sin_cos();
    let back = [0, 1, 2].map(|_| 40.0 + 80.0 * rng.unit());
    let fore = [0, 1, 2].map(|_| 150.0 + 100.0 * rng.unit());
    let mut pixels = Vec::with_capacity(w * h * 3);
    for y in 0..h {
        for x in 0..w {
            let (dx, dy) = (x as f64 - x0, y as f64 - y0);
            let (u, v) = (dx * cos + dy * sin, dy * cos - dx * sin);
            let r = dx.hypot(dy);
            let inside = match class {
                0 => r < size,
                1 => r < size && r > 0.6 * size,
                2 => u.abs() < 0.85 * size && v.abs() < 0.85 * size,
                _ => r < size && (u / size * 3.0).rem_euclid(1.0) < 0.5,
            };
            for c in 0..3 {
                let base = if inside { fore[c] } else { back[c] };
                pixels.push((base + 30.0 * (rng.unit() - 0.5)).clamp(0.0, 255.0) as u8);
            }
        }
    }
    pixels
}

/// A SplitMix64 generator, one per image.
struct Rng(u64);

impl Rng {
    fn new(split: &str, class: usize, i: usize) -> Self {
        let split = if split == "train" { 0 } else { 1 << 40 };
        Self(split + ((class as u64) << 32) + i as u64)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }
}
