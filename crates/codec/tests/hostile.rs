//! Files that are damaged, mislabelled or malicious.

use crate::fixtures::{
    BASELINE, JpegKind, Random, decoder, exif, jpeg, kinds, picture,
    png::{Png, chunk, write},
};
use gular_codec::{
    DecodeOptions, Decoder, Error, Format, JpegBackend, Limits, Rect, Resize, encode_jpeg,
    encode_png, read_header,
};

const SIZE: (u32, u32) = (43, 29);

/// Returns small files of every kind; a damaged header must not make them large.
fn files() -> Vec<Vec<u8>> {
    let (width, height) = SIZE;
    let rgb = picture(width, height);
    let mut files: Vec<_> =
        kinds().into_iter().map(|kind| jpeg(&rgb, width, height, kind, Some(&exif(5)))).collect();
    for (colour, depth, interlaced) in
        [(0, 1, false), (2, 8, false), (2, 16, true), (3, 4, true), (4, 8, false), (6, 16, false)]
    {
        let palette = [7; 48];
        let chunks: &[(&[u8; 4], &[u8])] = &[(b"PLTE", &palette)];
        let chunks = if colour == 3 { chunks } else { &[] };
        let png = Png { width, height, depth, colour, interlaced, chunks };
        files.push(write(&png, |x, y, c| (x + y + c as u32) as u16 & 1));
    }
    files
}

fn decoders() -> impl Iterator<Item = Decoder> {
    let limits = Limits { max_pixels: 1 << 18 };
    JpegBackend::ALL
        .iter()
        .map(move |jpeg| Decoder::new(DecodeOptions { limits, jpeg: *jpeg, ..Default::default() }))
}

fn decode_error(bytes: &[u8]) -> Error {
    let mut errors =
        JpegBackend::ALL.iter().map(|backend| decoder(*backend).decode(bytes).unwrap_err());
    let error = errors.next().unwrap();
    assert!(errors.all(|other| std::mem::discriminant(&other) == std::mem::discriminant(&error)));
    assert!(!error.to_string().ends_with('.'));
    error
}

#[test]
fn an_empty_file_says_so() {
    let error = decode_error(b"");
    assert_eq!(error, Error::Empty);
    assert_eq!(error.to_string(), "the file is empty");
    assert_eq!(read_header(b"", &Limits::default()), Err(Error::Empty));
}

#[test]
fn text_named_jpg_is_shown() {
    let error = decode_error(b"<!DOCTYPE html><html>");
    assert_eq!(
        error.to_string(),
        "the file is not JPEG, PNG or WebP: it begins with `<!DOCTYPE html><`"
    );
    assert!(error.hint().unwrap().contains("rename"));
    let error = decode_error(b"GIF89a...");
    assert!(error.to_string().ends_with("which looks like GIF"), "{error}");
    assert!(error.hint().unwrap().contains("convert"));
    for (start, name) in [
        (&b"\0\0\0\x18ftypheic"[..], "HEIC"),
        (b"\0\0\0\x18ftypmif1", "HEIC"),
        (b"\0\0\x01\0\x01\0", "ICO"),
        (b"P6\n2 2\n255\n", "PPM"),
        (b"\xff\x0a", "JPEG XL"),
    ] {
        let error = decode_error(start);
        assert!(error.to_string().ends_with(&format!("which looks like {name}")), "{error}");
        assert_eq!(error.hint(), Some(gular_codec::CONVERT));
    }
    let error = decode_error(b"\x1f\x8b\x08\0");
    assert!(error.to_string().ends_with("compressed with gzip"), "{error}");
    assert!(error.hint().unwrap().contains("gunzip"));
}

#[test]
fn content_decides_not_the_name() {
    let png = encode_png(&picture(4, 4), 4, 4).unwrap();
    let header = read_header(&png, &Limits::default()).unwrap();
    assert_eq!(header.format, Format::Png);
    assert_eq!(header.format.media_type(), "image/png");
}

