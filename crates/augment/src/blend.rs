//! Blends samples of a batch in pairs, together with their classes.

use gular_bundle::Dtype;
use gular_codec::Rect;
use half::{bf16, f16};

use gular_order::KeyedRng;

/// How the samples of a batch are blended in pairs: as torchvision's `transforms.v2.MixUp` and
/// `CutMix` do with the tensor `[n, channels, height, width]`.
///
/// Row *i* of a batch of *n* is blended with row *i* + ⌊*n* / 2⌋; if *n* is odd, the last row stays
/// as it is. (torchvision takes the row before, which in a shuffled batch is as random. Half a
/// batch away is the same sample on any number of ranks that share a batch of the same size, where
/// each has an even number of samples.) The random numbers depend on the seed, the epoch and the
/// step's first position of all ranks, so that threads, restarts and ranks never change them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Blend {
    /// `MixUp(alpha)`: `weight` of the sample's own numbers and 1 - `weight` of the other's;
    /// `weight` is drawn from the distribution Beta(alpha, alpha). Whole numbers are rounded to
    /// the nearest.
    MixUp {
        /// The parameter of the distribution, above 0; the larger it is, the more equal are the
        /// shares.
        alpha: f64,
    },
    /// `CutMix(alpha)`: a rectangle of the other sample, which takes 1 - `weight` of the area.
    CutMix {
        /// The parameter of the distribution, as for [`Blend::MixUp`].
        alpha: f64,
    },
    /// One of the two, chosen at random for each step, as
    /// `RandomChoice([MixUp(mixup), CutMix(cutmix)])`.
    Either {
        /// The `alpha` of [`Blend::MixUp`].
        mixup: f64,
        /// The `alpha` of [`Blend::CutMix`].
        cutmix: f64,
    },
}

/// What a sample of a batch was blended with.
///
/// The loss is `weight * loss(own class) + (1 - weight) * loss(label)`, or the loss with
/// soft labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Blended {
    /// The part that is the sample's own, 0 to 1; 1 for one that stayed as it was.
    pub weight: f32,
    /// The class of the other sample.
    pub label: i64,
    /// The other sample's number in its split.
    pub sample: u64,
}

/// The way in which all pairs of a step are blended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mixture {
    /// The weight of the sample's own numbers.
    Whole(f64),
    /// The rectangle that is exchanged, and the part of the area that is not.
    Window(Rect, f64),
}

/// The type and the shape of a picture in a batch.
#[derive(Debug, Clone, Copy)]
pub struct PictureShape {
    /// The type of the numbers.
    pub dtype: Dtype,
    /// Number of columns.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
    /// Number of planes; 1 if the channels of a pixel are next to each other.
    pub planes: usize,
}

impl Blend {
    /// Returns why the options are not possible, if so.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let alphas = match *self {
            Self::MixUp { alpha } | Self::CutMix { alpha } => [alpha; 2],
            Self::Either { mixup, cutmix } => [mixup, cutmix],
        };
        let wrong = alphas.into_iter().find(|alpha| !(*alpha > 0.0 && alpha.is_finite()))?;
        Some(format!("alpha is {wrong}, expected a number above 0"))
    }

    /// Draws how pictures of `width` by `height` pixels are blended.
    #[must_use]
    pub fn draw(&self, (width, height): (u32, u32), rng: &mut KeyedRng) -> Mixture {
        match *self {
            Self::MixUp { alpha } => Mixture::Whole(beta(alpha, rng)),
            Self::CutMix { alpha } => {
                let weight = beta(alpha, rng);
                let x = rng.below(u64::from(width)) as u32;
                let y = rng.below(u64::from(height)) as u32;
                window(weight, (width, height), (x, y))
            }
            Self::Either { mixup, cutmix } => {
                let one = match rng.unit() < 0.5 {
                    true => Self::MixUp { alpha: mixup },
                    false => Self::CutMix { alpha: cutmix },
                };
                one.draw((width, height), rng)
            }
        }
    }
}

