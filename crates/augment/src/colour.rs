//! Changes colours as torchvision's `functional` does for tensors.

use crate::{PictureEdit, Pixels};
use gular_order::KeyedRng;

/// Shares of red, green and blue in grey.
const GREY: [f32; 3] = [0.2989, 0.587, 0.114];

impl PictureEdit<'_> {
    /// `rgb_to_grayscale`, repeated in three channels. Pictures of another number of channels
    /// stay as they are.
    pub fn grey(&mut self) {
        self.each_rgb(|rgb, whole| [whole(grey(rgb)); 3]);
    }

    /// Changes the brightness, as torchvision's `adjust_brightness`.
    pub fn brightness(&mut self, factor: f32) {
        self.each_value(|v| factor * v);
    }

    /// `adjust_contrast`: of pictures of another number of channels than three around the mean
    /// of all values.
    pub fn contrast(&mut self, factor: f32) {
        let mean = self.mean();
        self.each_value(|v| factor * v + (1.0 - factor) * mean);
    }

    /// `adjust_saturation`. Pictures of another number of channels than three stay.
    pub fn saturation(&mut self, factor: f32) {
        self.each_rgb(|rgb, whole| {
            let grey = whole(grey(rgb));
            rgb.map(|v| factor * v + (1.0 - factor) * grey)
        });
    }

    /// `adjust_hue`, by `turn` of the circle of colours, -0.5 to 0.5. Pictures of another number
    /// of channels than three stay.
    pub fn hue(&mut self, turn: f32) {
        let (bound, back) = match self.pixels {
            Pixels::U8(_) => (255.0, 255.999),
            Pixels::U16(_) => (65_535.0, 65_535.999),
            Pixels::F32(_) => (1.0, 1.0),
        };
        self.each_rgb(|rgb, _| {
            let [h, s, v] = to_hsv(rgb.map(|v| v / bound));
            let h = (h + turn).rem_euclid(1.0);
            from_hsv([h, s, v]).map(|v| v * back)
        });
    }

    /// torchvision's `ColorJitter`: brightness, contrast and saturation by a factor from
    /// 1 - strength (at least 0) to 1 + strength, hue by up to ± its strength, in a random
    /// order. A strength of 0 leaves that out.
    pub fn jitter(
        &mut self,
        brightness: f32,
        contrast: f32,
        saturation: f32,
        hue: f32,
        rng: &mut KeyedRng,
    ) {
        let mut steps = [0, 1, 2, 3];
        for last in (1..steps.len()).rev() {
            let other = rng.below(last as u64 + 1) as usize;
            steps.swap(last, other);
        }
        for step in steps {
            let strength = [brightness, contrast, saturation, hue][step];
            if strength == 0.0 {
                continue;
            }
            let between = |low: f32, high: f32, rng: &mut KeyedRng| {
                rng.between(f64::from(low), f64::from(high)) as f32
            };
            match step {
                0 => self.brightness(between((1.0 - strength).max(0.0), 1.0 + strength, rng)),
                1 => self.contrast(between((1.0 - strength).max(0.0), 1.0 + strength, rng)),
                2 => self.saturation(between((1.0 - strength).max(0.0), 1.0 + strength, rng)),
                _ => self.hue(between(-strength, strength, rng)),
            }
        }
    }

    /// Returns the mean of grey.
    fn mean(&self) -> f32 {
        let (values, sum): (usize, f64) = match &self.pixels {
            Pixels::U8(values) => sum(values, self.channels, f32::trunc),
            Pixels::U16(values) => sum(values, self.channels, f32::trunc),
            Pixels::F32(values) => sum(values, self.channels, |v| v),
        };
        (sum / values.max(1) as f64) as f32
    }

    fn each_value(&mut self, new: impl Fn(f32) -> f32) {
        match &mut self.pixels {
            Pixels::U8(values) => {
                // There are only 256 different results, so they are computed once.
                let table: [u8; 256] =
                    std::array::from_fn(|v| new(v as f32).clamp(0.0, 255.0) as u8);
                values.iter_mut().for_each(|v| *v = table[usize::from(*v)]);
            }
            Pixels::U16(values) => {
                values.iter_mut().for_each(|v| *v = new(f32::from(*v)).clamp(0.0, 65_535.0) as u16);
            }
            Pixels::F32(values) => {
                values.iter_mut().for_each(|v| *v = new(*v).clamp(0.0, 1.0));
            }
        }
    }

    /// `new` is given a pixel, and what makes a number one of the picture's type.
    fn each_rgb(&mut self, new: impl Fn([f32; 3], fn(f32) -> f32) -> [f32; 3]) {
        if self.channels != 3 {
            return;
        }
        match &mut self.pixels {
            Pixels::U8(values) => {
                for pixel in values.as_chunks_mut::<3>().0 {
                    let rgb = new(pixel.map(f32::from), f32::trunc);
                    *pixel = rgb.map(|v| v.clamp(0.0, 255.0) as u8);
                }
            }
            Pixels::U16(values) => {
                for pixel in values.as_chunks_mut::<3>().0 {
                    let rgb = new(pixel.map(f32::from), f32::trunc);
                    *pixel = rgb.map(|v| v.clamp(0.0, 65_535.0) as u16);
                }
            }
            Pixels::F32(values) => {
                for pixel in values.as_chunks_mut::<3>().0 {
                    *pixel = new(*pixel, |v| v).map(|v| v.clamp(0.0, 1.0));
                }
            }
        }
    }
}

