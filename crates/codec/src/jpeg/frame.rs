//! Reads the markers before the first scan (ITU-T T.81, annex B).
//!
//! ```text
//! FFD8 | FFxx length payload | … | FFC0..2 length: precision height width n × { id, h·v, tq } | … | FFDA
//! ```

use crate::{Error, Format, Header, Orientation, exif, xmp};

const DHT: u8 = 0xc4;
const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const DQT: u8 = 0xdb;
const DRI: u8 = 0xdd;
const APP0: u8 = 0xe0;
const APP1: u8 = 0xe1;
const APP14: u8 = 0xee;
const APP15: u8 = 0xef;
const COM: u8 = 0xfe;

const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";
/// Bytes of an Adobe segment's data.
const ADOBE_LEN: usize = 12;

/// The facts that decoders of pixels need beforehand.
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
    /// Sampling factors of the first component, if the second and third are 1 x 1 and a fourth is
    /// like the first, as in all common files.
    pub plain_sampling: Option<(u8, u8)>,
    /// Whether the first scan holds all components.
    pub interleaved: bool,
    pub progressive: bool,
    pub orientation: Orientation,
    /// Where the first scan's header starts.
    pub scan_at: usize,
    /// The first fault in the headers that does not affect the pixels.
    pub flaw: Option<&'static str>,
}

