//! Changes that a loader's threads make to pictures, beyond cutting and resizing.

use gular_runtime::Error;
use gular_runtime::augment::{Augment, PictureEdit};
use gular_runtime::order::KeyedRng;
use serde::Deserialize;

/// One change, named after the class of the package.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Change {
    HorizontalFlip { p: f64 },
    VerticalFlip { p: f64 },
    QuarterTurns { p: f64 },
    Shift { pixels: u32 },
    ColorJitter { brightness: f32, contrast: f32, saturation: f32, hue: f32 },
    Grayscale { p: f64 },
    Erasing { p: f64, scale: (f64, f64), ratio: (f64, f64), value: f32 },
}

/// Joins all `changes`, which are applied one after another.
///
/// # Errors
/// [`Error::Option`] for a change that is not possible.
pub(crate) fn augment(changes: Vec<Change>) -> Result<Option<Augment>, Error> {
    if changes.is_empty() {
        return Ok(None);
    }
    for change in &changes {
        if let Some(reason) = change.fault() {
            return Err(Error::Option { option: "augment", reason });
        }
    }
    let apply = move |picture: &mut PictureEdit<'_>, rng: &mut KeyedRng| {
        changes.iter().for_each(|change| change.apply(picture, rng));
    };
    Ok(Some(Augment::new(apply)))
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
