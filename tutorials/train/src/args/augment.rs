//! Options for augmenting the training images.

use clap::Args;
use gular_runtime::Transform;
use gular_runtime::augment::{Augment, Blend};

use super::train::number;

// What is done to the pictures that are trained on, as torchvision's transforms of these names do.
#[derive(Debug, Args)]
#[command(next_help_heading = "Augmentation")]
pub(crate) struct AugmentArgs {
    /// How much of a picture's area a crop has, from the smallest to the largest part
    #[arg(long, default_value = "0.08,1", value_name = "LOW,HIGH", value_parser = parts, allow_negative_numbers = true)]
    crop_scale: [f64; 2],
    /// How often a picture is mirrored left to right, 0 to 1
    #[arg(long, default_value_t = 0.5, value_name = "PART", value_parser = often, allow_negative_numbers = true)]
    hflip: f64,
    /// How often a picture is mirrored top to bottom, 0 to 1
    #[arg(long, default_value_t = 0.0, value_name = "PART", value_parser = often, allow_negative_numbers = true)]
    vflip: f64,
    /// How far brightness, contrast, saturation and hue of a picture of three channels change, as
    /// `0.4,0.4,0.4,0.1` [default: not at all]
    #[arg(long, default_value = "0,0,0,0", hide_default_value = true, value_name = "B,C,S,H", value_parser = jitter, allow_negative_numbers = true)]
    color_jitter: [f32; 4],
    /// How often a random rectangle is made black, 0 to 1
    #[arg(long, default_value_t = 0.0, value_name = "PART", value_parser = often, allow_negative_numbers = true)]
    random_erase: f64,
    /// MixUp: two samples of a batch become a mean of both, by a weight from Beta(ALPHA, ALPHA);
    /// together with `--cutmix-alpha` each batch takes one of them [default: none]
    #[arg(long, value_name = "ALPHA", value_parser = alpha, allow_negative_numbers = true)]
    mixup_alpha: Option<f64>,
    /// CutMix: a rectangle of a sample comes from another of the batch [default: none]
    #[arg(long, value_name = "ALPHA", value_parser = alpha, allow_negative_numbers = true)]
    cutmix_alpha: Option<f64>,
}

impl AugmentArgs {
    /// Returns the transform for pictures of `size` pixels a side.
    pub(crate) fn transform(&self, size: u32) -> Transform {
        let [low, high] = self.crop_scale;
        match Transform::train(size) {
            Transform::Train { width, height, ratio, .. } => {
                Transform::Train { width, height, scale: (low, high), ratio, flip: self.hflip }
            }
            other => other,
        }
    }

    /// Returns the function that changes pictures after that, if there is one.
    pub(crate) fn function(&self) -> Option<Augment> {
        let Self { vflip, color_jitter, random_erase, .. } = *self;
        let any = vflip > 0.0 || random_erase > 0.0 || color_jitter != [0.0; 4];
        any.then(|| {
            Augment::new(move |picture, rng| {
                if rng.unit() < vflip {
                    picture.flip_vertical();
                }
                let [brightness, contrast, saturation, hue] = color_jitter;
                picture.jitter(brightness, contrast, saturation, hue, rng);
                if rng.unit() < random_erase {
                    // The ranges are torchvision's.
                    picture.random_erase((0.02, 0.33), (0.3, 3.3), 0.0, rng);
                }
            })
        })
    }

    /// Returns how the samples of a batch are blended, if they are.
    pub(crate) fn blend(&self) -> Option<Blend> {
        Some(match (self.mixup_alpha, self.cutmix_alpha) {
            (None, None) => return None,
            (Some(alpha), None) => Blend::MixUp { alpha },
            (None, Some(alpha)) => Blend::CutMix { alpha },
            (Some(mixup), Some(cutmix)) => Blend::Either { mixup, cutmix },
        })
    }