impl Mixture {
    /// The part that is the sample's own.
    #[must_use]
    pub fn weight(&self) -> f32 {
        let (Self::Whole(weight) | Self::Window(_, weight)) = *self;
        weight as f32
    }

    /// Blends two pictures, each into the other.
    pub fn apply(&self, shape: &PictureShape, one: &mut [u8], other: &mut [u8]) {
        match *self {
            Self::Window(rect, _) => exchange(shape, rect, one, other),
            Self::Whole(weight) => {
                let whole = f32::round_ties_even;
                let parts = (weight as f32, (1.0 - weight) as f32);
                match shape.dtype {
                    Dtype::U8 => {
                        let read = |[v]: [u8; 1]| f32::from(v);
                        mix(parts, one, other, read, |v| [whole(v) as u8]);
                    }
                    Dtype::I8 => {
                        let read = |[v]: [u8; 1]| f32::from(v.cast_signed());
                        mix(parts, one, other, read, |v| [(whole(v) as i8).cast_unsigned()]);
                    }
                    Dtype::U16 => {
                        let read = |v| f32::from(u16::from_ne_bytes(v));
                        mix(parts, one, other, read, |v| (whole(v) as u16).to_ne_bytes());
                    }
                    Dtype::I16 => {
                        let read = |v| f32::from(i16::from_ne_bytes(v));
                        mix(parts, one, other, read, |v| (whole(v) as i16).to_ne_bytes());
                    }
                    Dtype::F16 => {
                        let read = |v| f16::from_ne_bytes(v).to_f32();
                        mix(parts, one, other, read, |v| f16::from_f32(v).to_ne_bytes());
                    }
                    Dtype::Bf16 => {
                        let read = |v| bf16::from_ne_bytes(v).to_f32();
                        mix(parts, one, other, read, |v| bf16::from_f32(v).to_ne_bytes());
                    }
                    Dtype::F32 => mix(parts, one, other, f32::from_ne_bytes, f32::to_ne_bytes),
                    // Pictures in a batch never have these types.
                    Dtype::U32 | Dtype::I32 | Dtype::I64 | Dtype::F64 => {}
                }
            }
        }
    }
}

/// torchvision's `CutMix.make_params`, around `centre`.
fn window(weight: f64, size: (u32, u32), centre: (u32, u32)) -> Mixture {
    let r = 0.5 * (1.0 - weight).sqrt();
    let side = |at: u32, len: u32| {
        let half = (r * f64::from(len)) as u32;
        let start = at.saturating_sub(half);
        (start, at.saturating_add(half).min(len) - start)
    };
    let ((x, w), (y, h)) = (side(centre.0, size.0), side(centre.1, size.1));
    let part = f64::from(w) * f64::from(h) / (f64::from(size.0) * f64::from(size.1));
    Mixture::Window(Rect::new(x, y, w, h), 1.0 - part)
}

fn mix<const N: usize>(
    (own, its): (f32, f32),
    one: &mut [u8],
    other: &mut [u8],
    read: impl Fn([u8; N]) -> f32,
    write: impl Fn(f32) -> [u8; N],
) {
    let (one, other) = (one.as_chunks_mut::<N>().0, other.as_chunks_mut::<N>().0);
    for (one, other) in one.iter_mut().zip(other) {
        let (a, b) = (read(*one), read(*other));
        (*one, *other) = (write(b * its + a * own), write(a * its + b * own));
    }
}

fn exchange(shape: &PictureShape, rect: Rect, one: &mut [u8], other: &mut [u8]) {
    let PictureShape { width, height, planes, .. } = *shape;
    // Channels that are not planes are inside the pixel.
    let pixel = one.len() / (planes * width * height).max(1);
    let columns = rect.x as usize * pixel..(rect.x + rect.width) as usize * pixel;
    let rows = rect.y as usize..(rect.y + rect.height) as usize;
    if pixel == 0 || columns.is_empty() {
        return;
    }
    let lines = one.chunks_exact_mut(width * pixel).zip(other.chunks_exact_mut(width * pixel));
    for (_, (one, other)) in (0..).zip(lines).filter(|(y, _)| rows.contains(&(y % height))) {
        one[columns.clone()].swap_with_slice(&mut other[columns.clone()]);
    }
}

