//! How `gular pack` stores the images: the arguments, and the options that they set.

use clap::Args;
use gular_bundle::Payload;
use gular_pack::{Fit, FrameOptions, PayloadOptions, RawOptions, ReencodeOptions, StoredDepth};

use crate::exit::Failure;
use crate::named::{described, named};

/// What the help says of `--fit`.
const FITS: &[&str] = &[
    "Take the middle; the short side of raw images is resized first",
    "Fill up with zeros or nodata; the long side of raw images is resized first",
    "Resize both sides, whatever the proportions",
];

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Images")]
pub(crate) struct PayloadArgs {
    /// `encoded` files, `reencoded` JPEG, or `raw` pixels
    ///
    /// `encoded`: each file, byte for byte. `reencoded`: a JPEG of --quality, no larger than
    /// --max-side. `raw`: pixels of --size, as `[height, width, channels]`. In the last two, images
    /// are rotated as their EXIF block says, and have no alpha channel.
    #[arg(long, value_parser = named::<Payload>(), default_value = "encoded", value_name = "WHAT", hide_possible_values = true)]
    payload: Payload,
    /// Size of raw images: `256x192`, or `256` for a square
    ///
    /// Also that of the images in a CSV of pixels, and of arrays that --fit brings to one size.
    #[arg(long, value_name = "WxH", value_parser = size)]
    size: Option<Size>,
    /// Raw, arrays: how an image of another shape is made to fit --size
    ///
    /// Raw images are resized, bilinear and antialiased. [default: crop] Arrays are never resized:
    /// `crop` takes the middle, and `pad` adds columns at the right and rows at the bottom, of nodata
    /// or 0; in masks of nodata, or of 255, 65535 or -1, which losses must ignore. [default: the size
    /// of the smallest sides, or of the largest]
    #[arg(long, value_parser = described::<Fit>(FITS), value_name = "HOW", hide_short_help = true)]
    fit: Option<Fit>,
    /// Raw: colour channels, 3 or 1 [default: 3]
    ///
    /// 3 turns grey into RGB; 1 accepts only grey images.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=3), hide_short_help = true)]
    channels: Option<u8>,
    /// Raw: the type of a pixel's numbers [default: the type in the images]
    ///
    /// Converting 16 bits to 8 keeps the high byte; converting 8 to 16 multiplies by 257. The
    /// default is read from the headers of PNG images.
    #[arg(long, value_parser = named::<StoredDepth>(), value_name = "TYPE", hide_short_help = true)]
    dtype: Option<StoredDepth>,
    /// Reencoded: resize larger images to this long side [default: none]
    ///
    /// In pixels.
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_side: Option<u32>,
    /// Reencoded: JPEG quality, 1 to 100 [default: 90]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100), hide_short_help = true)]
    quality: Option<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Size(u32, u32);

fn size(text: &str) -> Result<Size, String> {
    let (width, height) = text.split_once(['x', 'X']).unwrap_or((text, text));
    match (width.parse(), height.parse()) {
        (Ok(width @ 1..), Ok(height @ 1..)) => Ok(Size(width, height)),
        _ => {
            Err("expected at least 1, such as `256`, or `256x192` for columns and rows".to_owned())
        }
    }
}

impl PayloadArgs {
    /// Columns and rows of the images in a table of pixels, which no other option applies to.
    pub(crate) fn of_pixels(&self) -> Result<Option<(u32, u32)>, Failure> {
        let others = [
            ("--payload", self.payload != Payload::Encoded),
            ("--fit", self.fit.is_some()),
            ("--channels", self.channels.is_some()),
            ("--dtype", self.dtype.is_some()),
            ("--max-side", self.max_side.is_some()),
            ("--quality", self.quality.is_some()),
        ];
        if let Some((flag, _)) = others.iter().find(|(_, given)| *given) {
            let text = format!("`{flag}` does not apply to a table of pixels");
            let hint = "leave it out: pixels of a table are stored unchanged. Only `--size` applies: it says how many columns and rows each image has";
            return Err(Failure::new(text, Some(hint.to_owned())));
        }
        Ok(self.size.map(|Size(width, height)| (width, height)))
    }

    /// How arrays are brought to one size.
    pub(crate) fn frame(&self) -> Result<Option<FrameOptions>, Failure> {
        let size = self.size.map(|Size(width, height)| (width, height));
        match self.fit {
            Some(fit) => Ok(Some(FrameOptions { fit, size })),
            None if size.is_none() => Ok(None),
            None => {
                let hint = "add `--fit pad` or `--fit crop`, or leave out the size".to_owned();
                Err(Failure::new("`--size` of arrays needs `--fit`", Some(hint)))
            }
        }
    }

    /// Refuses options of a payload that was not asked for: they would do nothing. Arrays have a
    /// size and a fit of their own.
    pub(crate) fn options(&self, are_arrays: bool) -> Result<PayloadOptions, Failure> {
        let of_raw = [
            ("--size", self.size.is_some() && !are_arrays),
            ("--fit", self.fit.is_some() && !are_arrays),
            ("--channels", self.channels.is_some()),
            ("--dtype", self.dtype.is_some()),
        ];
        let of_reencoded =
            [("--max-side", self.max_side.is_some()), ("--quality", self.quality.is_some())];
        let groups: [(Payload, &str, &[_]); 2] =
            [(Payload::Raw, "raw", &of_raw), (Payload::Reencoded, "reencoded", &of_reencoded)];
        for (payload, name, options) in groups {
            let given = options.iter().find(|(_, given)| *given);
            if let Some((option, _)) = given.filter(|_| self.payload != payload) {
                let hint = format!("give `--payload {name}`, or leave out this option");
                let table = match *option {
                    "--size" => ", with arrays or with a table of pixels",
                    "--fit" => ", or with arrays",
                    _ => "",
                };
                let text = format!("`{option}` works only with `--payload {name}`{table}");
                return Err(Failure::new(text, Some(hint)));
            }
        }
        Ok(match self.payload {
            Payload::Encoded => PayloadOptions::Encoded,
            Payload::Reencoded => {
                let default = ReencodeOptions::default();
                let quality = self.quality.unwrap_or(default.quality);
                PayloadOptions::Reencoded(ReencodeOptions { max_side: self.max_side, quality })
            }
            Payload::Raw => {
                let Some(Size(width, height)) = self.size else {
                    let hint = "add a size such as `--size 256` or `--size 256x192`".to_owned();
                    return Err(Failure::new("`--payload raw` needs `--size`", Some(hint)));
                };
                let default = RawOptions::new(width, height);
                PayloadOptions::Raw(RawOptions {
                    fit: self.fit.unwrap_or(default.fit),
                    channels: self.channels.unwrap_or(default.channels),
                    depth: self.dtype,
                    ..default
                })
            }
        })
    }
}
