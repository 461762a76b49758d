//! Files that violate their format and that other readers decode: we decode the same picture, and
//! report a flaw that says why a strict check refuses them.

use std::io::Write as _;

use crate::fixtures::{
    BASELINE, Colour, JpegKind, decoder, exif, jpeg, picture,
    png::{Png, chunk, write},
};
use gular_codec::{Decoder, Error, JpegBackend, Limits, Orientation, read_header};

const SIZE: (u32, u32) = (43, 29);

fn file(kind: JpegKind, exif: Option<&[u8]>) -> Vec<u8> {
    jpeg(&picture(SIZE.0, SIZE.1), SIZE.0, SIZE.1, kind, exif)
}

fn position(file: &[u8], marker: u8) -> usize {
    file.windows(2).position(|pair| pair == [0xff, marker]).unwrap()
}

/// Returns `file` with `bytes` before its first marker of that kind.
fn with_before(file: &[u8], marker: u8, bytes: &[u8]) -> Vec<u8> {
    let at = position(file, marker);
    [&file[..at], bytes, &file[at..]].concat()
}

fn segment(marker: u8, data: &[u8]) -> Vec<u8> {
    [&[0xff, marker][..], &(data.len() as u16 + 2).to_be_bytes(), data].concat()
}

/// Checks that every way of decoding gives the same as the undamaged file `sound`, and reports the
/// flaw.
fn check(damaged: &[u8], sound: &[u8], flaw: &str) {
    for backend in JpegBackend::ALL {
        let mut decoder = decoder(*backend);
        let expected = decoder.decode(sound).unwrap();
        assert_eq!(decoder.flaw(), None);
        assert_eq!(decoder.decode(damaged).as_ref(), Ok(&expected), "{backend:?} {flaw}");
        told(&decoder, flaw);
        let header = decoder.check(damaged).unwrap();
        told(&decoder, flaw);
        assert_eq!(header, read_header(damaged, &Limits::default()).unwrap());
        let refused = decoder.validate(damaged).unwrap_err();
        assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
        // The flaw of one file is not reported for the next.
        decoder.check(sound).unwrap();
        assert_eq!(decoder.flaw(), None);
    }
}

fn told(decoder: &Decoder, flaw: &str) {
    let text = decoder.flaw().unwrap().to_string();
    assert!(text.contains(flaw), "{text}, expected {flaw}");
}

#[test]
fn junk_between_headers_changes_no_pixel() {
    for kind in [BASELINE, JpegKind { progressive: true, ..BASELINE }] {
        let sound = file(kind, None);
        for marker in [0xdb, 0xc4, 0xda] {
            for junk in [&b"x"[..], b"some stray bytes", &[0; 40], &[0xff, 0, 0xff, 0]] {
                let damaged = with_before(&sound, marker, junk);
                check(&damaged, &sound, "stray bytes between its headers");
            }
        }
        // Fill bytes do not count as junk.
        let filled = with_before(&sound, 0xdb, &[0xff; 3]);
        for backend in JpegBackend::ALL {
            decoder(*backend).validate(&filled).unwrap();
        }
    }
}

#[test]
fn a_damaged_exif_segment_is_no_orientation() {
    let sound = file(BASELINE, None);
    for damage in [&b"II*\0\xff\xff\xff\xff"[..], b"", b"no TIFF at all", &exif(6)[..12]] {
        let damaged = file(BASELINE, Some(damage));
        check(&damaged, &sound, "its EXIF segment is damaged");
    }
    let without_length = with_before(&sound, 0xdb, &[0xff, 0xe1, 0, 0]);
    check(&without_length, &sound, "a segment whose length field says less than 2 bytes");
}

#[test]
fn a_damaged_adobe_segment_is_taken_as_libjpeg_takes_it() {
    for colour in [Colour::Rgb, Colour::Ycck] {
        let sound = file(JpegKind { colour, ..BASELINE }, None);
        let damaged = if colour == Colour::Ycck {
            let mut damaged = sound.clone();
            let at = position(&sound, 0xee) + 4;
            assert_eq!(damaged[at..at + 5], *b"Adobe");
            damaged[at + 11] = 9;
            damaged
        } else {
            let adobe = segment(0xee, b"Adobe\0\x64\0\0\0\0\x09");
            with_before(&sound, 0xdb, &adobe)
        };
        check(&damaged, &sound, "its Adobe segment is damaged");
    }
    let sound = file(BASELINE, None);
    let short = with_before(&sound, 0xdb, &segment(0xee, b"Adobe\0\x64"));
    check(&short, &sound, "its Adobe segment is damaged");
}

