//! Which of two libraries decodes JPEG.

use crate::{Error, Rect, jpeg::Frame};

/// The library that decodes JPEG.
///
/// Each gives the same pixels on every machine, but not the same as the other: IDCT,
/// chroma upsampling and colour conversion round differently. On 667 photographs no
/// sample differed by more than 9 of 255, and no picture by more than 0.37 on average;
/// the suite holds its own pictures to 8 and 0.7. Only pictures a few pixels wide, where
/// libjpeg-turbo does not smooth chroma, differ by more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum JpegBackend {
    /// libjpeg-turbo: faster, and decodes no more than the region asked for.
    #[cfg(feature = "turbo")]
    Turbo,
    /// zune-jpeg: Rust alone; decodes the whole picture, then cuts the region.
    Zune,
}

impl JpegBackend {
    /// The backends in this build, the default first.
    pub const ALL: &[Self] = &[
        #[cfg(feature = "turbo")]
        Self::Turbo,
        Self::Zune,
    ];

    /// Library and version, as in `libjpeg-turbo 3.1.0`.
    pub fn name(self) -> &'static str {
        match self {
            // What turbojpeg-sys 1.2.0 carries; the library itself does not tell.
            #[cfg(feature = "turbo")]
            Self::Turbo => "libjpeg-turbo 3.1.0",
            Self::Zune => "zune-jpeg 0.5.15",
        }
    }

    /// Whether it can decode fewer pixels than a file has.
    pub(crate) fn scales(self) -> bool {
        match self {
            #[cfg(feature = "turbo")]
            Self::Turbo => true,
            Self::Zune => false,
        }
    }
}

impl Default for JpegBackend {
    fn default() -> Self {
        Self::ALL[0]
    }
}

/// Name and version of the JPEG library this build uses by default.
pub fn jpeg_backend() -> &'static str {
    JpegBackend::default().name()
}

/// Decodes at least `region` of the stored picture into `out`, which may grow; `region` is
/// in pixels of `scale` by `scale` stored ones, as is all that comes back: 1 where the
/// backend does not scale.
///
/// Returns the window decoded: its RGB pixels lie at the start of `out`, without gaps;
/// and what the backend found and tolerated. `strict` tolerates nothing.
#[cfg_attr(
    not(feature = "turbo"),
    expect(
        unused_variables,
        reason = "zune-jpeg decodes all there is, whatever the region, and does not scale"
    )
)]
pub(crate) fn decode(
    backend: JpegBackend,
    bytes: &[u8],
    frame: &Frame,
    region: Rect,
    scale: u32,
    strict: bool,
    out: &mut Vec<u8>,
) -> Result<(Rect, Option<Error>), Error> {
    match backend {
        #[cfg(feature = "turbo")]
        JpegBackend::Turbo => super::turbo::decode(bytes, frame, region, scale, strict, out),
        JpegBackend::Zune => super::zune::decode(bytes, frame, strict, out),
    }
}

// libjpeg's and zune-jpeg's progressive decoders walk the whole picture once a scan:
// 100 (zune-jpeg's default) is ten times what encoders write, and bounds the time.
pub(super) const MAX_SCANS: u16 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_versions_are_the_locked_ones() {
        let lock = include_str!("../../../../Cargo.lock");
        let (name, version) = JpegBackend::Zune.name().split_once(' ').unwrap();
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")));
        // turbojpeg-sys 1.2.0 vendors libjpeg-turbo 3.1.0.
        assert!(lock.contains("name = \"turbojpeg-sys\"\nversion = \"1.2.0\"\n"));
    }
}
