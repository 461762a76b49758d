//! The errors of a damaged or unsupported image.

use crate::format::GZIP;
use crate::{Format, Rect, Start};

/// Why an image could not be read, resized or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There are no bytes at all.
    #[error("the file is empty")]
    Empty,
    /// The first bytes are those of no format that this crate reads, whatever the name says.
    #[error("the file is not JPEG, PNG or WebP: it begins with {start}")]
    UnknownFormat {
        /// The first bytes of the file.
        start: Start,
    },
    /// The header declares more pixels than the limit. Nothing was allocated.
    #[error(
        "the image has {width} x {height} = {} pixels, more than the limit of {limit}",
        u64::from(*width) * u64::from(*height)
    )]
    TooLarge {
        /// Declared width in pixels.
        width: u32,
        /// Declared height in pixels.
        height: u32,
        /// [`Limits::max_pixels`](crate::Limits::max_pixels).
        limit: u64,
    },
    /// The header declares more numbers than the limit, in several bands. Nothing was allocated.
    #[error(
        "the image has {width} x {height} pixels of {bands} bands, more numbers than the limit of {limit}"
    )]
    ManyNumbers {
        /// Declared width in pixels.
        width: u32,
        /// Declared height in pixels.
        height: u32,
        /// Declared numbers of each pixel.
        bands: u16,
        /// [`Limits::max_pixels`](crate::Limits::max_pixels).
        limit: u64,
    },
    /// The file ends before the picture does.
    #[error("the {format} is cut short: {detail}")]
    Truncated {
        /// The file's format.
        format: Format,
        /// Where the data ends, as far as known.
        detail: String,
    },
    /// The bytes contradict the format.
    #[error("the {format} is damaged: {detail}")]
    Corrupt {
        /// The file's format.
        format: Format,
        /// What is wrong, in the decoder's words if it has any.
        detail: String,
    },
    /// A valid file of a kind that is not read.
    #[error("this kind of {format} is not supported: {detail}")]
    Unsupported {
        /// The file's format.
        format: Format,
        /// The kind of file that is not read.
        detail: String,
    },
    /// A valid TIFF of a kind that is not read.
    #[error("this kind of TIFF is not supported: {detail}")]
    TiffKind {
        /// The kind of file that is not read.
        detail: String,
        /// How it becomes one that is.
        convert: &'static str,
    },
    /// A file with several pages, which are not known to be the bands of one picture.
    #[error("the TIFF has {n} pages of {sizes} pixels{detail}")]
    Pages {
        /// Number of pages.
        n: u64,
        /// Their sizes, the largest first.
        sizes: String,
        /// What is known of them.
        detail: String,
    },
    /// A file of a format that would become PNG.
    #[error("the {format} cannot be read: {detail}")]
    Further {
        /// The file's format.
        format: &'static str,
        /// What is wrong, in the decoder's words if it has any.
        detail: String,
    },
    /// An animation, of which nobody said that the first picture counts.
    #[error("the GIF is an animation: it has several pictures")]
    Frames,
    /// The region is empty or extends beyond the image.
    #[error("the region {region} is not within the image of {width} x {height} pixels")]
    BadRegion {
        /// The region that was asked for.
        region: Rect,
        /// Width of the (upright) image.
        width: u32,
        /// Height of the (upright) image.
        height: u32,
    },
    /// A caller's buffer does not have the size its dimensions ask for.
    #[error("{width} x {height} pixels need a buffer of {expected} bytes, but it has {found}")]
    BadBuffer {
        /// Pixels in a row.
        width: u32,
        /// Rows.
        height: u32,
        /// Bytes needed.
        expected: u64,
        /// Bytes given.
        found: usize,
    },
    /// These dimensions cannot be written in this format.
    #[error("a {format} cannot have {width} x {height} pixels")]
    BadSize {
        /// The format to be written.
        format: Format,
        /// Width asked for.
        width: u32,
        /// Height asked for.
        height: u32,
    },
    /// The allocator refused.
    #[error("not enough memory for the {bytes} bytes of an image's pixels")]
    Memory {
        /// Bytes asked for.
        bytes: usize,
    },
}

/// How the first picture of a file of any format becomes one that this crate reads.
pub const CONVERT: &str =
    "convert the image to PNG, for example with ImageMagick: `magick 'IN[0]' OUT.png`";

impl Error {
    /// Says what the user can do next, in words that fit every program; a program adds hints about
    /// its own flags.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Empty | Self::Truncated { .. } | Self::Corrupt { .. } => {
                Some("get the file again from where it came from")
            }
            Self::UnknownFormat { start } if start.bytes().starts_with(GZIP) => {
                Some("unpack the file first: `gunzip` does, if its name ends in .gz")
            }
            Self::UnknownFormat { start } if start.guess().is_some() => Some(CONVERT),
            Self::UnknownFormat { .. } => {
                Some("convert the image to JPEG or PNG (it is not enough to rename it)")
            }
            Self::TooLarge { .. } | Self::ManyNumbers { .. } => {
                Some("if you trust the file, raise the limit of pixels")
            }
            Self::Unsupported { format: Format::Jpeg2000, .. } => {
                Some("convert it with GDAL: `gdal_translate IN.jp2 OUT.tif`")
            }
            Self::Unsupported { format: Format::Nifti, .. } => Some(
                "save it as floats, in Python: `a = nibabel.load(\"IN.nii\"); nibabel.save(nibabel.Nifti1Image(a.get_fdata(dtype=\"f4\"), a.affine), \"OUT.nii.gz\")`",
            ),
            Self::Unsupported { .. } => {
                Some("convert the image to an 8-bit baseline JPEG or a PNG")
            }
            Self::TiffKind { convert, .. } => Some(convert),
            Self::Further { .. } => Some(CONVERT),
            Self::Frames => Some("choose whether only the first picture counts"),
            Self::Pages { .. } => Some(
                "choose whether the pages are bands or only the first page counts; save slices and times as files of their own",
            ),
            Self::Memory { .. } => Some("lower the limit of pixels, or use fewer threads"),
            Self::BadRegion { .. } | Self::BadBuffer { .. } | Self::BadSize { .. } => None,
        }
    }

    pub(crate) fn truncated(format: Format, detail: impl Into<String>) -> Self {
        Self::Truncated { format, detail: detail.into() }
    }

    pub(crate) fn corrupt(format: Format, detail: impl Into<String>) -> Self {
        Self::Corrupt { format, detail: detail.into() }
    }

    pub(crate) fn unsupported(format: Format, detail: impl Into<String>) -> Self {
        Self::Unsupported { format, detail: detail.into() }
    }
}