/// A number of the distribution Beta(alpha, alpha). `libm`'s functions are compiled in, so that
/// it is the same on every machine.
fn beta(alpha: f64, rng: &mut KeyedRng) -> f64 {
    if alpha == 1.0 {
        return rng.unit();
    }
    let (a, b) = (gamma(alpha, rng), gamma(alpha, rng));
    if a + b > 0.0 {
        return a / (a + b);
    }
    // Both numbers are too small for a float, so nearly all of the result is one of the two.
    if rng.unit() < 0.5 { 0.0 } else { 1.0 }
}

/// A number of the distribution Gamma(alpha), by the method of Marsaglia and Tsang (2000).
fn gamma(alpha: f64, rng: &mut KeyedRng) -> f64 {
    if alpha < 1.0 {
        let more = gamma(alpha + 1.0, rng);
        return more * libm::pow(1.0 - rng.unit(), 1.0 / alpha);
    }
    let d = alpha - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let v = 1.0 + c * x;
        let v = v * v * v;
        let u = 1.0 - rng.unit();
        if v > 0.0 && libm::log(u) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v;
        }
    }
}

/// A number of the normal distribution, by the method of Box and Muller (1958).
fn normal(rng: &mut KeyedRng) -> f64 {
    let far = (-2.0 * libm::log(1.0 - rng.unit())).sqrt();
    far * libm::cos(std::f64::consts::TAU * rng.unit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors;

    fn rng(step: u64) -> KeyedRng {
        KeyedRng::of_sample(1, 2, KeyedRng::of_step(step))
    }

    /// Returns mean and variance of 20,000 weights.
    fn moments(alpha: f64) -> (f64, f64) {
        let weights: Vec<f64> = (0..20_000).map(|step| beta(alpha, &mut rng(step))).collect();
        assert!(weights.iter().all(|weight| (0.0..=1.0).contains(weight)));
        let mean = weights.iter().sum::<f64>() / 20_000.0;
        let variance = weights.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / 20_000.0;
        (mean, variance)
    }

    #[test]
    fn weights_have_the_moments_of_their_distribution() {
        for alpha in [0.01, 0.2, 0.8, 1.0, 2.0, 30.0] {
            let (mean, variance) = moments(alpha);
            let expected = 1.0 / (4.0 * (2.0 * alpha + 1.0));
            assert!((mean - 0.5).abs() < 0.02, "{alpha}: mean {mean}");
            assert!((variance / expected - 1.0).abs() < 0.05, "{alpha}: {variance}, {expected}");
        }
        // This is far below the smallest number that a float can represent.
        assert!((0.4..0.6).contains(&moments(1e-6).0));
    }

    /// Computed by a Python program of the same formulas. Whoever changes these breaks training
    /// runs that are to be resumed.
    #[test]
    fn golden_draws_stay() {
        let check = |blend: Blend, step, rect: Option<Rect>, expected: f64| {
            let (found, weight) = match blend.draw((224, 160), &mut rng(step)) {
                Mixture::Whole(weight) => (None, weight),
                Mixture::Window(rect, weight) => (Some(rect), weight),
            };
            assert_eq!(found, rect, "{blend:?} {step}");
            assert!((weight - expected).abs() < 1e-12, "{blend:?} {step}: {weight}");
        };
        check(Blend::MixUp { alpha: 0.2 }, 0, None, 0.999_999_999_999_637_1);
        check(Blend::MixUp { alpha: 1.0 }, 64, None, 0.224_377_550_563_246_82);
        let cut = Some(Rect::new(93, 87, 131, 73));
        check(Blend::CutMix { alpha: 1.0 }, 64, cut, 0.733_175_223_214_285_6);
        let either = Blend::Either { mixup: 2.0, cutmix: 1.0 };
        check(either, 320, None, 0.714_940_600_683_990_7);
        let cut = Some(Rect::new(53, 13, 136, 96));
        check(either, 384, cut, 0.635_714_285_714_285_7);
    }

    /// Arranges an image's numbers as they are stored in a batch.
    type Lie<'a> = &'a dyn Fn(&[f32]) -> Vec<f32>;

    #[test]
    fn both_samples_of_a_pair_are_torchvisions() {
        let vectors::Blends { width, height, pair, cases } = vectors::read().blends;
        assert!(cases.len() >= 16);
        for case in &cases {
            let mixture = match case.centre {
                None => Mixture::Whole(case.drawn),
                Some(centre) => window(case.drawn, (width as u32, height as u32), centre),
            };
            assert!((f64::from(mixture.weight()) - case.weight).abs() < 1e-6, "{case:?}");
            let planar = |pixels: &[f32]| -> Vec<f32> {
                let plane = |c| pixels.iter().skip(c).step_by(3).copied();
                (0..3).flat_map(plane).collect()
            };
            let as_is = |pixels: &[f32]| pixels.to_vec();
            let layouts: [(usize, Lie<'_>); 2] = [(3, &planar), (1, &as_is)];
            for (planes, lie) in layouts {
                let shape = PictureShape { dtype: Dtype::F32, width, height, planes };
                let bytes = |pixels: &[f32]| -> Vec<u8> {
                    lie(pixels).into_iter().flat_map(f32::to_ne_bytes).collect()
                };
                let (mut one, mut other) = (bytes(&pair[0]), bytes(&pair[1]));
                mixture.apply(&shape, &mut one, &mut other);
                // The bits must be equal.
                assert!(one == bytes(&case.made[0]) && other == bytes(&case.made[1]), "{case:?}");
            }
        }
    }

    /// The results for other types are compared with those for `f32`.
    #[test]
    fn numbers_of_every_type_are_those_of_f32_rounded() {
        let mixture = Mixture::Whole(0.3);
        let values = |seed: i32| (0..64).map(move |i| ((i * 37 + seed * 11) % 120) as f32);
        let check = |dtype, write: &dyn Fn(f32) -> Vec<u8>, round: &dyn Fn(f32) -> f32| {
            let shape = |dtype| PictureShape { dtype, width: 8, height: 8, planes: 1 };
            let of = |seed, write: &dyn Fn(f32) -> Vec<u8>| -> Vec<u8> {
                values(seed).flat_map(write).collect()
            };
            let exact = |v: f32| v.to_ne_bytes().to_vec();
            let (mut a, mut b) = (of(1, &exact), of(2, &exact));
            mixture.apply(&shape(Dtype::F32), &mut a, &mut b);
            let (mut x, mut y) = (of(1, write), of(2, write));
            mixture.apply(&shape(dtype), &mut x, &mut y);
            for (floats, found) in [(a, x), (b, y)] {
                let floats = floats.as_chunks::<4>().0.iter().map(|v| f32::from_ne_bytes(*v));
                let expected: Vec<u8> = floats.map(round).flat_map(write).collect();
                assert_eq!(expected, found, "{dtype:?}");
            }
        };
        let whole = f32::round_ties_even;
        check(Dtype::U8, &|v| vec![v as u8], &whole);
        check(Dtype::I8, &|v| vec![(v as i8).cast_unsigned()], &whole);
        check(Dtype::U16, &|v| (v as u16).to_ne_bytes().to_vec(), &whole);
        check(Dtype::I16, &|v| (v as i16).to_ne_bytes().to_vec(), &whole);
        check(Dtype::F16, &|v| f16::from_f32(v).to_ne_bytes().to_vec(), &|v| v);
        check(Dtype::Bf16, &|v| bf16::from_f32(v).to_ne_bytes().to_vec(), &|v| v);
    }

    #[test]
    fn an_alpha_that_is_not_above_0_is_named() {
        for alpha in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let told = Blend::Either { mixup: 1.0, cutmix: alpha }.fault().unwrap();
            assert!(told.starts_with(&format!("alpha is {alpha}")), "{told}");
        }
        assert_eq!(Blend::MixUp { alpha: 0.2 }.fault(), None);
    }
}
