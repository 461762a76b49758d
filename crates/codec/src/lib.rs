//! Decodes, crops, resizes and encodes images. No other room contains codecs.
//!
//! ```text
//! bytes ─ Format::sniff ─ read_header ─ Limits ─▶ decode ─ upright ─▶ RGB u8, [H, W, 3]
//!                                                   │ only the region asked for
//!                                                   └─ Resizer ─▶ the caller's slot
//! ```
//!
//! Every picture is returned as 8-bit RGB, row-major `[H, W, 3]`, upright, whatever the file
//! contains ([`Decoder::fit_u16`] gives 16 bits). The orientation is in the file's EXIF block, in a
//! PNG also in ImageMagick's `Raw profile type exif`, else in its XMP packet.
//!
//! - grey is repeated into the three channels;
//! - alpha and PNG transparency are dropped, the colours beneath stay (as Pillow's
//!   `convert("RGB")` does);
//! - 16-bit PNG samples keep their high byte;
//! - CMYK and YCCK JPEG are taken as Adobe writes them, inverted, and become RGB by
//!   `C·K/255`, as in Pillow;
//! - colour profiles are not applied.
//!
//! JPEG has two backends. libjpeg-turbo (feature `turbo`) is used where it is compiled in,
//! zune-jpeg elsewhere; [`jpeg_backend`] says which. They are never mixed silently, because their
//! pixels differ a little: see [`JpegBackend`]. Only libjpeg-turbo can decode parts of a picture,
//! and pictures at a fraction of their size: [`Scaling`].

mod decode;
mod encode;
mod error;
mod exif;
mod fit;
mod format;
mod further;
mod header;
mod jpeg;
#[cfg(feature = "tiff")]
pub mod jpeg2000;
mod limits;
#[cfg(feature = "tiff")]
pub mod nifti;
mod orientation;
mod picture;
mod planes;
mod png;
mod read_header;
mod rect;
mod resize;
mod scale;
#[cfg(feature = "tiff")]
pub mod tiff;
mod webp;
mod xmp;

pub use decode::{DecodeOptions, Decoder, OrientationPolicy};
pub use encode::{JpegEncoder, encode_jpeg, encode_png};
pub use error::{CONVERT, Error};
pub use fit::{Fit, fit_nearest};
pub use format::{Format, Start};
pub use further::Further;
pub use header::Header;
pub use jpeg::{JpegBackend, jpeg_backend};
pub use limits::Limits;
pub use orientation::Orientation;
pub use picture::Picture;
pub use planes::Sample;
pub use read_header::{bit_depth, holds_values, read_header};
pub use rect::Rect;
pub use resize::{Resize, ResizeFilter, Resizer, resize};
pub use scale::Scaling;
