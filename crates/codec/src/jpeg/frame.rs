//! The markers before the first scan (ITU-T T.81, annex B).
//!
//! ```text
//! FFD8 | FFxx length payload | … | FFC0..2 length: precision height width n × { id, h·v, tq } | … | FFDA
//! ```

use crate::{Error, Format, Header, Orientation, exif};

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const APP1: u8 = 0xe1;

/// What the pixels' decoders need to know beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    pub width: u32,
    pub height: u32,
    /// 1 grey, 3 colour, 4 CMYK or YCCK.
    pub components: u8,
    /// Columns of an iMCU: 8 times the largest horizontal sampling factor.
    pub imcu_width: u32,
    /// Whether some component has fewer samples than the picture has pixels.
    pub subsampled: bool,
    /// Sampling factors of the first component, if the second and third are 1 x 1 and
    /// a fourth is like the first: all but the oddest files.
    pub plain_sampling: Option<(u8, u8)>,
    /// Whether the first scan holds all components.
    pub interleaved: bool,
    pub progressive: bool,
    pub orientation: Orientation,
    /// Where the first scan's header starts.
    pub scan_at: usize,
}

impl Frame {
    /// Walks the markers of a file that starts with SOI, up to its first scan.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut frame = None;
        let mut orientation = None;
        let mut at = 2;
        loop {
            let marker = next_marker(bytes, &mut at)?;
            match marker {
                // TEM and RSTn stand alone; decoders skip them here.
                0x01 | 0xd0..=0xd7 => continue,
                SOI => return Err(corrupt("a second start of image before the first scan")),
                EOI => return Err(corrupt("it ends before its first scan")),
                _ => {}
            }
            let scan_at = at;
            let segment = next_segment(bytes, &mut at)?;
            match marker {
                SOS => {
                    let frame: Self =
                        frame.ok_or_else(|| corrupt("a scan before any frame header"))?;
                    return Ok(Self {
                        orientation: orientation.unwrap_or_default(),
                        interleaved: segment.first() == Some(&frame.components),
                        scan_at,
                        ..frame
                    });
                }
                APP1 if orientation.is_none() => {
                    orientation = segment.strip_prefix(b"Exif\0\0").and_then(exif::orientation);
                }
                // SOF0..15 but for DHT, JPG and DAC, which share the range.
                0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                    if frame.is_some() {
                        return Err(corrupt("two frame headers"));
                    }
                    frame = Some(Self::parse_start_of_frame(marker, segment)?);
                }
                _ => {}
            }
        }
    }

    fn parse_start_of_frame(marker: u8, segment: &[u8]) -> Result<Self, Error> {
        let kind = match marker {
            0xc0..=0xc2 => None,
            0xc3 | 0xcb => Some("lossless"),
            0xc5..=0xc7 | 0xcd..=0xcf => Some("hierarchical"),
            _ => Some("arithmetic-coded"),
        };
        if let Some(kind) = kind {
            return Err(Error::unsupported(Format::Jpeg, kind));
        }
        let Some(([precision, h1, h0, w1, w0, components], rest)) = segment.split_first_chunk()
        else {
            return Err(corrupt("the frame header is too short"));
        };
        let (width, height) = (u16::from_be_bytes([*w1, *w0]), u16::from_be_bytes([*h1, *h0]));
        if *precision != 8 {
            return Err(Error::unsupported(Format::Jpeg, format!("{precision} bits a sample")));
        }
        if width == 0 || height == 0 {
            return Err(corrupt(format!("its size is {width} x {height}")));
        }
        if !matches!(components, 1 | 3 | 4) {
            return Err(Error::unsupported(Format::Jpeg, format!("{components} components")));
        }
        let (factors, _) = rest.as_chunks::<3>();
        let factors = factors
            .get(..usize::from(*components))
            .ok_or_else(|| corrupt("the frame header is too short"))?
            .iter()
            .map(|[_, factors, _]| (factors >> 4, factors & 15));
        if factors.clone().any(|(h, v)| !matches!(h, 1..=4) || !matches!(v, 1..=4)) {
            return Err(corrupt("a sampling factor is not 1 to 4"));
        }
        let h_max = factors.clone().map(|(h, _)| h).max().unwrap_or(1);
        let v_max = factors.clone().map(|(_, v)| v).max().unwrap_or(1);
        let first = factors.clone().next().unwrap_or((1, 1));
        let plain = factors.clone().enumerate().all(|(index, factors)| match index {
            1 | 2 => factors == (1, 1),
            _ => factors == first,
        });
        // One component is its own iMCU, whatever factors it declares.
        let alone = *components == 1;
        Ok(Self {
            width: width.into(),
            height: height.into(),
            components: *components,
            imcu_width: if alone { 8 } else { 8 * u32::from(h_max) },
            subsampled: !alone && factors.clone().any(|(h, v)| h < h_max || v < v_max),
            plain_sampling: if alone { Some((1, 1)) } else { plain.then_some(first) },
            interleaved: true,
            progressive: marker == 0xc2,
            orientation: Orientation::Normal,
            scan_at: 0,
        })
    }

    pub(crate) fn header(&self) -> Header {
        Header {
            format: Format::Jpeg,
            width: self.width,
            height: self.height,
            channels: self.components,
            bit_depth: 8,
            orientation: self.orientation,
            progressive: self.progressive,
        }
    }

    /// Whether an end-of-image marker follows the scans of this frame.
    pub(crate) fn is_complete(&self, bytes: &[u8]) -> bool {
        let scans = bytes.get(self.scan_at..).unwrap_or_default();
        // Nearly every file ends with it; the walk is for those with something behind.
        scans.ends_with(&[0xff, EOI]) || scans.windows(2).any(|pair| pair == [0xff, EOI])
    }
}

/// The code of the next marker; stray bytes before it are skipped, as libjpeg does.
fn next_marker(bytes: &[u8], at: &mut usize) -> Result<u8, Error> {
    let mut after_ff = false;
    while let Some(byte) = bytes.get(*at).copied() {
        *at += 1;
        if after_ff && !matches!(byte, 0 | 0xff) {
            return Ok(byte);
        }
        after_ff = byte == 0xff;
    }
    Err(ends_in_header(bytes))
}

/// The payload of the segment at `at`, which moves behind it.
fn next_segment<'a>(bytes: &'a [u8], at: &mut usize) -> Result<&'a [u8], Error> {
    let len = bytes.get(*at..).and_then(|rest| rest.first_chunk()).copied();
    let len = usize::from(u16::from_be_bytes(len.ok_or_else(|| ends_in_header(bytes))?));
    if len < 2 {
        return Err(corrupt(format!("segment length {len} at byte {at}")));
    }
    let segment = bytes.get(*at + 2..*at + len).ok_or_else(|| ends_in_header(bytes))?;
    *at += len;
    Ok(segment)
}

fn ends_in_header(bytes: &[u8]) -> Error {
    Error::truncated(
        Format::Jpeg,
        format!("the file ends at byte {}, before its first scan", bytes.len()),
    )
}

fn corrupt(detail: impl Into<String>) -> Error {
    Error::corrupt(Format::Jpeg, detail)
}