#[test]
fn a_flawed_file_that_is_cut_short_is_an_error() {
    for progressive in [false, true] {
        let sound = file(JpegKind { progressive, restart: 3, ..BASELINE }, None);
        let damaged = with_before(&sound, 0xdb, b"junk");
        for backend in JpegBackend::ALL {
            let mut decoder = decoder(*backend);
            for end in 2..damaged.len() {
                assert!(decoder.decode(&damaged[..end]).is_err(), "{backend:?}, cut at {end}");
                assert!(decoder.check(&damaged[..end]).is_err(), "{backend:?}, cut at {end}");
            }
        }
    }
}

#[cfg(feature = "turbo")]
#[test]
fn what_libjpeg_only_warns_of_is_tolerated() {
    let mut decoder = decoder(JpegBackend::Turbo);
    let mut check = |damaged: &[u8], warning: &str| {
        let image = decoder.decode(damaged).unwrap();
        assert_eq!((image.width(), image.height()), SIZE);
        told(&decoder, warning);
        decoder.check(damaged).unwrap();
        told(&decoder, warning);
        assert!(decoder.validate(damaged).unwrap_err().to_string().contains(warning));
    };
    let sound = file(BASELINE, None);
    // The file is cut within the scan, and ended properly.
    let half = sound.len() - 200;
    check(&[&sound[..half], &[0xff, 0xd9]].concat(), "premature end of data segment");
    check(&with_before(&sound, 0xd9, &[7; 40]), "extraneous bytes before marker 0xd9");
    let mut jfif = sound.clone();
    let at = position(&sound, 0xe0) + 4;
    assert_eq!(jfif[at..at + 5], *b"JFIF\0");
    jfif[at + 5] = 9;
    check(&jfif, "unknown JFIF revision number");
    // Spectral selection has no meaning in a sequential scan.
    let mut scan = sound.clone();
    let at = position(&sound, 0xda) + 4 + 1 + 3 * 2;
    assert_eq!(scan[at..at + 2], [0, 63]);
    scan[at + 1] = 62;
    check(&scan, "Invalid SOS parameters for sequential JPEG");
    // A restart marker has the wrong number.
    let mut restarts = file(JpegKind { restart: 3, ..BASELINE }, None);
    let at = position(&restarts, 0xd1);
    restarts[at + 1] = 0xd5;
    check(&restarts, "instead of RST1");
    // The bits are not a valid code.
    let mut flipped = sound.clone();
    let at = position(&sound, 0xda) + 60;
    flipped[at..at + 8].fill(0xfe);
    check(&flipped, "Corrupt JPEG data: ");
}

#[cfg(feature = "turbo")]
#[test]
fn an_error_after_a_warning_is_an_error() {
    // libjpeg warns of the junk, then stops decoding since a table is missing.
    let sound = file(BASELINE, None);
    let damaged = with_before(&sound, 0xc4, b"junk");
    let (begin, end) = (position(&damaged, 0xdb), position(&damaged, 0xc4) - 4);
    let damaged = [&damaged[..begin], &damaged[end..]].concat();
    let error = decoder(JpegBackend::Turbo).decode(&damaged).unwrap_err().to_string();
    assert!(error.contains("uantization table"), "{error}");
}

fn grey(colour: u8, chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let png = Png { width: 5, height: 3, depth: 8, colour, interlaced: false, chunks };
    write(&png, |x, y, _| (y * 16 + x) as u16)
}

/// Returns `file` with chunks behind its pixels.
fn with_behind(file: &[u8], chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let mut file = file[..file.len() - 12].to_vec();
    for (kind, data) in chunks {
        chunk(&mut file, kind, data);
    }
    chunk(&mut file, b"IEND", b"");
    file
}

fn frame_control(number: u32) -> Vec<u8> {
    let mut data = number.to_be_bytes().to_vec();
    data.extend([0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 10, 0, 0]);
    data
}

