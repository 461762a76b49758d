//! Changes of a picture that are chosen by name, as settings have them.

use gular_order::KeyedRng;
use serde::Deserialize;

use crate::{Augment, PictureEdit};

/// One change, with the name that it has in the Python package.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// Mirrors left to right.
    HorizontalFlip {
        /// How often, from 0 to 1.
        p: f64,
    },
    /// Mirrors top to bottom.
    VerticalFlip {
        /// How often, from 0 to 1.
        p: f64,
    },
    /// Turns by 0 to 3 quarters; pictures that are not square by 0 or 2.
    QuarterTurns {
        /// How often, from 0 to 1.
        p: f64,
    },
    /// Moves the picture; zeros come in.
    Shift {
        /// By up to this many pixels in each direction.
        pixels: u32,
    },
    /// torchvision's `ColorJitter`, with one number per strength.
    ColorJitter {
        /// A factor from 1 - this to 1 + this.
        brightness: f32,
        /// A factor from 1 - this to 1 + this.
        contrast: f32,
        /// A factor from 1 - this to 1 + this.
        saturation: f32,
        /// Up to this much of the circle of colours, at most 0.5.
        hue: f32,
    },
    /// Takes the colours away.
    Grayscale {
        /// How often, from 0 to 1.
        p: f64,
    },
    /// Overwrites a random rectangle: torchvision's `RandomErasing`.
    Erasing {
        /// How often, from 0 to 1.
        p: f64,
        /// Smallest and largest part of the picture's area.
        scale: (f64, f64),
        /// Smallest and largest ratio of its sides.
        ratio: (f64, f64),
        /// The value, in units of the stored pixels.
        value: f32,
    },
}

impl Augment {
    /// Applies all `changes`, one after another; `None` if there are none.
    ///
    /// # Errors
    /// Why one of them is not possible, in words.
    pub fn of_changes(changes: Vec<Change>) -> Result<Option<Self>, String> {
        if changes.is_empty() {
            return Ok(None);
        }
        if let Some(reason) = changes.iter().find_map(Change::fault) {
            return Err(reason);
        }
        let apply = move |picture: &mut PictureEdit<'_>, rng: &mut KeyedRng| {
            changes.iter().for_each(|change| change.apply(picture, rng));
        };
        Ok(Some(Self::new(apply)))
    }
}

impl Change {
    fn fault(&self) -> Option<String> {
        let probability = |p: f64| {
            (!(0.0..=1.0).contains(&p))
                .then(|| format!("{p} is not a probability; expected 0 to 1"))
        };
        match self {
            Self::HorizontalFlip { p }
            | Self::VerticalFlip { p }
            | Self::QuarterTurns { p }
            | Self::Grayscale { p } => probability(*p),
            Self::Shift { .. } => None,
            Self::ColorJitter { brightness, contrast, saturation, hue } => {
                let good = |strength: &f32| strength.is_finite() && *strength >= 0.0;
                let wrong = [brightness, contrast, saturation].into_iter().find(|s| !good(s));
                let wrong = wrong.map(|s| format!("the strength is {s}, expected 0 or more"));
                let turn = (!(0.0..=0.5).contains(hue))
                    .then(|| format!("the hue is {hue}, expected 0 to 0.5"));
                wrong.or(turn)
            }
            Self::Erasing { p, scale, ratio, value } => {
                let range =
                    |(low, high): &(f64, f64)| *low > 0.0 && low <= high && high.is_finite();
                let wrong = (!range(scale) || !range(ratio) || scale.1 > 1.0 || !value.is_finite())
                    .then(|| {
                        format!("scale {scale:?}, ratio {ratio:?} or value {value} is out of range")
                    });
                probability(*p).or(wrong)
            }
        }
    }

    fn apply(&self, picture: &mut PictureEdit<'_>, rng: &mut KeyedRng) {
        match *self {
            Self::HorizontalFlip { p } => {
                if rng.unit() < p {
                    picture.flip_horizontal();
                }
            }
            Self::VerticalFlip { p } => {
                if rng.unit() < p {
                    picture.flip_vertical();
                }
            }
            Self::QuarterTurns { p } => {
                if rng.unit() < p {
                    let turns = rng.below(4) as u32;
                    let is_square = picture.width == picture.height;
                    picture.rotate_90(if is_square { turns } else { turns / 2 * 2 });
                }
            }
            Self::Shift { pixels } => picture.pad_crop(pixels, rng),
            Self::ColorJitter { brightness, contrast, saturation, hue } => {
                picture.jitter(brightness, contrast, saturation, hue, rng);
            }
            Self::Grayscale { p } => {
                if rng.unit() < p {
                    picture.grey();
                }
            }
            Self::Erasing { p, scale, ratio, value } => {
                if rng.unit() < p {
                    picture.random_erase(scale, ratio, value, rng);
                }
            }
        }
    }
}