impl Frame {
    /// Walks the markers of a file that starts with SOI, up to its first scan.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut frame = None;
        let mut flaw = None;
        let (mut orientation, mut of_xmp, mut has_exif) = (None, None, false);
        let mut at = 2;
        loop {
            let before = at;
            let marker = next_marker(bytes, &mut at)?;
            // Fill bytes between two segments are allowed; all other bytes are not.
            let between = bytes.get(before..at).unwrap_or_default();
            if between.iter().rev().skip(1).any(|byte| *byte != 0xff) {
                flaw = flaw.or(Some("stray bytes between its headers"));
            }
            match marker {
                // TEM and RSTn have no data; decoders skip them here.
                0x01 | 0xd0..=0xd7 => continue,
                SOI => return Err(corrupt("a second start of image before the first scan")),
                EOI => return Err(corrupt("it ends before its first scan")),
                _ => {}
            }
            let scan_at = at;
            let segment = next_segment(bytes, &mut at, marker)?;
            if bytes.get(scan_at) == Some(&0) && bytes.get(scan_at + 1).is_some_and(|len| *len < 2)
            {
                flaw = flaw.or(Some("a segment whose length field says less than 2 bytes"));
            }
            match marker {
                SOS => {
                    let frame: Self =
                        frame.ok_or_else(|| corrupt("a scan before any frame header"))?;
                    return Ok(Self {
                        orientation: orientation.or(of_xmp).unwrap_or_default(),
                        interleaved: segment.first() == Some(&frame.components),
                        scan_at,
                        flaw,
                        ..frame
                    });
                }
                APP1 if segment.starts_with(b"Exif\0\0") => match exif::orientation(segment) {
                    Ok(found) => {
                        orientation = orientation.or(found);
                        has_exif = true;
                    }
                    // A long block continues in further segments, which do not begin like the
                    // first.
                    Err(exif::Damaged) if has_exif => {}
                    Err(exif::Damaged) => flaw = flaw.or(Some("its EXIF segment is damaged")),
                },
                APP1 if of_xmp.is_none() => {
                    of_xmp = segment.strip_prefix(XMP).and_then(xmp::orientation);
                }
                APP14 if segment.starts_with(b"Adobe") && !is_adobe(segment) => {
                    flaw = flaw.or(Some("its Adobe segment is damaged"));
                }
                // These are SOF0..15; DHT, JPG and DAC share the range and are left out.
                0xc0..=0xcf if !matches!(marker, DHT | 0xc8 | 0xcc) => {
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
        // A single component is its own iMCU, whatever factors it declares.
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
            flaw: None,
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

    /// Returns how many columns and rows share a colour if libjpeg decodes at 1/`step`; `None` for
    /// unusual samplings.
    ///
    /// libjpeg scales coarser components less, by a power of two on both sides alike
    /// (`jpeg_calc_output_dimensions` in `jdmaster.c`). So 4:2:0 then has a colour for each pixel,
    /// but 4:2:2 has one for two pixels.
    pub(crate) fn colour_cell(&self, step: u32) -> Option<(u32, u32)> {
        let (h, v) = self.plain_sampling?;
        let (mut columns, mut rows) = (u32::from(h), u32::from(v));
        let mut less = step;
        while less > 1 && columns.is_multiple_of(2) && rows.is_multiple_of(2) {
            (less, columns, rows) = (less / 2, columns / 2, rows / 2);
        }
        Some((columns, rows))
    }

    /// Whether an end-of-image marker follows the scans of this frame.
    pub(crate) fn is_complete(&self, bytes: &[u8]) -> bool {
        let scans = bytes.get(self.scan_at..).unwrap_or_default();
        // Nearly every file ends with the marker; only files with bytes behind it need the walk.
        scans.ends_with(&[0xff, EOI]) || self.reaches_its_end(bytes).is_some()
    }

    /// Walks from segment to segment, over the data of scans, until the end-of-image marker.
    fn reaches_its_end(&self, bytes: &[u8]) -> Option<()> {
        let (mut at, mut marker) = (self.scan_at, SOS);
        loop {
            next_segment(bytes, &mut at, marker).ok()?;
            marker = loop {
                match next_marker(bytes, &mut at).ok()? {
                    EOI => return Some(()),
                    SOI => return None,
                    0x01 | 0xd0..=0xd7 => {}
                    marker => break marker,
                }
            };
        }
    }

    /// Returns the file with only those headers that affect pixels, in an unambiguous form, for a
    /// decoder that stops with an error where libjpeg continues.
    pub(crate) fn with_plain_headers(&self, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let mut plain = vec![0xff, SOI];
        let (mut is_jfif, mut transform) = (false, None);
        let mut at = 2;
        loop {
            let marker = next_marker(bytes, &mut at)?;
            if matches!(marker, 0x01 | 0xd0..=0xd7) {
                continue;
            }
            let begin = at;
            let segment = next_segment(bytes, &mut at, marker)?;
            match marker {
                SOS => break,
                APP0 if segment.starts_with(b"JFIF\0") => is_jfif = true,
                APP14 if segment.starts_with(b"Adobe") && segment.len() >= ADOBE_LEN => {
                    transform = segment.get(ADOBE_LEN - 1).copied();
                }
                DHT | DQT | DRI | 0xc0..=0xc2 => {
                    plain.extend([0xff, marker]);
                    plain.extend(bytes.get(begin..at).unwrap_or_default());
                }
                _ => {}
            }
        }
        // The choice is that of libjpeg: jdapimin.c, `default_decompress_parms`.
        let transform = match (self.components, transform) {
            (3, Some(_)) if is_jfif => Some(1),
            (3, Some(0)) | (4, Some(0)) => Some(0),
            (3, Some(_)) => Some(1),
            (4, Some(_)) => Some(2),
            _ => None,
        };
        if let Some(transform) = transform {
            plain.extend([0xff, APP14, 0, 14]);
            plain.extend(*b"Adobe\0\x64\0\0\0\0");
            plain.push(transform);
        }
        plain.extend([0xff, SOS]);
        plain.extend(bytes.get(self.scan_at..).unwrap_or_default());
        Ok(plain)
    }
}

/// Returns whether a segment is a note, which decoders do not need.
fn is_note(marker: u8) -> bool {
    matches!(marker, APP0..=APP15 | COM)
}

/// Returns whether an Adobe segment has a transform that exists.
fn is_adobe(segment: &[u8]) -> bool {
    segment.get(ADOBE_LEN - 1).is_some_and(|transform| *transform <= 2)
}

/// Returns the code of the next marker; stray bytes before it are skipped, as libjpeg does.
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

/// Returns the payload of the segment at `at`, and moves `at` behind it.
fn next_segment<'a>(bytes: &'a [u8], at: &mut usize, marker: u8) -> Result<&'a [u8], Error> {
    let len = bytes.get(*at..).and_then(|rest| rest.first_chunk()).copied();
    let mut len = usize::from(u16::from_be_bytes(len.ok_or_else(|| ends_in_header(bytes))?));
    if len < 2 && is_note(marker) {
        // libjpeg and Pillow continue behind the length.
        len = 2;
    }
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
