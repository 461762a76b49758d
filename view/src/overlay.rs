//! Masks as colours over a picture.

use std::collections::BTreeMap;

use gular_bundle::{Dtype, Field};
use gular_codec::encode_png;
use serde::Serialize;

use crate::array::{Cells, Stretch};
use crate::error::PictureError;
use crate::picture::{Look, decoder, picture};

/// The most values that have colours of their own; of more, numbers are shades of grey.
const MOST_VALUES: usize = 256;
/// The most values that are listed.
const MOST_LISTED: usize = 40;

/// A picture with transparency, and what its colours mean.
#[derive(Debug)]
pub(crate) struct Overlay {
    pub(crate) png: Vec<u8>,
    pub(crate) legend: Vec<Meaning>,
}

/// A value of a mask.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Meaning {
    pub(crate) value: f64,
    pub(crate) pixels: u64,
    /// Red, green and blue; absent if it is transparent.
    pub(crate) colour: Option<[u8; 3]>,
}

/// The numbers of a mask.
struct MaskValues {
    width: usize,
    height: usize,
    values: Vec<Option<f64>>,
}

impl MaskValues {
    /// `None` for what is a second picture, or bands.
    fn of(field: &Field, bytes: &[u8]) -> Result<Option<Self>, PictureError> {
        let (width, height, values) = match field.as_fixed() {
            Some((dtype, _)) => {
                let cells = Cells::new(field, bytes)?;
                if cells.n_bands > 1
                    || matches!(dtype, Dtype::F16 | Dtype::Bf16) && field.is_image()
                {
                    return Ok(None);
                }
                (cells.width, cells.height, cells.numbers(0, 1).collect::<Vec<_>>())
            }
            None => match decoder().decode_values(bytes) {
                Ok(((width, height), values)) => {
                    let values = values.iter().map(|value| Some(f64::from(*value)));
                    (width as usize, height as usize, values.collect())
                }
                Err(_) => return Ok(None),
            },
        };
        Ok(Some(Self { width, height, values }))
    }
}

/// Makes the overlay of a value of `field`.
pub(crate) fn overlay(field: &Field, bytes: &[u8]) -> Result<Overlay, PictureError> {
    match MaskValues::of(field, bytes)? {
        Some(mask) => coloured(mask.width, mask.height, &mask.values),
        None => shaded(field, bytes),
    }
}

/// What the colours of its overlay mean.
pub(crate) fn legend(field: &Field, bytes: &[u8]) -> Result<Vec<Meaning>, PictureError> {
    let mask = MaskValues::of(field, bytes)?;
    Ok(mask.map(|mask| Palette::of(&mask.values).legend()).unwrap_or_default())
}

/// The colours of a mask's values.
struct Palette {
    /// The pixels of each value, unless there are too many values.
    counts: Option<BTreeMap<u64, u64>>,
    least: f64,
    most: f64,
}

impl Palette {
    fn of(values: &[Option<f64>]) -> Self {
        let mut counts = BTreeMap::<u64, u64>::new();
        let (mut least, mut most) = (f64::MAX, f64::MIN);
        for value in values.iter().flatten() {
            (least, most) = (least.min(*value), most.max(*value));
            if counts.len() <= MOST_VALUES {
                *counts.entry(ordered(*value)).or_default() += 1;
            }
        }
        Self { counts: (counts.len() <= MOST_VALUES).then_some(counts), least, most }
    }

    fn colour(&self, value: f64) -> Option<[u8; 3]> {
        match self.counts {
            Some(_) => (value != 0.0).then(|| colour_of(value)),
            None => {
                let spread = (self.most - self.least).max(f64::MIN_POSITIVE);
                Some([((value - self.least) / spread * 255.0) as u8; 3])
            }
        }
    }

