//! What `gular pack` makes of the images: arguments, and what they mean.

use clap::{Args, ValueEnum};
use gular_pack::{Depth, Fit, PayloadOptions, RawOptions, ReencodeOptions};

use crate::exit::Failure;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Payload")]
pub(crate) struct PayloadArgs {
    /// What is stored of each image
    #[arg(long, value_enum, default_value_t = PayloadArg::Encoded, value_name = "WHAT")]
    payload: PayloadArg,
    /// Raw: columns and rows of every image, such as `256x192`, or one number for a square
    #[arg(long, value_name = "WxH", value_parser = size)]
    size: Option<Size>,
    /// Raw: how an image of another shape is brought to --size, by antialiased bilinear resizing
    /// [default: crop]
    #[arg(long, value_enum, value_name = "HOW")]
    fit: Option<FitArg>,
    /// Raw: 3, where grey becomes RGB, or 1, where only grey images are taken [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=3))]
    channels: Option<u8>,
    /// Raw: the type of a sample; 16 bits to 8 keeps the high byte, 8 to 16 multiplies by 257
    /// [default: that of the images, whose PNG headers are read to find it]
    #[arg(long, value_enum, value_name = "TYPE")]
    dtype: Option<DtypeArg>,
    /// Reencoded: a larger image is resized until its long side has N pixels [default: none is]
    #[arg(long, value_name = "N")]
    max_side: Option<u32>,
    /// Reencoded: JPEG quality, 1 to 100 [default: 90]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    quality: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PayloadArg {
    /// The file, byte for byte
    Encoded,
    /// JPEG of --quality, no larger than --max-side; upright, alpha dropped
    Reencoded,
    /// Pixels of --size, `[height, width, channels]`; upright, alpha dropped
    Raw,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FitArg {
    /// The short side is resized, and the middle taken
    Crop,
    /// The long side is resized, and zeros put around
    Pad,
    /// Both sides are resized, whatever the proportions
    Stretch,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DtypeArg {
    U8,
    U16,
}

#[derive(Debug, Clone, Copy)]
struct Size(u32, u32);

fn size(text: &str) -> Result<Size, String> {
    let (width, height) = text.split_once(['x', 'X']).unwrap_or((text, text));
    match (width.parse(), height.parse()) {
        (Ok(width @ 1..), Ok(height @ 1..)) => Ok(Size(width, height)),
        _ => Err("a size is `256`, or `256x192` for columns and rows".to_owned()),
    }
}

impl PayloadArgs {
    /// Refuses options of a payload that was not asked for: they would do nothing.
    pub(crate) fn options(&self) -> Result<PayloadOptions, Failure> {
        let of_raw = [
            ("--size", self.size.is_some()),
            ("--fit", self.fit.is_some()),
            ("--channels", self.channels.is_some()),
            ("--dtype", self.dtype.is_some()),
        ];
        let of_reencoded =
            [("--max-side", self.max_side.is_some()), ("--quality", self.quality.is_some())];
        let groups: [(PayloadArg, &str, &[_]); 2] = [
            (PayloadArg::Raw, "raw", &of_raw),
            (PayloadArg::Reencoded, "reencoded", &of_reencoded),
        ];
        for (payload, name, options) in groups {
            let given = options.iter().find(|(_, given)| *given);
            if let Some((option, _)) = given.filter(|_| self.payload != payload) {
                let hint = format!("add `--payload {name}`, or leave it out");
                let text = format!("`{option}` is an option of `--payload {name}`");
                return Err(Failure::new(text, Some(hint)));
            }
        }
        Ok(match self.payload {
            PayloadArg::Encoded => PayloadOptions::Encoded,
            PayloadArg::Reencoded => {
                let default = ReencodeOptions::default();
                let quality = self.quality.unwrap_or(default.quality);
                PayloadOptions::Reencoded(ReencodeOptions { max_side: self.max_side, quality })
            }
            PayloadArg::Raw => {
                let Some(Size(width, height)) = self.size else {
                    let hint = "such as `--size 256`, or `--size 256x192`".to_owned();
                    return Err(Failure::new("`--payload raw` needs `--size`", Some(hint)));
                };
                let default = RawOptions::new(width, height);
                PayloadOptions::Raw(RawOptions {
                    fit: match self.fit {
                        None => default.fit,
                        Some(FitArg::Crop) => Fit::Crop,
                        Some(FitArg::Pad) => Fit::Pad,
                        Some(FitArg::Stretch) => Fit::Stretch,
                    },
                    channels: self.channels.unwrap_or(default.channels),
                    depth: self.dtype.map(|dtype| match dtype {
                        DtypeArg::U8 => Depth::U8,
                        DtypeArg::U16 => Depth::U16,
                    }),
                    ..default
                })
            }
        })
    }
}