    /// Returns each option as a number, for a checkpoint's figures.
    pub(crate) fn settings(&self) -> [(&'static str, f64); 11] {
        let [brightness, contrast, saturation, hue] = self.color_jitter.map(f64::from);
        [
            ("crop-scale (low)", self.crop_scale[0]),
            ("crop-scale (high)", self.crop_scale[1]),
            ("hflip", self.hflip),
            ("vflip", self.vflip),
            ("color-jitter (brightness)", brightness),
            ("color-jitter (contrast)", contrast),
            ("color-jitter (saturation)", saturation),
            ("color-jitter (hue)", hue),
            ("random-erase", self.random_erase),
            ("mixup-alpha", self.mixup_alpha.unwrap_or(0.0)),
            ("cutmix-alpha", self.cutmix_alpha.unwrap_or(0.0)),
        ]
    }
}

fn often(text: &str) -> Result<f64, String> {
    number(text, "a number from 0 to 1", |n| (0.0..=1.0).contains(&n))
}

fn alpha(text: &str) -> Result<f64, String> {
    number(text, "a number above 0", |n| n > 0.0)
}

/// Parses `N` numbers with commas between them.
fn numbers<const N: usize>(text: &str) -> Option<[f64; N]> {
    let all: Option<Vec<f64>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
    all?.try_into().ok()
}

fn parts(text: &str) -> Result<[f64; 2], String> {
    let fits = |[low, high]: &[f64; 2]| *low > 0.0 && low <= high && *high <= 1.0;
    let parts = numbers(text).filter(fits);
    parts.ok_or_else(|| "expected two numbers above 0 and up to 1, such as `0.25,1`".into())
}

fn jitter(text: &str) -> Result<[f32; 4], String> {
    let fits = |all: &[f64; 4]| {
        let [.., hue] = all;
        all.iter().all(|n| n.is_finite() && *n >= 0.0) && *hue <= 0.5
    };
    let expected = "expected brightness, contrast, saturation and hue, such as `0.4,0.4,0.4,0.1`; \
                    hue is at most 0.5";
    numbers(text).filter(fits).map(|all: [f64; 4]| all.map(|n| n as f32)).ok_or(expected.into())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Verb};

    fn parse(more: &[&str]) -> Result<AugmentArgs, String> {
        let cli = Cli::try_parse_from([&["t", "train", "b"], more].concat());
        match cli.map_err(|e| e.to_string())?.verb {
            Verb::Train(args) => Ok(args.augment),
            _ => Err("another verb".into()),
        }
    }

    #[test]
    fn without_a_flag_pictures_are_cropped_and_mirrored_as_ever() {
        let args = parse(&[]).unwrap();
        assert_eq!(args.transform(64), Transform::train(64));
        assert!(args.function().is_none() && args.blend().is_none());
    }

    #[test]
    fn each_flag_has_its_effect_and_its_bounds() {
        let args = parse(&["--hflip", "0", "--crop-scale", "0.25,0.5"]).unwrap();
        let Transform::Train { scale, flip, .. } = args.transform(64) else {
            unreachable!("trained on")
        };
        assert_eq!((scale, flip), ((0.25, 0.5), 0.0));
        for more in [["--vflip", "0.5"], ["--color-jitter", "0,0,0,0.1"], ["--random-erase", "1"]] {
            let args = parse(&more).unwrap();
            assert!(args.function().is_some(), "{more:?}");
            assert_ne!(args.settings(), parse(&[]).unwrap().settings(), "{more:?}");
        }
        let both = parse(&["--mixup-alpha", "0.2", "--cutmix-alpha", "1"]).unwrap();
        assert_eq!(both.blend(), Some(Blend::Either { mixup: 0.2, cutmix: 1.0 }));
        for wrong in [
            ["--hflip", "1.5"],
            ["--vflip", "-1"],
            ["--crop-scale", "0,1"],
            ["--crop-scale", "0.5"],
            ["--color-jitter", "0.4,0.4,0.4"],
            ["--color-jitter", "0,0,0,0.6"],
            ["--mixup-alpha", "0"],
            ["--cutmix-alpha", "nan"],
        ] {
            assert!(parse(&wrong).unwrap_err().contains("invalid value"), "{wrong:?}");
        }
    }
}