    fn legend(&self) -> Vec<Meaning> {
        let meaning = |value, pixels| Meaning { value, pixels, colour: self.colour(value) };
        let Some(counts) = &self.counts else {
            return [self.least, self.most].map(|value| meaning(value, 0)).into();
        };
        let mut legend: Vec<Meaning> =
            counts.iter().map(|(bits, pixels)| meaning(unordered(*bits), *pixels)).collect();
        legend.sort_by_key(|meaning| std::cmp::Reverse(meaning.pixels));
        legend.truncate(MOST_LISTED);
        legend
    }
}

/// Colours values; 0 and what is absent are transparent.
pub(crate) fn coloured(
    width: usize,
    height: usize,
    values: &[Option<f64>],
) -> Result<Overlay, PictureError> {
    let palette = Palette::of(values);
    let rgba = values.iter().flat_map(|value| match value.and_then(|n| palette.colour(n)) {
        Some([r, g, b]) => [r, g, b, 255],
        None => [0; 4],
    });
    let png = encoded(&rgba.collect::<Vec<u8>>(), width, height)?;
    Ok(Overlay { png, legend: palette.legend() })
}

/// A second picture, or bands.
fn shaded(field: &Field, bytes: &[u8]) -> Result<Overlay, PictureError> {
    let look = Look { stretch: Stretch::Percentiles, ..Look::default() };
    let shown = picture(field, bytes, &look)?;
    let pixels = shown.data().as_chunks::<3>().0;
    let rgba: Vec<u8> = pixels.iter().flat_map(|[r, g, b]| [*r, *g, *b, 255]).collect();
    let png = encoded(&rgba, shown.width() as usize, shown.height() as usize)?;
    Ok(Overlay { png, legend: Vec::new() })
}

fn encoded(rgba: &[u8], width: usize, height: usize) -> Result<Vec<u8>, PictureError> {
    // A side that does not fit has another area than the bytes, which is refused.
    let side = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Ok(encode_png(rgba, side(width), side(height))?)
}

/// Neighbouring numbers have hues far from each other: each is turned by the golden angle.
fn colour_of(value: f64) -> [u8; 3] {
    let hue = (value * 137.507_764).rem_euclid(360.0) / 60.0;
    let (chroma, light) = (200.0, 40.0);
    let second = chroma * (1.0 - (hue % 2.0 - 1.0).abs());
    let [r, g, b] = match hue as u8 {
        0 => [chroma, second, 0.0],
        1 => [second, chroma, 0.0],
        2 => [0.0, chroma, second],
        3 => [0.0, second, chroma],
        4 => [second, 0.0, chroma],
        _ => [chroma, 0.0, second],
    };
    [r, g, b].map(|part| (part + light) as u8)
}

/// The bits of a number, in its order.
fn ordered(value: f64) -> u64 {
    // -0 is 0.
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn unordered(bits: u64) -> f64 {
    f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits })
}

#[cfg(test)]
mod tests {
    use gular_codec::{DecodeOptions, Decoder};

    use super::*;

    #[test]
    fn classes_have_colours_and_a_legend() {
        let values = [Some(0.0), Some(1.0), Some(1.0), None, Some(2.0), Some(-0.0)];
        let Overlay { png, legend } = coloured(3, 2, &values).unwrap();
        let colours: Vec<_> = legend.iter().map(|m| (m.value, m.pixels, m.colour)).collect();
        assert_eq!((colours[0], colours[1].1), ((0.0, 2, None), 2));
        assert_eq!(colours[1].0, 1.0);
        assert_ne!(colours[1].2, colours[2].2);
        let image = Decoder::new(DecodeOptions::default()).decode(&png).unwrap();
        assert_eq!(Some(image.data()[3..6].try_into().unwrap()), colours[1].2);
        assert_eq!((unordered(ordered(-3.5)), unordered(ordered(7.0))), (-3.5, 7.0));
    }

    #[test]
    fn many_values_are_shades() {
        let values: Vec<Option<f64>> = (0..300).map(|n| Some(f64::from(n))).collect();
        let Overlay { legend, .. } = coloured(300, 1, &values).unwrap();
        assert_eq!((legend.len(), legend[0].colour), (2, Some([0; 3])));
        assert_eq!((legend[1].value, legend[1].colour), (299.0, Some([255; 3])));
    }
}
