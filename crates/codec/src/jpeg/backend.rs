//! The choice between two libraries that decode JPEG.

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
    /// libjpeg-turbo, which is faster and decodes no more than the region that is asked for.
    #[cfg(feature = "turbo")]
    Turbo,
    /// zune-jpeg, which is only Rust; it decodes the whole picture, then cuts out the region.
    Zune,
}

impl JpegBackend {
    /// All backends in this build, the default first.
    pub const ALL: &[Self] = &[
        #[cfg(feature = "turbo")]
        Self::Turbo,
        Self::Zune,
    ];

    /// Library and version, as in `libjpeg-turbo 3.1.0`.
    pub fn name(self) -> &'static str {
        match self {
            // turbojpeg-sys 1.2.0 contains this version; the library itself does not give it.
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

/// Decodes at least `region` of the stored picture into `out`, which may grow. `region` and the
/// results are in pixels of `scale` by `scale` stored ones; `scale` is 1 if the backend does not
/// scale.
///
/// Returns the window that was decoded, whose RGB pixels are at the start of `out` without gaps,
/// and the fault that the backend found and tolerated. With `strict` nothing is tolerated.
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

// The progressive decoders of libjpeg and zune-jpeg walk the whole picture once per scan. 100
// (zune-jpeg's default) is ten times what encoders write, and bounds the time.
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