#[test]
fn frames_out_of_order_leave_the_first_picture() {
    let sound = grey(0, &[]);
    let actl: &[u8] = &[0, 0, 0, 2, 0, 0, 0, 0];
    let animation = |first: u32, second: u32, third: u32| {
        let (first, second) = (frame_control(first), frame_control(second));
        let data = [&third.to_be_bytes()[..], b"no zlib at all"].concat();
        let still = grey(0, &[(b"acTL", actl), (b"fcTL", &first)]);
        with_behind(&still, &[(b"fcTL", &second), (b"fdAT", &data)])
    };
    for (first, second, third) in [(0, 2, 1), (0, 0, 0), (1, 2, 3), (0, 1, 7), (5, 1, 2)] {
        let damaged = animation(first, second, third);
        check(&damaged, &sound, "the frames of its animation are out of order");
    }
    let mut decoder = decoder(JpegBackend::default());
    assert_eq!(decoder.decode(&animation(0, 1, 2)), decoder.decode(&sound));
    assert_eq!(decoder.flaw(), None);
}

#[test]
fn a_damaged_exif_chunk_is_no_orientation() {
    check(&grey(0, &[(b"eXIf", b"MM\0*junk")]), &grey(0, &[]), "its EXIF block is damaged");
}

fn zlib(text: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

fn orientation(file: &[u8]) -> u8 {
    let orientation = read_header(file, &Limits::default()).unwrap().orientation;
    // The decoder follows the orientation in the header.
    let image = decoder(JpegBackend::default()).decode(file).unwrap();
    assert_eq!(image.width() == 3, orientation as u8 > 4);
    orientation as u8
}

#[test]
fn a_png_is_upright_wherever_its_orientation_stands() {
    let block = exif(6);
    let hex: String =
        [b"Exif\0\0", &block[..]].concat().iter().map(|b| format!("{b:02x}")).collect();
    let profile = format!("\nexif\n{:8}\n{hex}\n", block.len() + 6);
    let packet = r#"<x:xmpmeta><rdf:Description tiff:Orientation="8"/></x:xmpmeta>"#;
    let text = |keyword: &str, rest: &[u8]| [keyword.as_bytes(), b"\0", rest].concat();
    let raw = text("Raw profile type exif", profile.as_bytes());
    let raw_zlib = text("Raw profile type APP1", &[b"\0", &zlib(profile.as_bytes())[..]].concat());
    let xmp = text("XML:com.adobe.xmp", &[b"\0\0\0\0", packet.as_bytes()].concat());
    let xmp_zlib =
        text("XML:com.adobe.xmp", &[b"\x01\0en\0\0", &zlib(packet.as_bytes())[..]].concat());
    let cases: [(&[u8; 4], &[u8], u8); 5] = [
        (b"eXIf", &block, 6),
        (b"tEXt", &raw, 6),
        (b"zTXt", &raw_zlib, 6),
        (b"iTXt", &xmp, 8),
        (b"iTXt", &xmp_zlib, 8),
    ];
    for (kind, data, expected) in cases {
        assert_eq!(orientation(&grey(0, &[(kind, data)])), expected, "{kind:?}");
        assert_eq!(orientation(&with_behind(&grey(0, &[]), &[(kind, data)])), expected, "{kind:?}");
    }
    // EXIF is preferred to XMP, and a real EXIF block to ImageMagick's copy.
    assert_eq!(orientation(&grey(0, &[(b"iTXt", &xmp), (b"tEXt", &raw)])), 6);
    assert_eq!(orientation(&grey(0, &[(b"tEXt", &raw), (b"eXIf", &exif(3))])), 3);
    let other = text("Comment", packet.as_bytes());
    assert_eq!(orientation(&grey(0, &[(b"tEXt", &other)])), 1);
}

#[test]
fn a_jpeg_whose_orientation_is_in_xmp_alone_is_upright() {
    let packet = b"http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation=\"6\"/>";
    let turned = |exif: Option<&[u8]>| {
        let file = with_before(&file(BASELINE, exif), 0xdb, &segment(0xe1, packet));
        read_header(&file, &Limits::default()).unwrap().orientation
    };
    assert_eq!(turned(None), Orientation::Rotate90);
    assert_eq!(turned(Some(&exif(1))), Orientation::Normal);
}