#[test]
fn a_png_bomb_is_refused_on_its_header() {
    let side = 100_000;
    let png = Png { width: side, height: side, depth: 8, colour: 6, interlaced: true, chunks: &[] };
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut ihdr = [side.to_be_bytes(), side.to_be_bytes()].concat();
    ihdr.extend([png.depth, png.colour, 0, 0, 1]);
    chunk(&mut file, b"IHDR", &ihdr);
    chunk(&mut file, b"IDAT", &[]);
    let error = decode_error(&file);
    assert_eq!(error, Error::TooLarge { width: side, height: side, limit: 1 << 28 });
    assert_eq!(
        error.to_string(),
        "the image has 100000 x 100000 = 10000000000 pixels, more than the limit of 268435456"
    );
    assert!(error.hint().unwrap().contains("limit of pixels"));
}

#[test]
fn the_pixel_limit_is_inclusive() {
    let (width, height) = SIZE;
    for bytes in files() {
        let pixels = u64::from(width * height);
        assert!(read_header(&bytes, &Limits { max_pixels: pixels }).is_ok());
        let error = read_header(&bytes, &Limits { max_pixels: pixels - 1 }).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }));
    }
}

#[test]
fn a_picture_without_pixels_is_refused() {
    let mut bytes = jpeg(&picture(8, 8), 8, 8, BASELINE, None);
    let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    bytes[frame + 5..frame + 7].fill(0);
    assert_eq!(decode_error(&bytes).to_string(), "the JPEG is damaged: its size is 8 x 0");
    let png = Png { width: 0, height: 5, depth: 8, colour: 0, interlaced: false, chunks: &[] };
    let bytes = write(&Png { width: 1, ..png }, |_, _, _| 0);
    let mut empty = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut empty, b"IHDR", &[0, 0, 0, 0, 0, 0, 0, 5, 8, 0, 0, 0, 0]);
    empty.extend_from_slice(&bytes[33..]);
    assert_eq!(decode_error(&empty).to_string(), "the PNG is damaged: its size is 0 x 5");
}

#[test]
fn kinds_not_read_are_named() {
    let bytes = jpeg(&picture(8, 8), 8, 8, BASELINE, None);
    let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    let check = |at: usize, value: u8, kind: &str| {
        let mut bytes = bytes.clone();
        bytes[frame + at] = value;
        let error = decode_error(&bytes);
        assert_eq!(error.to_string(), format!("this kind of JPEG is not supported: {kind}"));
        assert!(error.hint().is_some());
    };
    check(1, 0xc9, "arithmetic-coded");
    check(1, 0xc3, "lossless");
    check(1, 0xc5, "hierarchical");
    check(4, 12, "12 bits a sample");
    check(9, 2, "2 components");
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    for (n, bytes) in files().into_iter().enumerate() {
        for mut decoder in decoders() {
            if decoder.decode(&bytes).is_err() {
                continue; // zune-jpeg does not read this kind.
            }
            for end in 1..bytes.len() {
                // Behind its pixels a PNG has 12 bytes, and a JPEG has 2.
                let result = decoder.decode(&bytes[..end]);
                assert!(result.is_err(), "file {n} cut at {end} of {}", bytes.len());
                assert_eq!(decoder.validate(&bytes[..end]).err(), result.err());
            }
        }
    }
}

#[test]
fn a_cut_file_tells_how_far_it_goes() {
    let (width, height) = (64, 64);
    let rgb = picture(width, height);
    let png = encode_png(&rgb, width, height).unwrap();
    let error = decode_error(&png[..png.len() / 2]);
    let text = error.to_string();
    assert!(matches!(error, Error::Truncated { format: Format::Png, .. }), "{text}");
    assert!(text.contains("rows"), "{text}");
    let bytes = jpeg(&rgb, width, height, BASELINE, None);
    let error = decode_error(&bytes[..bytes.len() / 2]);
    assert!(matches!(error, Error::Truncated { format: Format::Jpeg, .. }), "{error}");
    let error = decode_error(&bytes[..100]);
    let text = "the JPEG is cut short: the file ends at byte 100, before its first scan";
    assert_eq!(error.to_string(), text);
}