fn grey([r, g, b]: [f32; 3]) -> f32 {
    GREY[0] * r + GREY[1] * g + GREY[2] * b
}

/// Returns the number of grey values, and their sum.
fn sum<T: Copy + Into<f32>>(
    values: &[T],
    channels: usize,
    whole: impl Fn(f32) -> f32,
) -> (usize, f64) {
    if channels == 3 {
        let (pixels, _) = values.as_chunks::<3>();
        let greys = pixels.iter().map(|pixel| whole(grey(pixel.map(Into::into))));
        return (pixels.len(), greys.map(f64::from).sum());
    }
    (values.len(), values.iter().map(|v| f64::from((*v).into())).sum())
}

/// Returns hue, saturation and value, each 0 to 1.
fn to_hsv([r, g, b]: [f32; 3]) -> [f32; 3] {
    let (most, least) = (r.max(g).max(b), r.min(g).min(b));
    if most == least {
        return [0.0, 0.0, most];
    }
    let range = most - least;
    let [rc, gc, bc] = [r, g, b].map(|v| (most - v) / range);
    let h = if most == r {
        bc - gc
    } else if most == g {
        2.0 + rc - bc
    } else {
        4.0 + gc - rc
    };
    [(h / 6.0 + 1.0).rem_euclid(1.0), range / most, most]
}

fn from_hsv([h, s, v]: [f32; 3]) -> [f32; 3] {
    let sixth = (h * 6.0).floor();
    let f = h * 6.0 - sixth;
    let part = |by: f32| (v * (1.0 - by)).clamp(0.0, 1.0);
    let (p, q, t) = (part(s), part(s * f), part(s * (1.0 - f)));
    match sixth as u32 % 6 {
        0 => [v, t, p],
        1 => [q, v, p],
        2 => [p, v, t],
        3 => [p, q, v],
        4 => [t, p, v],
        _ => [v, p, q],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::{self, Case};

    fn change(name: &str, argument: f32, picture: &mut PictureEdit<'_>) {
        match name {
            "rgb_to_grayscale" => picture.grey(),
            "adjust_brightness" => picture.brightness(argument),
            "adjust_contrast" => picture.contrast(argument),
            "adjust_saturation" => picture.saturation(argument),
            "adjust_hue" => picture.hue(argument),
            "hflip" => picture.flip_horizontal(),
            "vflip" => picture.flip_vertical(),
            "rot90" => picture.rotate_90(argument as u32),
            "pad_crop" => picture.shift(2, -1),
            "erase" => picture.erase(gular_codec::Rect::new(1, 2, 3, 4), argument),
            _ => panic!("`{name}` is not known"),
        }
    }

    fn square(pixels: Pixels<'_>) -> PictureEdit<'_> {
        PictureEdit::new(pixels, (7, 7, 3), (0, ""))
    }

    #[test]
    fn results_are_torchvisions() {
        let vectors = vectors::read();
        assert_eq!((vectors.width, vectors.height), (7, 7));
        assert!(vectors.cases.len() > 20);
        for Case { name, argument, u8: bytes, f32: floats } in &vectors.cases {
            let mut found: Vec<u8> = vectors.pixels.iter().map(|v| *v as u8).collect();
            change(name, *argument, &mut square(Pixels::U8(&mut found)));
            let furthest = found.iter().zip(bytes).map(|(a, b)| a.abs_diff(*b)).max();
            assert!(furthest <= Some(1), "{name} {argument}: {furthest:?}");
            let mut found: Vec<f32> =
                vectors.pixels.iter().map(|v| f32::from(*v) / 255.0).collect();
            change(name, *argument, &mut square(Pixels::F32(&mut found)));
            let furthest = found.iter().zip(floats).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(furthest < 1e-5, "{name} {argument}: {furthest}");
            // With 16 bits, the results are as exact as with floats.
            if !matches!(name.as_str(), "erase") {
                let mut found: Vec<u16> = vectors.pixels.iter().map(|v| v * 257).collect();
                change(name, *argument, &mut square(Pixels::U16(&mut found)));
                let pairs = found.iter().zip(floats);
                let away = pairs.map(|(a, b)| (f32::from(*a) / 65_535.0 - b).abs());
                let furthest = away.fold(0.0, f32::max);
                assert!(furthest < 1e-4, "{name} {argument}: {furthest}");
            }
        }
    }

    #[test]
    fn jitter_is_a_function_of_the_random_numbers_and_a_strength_of_0_is_none() {
        let picture: Vec<u8> = (0..12 * 3).map(|i| (i * 53 % 256) as u8).collect();
        let made = |sample, [b, c, s, h]: [f32; 4]| {
            let mut pixels = picture.clone();
            let mut edit = PictureEdit::new(Pixels::U8(&mut pixels), (4, 3, 3), (sample, ""));
            edit.jitter(b, c, s, h, &mut KeyedRng::of_sample(1, 2, sample));
            pixels
        };
        let all = [0.4, 0.4, 0.4, 0.1];
        assert_eq!(made(3, all), made(3, all));
        assert_ne!(made(3, all), made(4, all));
        assert_ne!(made(3, all), picture);
        assert_eq!(made(3, [0.0; 4]), picture);
    }
}