#[test]
fn scans_cut_short_but_ended_properly_are_an_error() {
    // The entropy-coded data is cut, and the end-of-image marker put back.
    let (width, height) = (64, 64);
    for progressive in [false, true] {
        let kind = JpegKind { progressive, ..BASELINE };
        let bytes = jpeg(&picture(width, height), width, height, kind, None);
        let cut = [&bytes[..bytes.len() / 2], &[0xff, 0xd9]].concat();
        for backend in JpegBackend::ALL {
            let result = decoder(*backend).validate(&cut);
            assert!(result.is_err(), "{backend:?}, progressive: {progressive}");
        }
    }
}

#[test]
fn a_flipped_byte_in_png_pixels_is_always_caught() {
    let (width, height) = (16, 8);
    let png = encode_png(&picture(width, height), width, height).unwrap();
    for at in 33..png.len() {
        let mut bytes = png.clone();
        bytes[at] ^= 0x20;
        let result = decoder(JpegBackend::default()).validate(&bytes);
        assert!(result.is_err(), "byte {at} of {}", png.len());
    }
}

#[test]
fn mutations_neither_panic_nor_change_the_promised_size() {
    let mut random = Random(7);
    let to = Resize::to(8, 8);
    let mut out = vec![0; 8 * 8 * 3];
    for file in files() {
        for mut decoder in decoders() {
            for _ in 0..300 {
                let bytes = mutate(&file, &mut random);
                let header = read_header(&bytes, &Limits { max_pixels: 1 << 18 });
                let result = decoder.decode(&bytes);
                // Files decoded before have no influence.
                assert_eq!(result, fresh(&decoder).decode(&bytes));
                if let Ok(image) = result {
                    let size = header.as_ref().unwrap().upright_size();
                    assert_eq!((image.width(), image.height()), size);
                }
                if let Ok(header) = header {
                    let (width, height) = header.upright_size();
                    let x = random.below(u64::from(width)) as u32;
                    let y = random.below(u64::from(height)) as u32;
                    let region = Rect::new(x, y, width - x, (height - y).min(9));
                    let _ = decoder.crop_resize(&bytes, region, &to, &mut out);
                }
                let _ = decoder.validate(&bytes);
            }
            assert_eq!(decoder.decode(&file), fresh(&decoder).decode(&file));
        }
    }
}

fn fresh(decoder: &Decoder) -> Decoder {
    Decoder::new(*decoder.options())
}

fn mutate(file: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(6) {
            0 => bytes[at] = random.below(256) as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes.truncate(at),
            3 => drop(bytes.remove(at)),
            4 => bytes.insert(at, [0, 0xff, 0xd9, 0xc0, 0xda][random.below(5) as usize]),
            _ => {
                let end = (at + 40).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

#[test]
fn encoders_refuse_what_does_not_fit() {
    let check = |result: Result<Vec<u8>, Error>, text: &str| {
        assert_eq!(result.unwrap_err().to_string(), text);
    };
    check(encode_jpeg(&[0; 11], 2, 2, 90), "2 x 2 pixels need a buffer of 12 bytes, but it has 11");
    check(encode_jpeg(&[], 0, 2, 90), "0 x 2 pixels need a buffer of 0 bytes, but it has 0");
    let wide = vec![0; 65_536 * 3];
    check(encode_jpeg(&wide, 65_536, 1, 90), "a JPEG cannot have 65536 x 1 pixels");
    check(encode_png(&[0; 5], 2, 2), "2 x 2 pixels need a buffer of 12 bytes, but it has 5");
}
